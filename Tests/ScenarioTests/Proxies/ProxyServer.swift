import Foundation
import Glibc

/// A proxy program on ports of 127.0.0.1 that the system chose; it ends with its owner, and with this process.
final class ProxyServer: Sendable {
    enum Kind: String, Sendable, CaseIterable {
        case squidOpen
        case squidBasic
        case squidDigest
        /// Negotiate, with a KDC of its own, and Basic.
        case squidKerberos
        case tinyproxy
        /// HTTP/1.0, Basic, and only port 443, or others in its place.
        case tinyproxyForPort443
        /// SOCKS 5 without a login.
        case danteOpen
        /// SOCKS 5 for accounts of this machine.
        case danteWithLogin

        /// The Debian package.
        var package: String {
            switch self {
            case .squidOpen, .squidBasic, .squidDigest: "squid"
            case .squidKerberos: "squid krb5-kdc krb5-admin-server krb5-user"
            case .tinyproxy, .tinyproxyForPort443: "tinyproxy"
            case .danteOpen, .danteWithLogin: "dante-server"
            }
        }

        var isAvailable: Bool {
            switch self {
            case .squidOpen, .squidBasic, .squidDigest, .tinyproxy, .tinyproxyForPort443, .danteOpen:
                executable != nil
            case .squidKerberos:
                executable != nil && KerberosRealm.programs.allSatisfy { InstalledProgram.find($0) != nil }
            // dante looks accounts up as root, and only root can give it one that nobody else sees.
            case .danteWithLogin: executable != nil && getuid() == 0 && PrivateAccount.isPossible
            }
        }

        fileprivate var executable: String? {
            switch self {
            case .squidOpen, .squidBasic, .squidDigest, .squidKerberos: InstalledProgram.find("squid")
            case .tinyproxy, .tinyproxyForPort443: InstalledProgram.find("tinyproxy")
            case .danteOpen, .danteWithLogin: InstalledProgram.find("danted")
            }
        }
    }

    static let userName = "alice"
    static let password = "secret"

    let ports: [UInt16]
    /// Its files.
    let directory: String
    private let supervisor: Supervisor

    var port: UInt16 { ports[0] }

    /// Returns when it accepts.
    ///
    /// - Parameter connectPorts: those that tinyproxy lets through.
    convenience init(_ kind: Kind, connectPorts: [UInt16] = [443]) async throws {
        guard let executable = kind.executable else {
            throw BrokerFailure("apt-get install \(kind.package)")
        }
        try await self.init(kind.rawValue) { ports, directory in
            try Self.prepare(kind, executable, ports[0], directory, connectPorts)
        }
    }

    /// Returns when it accepts on all its ports.
    ///
    /// - Parameter prepare: writes its files into a directory of its own; returns the script that starts it.
    init(
        _ name: String, ports count: Int = 1,
        prepare: (_ ports: [UInt16], _ directory: String) throws -> [String]
    ) async throws {
        let directory = try TemporaryDirectory.make()
        self.directory = directory
        // As root, they become other users, who have to get in and mustn't touch what is root's.
        if getuid() == 0 { chmod(directory, 0o1777) }
        let ports = try FreePorts.choose(count)
        self.ports = ports
        try Self.write(try prepare(ports, directory), to: directory + "/start")
        supervisor = try Supervisor(directory: directory)
        let process = try supervisor.start()
        do {
            try await eventually("\(name) accepts") {
                guard Supervisor.isAlive(process) else { throw BrokerFailure("it has ended") }
                return ports.allSatisfy(FreePorts.accepts)
            }
        } catch {
            let output = try? String(contentsOfFile: directory + "/output", encoding: .utf8)
            throw BrokerFailure("\(name) doesn't start: \(error), \(output ?? "")")
        }
    }

    /// Writes its files.
    ///
    /// - Returns: the script that starts it.
    private static func prepare(
        _ kind: Kind, _ executable: String, _ port: UInt16, _ directory: String, _ connectPorts: [UInt16]
    ) throws -> [String] {
        let configuration = directory + "/configuration"
        let passwords = directory + "/passwords"
        let lines: [String]
        let command: [String]
        switch kind {
        case .squidOpen:
            return try squid(executable, port, directory, ["http_access allow all"])
        case .squidBasic, .squidDigest, .squidKerberos:
            var login: [String] = []
            if kind == .squidKerberos {
                try write(try KerberosRealm.script(directory), to: directory + "/realm")
                login = KerberosRealm.squidLines(directory)
            }
            if kind != .squidDigest {
                // By `openssl passwd -apr1`.
                try write(["\(userName):$apr1$mqttmqtt$EMlpii8MNsEYsOTKhO2nq/"], to: passwords)
                login += ["auth_param basic program /usr/lib/squid/basic_ncsa_auth \(passwords)"]
            } else {
                // The MD5 of user name, realm and password.
                try write(["\(userName):mqtt:8e5b7e9fcc8ced677176492c6913d00f"], to: passwords)
                login = [
                    "auth_param digest program /usr/lib/squid/digest_file_auth -c \(passwords)",
                    "auth_param digest children 2", "auth_param digest realm mqtt",
                ]
            }
            return try squid(
                executable, port, directory,
                login + [
                    "acl authenticated proxy_auth REQUIRED", "http_access allow authenticated",
                    "http_access deny all",
                ], under: kind == .squidKerberos ? "/bin/bash \(directory)/realm " : "")
        case .tinyproxy, .tinyproxyForPort443:
            lines =
                (getuid() == 0 ? ["User nobody", "Group nogroup"] : []) + [
                    "Port \(port)", "Listen 127.0.0.1", "Timeout 60", "MaxClients 20",
                    "LogFile \"\(directory)/log\"", "PidFile \"\(directory)/pid\"",
                    "BasicAuth \(userName) \(password)",
                ] + (kind == .tinyproxy ? [] : connectPorts).map { "ConnectPort \($0)" }
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

    /// - Parameters:
    ///   - mode: what follows `http_port` and its port.
    ///   - access: what the configuration says besides.
    ///   - wrapper: the beginning of a command that becomes squid in the end.
    static func squid(
        _ executable: String, _ port: UInt16, _ directory: String, mode: String = "", _ access: [String],
        under wrapper: String = ""
    ) throws -> [String] {
        let configuration = directory + "/configuration"
        let lines = [
            "http_port 127.0.0.1:\(port)\(mode)", "pid_filename none", "cache_log \(directory)/cache.log",
            "access_log none", "cache deny all", "cache_mem 8 MB", "netdb_filename none",
            "coredump_dir \(directory)", "visible_hostname proxy.test", "shutdown_lifetime 1 seconds",
        ]
        try write(lines + access, to: configuration)
        try write([clearingSquidAway(directory)], to: directory + "/stop")
        let service = squidService(directory)
        return [
            "exec \(run(as: "proxy", group: "proxy"))\(wrapper)\(executable) -N -n \(service) -f \(configuration)"
        ]
    }

    /// squid's name for itself: those of the same one share memory, which belongs to whoever made it.
    static func squidService(_ directory: String) -> String { "mqtt\(directory.suffix(6))" }

    /// The command that removes the memory of a squid that has been killed.
    static func clearingSquidAway(_ directory: String) -> String {
        "rm -f /dev/shm/\(squidService(directory))-*.shm"
    }

    /// The beginning of a command that root runs as another account.
    static func run(as account: String, group: String) -> String {
        getuid() == 0 ? "/usr/bin/setpriv --reuid=\(account) --regid=\(group) --clear-groups " : ""
    }

    static func write(_ lines: [String], to path: String) throws {
        try (lines.joined(separator: "\n") + "\n").write(toFile: path, atomically: false, encoding: .utf8)
        if getuid() == 0 { chmod(path, 0o644) }
    }
}
