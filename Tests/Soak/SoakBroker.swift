internal import Foundation
internal import Glibc
internal import MQTTLoopback
internal import MQTTTransport

/// mosquitto with a listener for each transport.
///
/// Ended by SIGTERM it writes its sessions down, and has them again. Killed it would come back with those of some time
/// ago, about which nothing can be said; so its file is removed, and it has lost all sessions.
final class SoakBroker: Sendable {
    enum Ending: Sendable, CaseIterable { case terminated, killed }

    let certificates: TestCertificates.Files
    private let executable: String
    private let directory: String
    private let ports: [SoakTransport: UInt16]
    private let process = Lock<pid_t?>(nil)

    /// Starts it; returns when all its listeners accept.
    init() async throws {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let directories = path.split(separator: ":").map(String.init) + ["/usr/sbin", "/usr/local/sbin"]
        let candidates = directories.map { "\($0)/mosquitto" }
        guard let found = candidates.first(where: { access($0, X_OK) == 0 }) else {
            throw SoakFailure("mosquitto isn't installed: apt-get install mosquitto")
        }
        executable = found
        let directory = NSTemporaryDirectory() + "mqtt-soak-\(getpid())"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        self.directory = directory
        certificates = try TestCertificates().write(to: directory)
        ports = try Self.freePorts()
        try configuration.write(toFile: directory + "/mosquitto.conf", atomically: false, encoding: .utf8)
        try await start()
    }

    func port(_ transport: SoakTransport) -> UInt16 { ports[transport] ?? 0 }

    func end(_ ending: Ending) async throws {
        guard let victim = process.withLock({ $0 }) else { return }
        kill(victim, ending == .killed ? SIGKILL : SIGTERM)
        try await wait("the end of mosquitto") { process.withLock { $0 } == nil }
        if ending == .killed { try? FileManager.default.removeItem(atPath: directory + "/mosquitto.db") }
    }

    func start() async throws {
        // The kernel ends the broker when this thread goes, which is when the broker has ended, or this process.
        let thread = Thread { [self] in
            guard let started = spawn() else { return }
            process.withLock { $0 = started }
            var status: Int32 = 0
            while waitpid(started, &status, 0) < 0, errno == EINTR {}
            process.withLock { $0 = nil }
        }
        thread.start()
        try await wait("mosquitto's listeners (\(directory)/log)") {
            process.withLock { $0 } != nil && ports.values.allSatisfy(Self.accepts)
        }
    }

    /// For good.
    func remove() async throws {
        try await end(.killed)
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// Whether it has sent this client a PUBLISH of so many bytes again after PUBREL, which it must not
    /// [MQTT-4.3.3-6]: mosquitto 2.0.11 does where the first connection after a restart breaks at once.
    func hasSentAgainAfterRelease(to clientID: String, bytes: Int) -> Bool {
        guard let log = try? String(contentsOfFile: directory + "/log", encoding: .utf8) else { return false }
        var released: Set<Substring> = []
        for line in log.split(separator: "\n") where line.contains(clientID + " ") {
            // … Sending PUBREL to soak-93 (m18)
            if line.contains(": Sending PUBREL to "), let mid = Self.identifier(in: line, after: "(m") {
                released.insert(mid)
            } else if line.contains(": Sending PUBLISH to "),
                let mid = Self.identifier(in: line, after: ", m")
            {
                // With DUP 0 it is a new message's.
                if line.contains("(d0, ") { released.remove(mid) }
                if line.contains("(d1, q2, "), line.hasSuffix("(\(bytes) bytes))"), released.contains(mid) {
                    return true
                }
            }
        }
        return false
    }

    private static func identifier(in line: Substring, after mark: String) -> Substring? {
        guard let start = line.firstRange(of: mark)?.upperBound else { return nil }
        return line[start...].prefix { $0.isNumber }
    }

    private func spawn() -> pid_t? {
        let arguments = ["setpriv", "--pdeathsig", "KILL", executable, "-c", directory + "/mosquitto.conf"]
        var argv = arguments.map { strdup($0) } + [nil]
        defer { for argument in argv { free(argument) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        // Threads of a pool block all signals, and a broker that inherits that never hears of SIGTERM.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var started: pid_t = 0
        return posix_spawnp(&started, arguments[0], &actions, &attributes, &argv, environ) == 0
            ? started : nil
    }

    private var configuration: String {
        var lines = [
            "persistence true", "persistence_location \(directory)/", "autosave_interval 0",
            "max_queued_messages 0", "allow_anonymous true", "set_tcp_nodelay true",
            "log_dest file \(directory)/log", "log_type error", "log_type warning", "log_type debug",
        ]
        // As root it would become another user, who can't read a private directory.
        if getuid() == 0 { lines.append("user root") }
        for transport in SoakTransport.allCases {
            lines.append("listener \(port(transport)) 127.0.0.1")
            lines.append("protocol \(transport.isWebSocket ? "websockets" : "mqtt")")
            if transport.isEncrypted {
                lines.append("certfile \(certificates.server.certificate)")
                lines.append("keyfile \(certificates.server.key)")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private func wait(_ what: String, _ condition: () -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(20)
        while !condition() {
            guard ContinuousClock.now < deadline else { throw SoakFailure("waited 20 s for \(what)") }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    private static func freePorts() throws -> [SoakTransport: UInt16] {
        // All are held at once, so that they differ.
        let sockets = SoakTransport.allCases.map { _ in socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }
        defer { for descriptor in sockets { close(descriptor) } }
        var ports: [SoakTransport: UInt16] = [:]
        for (transport, descriptor) in zip(SoakTransport.allCases, sockets) {
            guard withAddress(0, { bind(descriptor, $0, $1) }) == 0,
                let address = SocketAddress(boundTo: descriptor)
            else { throw SoakFailure("no free port: \(String(cString: strerror(errno)))") }
            ports[transport] = address.port
        }
        return ports
    }

    private static func accepts(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        return withAddress(port) { connect(descriptor, $0, $1) } == 0
    }

    private static func withAddress(
        _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}

/// Why a run can't go on, which says nothing about the client.
struct SoakFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
