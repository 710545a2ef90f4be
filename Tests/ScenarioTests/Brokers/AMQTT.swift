import Foundation
import MQTTLoopback

/// amqtt, written in Python.
struct AMQTT: BrokerProgram {
    /// Where the broker is installed, by `.ci/interop`; nil where it isn't.
    static let executable = InstalledProgram.find("amqtt")

    private static let sharedInstance = Task { try await launch() }

    /// One for all scenarios that don't harm it.
    static var shared: BrokerProcess {
        get async throws { try await sharedInstance.value }
    }

    static func launch(doors: [Door] = Door.open) async throws -> BrokerProcess {
        guard let executable else { throw BrokerFailure("amqtt isn't installed: see .ci/interop") }
        // What a listener leaves at a default, such as TCP and no TLS, it takes over from the one named `default`.
        let all = Array(Set(doors + [Door(transport: .tcp)]))
        return try await BrokerProcess(AMQTT(executable: executable), doors: all)
    }

    let executable: String

    var name: String { "amqtt" }

    func configure(_ site: BrokerSite) throws {
        var lines = ["listeners:"]
        for (door, port) in site.doors {
            let type =
                switch door.transport {
                case .tcp, .tls: "tcp"
                case .webSocket, .webSocketSecure: "ws"
                }
            var options = "type: \(type), bind: 127.0.0.1:\(port), max_connections: 500"
            if door.transport.isEncrypted {
                let server = site.certificates.server
                options += ", ssl: true, certfile: \(server.certificate), keyfile: \(server.key)"
                options += ", cafile: \(site.certificates.authority)"
            }
            lines.append("  \(door.transport == .tcp ? "default" : door.transport.rawValue): {\(options)}")
        }
        lines += [
            "plugins:",
            "  amqtt.plugins.authentication.FileAuthPlugin: {password_file: \(site.directory)/passwords}",
        ]
        try site.write(lines.joined(separator: "\n") + "\n", to: "amqtt.yaml")
        // As cheap as argon2 goes: the broker does nothing else meanwhile.
        let hash = """
            import argon2
            hasher = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
            print('\(Credentials.userName):' + hasher.hash('\(Credentials.password)'))

            """
        try site.write(hash, to: "hash.py")
    }

    func script(_ site: BrokerSite) -> String {
        """
        '\((executable as NSString).deletingLastPathComponent)/python3' hash.py >passwords
        exec '\(executable)' -c amqtt.yaml
        """
    }
}
