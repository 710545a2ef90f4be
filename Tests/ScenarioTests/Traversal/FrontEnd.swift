import Foundation
import Glibc

/// A program that stands before a broker, or between it and its clients, and reads what passes.
enum FrontEnd: String, Sendable, CaseIterable {
    case nginx
    case haproxy
    case stunnel
    /// squid as a reverse proxy: like one that intercepts port 80, it takes the request itself, not CONNECT.
    case accelerator
    /// The same, told to let WebSocket through.
    case upgradingAccelerator
    /// Opens TLS with certificates of its own making, as the inspection of a company does. Its authority is
    /// `mitmproxy-ca-cert.pem`.
    case mitmproxy

    /// What stands behind it.
    struct Backing: Sendable {
        var tcp: UInt16
        var webSocket: UInt16
        /// An HTTP proxy, for stunnel to make an HTTPS proxy of; nil where there is none.
        var proxy: UInt16?
        /// The broker's authority, as PEM.
        var authority: String
        /// The broker's certificate and key in one, as PEM.
        var identity: String
    }

    /// Why it can't be had here; nil where it can.
    var missing: String? { InstalledProgram.find(program) == nil ? "\(program) isn't installed" : nil }

    private var program: String {
        switch self {
        case .nginx: "nginx"
        case .haproxy: "haproxy"
        case .stunnel: "stunnel4"
        case .accelerator, .upgradingAccelerator: "squid"
        case .mitmproxy: "mitmdump"
        }
    }

    /// Returns when it accepts.
    func launch(before backing: Backing) async throws -> ProxyServer {
        guard let executable = InstalledProgram.find(program) else {
            throw BrokerFailure("\(program) isn't installed")
        }
        let count =
            switch self {
            case .nginx, .accelerator, .upgradingAccelerator, .mitmproxy: 1
            case .haproxy: 2
            case .stunnel: backing.proxy == nil ? 2 : 3
            }
        return try await ProxyServer(rawValue, ports: count) { ports, directory in
            if case .accelerator = self { return try Self.squid(executable, ports, directory, backing, []) }
            if case .upgradingAccelerator = self {
                return try Self.squid(
                    executable, ports, directory, backing,
                    ["http_upgrade_request_protocols websocket allow all"])
            }
            try ProxyServer.write([backing.identity], to: directory + "/identity.pem")
            try ProxyServer.write([backing.authority], to: directory + "/authority.pem")
            try ProxyServer.write(
                configuration(ports, directory, backing), to: directory + "/configuration")
            return ["cd \(directory)", "export HOME=\(directory)", command(executable, ports, directory)]
        }
    }

    private static func squid(
        _ executable: String, _ ports: [UInt16], _ directory: String, _ backing: Backing, _ lines: [String]
    ) throws -> [String] {
        try ProxyServer.squid(
            executable, ports[0], directory, mode: " accel defaultsite=localhost",
            lines + [
                "cache_peer 127.0.0.1 parent \(backing.webSocket) 0 no-query originserver",
                "http_access allow all",
            ])
    }

    private func command(_ executable: String, _ ports: [UInt16], _ directory: String) -> String {
        let asNobody = ProxyServer.run(as: "nobody", group: "nogroup")
        switch self {
        case .nginx: return "exec \(asNobody)\(executable) -e stderr -c configuration -p \(directory)"
        case .haproxy: return "exec \(asNobody)\(executable) -db -f configuration"
        case .stunnel: return "exec \(asNobody)\(executable) configuration"
        case .accelerator, .upgradingAccelerator, .mitmproxy:
            let options = """
                --listen-host 127.0.0.1 -p \(ports[0]) --set confdir=\(directory) \
                --set ssl_verify_upstream_trusted_ca=authority.pem
                """
            // Where it is installed needn't be open to everybody.
            return """
                if \(asNobody)\(executable) --version; then exec \(asNobody)\(executable) \(options); fi
                exec \(executable) \(options)
                """
        }
    }

    private func configuration(_ ports: [UInt16], _ directory: String, _ backing: Backing) -> [String] {
        switch self {
        case .nginx: Self.nginx(ports, directory, backing)
        case .haproxy:
            [
                "global", "  maxconn 200", "defaults", "  timeout connect 5s", "  timeout client 60s",
                "  timeout server 60s", "  timeout tunnel 60s",
                "listen wss", "  mode http",
                "  bind 127.0.0.1:\(ports[0]) ssl crt identity.pem alpn h2,http/1.1",
                "  server broker 127.0.0.1:\(backing.webSocket)",
                "listen mqtts", "  mode tcp", "  bind 127.0.0.1:\(ports[1]) ssl crt identity.pem",
                "  server broker 127.0.0.1:\(backing.tcp)",
            ]
        case .stunnel:
            ["foreground = yes", "pid ="]
                + zip(ports, [backing.webSocket, backing.tcp, backing.proxy ?? 0]).flatMap { port, target in
                    [
                        "[\(port)]", "accept = 127.0.0.1:\(port)", "connect = 127.0.0.1:\(target)",
                        "cert = identity.pem",
                    ]
                }
        case .accelerator, .upgradingAccelerator, .mitmproxy: []
        }
    }

    private static func nginx(_ ports: [UInt16], _ directory: String, _ backing: Backing) -> [String] {
        let broker = "proxy_pass http://127.0.0.1:\(backing.webSocket)"
        let upgrade = """
            proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; \
            proxy_set_header Connection upgrade; proxy_set_header Host $http_host
            """
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map {
            "\($0)_temp_path \(directory)/\($0);"
        }
        return [
            "worker_processes 1; daemon off; pid \(directory)/pid; error_log stderr warn;",
            "events { worker_connections 256; }", "http {", "access_log off;",
        ] + temporary + [
            "server {", "listen 127.0.0.1:\(ports[0]) ssl; server_name localhost;",
            "ssl_certificate identity.pem; ssl_certificate_key identity.pem;",
            "location = /mqtt { \(broker); \(upgrade); }",
            "location = /hasty { \(broker); \(upgrade); proxy_read_timeout 2s; }",
            "location = /strict { \(broker); \(upgrade); proxy_read_timeout 6s; }",
            "location = /plain { \(broker); }",
            "location = /moved { return 307 https://$http_host/mqtt; }",
            "location = /elsewhere { return 302 https://elsewhere.test/mqtt; }",
            "location = /forbidden { return 403; }",
            "location = /login { add_header WWW-Authenticate 'Basic realm=\"mqtt\"' always; return 401; }",
            "location = /busy { return 503; }", "location / { return 404; }", "}", "}",
        ]
    }
}
