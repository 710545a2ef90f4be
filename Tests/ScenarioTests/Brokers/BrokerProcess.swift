import Foundation
import Glibc
import MQTTLoopback
import MQTTTransport

/// A program that is a broker.
protocol BrokerProgram: Sendable {
    var name: String { get }
    /// The account of its own that its package has made; root starts it as that one.
    var account: String? { get }
    /// How many ports it needs besides its doors.
    var privatePortCount: Int { get }
    /// What its log says once it can be used; nil where listening is enough.
    var readyMark: String? { get }
    var logName: String { get }
    /// Writes its files.
    func configure(_ site: BrokerSite) throws
    /// What a shell runs in its directory; ends with `exec` of the broker, with everything forgotten that an earlier
    /// run has stored.
    func script(_ site: BrokerSite) -> String
}

extension BrokerProgram {
    var account: String? { nil }
    var privatePortCount: Int { 0 }
    var readyMark: String? { nil }
    var logName: String { "output" }
}

/// Where a broker runs.
struct BrokerSite: Sendable {
    var directory: String
    var certificates: TestCertificates.Files
    var doors: [Door: UInt16] = [:]
    var privatePorts: [UInt16] = []

    func write(_ text: String, to name: String) throws {
        try text.write(toFile: "\(directory)/\(name)", atomically: false, encoding: .utf8)
    }

    func port(_ transport: Transport) throws -> UInt16 {
        guard let port = doors[Door(transport: transport)] else {
            throw BrokerFailure("no door \(transport)")
        }
        return port
    }
}

/// A broker of this test process's own, on ports of 127.0.0.1 that the system chose.
///
/// It ends with its owner, and with the process however that ends.
final class BrokerProcess: BrokerUnderTest {
    private let program: any BrokerProgram
    private let site: BrokerSite
    private let supervisor: Supervisor
    private let identifier = Lock<pid_t>(0)

    var certificates: TestCertificates.Files { site.certificates }

    /// Starts it; returns when all its listeners accept.
    init(_ program: any BrokerProgram, doors: [Door]) async throws {
        self.program = program
        let directory = try TemporaryDirectory.make()
        supervisor = try Supervisor(directory: directory)
        let certificates = try TestCertificates()
        var site = BrokerSite(directory: directory, certificates: try certificates.write(to: directory))
        let nameOnly = try certificates.authority.issue(.server(names: ["localhost"], addresses: []))
        try site.write(nameOnly.certificate, to: "name-only.crt")
        try site.write(nameOnly.key, to: "name-only.key")
        for attempt in 1...5 {
            let ports = try FreePorts.choose(doors.count + program.privatePortCount)
            site.doors = Dictionary(uniqueKeysWithValues: zip(doors, ports))
            site.privatePorts = Array(ports.dropFirst(doors.count))
            try program.configure(site)
            try Self.prepare(program, site)
            let started = try supervisor.start()
            if await Self.isReady(program, site, process: started) {
                identifier.withLock { $0 = started }
                break
            }
            // Another process was faster at one of the ports.
            if attempt == 5 {
                throw BrokerFailure("\(program.name) doesn't start: \(Self.log(program, site))")
            }
        }
        self.site = site
    }

    func port(_ door: Door) throws -> UInt16 {
        guard let port = site.doors[door] else { throw BrokerFailure("this broker has no door \(door)") }
        return port
    }

    /// SIGKILL: connections end without a word, and what it knew is gone.
    func kill() async throws {
        let victim = identifier.withLock { $0 }
        Glibc.kill(-victim, SIGKILL)
        try await eventually("\(program.name) \(victim) is gone") {
            !Supervisor.isAlive(victim) && !site.doors.values.contains(where: FreePorts.accepts)
        }
    }

    /// On the same ports as before.
    func restart() async throws {
        let started = try supervisor.start()
        guard await Self.isReady(program, site, process: started) else {
            throw BrokerFailure("\(program.name) doesn't start again: \(Self.log(program, site))")
        }
        identifier.withLock { $0 = started }
    }

    /// What it has written about itself so far.
    var log: String { Self.log(program, site) }

    private static func prepare(_ program: any BrokerProgram, _ site: BrokerSite) throws {
        var script = "cd '\(site.directory)'\n\(program.script(site))\n"
        if getuid() == 0, let account = program.account, getpwnam(account) != nil {
            try site.write(script, to: "start-as-\(account)")
            let identity = "--reuid=\(account) --regid=\(account) --clear-groups"
            script = "exec setpriv \(identity) bash '\(site.directory)/start-as-\(account)'\n"
            try site.write(script, to: "start")
            try Supervisor.run(["/bin/chown", "--recursive", "\(account):\(account)", site.directory])
        } else {
            try site.write(script, to: "start")
        }
    }

    private static func isReady(
        _ program: any BrokerProgram, _ site: BrokerSite, process: pid_t
    ) async -> Bool {
        // Erlang's need 12 s on an idle machine.
        let deadline = ContinuousClock.now + .seconds(90)
        func holds(_ condition: () -> Bool) async -> Bool {
            while !condition() {
                guard Supervisor.isAlive(process), ContinuousClock.now < deadline else { return false }
                try? await Task.sleep(for: .milliseconds(5))
            }
            return true
        }
        for port in site.doors.values {
            guard await holds({ FreePorts.accepts(port) }) else { return false }
        }
        if let mark = program.readyMark {
            guard await holds({ log(program, site).contains(mark) }) else { return false }
        }
        // All could belong to somebody else.
        return Supervisor.isAlive(process)
    }

    private static func log(_ program: any BrokerProgram, _ site: BrokerSite) -> String {
        (try? String(contentsOfFile: "\(site.directory)/\(program.logName)", encoding: .utf8)) ?? ""
    }
}

enum InstalledProgram {
    static func find(_ program: String) -> String? {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let directories = path.split(separator: ":").map(String.init) + ["/usr/sbin", "/usr/local/sbin"]
        return directories.map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
    }
}
