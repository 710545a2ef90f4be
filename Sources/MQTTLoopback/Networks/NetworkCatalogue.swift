import MQTTTransport

extension HostileNetwork {
    /// All named networks.
    package static let catalogue =
        ports + addressing + inspection + encryption + pages + webSockets + brokers + proxies

    package static func named(_ name: String) -> HostileNetwork? { catalogue.first { $0.name == name } }

    static func served(_ ports: NetworkPorts) -> (inout HostileNetwork) -> Void {
        { $0.ipv4 = ports }
    }

    private static let ports = [
        HostileNetwork("open", "Everything gets through.", .preferred, ["*": "ok"]),
        HostileNetwork(
            "slow", "Each byte takes 150 ms, each way.", .preferred, ["*": "ok"],
            served(
                NetworkPorts(NetworkPorts.open.parts.mapValues { .hindered(.delay(.milliseconds(150)), $0) }))
        ),
        HostileNetwork(
            "broker-ports-only", "A broker without anything at the ports of the web.", .preferred,
            ["*": "ok", "ws-80": "tcp.refused", "*-443": "tcp.refused", "*-443-mqtt": "tcp.refused"],
            served(.open.with([80, 443], .refused))),
        HostileNetwork(
            "plaintext-only", "A broker without TLS.", .fallback,
            ["*": "tcp.refused", "tcp-1883": "ok", "ws-*": "ok"],
            served(.open.with([8883, 8084, 443], .refused))),
        HostileNetwork(
            "8883-dropped", "The firewall drops what goes to port 8883.", .fallback,
            ["*": "ok", "tls-8883": "tcp.timeout"], served(.open.with([8883], .dropped))),
        HostileNetwork(
            "8883-refused", "The firewall rejects what goes to port 8883.", .fallback,
            ["*": "ok", "tls-8883": "tcp.refused"], served(.open.with([8883], .refused))),
        HostileNetwork(
            "443-only", "The firewall drops everything but port 443.", .fallback,
            ["*": "tcp.timeout", "wss-443": "ok", "tls-443-mqtt": "ok"],
            served(NetworkPorts([443: .https()], others: .dropped))),
        HostileNetwork(
            "web-ports-only", "The firewall drops everything but ports 80 and 443.", .fallback,
            ["*": "tcp.timeout", "ws-80": "ok", "wss-443": "ok", "tls-443-mqtt": "ok"],
            served(NetworkPorts([80: .webSocket(.broker), 443: .https()], others: .dropped))),
        HostileNetwork(
            "tls-ports-dropped", "The firewall drops the ports that are for encryption.", .fallback,
            ["*": "ok", "tls-*": "tcp.timeout", "wss-*": "tcp.timeout"],
            served(.open.with([8883, 8084, 443], .dropped))),
        HostileNetwork(
            "all-dropped", "Nothing is ever answered.", .none, ["*": "tcp.timeout"],
            served(.only(.dropped))),
        HostileNetwork(
            "all-refused", "Every port refuses.", .none, ["*": "tcp.refused"], served(.only(.refused))),
        HostileNetwork(
            "broker-down", "The host is there with its web server, and the broker isn't.", .none,
            [
                "*": "tcp.refused", "ws-80": "http.not_found", "wss-443": "http.not_found",
                "tls-443-mqtt": "tls.alpn_not_selected",
            ],
            served(
                NetworkPorts([
                    80: .http(HTTPAnswers.notFound),
                    443: .tls(.selectsNoProtocol, .http(HTTPAnswers.notFound)),
                ]))),
        HostileNetwork(
            "closing", "A load balancer without a server behind it accepts, and closes.", .none,
            ["tcp-*": "tcp.closed", "ws-*": "tcp.closed", "*": "tls.eof"], served(.only(.closing))),
        HostileNetwork(
            "resetting", "Something on the way accepts, and resets.", .none,
            ["tcp-*": "tcp.reset", "ws-*": "tcp.reset", "*": "tls.reset_after_hello|tcp.reset"],
            served(.only(.resettingFirstBytes))),
        HostileNetwork(
            "tarpit", "Something on the way accepts, and never says a word.", .none,
            [
                "tcp-*": "tcp.silent|mqtt.connack_timeout", "ws-*": "tcp.silent",
                "*": "tls.timeout|tcp.silent",
            ],
            served(.only(.silent))),
        HostileNetwork(
            "mqtt-recognised", "A firewall resets plain MQTT when it sees it.", .preferred,
            ["*": "ok", "tcp-1883": "tcp.reset"], served(.open.with([1883], .resettingFirstBytes))),
    ]

    private static let addressing = [
        HostileNetwork(
            "ipv6-broken", "The broker has an IPv6 address that nothing gets through to.", .preferred,
            ["*": "ok|ok.degraded", "*-ipv6": "tcp.family_broken"]
        ) { $0.ipv6 = .only(.dropped) },
        HostileNetwork(
            "ipv6-refused", "The broker has an IPv6 address where nobody listens.", .preferred,
            ["*": "ok|ok.degraded", "*-ipv6": "tcp.family_broken"]
        ) { $0.ipv6 = .only(.refused) },
        HostileNetwork("ipv6-only", "The broker has no IPv4 address.", .preferred, ["*": "ok"]) {
            $0.ipv4 = nil
            $0.ipv6 = .open
        },
        unresolved(
            "name-unknown", "The name server says that there is no such name.", .failing(.dnsNXDomain),
            "dns.nxdomain"),
        unresolved(
            "name-server-broken", "The name server says that it has failed.", .failing(.dnsServFail),
            "dns.servfail"),
        unresolved(
            "name-server-refuses", "The name server refuses to answer.", .failing(.dnsRefused), "dns.refused"),
        unresolved("name-without-address", "The name has no address.", .failing(.dnsNoData), "dns.nodata"),
        unresolved("name-unanswered", "The name server says nothing.", .unanswered, "dns.timeout"),
        HostileNetwork(
            "dns-hijack", "The network's name server leads to an address of the network's own.", .none,
            ["*": "dns.bogon|dns.mismatch"]
        ) {
            $0.names = .hijacked(
                NetworkPorts([80: .http(HTTPAnswers.page), 443: .tls(.untrusted, .http(HTTPAnswers.page))]))
            $0.seen = [
                "*": "tcp.refused", "ws-80": "ws.upgrade_stripped", "*-443": "tls.untrusted",
                "*-443-mqtt": "tls.untrusted",
            ]
        },
    ]

    private static func unresolved(
        _ name: String, _ summary: String, _ names: Names, _ code: String
    ) -> HostileNetwork {
        HostileNetwork(name, summary, .none, ["*": code]) { $0.names = names }
    }
}

/// Answers of HTTP, complete with their bodies.
enum HTTPAnswers {
    static let notFound = answer("404 Not Found")
    static let page = answer("200 OK", body: "<html><h1>Welcome</h1></html>")
    static let login = answer("302 Found", "Location: http://portal.test/login\r\n")

    static func answer(_ status: String, _ fields: String = "", body: String = "<html></html>") -> String {
        "HTTP/1.1 \(status)\r\n\(fields)Content-Type: text/html\r\nContent-Length: \(body.utf8.count)\r\n"
            + "Connection: close\r\n\r\n\(body)"
    }
}
