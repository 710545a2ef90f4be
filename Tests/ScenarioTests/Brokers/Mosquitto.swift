import Foundation
import Glibc
import MQTTLoopback
import MQTTTransport

/// A mosquitto of this test process's own, on ports of 127.0.0.1 that the system chose.
///
/// It ends with its owner, and with the process however that ends.
final class Mosquitto: BrokerUnderTest {
    /// Where the broker is installed; nil where it isn't.
    static let executable = find("mosquitto")
    private static let passwordTool = find("mosquitto_passwd")

    private static let sharedInstance = Task { try await Mosquitto() }

    private static let peacefulInstance = Task { try await Mosquitto(doors: Door.open) }

    /// One for all scenarios that don't harm it.
    static var shared: Mosquitto {
        get async throws { try await sharedInstance.value }
    }

    static var peaceful: Mosquitto {
        get async throws { try await peacefulInstance.value }
    }

    let certificates: TestCertificates.Files
    private let directory: String
    private let doors: [Door: UInt16]
    private let supervisor: Supervisor
    private let identifier = Lock<pid_t>(0)

    /// Starts it; returns when all its listeners accept.
    ///
    /// - Parameters:
    ///   - doors: what to listen for.
    ///   - maximumTLSVersion: such as `TLSv1.2`; nil for what OpenSSL has.
    init(doors: [Door] = Door.all, maximumTLSVersion: String? = nil) async throws {
        guard let executable = Self.executable, let passwordTool = Self.passwordTool else {
            throw BrokerFailure("mosquitto isn't installed: apt-get install mosquitto")
        }
        directory = try TemporaryDirectory.make()
        supervisor = try Supervisor(
            executable: executable, directory: directory, maximumTLSVersion: maximumTLSVersion)
        let certificates = try TestCertificates()
        self.certificates = try certificates.write(to: directory)
        let nameOnly = try certificates.authority.issue(.server(names: ["localhost"], addresses: []))
        try Self.write(nameOnly.certificate, to: directory + "/name-only.crt")
        try Self.write(nameOnly.key, to: directory + "/name-only.key")
        try Supervisor.run([
            passwordTool, "-b", "-c", directory + "/passwords", Credentials.userName, Credentials.password,
        ])
        var ports: [Door: UInt16] = [:]
        for attempt in 1...5 {
            ports = Dictionary(uniqueKeysWithValues: zip(doors, try FreePorts.choose(doors.count)))
            try Self.write(
                Self.configuration(ports, self.certificates, directory), to: directory + "/mosquitto.conf")
            let started = try supervisor.start()
            if await Self.isListening(ports.values, process: started) {
                identifier.withLock { $0 = started }
                break
            }
            // Another process was faster at one of the ports.
            if attempt == 5 { throw BrokerFailure("mosquitto doesn't start: \(Self.log(directory))") }
        }
        self.doors = ports
    }

    func port(_ door: Door) throws -> UInt16 {
        guard let port = doors[door] else { throw BrokerFailure("this broker has no door \(door)") }
        return port
    }

    /// SIGKILL: connections end without a word, and what it knew is gone.
    func kill() async throws {
        let victim = identifier.withLock { $0 }
        Glibc.kill(victim, SIGKILL)
        try await eventually("mosquitto \(victim) is gone") { !Supervisor.isAlive(victim) }
    }

    /// On the same ports as before.
    func restart() async throws {
        let started = try supervisor.start()
        guard await Self.isListening(doors.values, process: started) else {
            throw BrokerFailure("mosquitto doesn't start again: \(Self.log(directory))")
        }
        identifier.withLock { $0 = started }
    }

    /// What it has written about itself so far.
    var log: String { Self.log(directory) }

    private static func isListening(_ ports: some Collection<UInt16>, process: pid_t) async -> Bool {
        let deadline = ContinuousClock.now + .seconds(20)
        for port in ports {
            while !FreePorts.accepts(port) {
                guard Supervisor.isAlive(process), ContinuousClock.now < deadline else { return false }
                try? await Task.sleep(for: .milliseconds(5))
            }
        }
        // All could belong to somebody else.
        return Supervisor.isAlive(process)
    }

    private static func configuration(
        _ ports: [Door: UInt16], _ certificates: TestCertificates.Files, _ directory: String
    ) -> String {
        var lines = [
            "per_listener_settings true", "persistence false", "max_queued_messages 0", "sys_interval 1",
            "log_dest file \(directory)/log", "log_type all", "set_tcp_nodelay true",
        ]
        // As root it would become another user, who can't read a private directory.
        if getuid() == 0 { lines.append("user root") }
        for (door, port) in ports.sorted(by: { $0.value < $1.value }) {
            lines.append("listener \(port) 127.0.0.1")
            switch door.transport {
            case .tcp, .tls: lines.append("protocol mqtt")
            case .webSocket, .webSocketSecure: lines.append("protocol websockets")
            }
            if door.transport.isEncrypted {
                let identity =
                    door.access == .openByName
                    ? (directory + "/name-only.crt", directory + "/name-only.key")
                    : (certificates.server.certificate, certificates.server.key)
                lines.append("certfile \(identity.0)")
                lines.append("keyfile \(identity.1)")
            }
            switch door.access {
            case .open, .openByName:
                lines.append("allow_anonymous true")
            case .clientCertificate:
                lines.append("allow_anonymous true")
                lines.append("cafile \(certificates.authority)")
                lines.append("require_certificate true")
            case .password:
                lines.append("allow_anonymous false")
                lines.append("password_file \(directory)/passwords")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func find(_ program: String) -> String? {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let directories = path.split(separator: ":").map(String.init) + ["/usr/sbin", "/usr/local/sbin"]
        return directories.map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
    }

    private static func write(_ text: String, to path: String) throws {
        try text.write(toFile: path, atomically: false, encoding: .utf8)
    }

    private static func log(_ directory: String) -> String {
        (try? String(contentsOfFile: directory + "/log", encoding: .utf8)) ?? ""
    }
}
