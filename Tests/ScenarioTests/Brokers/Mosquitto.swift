import Foundation
import Glibc
import MQTTLoopback

/// mosquitto, with a listener for each door.
struct Mosquitto: BrokerProgram {
    /// Where the broker is installed; nil where it isn't.
    static let executable = InstalledProgram.find("mosquitto")
    private static let passwordTool = InstalledProgram.find("mosquitto_passwd")

    private static let sharedInstance = Task { try await launch() }

    private static let peacefulInstance = Task { try await launch(doors: Door.open) }

    /// One for all scenarios that don't harm it.
    static var shared: BrokerProcess {
        get async throws { try await sharedInstance.value }
    }

    static var peaceful: BrokerProcess {
        get async throws { try await peacefulInstance.value }
    }

    /// - Parameters:
    ///   - doors: what to listen for.
    ///   - maximumTLSVersion: such as `TLSv1.2`; nil for what OpenSSL has.
    static func launch(doors: [Door] = Door.all, maximumTLSVersion: String? = nil) async throws
        -> BrokerProcess
    {
        guard let executable, let passwordTool else {
            throw BrokerFailure("mosquitto isn't installed: apt-get install mosquitto")
        }
        let program = Mosquitto(
            executable: executable, passwordTool: passwordTool, maximumTLSVersion: maximumTLSVersion)
        return try await BrokerProcess(program, doors: doors)
    }

    let executable: String
    let passwordTool: String
    let maximumTLSVersion: String?

    var name: String { "mosquitto" }
    var logName: String { "log" }

    func configure(_ site: BrokerSite) throws {
        try Supervisor.run([
            passwordTool, "-b", "-c", site.directory + "/passwords", Credentials.userName,
            Credentials.password,
        ])
        if let maximumTLSVersion {
            let text = """
                openssl_conf = init
                [init]
                ssl_conf = modules
                [modules]
                system_default = limits
                [limits]
                MaxProtocol = \(maximumTLSVersion)

                """
            try site.write(text, to: "openssl.cnf")
        }
        try site.write(configuration(site), to: "mosquitto.conf")
    }

    func script(_ site: BrokerSite) -> String {
        let limits = maximumTLSVersion == nil ? "" : "export OPENSSL_CONF=$PWD/openssl.cnf\n"
        return "\(limits)exec '\(executable)' -c mosquitto.conf"
    }

    private func configuration(_ site: BrokerSite) -> String {
        let directory = site.directory
        var lines = [
            "per_listener_settings true", "persistence false", "max_queued_messages 0", "sys_interval 1",
            "log_dest file \(directory)/log", "log_type all", "set_tcp_nodelay true",
        ]
        // As root it would become another user, who can't read a private directory.
        if getuid() == 0 { lines.append("user root") }
        for (door, port) in site.doors.sorted(by: { $0.value < $1.value }) {
            lines.append("listener \(port) 127.0.0.1")
            switch door.transport {
            case .tcp, .tls: lines.append("protocol mqtt")
            case .webSocket, .webSocketSecure: lines.append("protocol websockets")
            }
            if door.transport.isEncrypted {
                let identity =
                    door.access == .openByName
                    ? (directory + "/name-only.crt", directory + "/name-only.key")
                    : (site.certificates.server.certificate, site.certificates.server.key)
                lines.append("certfile \(identity.0)")
                lines.append("keyfile \(identity.1)")
            }
            switch door.access {
            case .open, .openByName:
                lines.append("allow_anonymous true")
            case .clientCertificate:
                lines.append("allow_anonymous true")
                lines.append("cafile \(site.certificates.authority)")
                lines.append("require_certificate true")
            case .password:
                lines.append("allow_anonymous false")
                lines.append("password_file \(directory)/passwords")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }
}
