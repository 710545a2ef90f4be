import MQTTTransport

extension HostileNetwork {
    /// This, wherever the broker would be, with TLS and WebSocket as they should be.
    private static func everywhere(_ part: HostilePart) -> NetworkPorts {
        let webSocket = HostilePart.webSocket(part)
        let alpn = HostilePart.HelloRule(.applicationProtocol("mqtt"), .tls(.valid, part))
        return NetworkPorts([
            1883: part, 8883: .tls(.valid, part), 8083: webSocket, 80: webSocket,
            8084: .tls(.valid, webSocket), 443: .hello([alpn], .tls(.valid, webSocket)),
        ])
    }

    private static func broker(
        _ name: String, _ summary: String, _ code: String, _ part: HostilePart
    ) -> HostileNetwork {
        HostileNetwork(name, summary, .none, ["*": code], served(everywhere(part)))
    }

    private static func connack(v5: UInt8, v311: UInt8) -> HostilePart {
        .script([
            .answerConnect(v5: [0x20, 3, 0, v5, 0], v311: [0x20, 2, 0, v311]), .expectEnd,
        ])
    }

    private static func idle(_ name: String, _ summary: String, _ time: Duration, _ end: HostilePart.IdleEnd)
        -> HostileNetwork
    {
        HostileNetwork(name, summary, .preferred, ["*": "ok"]) {
            $0.ipv4 = NetworkPorts(NetworkPorts.open.parts.mapValues { .hindered(.idle(time, end), $0) })
            $0.measures = [.idle]
        }
    }

    static let brokers = [
        broker("mqtt-silent", "The broker takes CONNECT, and says nothing.", "mqtt.connack_timeout", .silent),
        broker(
            "not-mqtt", "Something else than MQTT speaks there.", "mqtt.not_mqtt",
            .script([.expectCount(1), .send(Array("SSH-2.0-OpenSSH_9.2\r\n".utf8)), .expectEnd])),
        broker(
            "http-to-connect", "A web server answers CONNECT.", "mqtt.not_mqtt",
            .script([
                .expectCount(1), .send(Array(HTTPAnswers.answer("400 Bad Request").utf8)), .expectEnd,
            ])),
        broker(
            "not-authorized", "The broker wants a login.", "mqtt.refused", connack(v5: 0x87, v311: 5)),
        broker(
            "bad-login", "The broker knows no such user.", "mqtt.refused", connack(v5: 0x86, v311: 4)),
        broker("broker-busy", "The broker takes nobody now.", "mqtt.refused", connack(v5: 0x88, v311: 3)),
        broker(
            "old-broker", "The broker speaks MQTT 3.1 and nothing newer.", "mqtt.version_unsupported",
            connack(v5: 0x84, v311: 1)),
        HostileNetwork("moved", "The broker sends everybody elsewhere.", .none, ["*": "mqtt.redirect"]) {
            $0.redirection = LoopbackBroker.Redirection("other.test:8883")
        },
        HostileNetwork(
            "malformed", "The broker's CONNACK breaks the rules.", .none, ["*": "mqtt.malformed"]
        ) {
            // Reserved bits of the Connect Acknowledge Flags (3.2.2.1).
            $0.ipv4 = everywhere(.script([.expectCount(1), .send([0x20, 3, 2, 0, 0]), .expectEnd]))
            $0.seen = ["*": "mqtt.not_mqtt"]
        },
        HostileNetwork(
            "hanging-up", "The broker ends the connection when it has seen CONNECT.", .none,
            ["*": "tcp.closed", "ws*": "ws.closed|tcp.closed"],
            served(everywhere(.script([.expectCount(1), .close])))),
        HostileNetwork("no-echo", "What is published gets lost.", .preferred, ["*": "ok"]) {
            $0.ipv4 = everywhere(.hindered(.losesPublishes, .broker))
            $0.measures = [.echo]
        },
        idle("nat60", "A router forgets connections that are silent for 60 s.", .seconds(60), .blackhole),
        idle("idle-blackhole", "A router forgets connections after 2 s.", .seconds(2), .blackhole),
        idle("idle-reset", "A firewall resets connections that are silent for 2 s.", .seconds(2), .reset),
        idle("idle-closed", "A front end closes connections that are silent for 2 s.", .seconds(2), .fin),
    ]

    /// Only a proxy gets out.
    private static func proxied(
        _ name: String, _ summary: String, _ outcome: Outcome, _ expected: [String: String],
        _ proxy: HostileProxy, _ change: (inout HostileNetwork) -> Void = { _ in }
    ) -> HostileNetwork {
        HostileNetwork(name, summary, outcome, ["*": "tcp.timeout"].merging(expected) { $1 }) {
            $0.ipv4 = .only(.dropped)
            $0.proxy = proxy
            change(&$0)
        }
    }

    private static func proxied(
        _ name: String, _ summary: String, _ outcome: Outcome, _ code: String,
        _ conduct: HostileProxy.Conduct, url: String = "http://proxy.test:3128"
    ) -> HostileNetwork {
        proxied(name, summary, outcome, ["*@proxy-1": code], HostileProxy(conduct, url: url))
    }

    private static let socks = "socks5h://proxy.test:1080"
    private static let basic = HostileProxy.Conduct.login(["Basic realm=\"proxy\""])

    static let proxies = [
        proxied("proxy-only", "Only a proxy gets out.", .fallback, "ok", .http(ports: nil)),
        proxied(
            "proxy-443-only", "Only a proxy gets out, and to port 443 alone.", .fallback,
            ["*@proxy-1": "proxy.denied_port", "wss-443@proxy-1": "ok", "tls-443-mqtt@proxy-1": "ok"],
            HostileProxy(.http(ports: [443]))),
        proxied("proxy-login", "The proxy wants a login.", .action, "proxy.auth_required", basic),
        proxied(
            "proxy-ntlm", "The proxy wants a login by NTLM.", .action, "proxy.auth_required",
            .login(["NTLM"])),
        proxied(
            "proxy-wrong-login", "The proxy knows no such user.", .action, "proxy.auth_failed", basic,
            url: "http://user:wrong@proxy.test:3128"),
        proxied(
            "proxy-right-login", "The proxy wants a login, and gets it.", .fallback, "ok", basic,
            url: "http://user:secret@proxy.test:3128"),
        proxied(
            "proxy-denied-host", "The proxy doesn't let anybody to this host.", .none,
            ["*@proxy-1": "proxy.denied_host"], HostileProxy(.answers(HTTPAnswers.answer("403 Forbidden")))
        ) {
            $0.seen = [
                "*@proxy-1": "proxy.denied_port", "*-443@proxy-1": "proxy.denied_host",
                "*-443-mqtt@proxy-1": "proxy.denied_host",
            ]
        },
        proxied(
            "proxy-502", "The proxy can't reach the broker.", .none, "proxy.gateway_error",
            .answers(HTTPAnswers.answer("502 Bad Gateway"))),
        proxied(
            "proxy-504", "The proxy gets no answer of the broker.", .none, "proxy.gateway_error",
            .answers(HTTPAnswers.answer("504 Gateway Timeout"))),
        proxied(
            "proxy-not-http", "What is called a proxy is a mail server.", .none, "proxy.not_http",
            .part(.script([.send(Array("220 mail.test ESMTP\r\n".utf8)), .expectEnd]))),
        proxied(
            "proxy-malformed", "The proxy's answer breaks the rules.", .none, "proxy.reply_malformed",
            .answers("HTTP/1.1 OK\r\n\r\n")),
        proxied("proxy-refused", "The proxy is down.", .none, "proxy.refused", .part(.refused)),
        proxied("proxy-dropped", "The proxy can't be reached.", .none, "proxy.timeout", .part(.dropped)),
        proxied(
            "proxy-silent", "The proxy accepts, and says nothing.", .none, "proxy.timeout", .part(.silent)),
        proxied("proxy-unknown", "The proxy's name is wrong.", .none, "proxy.unresolvable", .unresolvable),
        proxied("socks-only", "Only a SOCKS proxy gets out.", .fallback, "ok", .socks, url: socks),
        proxied(
            "socks-login", "The SOCKS proxy wants something else than no login.", .action,
            "proxy.socks_method", .socksMethod(0xFF), url: socks),
        proxied(
            "socks-denied", "The SOCKS proxy's rules don't allow it.", .none, "proxy.socks_reply",
            .socksReply(2), url: socks),
        HostileNetwork(
            "names-by-proxy-only", "Names of the outside are known to the proxy alone.", .fallback,
            ["*": "dns.via_proxy_only", "*@proxy-1": "ok"]
        ) {
            $0.names = .failing(.dnsNXDomain)
            $0.proxy = HostileProxy(.http(ports: nil))
            $0.seen = ["*": "dns.nxdomain", "*@proxy-1": "ok"]
        },
        proxied(
            "proxy-inspects", "Only a proxy gets out, to port 443 alone, and opens TLS.", .action,
            [
                "*@proxy-1": "proxy.denied_port", "*-443@proxy-1": "tls.intercepted",
                "*-443-mqtt@proxy-1": "tls.intercepted",
            ],
            HostileProxy(.http(ports: [443]), behind: NetworkPorts.open.with(.inspected))),
    ]
}
