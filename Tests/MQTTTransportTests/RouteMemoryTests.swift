import Glibc
import Testing

@testable import MQTTTransport

/// What got through last, and for how long that counts.
@Suite struct RouteMemoryTests {
    private final class Clock: Sendable {
        private let seconds = Lock<Int64>(1_000_000)
        func pass(_ count: Int64) { seconds.withLock { $0 += count } }
        var read: @Sendable () -> Int64 { { [seconds] in seconds.withLock { $0 } } }
    }

    private static func network(_ gateway: String) -> NetworkFingerprint {
        var parts = NetworkFingerprint.Parts()
        parts.gateways = [gateway]
        return NetworkFingerprint(parts)
    }

    private static let home = network("wlan0 192.168.1.1")
    private static let office = network("eth0 10.0.0.1")
    private let clock = Clock()
    private let ways: [ConnectionProfile]

    init() throws { ways = try ConnectionProfile.automatic(host: "broker.test").directWays() }

    private func memory(_ file: RouteMemoryFile? = nil) -> RouteMemory {
        RouteMemory(file: file, lifetime: .seconds(3600), clock: clock.read)
    }

    private func first(
        _ memory: RouteMemory, _ host: String = "broker.test", on network: NetworkFingerprint = home
    )
        -> ConnectionProfile?
    {
        memory.ordered(ways, host: host, on: network).first
    }

    @Test func the_way_that_got_through_comes_first_and_the_others_keep_their_order() {
        let memory = memory()
        memory.succeeded(ways[2], host: "broker.test", on: Self.home)
        #expect(
            memory.ordered(ways, host: "broker.test", on: Self.home) == [ways[2], ways[0], ways[1], ways[3]])
    }

    @Test func another_network_or_host_knows_nothing_of_it() {
        let memory = memory()
        memory.succeeded(ways[2], host: "broker.test", on: Self.home)
        #expect(first(memory, on: Self.office) == ways[0])
        #expect(first(memory, "other.test") == ways[0])
    }

    @Test func it_counts_for_its_lifetime_however_often_it_is_used() {
        let memory = memory()
        memory.succeeded(ways[1], host: "broker.test", on: Self.home)
        clock.pass(3599)
        memory.succeeded(ways[1], host: "broker.test", on: Self.home)
        #expect(first(memory) == ways[1])
        clock.pass(1)
        #expect(first(memory) == ways[0])
    }

    @Test func a_clock_that_is_set_back_makes_no_way_eternal() {
        let memory = memory()
        memory.succeeded(ways[1], host: "broker.test", on: Self.home)
        clock.pass(-10)
        #expect(first(memory) == ways[0])
    }

    @Test func a_failure_of_all_ways_and_a_success_of_another_replace_it() {
        let memory = memory()
        memory.succeeded(ways[1], host: "broker.test", on: Self.home)
        memory.succeeded(ways[3], host: "broker.test", on: Self.home)
        #expect(first(memory) == ways[3])
        memory.failed(host: "broker.test", on: Self.home)
        #expect(first(memory) == ways[0])
    }

    @Test func a_way_that_the_ladder_no_longer_has_is_passed_over() throws {
        let memory = memory()
        memory.succeeded(try .tls(host: "broker.test", port: 9999), host: "broker.test", on: Self.home)
        #expect(first(memory) == ways[0])
    }

    @Test func it_is_bounded_and_keeps_the_newest() {
        let memory = memory()
        for number in 0..<300 {
            memory.succeeded(ways[1], host: "h\(number)", on: Self.home)
            clock.pass(1)
        }
        #expect(first(memory, "h0") == ways[0])
        #expect(first(memory, "h299") == ways[1])
    }

    // MARK: The file

    private func withDirectory(_ body: (String) throws -> Void) throws {
        var name = Array("/tmp/route-memory-XXXXXX".utf8CString)
        let path = try #require(mkdtemp(&name).map { String(cString: $0) })
        defer {
            for entry in (try? Self.entries(of: path)) ?? [] { unlink("\(path)/\(entry)") }
            rmdir(path)
        }
        try body(path)
    }

    private static func entries(of path: String) throws -> [String] {
        let directory = try #require(opendir(path))
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    private static func put(_ bytes: [UInt8], _ path: String) throws {
        let file = try #require(fopen(path, "w"))
        #expect(fwrite(bytes, 1, bytes.count, file) == bytes.count)
        fclose(file)
    }

    @Test func a_file_brings_it_to_the_next_process_readable_by_its_owner_alone() throws {
        try withDirectory { directory in
            let file = RouteMemoryFile(path: "\(directory)/routes")
            let before = memory(file)
            #expect(before.problem == nil)
            before.succeeded(ways[2], host: "broker.test", on: Self.home)
            #expect(before.problem == nil)
            #expect(first(memory(file)) == ways[2])
            var status = stat()
            #expect(stat(file.path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
            let left = try Self.entries(of: directory)
            #expect(left == ["routes"])
        }
    }

    @Test func two_processes_keep_what_the_other_has_learned() throws {
        try withDirectory { directory in
            let file = RouteMemoryFile(path: "\(directory)/routes")
            let (one, other) = (memory(file), memory(file))
            one.succeeded(ways[1], host: "broker.test", on: Self.home)
            other.succeeded(ways[2], host: "broker.test", on: Self.office)
            let next = memory(file)
            #expect(first(next) == ways[1])
            #expect(first(next, on: Self.office) == ways[2])
        }
    }

    enum Corruption: CaseIterable, Sendable {
        case nonsense, empty, noText, laterVersion, missingColumns, noNetwork, cutOff, endless

        var bytes: [UInt8] {
            let header = "swift-mqtt-traversal routes 1\n"
            return switch self {
            case .nonsense: Array("nonsense".utf8)
            case .empty: []
            case .noText: [0xFF, 0xFE, 0]
            case .laterVersion: Array("swift-mqtt-traversal routes 2\n".utf8)
            case .missingColumns: Array("\(header)only one column\n".utf8)
            case .noNetwork: Array("\(header)not-hex\t1\th\tw\n".utf8)
            case .cutOff: Array("\(header)\(String(repeating: "a", count: 32))\t1\th\tcut off".utf8)
            case .endless: [UInt8](repeating: 0x61, count: 2_000_000)
            }
        }
    }

    @Test(arguments: Corruption.allCases)
    func a_corrupt_file_is_reported_passed_over_and_written_anew(_ corruption: Corruption) throws {
        try withDirectory { directory in
            let file = RouteMemoryFile(path: "\(directory)/routes")
            try Self.put(corruption.bytes, file.path)
            let memory = memory(file)
            #expect(memory.problem?.contains(file.path) == true)
            #expect(first(memory) == ways[0])
            memory.succeeded(ways[1], host: "broker.test", on: Self.home)
            #expect(memory.problem == nil)
            #expect(first(self.memory(file)) == ways[1])
        }
    }

    @Test func a_time_that_is_beyond_all_measure_in_a_file_is_merely_over() throws {
        try withDirectory { directory in
            let file = RouteMemoryFile(path: "\(directory)/routes")
            memory(file).succeeded(ways[1], host: "broker.test", on: Self.home)
            for (key, entry) in try file.read() {
                try file.write([key: RouteMemory.Entry(way: entry.way, time: .min)])
            }
            let memory = memory(file)
            #expect(first(memory) == ways[0])
            memory.succeeded(ways[2], host: "broker.test", on: Self.home)
            #expect(first(self.memory(file)) == ways[2])
        }
    }

    @Test func a_file_that_cannot_be_written_is_reported_and_the_memory_still_works() {
        let memory = memory(RouteMemoryFile(path: "/nonexistent/routes"))
        #expect(memory.problem == nil)
        memory.succeeded(ways[1], host: "broker.test", on: Self.home)
        #expect(memory.problem == "the file /nonexistent/routes can't be written: No such file or directory")
        #expect(first(memory) == ways[1])
    }
}
