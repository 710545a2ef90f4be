import Foundation
import MQTTLoopback
import MQTTProbe
import MQTTTraversal
import Testing

/// The same against a broker that isn't ours.
@Suite(.enabled(if: Mosquitto.isInstalled, "mosquitto isn't installed"))
struct MosquittoTests {
    @Test(arguments: ProtocolVersion.allCases)
    func mosquitto_is_reached_on_all_ways(version: ProtocolVersion) async throws {
        let mosquitto = try Mosquitto()
        defer { mosquitto.stop() }
        var ports = ProbePorts()
        ports[.tls] = mosquitto.tls
        ports[.webSocketSecure] = mosquitto.webSocketSecure
        ports[.webSocketSecureAlternative] = mosquitto.webSocketSecure
        ports[.tcp] = mosquitto.tcp
        var random = SystemRandomNumberGenerator()
        var options = ProbeOptions(
            host: "localhost", ports: ports, version: version, trust: .file(mosquitto.authorityFile))
        let open = await ProbeRunner(try ProbePlan(options, random: &random)).run()
        options.userName = "sensor"
        options.password = Array("wrong".utf8)
        let refused = await ProbeRunner(try ProbePlan(options, random: &random)).run()

        #expect(open.attempts.map(\.outcome) == [.ok, .ok, .ok, .ok])
        #expect(open.diagnosis.verdict == .preferred)
        #expect(refused.attempts.map(\.outcome) == [.failed, .failed, .failed, .skipped])
        #expect(refused.attempts.prefix(3).allSatisfy { $0.failure?.code == .mqttRefused })
        #expect(refused.diagnosis.verdict == .none)
    }
}

/// One process, with its files in a directory of its own.
private struct Mosquitto {
    static let program = ["/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto", "/usr/bin/mosquitto"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }
    static var isInstalled: Bool { program != nil }

    let tls: Int
    let webSocketSecure: Int
    let tcp: Int
    let authorityFile: String
    private let directory: URL
    private let process = Process()

    /// Returns when it listens.
    init() throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "wsprobe-\(UUID())")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let files = try TestCertificates().write(to: directory.path)
        authorityFile = files.authority
        let ports = try Self.freePorts(3)
        (tls, webSocketSecure, tcp) = (ports[0], ports[1], ports[2])
        // The password of no user: whoever logs in is refused, and whoever doesn't is let in.
        let passwords = directory.appending(path: "passwords")
        try Data().write(to: passwords)
        let certificates = "certfile \(files.server.certificate)\nkeyfile \(files.server.key)\n"
        let user = getuid() == 0 ? "user root\n" : ""
        let configuration = directory.appending(path: "mosquitto.conf")
        let text =
            "allow_anonymous true\n\(user)password_file \(passwords.path)\n"
            + "listener \(tls) 127.0.0.1\n\(certificates)"
            + "listener \(webSocketSecure) 127.0.0.1\nprotocol websockets\n\(certificates)"
            + "listener \(tcp) 127.0.0.1\n"
        try Data(text.utf8).write(to: configuration)
        let log = Pipe()
        process.executableURL = URL(filePath: try #require(Self.program))
        process.arguments = ["-c", configuration.path]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = log
        try process.run()
        var said = ""
        while !said.contains(" running") {
            let data = log.fileHandleForReading.availableData
            try #require(!data.isEmpty, "mosquitto ended: \(said)")
            said += String(decoding: data, as: UTF8.self)
        }
    }

    func stop() {
        // A child inherits the mask of the thread that starts it, and here that blocks SIGTERM.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        try? FileManager.default.removeItem(at: directory)
    }

    /// Ports that were free a moment ago, all different.
    private static func freePorts(_ count: Int) throws -> [Int] {
        var descriptors: [Int32] = []
        defer { for descriptor in descriptors { close(descriptor) } }
        return try (0..<count).map { _ in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            try #require(descriptor >= 0)
            descriptors.append(descriptor)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var size = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isBound = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, size) == 0 && getsockname(descriptor, $0, &size) == 0
                }
            }
            try #require(isBound)
            return Int(UInt16(bigEndian: address.sin_port))
        }
    }
}
