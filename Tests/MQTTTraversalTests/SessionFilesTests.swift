import Glibc
import MQTTCore
import Testing

@testable import MQTTTraversal

/// The directory of a session store.
@Suite struct SessionFilesTests {
    /// A directory of its own, gone with the test.
    private final class Place: Sendable {
        let root: String
        var path: String { root + "/store" }

        init() {
            var name = Array("/tmp/mqtt-store.XXXXXX".utf8CString)
            root = mkdtemp(&name).map { String(cString: $0) } ?? "/nonexistent"
        }

        deinit {
            for name in names { unlink("\(path)/\(name)") }
            rmdir(path)
            rmdir(root)
        }

        var names: [String] {
            guard let stream = opendir(path) else { return [] }
            defer { closedir(stream) }
            var names: [String] = []
            while let entry = readdir(stream) {
                let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                    String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
                }
                if name != ".", name != ".." { names.append(name) }
            }
            return names.sorted()
        }

        func bytes(of name: String) -> [UInt8] {
            guard let file = fopen("\(path)/\(name)", "r") else { return [] }
            defer { fclose(file) }
            var bytes = [UInt8](repeating: 0, count: 1 << 20)
            return Array(bytes[..<fread(&bytes, 1, bytes.count, file)])
        }

        func write(_ bytes: [UInt8], to name: String) {
            guard let file = fopen("\(path)/\(name)", "w") else { return }
            fwrite(bytes, 1, bytes.count, file)
            fclose(file)
        }

        func mode(of path: String) -> UInt32 {
            var status = stat()
            return stat(path, &status) == 0 ? status.st_mode & 0o777 : 0
        }
    }

    private let place = Place()
    private static let first = "session-0000000000000001"

    private func open(_ identifier: String = "c", threshold: Int = 1 << 20) throws(SessionFiles.Problem)
        -> SessionFiles
    {
        try SessionFiles(
            directory: place.path, fsync: .everyBatch,
            configuration: SessionConfiguration(clientIdentifier: identifier, durability: .durable),
            compactionThreshold: threshold)
    }

    private func queued(_ stamp: UInt64, _ count: Int = 10) -> SessionChange {
        .queued(
            Publish(topicName: "t", payload: [UInt8](repeating: 1, count: count), qos: .atLeastOnce),
            stamp: stamp)
    }

    /// What the directory holds, as its next owner sees it.
    private func stored() throws -> [SessionChange] { try open().session.storedChanges }

    @Test func what_was_appended_is_there_for_the_next_owner_and_for_nobody_else() throws {
        let changes: [SessionChange] = [
            .began(.v5), .incomingStored(3), queued(1), .outgoingStored(1, stamp: 1), queued(2),
        ]
        do {
            let files = try open()
            try files.append(Array(changes[..<2]))
            try files.append(Array(changes[2...]))
        }
        #expect(try stored() == changes)
        #expect(place.names == ["lock", Self.first])
        #expect(place.mode(of: place.path) == 0o700)
        for name in place.names { #expect(place.mode(of: "\(place.path)/\(name)") == 0o600) }
    }

    @Test func a_directory_has_one_owner_at_a_time() throws {
        do {
            let owner = try open()
            #expect { try open() } throws: { ($0 as? SessionFiles.Problem)?.text.contains("in use") ?? false }
            try owner.append([queued(1)])
        }
        #expect(try stored() == [queued(1)])
    }

    @Test func the_store_of_another_client_is_refused_and_stays_as_it_is() throws {
        try open("a").append([queued(1)])
        #expect { try open("b") } throws: {
            ($0 as? SessionFiles.Problem)?.text.contains("of the client \"a\", not of \"b\"") ?? false
        }
        #expect(try open("a").session.storedChanges == [queued(1)])
    }

    @Test func a_client_that_is_started_often_lets_go_of_what_is_of_no_use() throws {
        var largest = 0
        for round in 0..<200 {
            let stamp = UInt64(round + 1)
            let files = try open(threshold: 4096)
            try files.append([queued(stamp, 100), .dequeued(stamp: stamp)])
            let sizes = place.names.map { name in
                var status = stat()
                return stat("\(place.path)/\(name)", &status) == 0 ? Int(status.st_size) : 0
            }
            largest = max(largest, sizes.reduce(0, +))
        }
        #expect(largest < 2 * 4096)
        #expect(try stored().isEmpty)
    }

    @Test func what_is_of_no_use_any_more_is_let_go_of() throws {
        do {
            let files = try open(threshold: 10_000)
            try files.append([.began(.v5), queued(1)])
            for stamp: UInt64 in 2..<200 {
                try files.append([queued(stamp, 1000), .outgoingStored(2, stamp: stamp)])
                try files.append([.outgoingCompleted(2)])
            }
        }
        #expect(place.names.count == 2)
        #expect(place.names[1] > Self.first)
        #expect(place.bytes(of: place.names[1]).count < 13_000)
        #expect(try stored() == [.began(.v5), queued(1)])
    }

    @Test func a_torn_tail_is_cut_and_said() throws {
        try open().append([queued(1), queued(2)])
        place.write(place.bytes(of: Self.first).dropLast(5), to: Self.first)
        do {
            let files = try open()
            #expect(files.session.storedChanges == [queued(1)])
            #expect(files.damage.count == 1 && files.damage[0].contains("incomplete"))
            try files.append([queued(3)])
        }
        let files = try open()
        #expect(files.session.storedChanges == [queued(1), queued(3)] && files.damage.isEmpty)
    }

    @Test func a_damaged_record_is_passed_over_and_said_and_the_file_is_kept() throws {
        try open().append([queued(1), queued(2), queued(3)])
        var bytes = place.bytes(of: Self.first)
        bytes[bytes.count / 2] ^= 0x10
        place.write(bytes, to: Self.first)
        do {
            let files = try open()
            #expect(files.session.storedChanges == [queued(1), queued(3)])
            #expect(files.damage.count == 1 && files.damage[0].contains("damaged"))
        }
        #expect(place.bytes(of: Self.first + ".damaged") == bytes)
        #expect(try open().damage.isEmpty)
    }

    @Test func a_damaged_header_is_no_empty_session() throws {
        try open().append([queued(1)])
        var bytes = place.bytes(of: Self.first)
        bytes[12] ^= 1
        place.write(bytes, to: Self.first)
        #expect(throws: SessionFiles.Problem.self) { try open() }
        #expect(place.bytes(of: Self.first) == bytes)
    }

    @Test func what_a_crash_left_of_a_change_of_files_is_removed() throws {
        try open().append([queued(1)])
        place.write([1, 2, 3], to: "session-0000000000000002.new")
        place.write(SessionSegment.header(clientIdentifier: "c"), to: "session-0000000000000000")
        #expect(try stored() == [queued(1)])
        #expect(place.names == ["lock", Self.first])
    }

    @Test func a_path_that_is_no_directory_is_said() {
        #expect {
            try SessionFiles(
                directory: "/dev/null", fsync: .never, configuration: .init(clientIdentifier: "c"))
        } throws: { ($0 as? SessionFiles.Problem)?.text.contains("/dev/null") ?? false }
    }
}
