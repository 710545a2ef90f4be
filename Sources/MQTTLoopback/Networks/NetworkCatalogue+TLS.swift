extension HostileNetwork {
    /// Without the plaintext ways, which people ought not to need.
    private static let encrypted = NetworkPorts.open.with([1883, 8083, 80], .refused)
    private static let refusedPlaintext = ["tcp-*": "tcp.refused", "ws-*": "tcp.refused"]

    private static func encrypted(
        _ name: String, _ summary: String, _ outcome: Outcome, _ code: String, _ end: HostilePart.TLSEnd,
        _ change: (inout HostileNetwork) -> Void = { _ in }
    ) -> HostileNetwork {
        HostileNetwork(name, summary, outcome, refusedPlaintext.merging(["*": code]) { $1 }) {
            $0.ipv4 = encrypted.with(end)
            change(&$0)
        }
    }

    /// In place of all that is encrypted.
    private static func behindHello(
        _ name: String, _ summary: String, _ code: String, seen: String? = nil, _ rule: HostilePart.HelloRule
    ) -> HostileNetwork {
        HostileNetwork(name, summary, .fallback, ["*": "ok", "tls-*": code, "wss-*": code]) {
            let filtered = NetworkPorts.open.parts.filter { [8883, 8084, 443].contains($0.key) }
            $0.ipv4 = NetworkPorts(
                NetworkPorts.open.parts.merging(filtered.mapValues { .hello([rule], $0) }) { $1 })
            if let seen { $0.seen = ["*": "ok", "tls-*": seen, "wss-*": seen] }
        }
    }

    /// Alerts (RFC 8446, section 6).
    private static func alert(_ number: UInt8) -> HostilePart {
        .script([.expectCount(5), .send([21, 3, 3, 0, 2, 2, number]), .expectEnd])
    }

    static let inspection = [
        HostileNetwork(
            "corporate", "Only the ports of the web, and a product opens TLS there.", .action,
            [
                "*": "tcp.timeout", "ws-80": "http.block_page", "wss-443": "tls.intercepted",
                "tls-443-mqtt": "tls.intercepted",
            ],
            served(
                NetworkPorts(
                    [80: .http(HTTPAnswers.answer("403 Forbidden")), 443: .https(.inspected)],
                    others: .dropped))),
        HostileNetwork(
            "corporate-trusted", "The same, on a machine of the company's, which trusts the product.",
            .fallback,
            [
                "*": "tcp.timeout", "ws-80": "http.block_page", "wss-443": "ok|ok.degraded",
                "tls-443-mqtt": "tls.alpn_not_selected|tls.alpn_filtered",
            ]
        ) {
            $0.trust = .brokerAndInspector
            $0.ipv4 = NetworkPorts(
                [
                    80: .http(HTTPAnswers.answer("403 Forbidden")),
                    443: .hello(
                        [.init(.applicationProtocol("mqtt"), alert(120))], .secureWebSocket(.inspected)),
                ], others: .dropped)
        },
        encrypted(
            "inspection", "A product opens TLS at every port.", .action, "tls.intercepted", .inspected),
        encrypted(
            "inspection-trusted", "The same, and its authority is trusted here.", .preferred,
            "ok|ok.degraded", .inspected
        ) { $0.trust = .brokerAndInspector },
        HostileNetwork(
            "inspection-443", "A product opens TLS at port 443 and leaves the others alone.", .preferred,
            ["*": "ok", "*-443": "tls.intercepted", "*-443-mqtt": "tls.intercepted"],
            served(.open.with([443], .https(.inspected)))),
        encrypted(
            "unknown-issuer", "An authority that nobody knows has signed, and its name says nothing.", .none,
            "tls.untrusted", .untrusted),
    ]

    static let encryption = [
        encrypted("expired", "The broker's certificate has expired.", .none, "tls.expired", .expired),
        encrypted(
            "clock-behind", "This machine's clock is before everybody's certificates.", .none,
            "tls.not_yet_valid", .notYetValid
        ) { $0.elsewhere = .web.with(.notYetValid) },
        encrypted(
            "wrong-name", "The broker's certificate is for another name.", .none, "tls.name_mismatch",
            .wrongName),
        encrypted(
            "client-certificate", "The broker wants a certificate of the client.", .none,
            "tls.client_cert_required", .requiresClientCertificate),
        HostileNetwork(
            "old-tls", "The broker speaks TLS 1.1 and nothing newer.", .none,
            refusedPlaintext.merging(["*": "tls.version"]) { $1 },
            served(encrypted.with([8883, 8084, 443], alert(70)))),
        HostileNetwork(
            "handshake-refused", "The broker refuses the handshake by an alert.", .none,
            refusedPlaintext.merging(["*": "tls.alert"]) { $1 },
            served(encrypted.with([8883, 8084, 443], alert(40)))),
        HostileNetwork(
            "tls-ended", "Something on the way ends each connection that begins with TLS.", .fallback,
            ["*": "ok", "tls-*": "tls.eof", "wss-*": "tls.eof"],
            served(.open.with([8883, 8084, 443], .script([.expectCount(1), .close])))),
        HostileNetwork(
            "tls-answered-in-plaintext", "A page answers where TLS should.", .fallback,
            ["*": "ok", "tls-*": "tls.plaintext_reply", "wss-*": "tls.plaintext_reply"],
            served(
                .open.with(
                    [8883, 8084, 443],
                    .script([.expectCount(1), .send(Array(HTTPAnswers.page.utf8)), .expectEnd])))),
        behindHello(
            "tls-reset", "A firewall resets whatever begins with TLS.", "tls.reset_after_hello",
            .init(.any, .resetting)),
        behindHello(
            "tls-swallowed", "A firewall swallows whatever begins with TLS.", "tls.timeout",
            .init(.any, .silent)),
        behindHello(
            "name-reset", "A firewall resets TLS that asks for the broker's name.", "tls.sni_filtered",
            seen: "tls.reset_after_hello", .init(.serverName(broker), .resetting)),
        behindHello(
            "name-swallowed", "A firewall swallows TLS that asks for the broker's name.", "tls.sni_filtered",
            seen: "tls.timeout", .init(.serverName(broker), .silent)),
        HostileNetwork(
            "protocol-reset", "A firewall resets TLS that offers MQTT by ALPN.", .preferred,
            ["*": "ok", "tls-443-mqtt": "tls.alpn_filtered"]
        ) {
            $0.ipv4 = .open.with(
                [443], .hello([.init(.applicationProtocol("mqtt"), .resetting)], .secureWebSocket()))
            $0.seen = ["tls-443-mqtt": "tls.reset_after_hello"]
        },
        HostileNetwork(
            "protocol-not-selected", "At port 443 a web server takes no part in ALPN.", .preferred,
            ["*": "ok", "tls-443-mqtt": "tls.alpn_not_selected"],
            served(.open.with([443], .secureWebSocket(.selectsNoProtocol)))),
    ]
}
