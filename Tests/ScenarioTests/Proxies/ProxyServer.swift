import Foundation
import Glibc

/// A proxy program on a port of 127.0.0.1 that the system chose; it ends with its owner, and with this process.
final class ProxyServer: Sendable {
    enum Kind: String, Sendable, CaseIterable {
        case squidBasic
        case squidDigest
        /// Negotiate, with a KDC of its own, and Basic.
        case squidKerberos
        case tinyproxy
        /// HTTP/1.0, Basic, and only port 443.
        case tinyproxyForPort443
        /// SOCKS 5 without a login.
        case danteOpen
        /// SOCKS 5 for accounts of this machine.
        case danteWithLogin

        /// The Debian package.
        var package: String {
            switch self {
            case .squidBasic, .squidDigest: "squid"
            case .squidKerberos: "squid krb5-kdc krb5-admin-server krb5-user"
            case .tinyproxy, .tinyproxyForPort443: "tinyproxy"
            case .danteOpen, .danteWithLogin: "dante-server"
            }
        }

        var isAvailable: Bool {
            switch self {
            case .squidBasic, .squidDigest, .tinyproxy, .tinyproxyForPort443, .danteOpen: executable != nil
            case .squidKerberos:
                executable != nil && KerberosRealm.programs.allSatisfy { InstalledProgram.find($0) != nil }
            // dante looks accounts up as root, and only root can give it one that nobody else sees.
            case .danteWithLogin: executable != nil && getuid() == 0 && PrivateAccount.isPossible
            }
        }

        fileprivate var executable: String? {
            switch self {
            case .squidBasic, .squidDigest, .squidKerberos: InstalledProgram.find("squid")
            case .tinyproxy, .tinyproxyForPort443: InstalledProgram.find("tinyproxy")
            case .danteOpen, .danteWithLogin: InstalledProgram.find("danted")
            }
        }
    }

    static let userName = "alice"
    static let password = "secret"

    let port: UInt16
    /// Its files.
    let directory: String
    private let supervisor: Supervisor

    /// Returns when it accepts.
    init(_ kind: Kind) async throws {
        guard let executable = kind.executable else {
            throw BrokerFailure("apt-get install \(kind.package)")
        }
        let directory = try TemporaryDirectory.make()
        self.directory = directory
        // As root, squid and tinyproxy become other users, who have to get in.
        if getuid() == 0 { chmod(directory, 0o777) }
        let port = try FreePorts.choose(1)[0]
        self.port = port
        let command = try Self.prepare(kind, executable, port, directory)
        try Self.write(command, to: directory + "/start")
        supervisor = try Supervisor(directory: directory)
        let process = try supervisor.start()
        do {
            try await eventually("\(kind) accepts") {
                guard Supervisor.isAlive(process) else { throw BrokerFailure("it has ended") }
                return FreePorts.accepts(port)
            }
        } catch {
            let output = try? String(contentsOfFile: directory + "/output", encoding: .utf8)
            throw BrokerFailure("\(kind) doesn't start: \(error), \(output ?? "")")
        }
    }

    /// Writes its files.
    ///
    /// - Returns: the script that starts it.
    private static func prepare(
        _ kind: Kind, _ executable: String, _ port: UInt16, _ directory: String
    ) throws -> [String] {
        let configuration = directory + "/configuration"
        let passwords = directory + "/passwords"
        // As root, squid becomes another user.
        let asProxy = getuid() == 0 ? "/usr/bin/setpriv --reuid=proxy --regid=proxy --clear-groups " : ""
        let lines: [String]
        let command: [String]
        switch kind {
        case .squidBasic, .squidDigest, .squidKerberos:
            var login: [String] = []
            if kind == .squidKerberos {
                try write(try KerberosRealm.script(directory), to: directory + "/realm")
                login = KerberosRealm.squidLines(directory)
            }
            if kind == .squidDigest {
                // The MD5 of user name, realm and password.
                try write(["\(userName):mqtt:8e5b7e9fcc8ced677176492c6913d00f"], to: passwords)
                login = [
                    "auth_param digest program /usr/lib/squid/digest_file_auth -c \(passwords)",
                    "auth_param digest children 2", "auth_param digest realm mqtt",
                ]
            } else {
                // By `openssl passwd -apr1`.
                try write(["\(userName):$apr1$mqttmqtt$EMlpii8MNsEYsOTKhO2nq/"], to: passwords)
                login += ["auth_param basic program /usr/lib/squid/basic_ncsa_auth \(passwords)"]
            }
            lines =
                [
                    "http_port 127.0.0.1:\(port)", "pid_filename none",
                    "cache_log \(directory)/cache.log", "access_log none", "cache deny all",
                    "cache_mem 8 MB", "netdb_filename none", "coredump_dir \(directory)",
                    "visible_hostname proxy.test", "shutdown_lifetime 1 seconds",
                ] + login + [
                    "acl authenticated proxy_auth REQUIRED", "http_access allow authenticated",
                    "http_access deny all",
                ]
            let squid = "\(executable) -N -f \(configuration)"
            command = [
                kind == .squidKerberos
                    ? "exec \(asProxy)/bin/bash \(directory)/realm \(squid)" : "exec \(asProxy)\(squid)"
            ]
        case .tinyproxy, .tinyproxyForPort443:
            lines =
                (getuid() == 0 ? ["User nobody", "Group nogroup"] : []) + [
                    "Port \(port)", "Listen 127.0.0.1", "Timeout 60", "MaxClients 20",
                    "LogFile \"\(directory)/log\"", "PidFile \"\(directory)/pid\"",
                    "BasicAuth \(userName) \(password)",
                ] + (kind == .tinyproxy ? [] : ["ConnectPort 443"])
            command = ["exec \(executable) -d -c \(configuration)"]
        case .danteOpen, .danteWithLogin:
            lines = [
                "logoutput: \(directory)/log", "internal: 127.0.0.1 port = \(port)", "external: lo",
                "clientmethod: none", "socksmethod: \(kind == .danteOpen ? "none" : "username")",
                kind == .danteOpen ? "" : "user.privileged: root\nuser.unprivileged: nobody",
                "client pass {", "  from: 127.0.0.0/8 to: 0.0.0.0/0", "}",
                "socks pass {", "  from: 127.0.0.0/8 to: 0.0.0.0/0", "  command: connect", "}",
            ]
            let dante = "\(executable) -f \(configuration) -p \(directory)/pid"
            command =
                kind == .danteOpen ? ["exec \(dante)"] : try PrivateAccount.script(directory, userName, dante)
        }
        try write(lines, to: configuration)
        return command
    }

    static func write(_ lines: [String], to path: String) throws {
        try (lines.joined(separator: "\n") + "\n").write(toFile: path, atomically: false, encoding: .utf8)
        if getuid() == 0 { chmod(path, 0o644) }
    }
}
