extension HostileNetwork {
    /// The broker at all ports, with this in place of WebSocket.
    private static func webSocketPorts(_ part: HostilePart) -> NetworkPorts {
        NetworkPorts.open.with([80, 8083], part).with([8084], .tls(.valid, part))
            .with([443], .https(.valid, part))
    }

    private static func webSocket(
        _ name: String, _ summary: String, _ code: String, _ part: HostilePart, seen: String? = nil
    ) -> HostileNetwork {
        HostileNetwork(name, summary, .preferred, ["*": "ok", "ws*": code]) {
            $0.ipv4 = webSocketPorts(part)
            if let seen { $0.seen = ["ws*": seen] }
        }
    }

    private static func answered(
        _ name: String, _ summary: String, _ code: String, _ status: String, _ fields: String = ""
    ) -> HostileNetwork {
        webSocket(name, summary, code, .http(HTTPAnswers.answer(status, fields)))
    }

    /// A 101 with these fields besides those that make it one; then the bytes that follow.
    private static func accepted(
        _ fields: String = "Sec-WebSocket-Protocol: mqtt\r\n", accept: String = "{accept}",
        upgrade: String = "Upgrade: websocket\r\n", following: [UInt8] = []
    ) -> HostilePart {
        .script([
            .answerUpgrade(
                "HTTP/1.1 101 Switching Protocols\r\n\(upgrade)Connection: Upgrade\r\n"
                    + "Sec-WebSocket-Accept: \(accept)\r\n\(fields)\r\n", following: following),
            .expectEnd,
        ])
    }

    private static func portal(
        _ name: String, _ summary: String, _ answer: String, at443: HostilePart,
        _ codes443: String, seen80: String, seen443: String
    ) -> HostileNetwork {
        HostileNetwork(
            name, summary, .action,
            [
                "*": "tcp.timeout|http.captive_portal", "ws-80": "http.captive_portal",
                "*-443": "\(codes443)|http.captive_portal", "*-443-mqtt": "\(codes443)|http.captive_portal",
            ]
        ) {
            $0.ipv4 = NetworkPorts([80: .http(answer), 443: at443], others: .dropped)
            $0.elsewhere = NetworkPorts([80: .http(answer), 443: at443], others: .dropped)
            $0.seen = ["*": "tcp.timeout", "ws-80": seen80, "*-443": seen443, "*-443-mqtt": seen443]
        }
    }

    static let pages = [
        portal(
            "hotel", "A page to log in at comes before everything; all but port 80 is shut.",
            HTTPAnswers.login, at443: .refused, "tcp.refused", seen80: "ws.redirected",
            seen443: "tcp.refused"),
        portal(
            "hotel-page", "The page comes at once, and with a certificate of its own.", HTTPAnswers.page,
            at443: .tls(.untrusted, .http(HTTPAnswers.page)), "tls.untrusted", seen80: "ws.upgrade_stripped",
            seen443: "tls.untrusted"),
        portal(
            "hotel-511", "The network says that it wants a login (RFC 6585).",
            HTTPAnswers.answer("511 Network Authentication Required"),
            at443: .script([.expectCount(1), .send(Array(HTTPAnswers.login.utf8)), .expectEnd]),
            "tls.plaintext_reply", seen80: "http.captive_portal", seen443: "tls.plaintext_reply"),
        HostileNetwork(
            "block-page", "A filter answers WebSocket in plaintext with a page.", .preferred,
            ["*": "ok", "ws-*": "http.block_page"],
            served(.open.with([80, 8083], .http(HTTPAnswers.answer("403 Forbidden"))))),
        answered(
            "blocked-by-law", "The server may not serve this country.", "http.block_page",
            "451 Unavailable For Legal Reasons"),
        answered(
            "upgrade-unauthorized", "The front end wants a login before WebSocket.", "http.unauthorized",
            "401 Unauthorized", "WWW-Authenticate: Basic realm=\"mqtt\"\r\n"),
        answered("wrong-path", "WebSocket is at another path.", "http.not_found", "404 Not Found"),
        answered(
            "rate-limited", "The front end has had too much of us.", "http.rate_limited",
            "429 Too Many Requests", "Retry-After: 30\r\n"),
        answered(
            "no-backend", "The front end has no broker behind it.", "http.server_error",
            "503 Service Unavailable"),
        answered("upgrade-stripped", "A relay drops Upgrade; a page comes.", "ws.upgrade_stripped", "200 OK"),
        answered(
            "upgrade-stripped-400", "A relay drops Upgrade; the server finds the request bad.",
            "ws.upgrade_stripped", "400 Bad Request"),
        answered(
            "upgrade-stripped-426", "A relay drops Upgrade; the server asks for it.", "ws.upgrade_stripped",
            "426 Upgrade Required", "Upgrade: websocket\r\n"),
        HostileNetwork(
            "websocket-stripping", "A proxy on the way of plaintext knows no WebSocket.", .preferred,
            ["*": "ok", "ws-*": "ws.upgrade_stripped"],
            served(.open.with([80, 8083], .http(HTTPAnswers.page)))),
        answered(
            "redirect-loop", "The server redirects to where we are.", "ws.redirected", "302 Found",
            "Location: /mqtt\r\n"),
        answered(
            "redirect-away", "The server redirects to another host.", "ws.redirected",
            "307 Temporary Redirect", "Location: https://elsewhere.test/mqtt\r\n"),
        HostileNetwork(
            "redirect-downgrade", "The server redirects from TLS to plaintext.", .preferred,
            ["*": "ok", "wss-*": "ws.redirected"]
        ) {
            let part = HostilePart.http(
                HTTPAnswers.answer("302 Found", "Location: http://\(broker)/mqtt\r\n"))
            $0.ipv4 = .open.with([8084], .tls(.valid, part)).with([443], .https(.valid, part))
        },
    ]

    static let webSockets = [
        webSocket(
            "bad-accept", "The 101 proves nothing.", "ws.bad_accept",
            accepted(accept: "AAAAAAAAAAAAAAAAAAAAAAAAAAA=")),
        webSocket(
            "missing-upgrade", "The 101 doesn't say to what.", "ws.missing_upgrade", accepted(upgrade: "")),
        webSocket(
            "subprotocol-missing", "The 101 selects no subprotocol.", "ws.subprotocol_missing", accepted("")),
        webSocket(
            "subprotocol-wrong", "The 101 selects a subprotocol of its own.", "ws.subprotocol_wrong",
            accepted("Sec-WebSocket-Protocol: chat\r\n")),
        webSocket(
            "extension-unrequested", "The 101 selects an extension that nobody has offered.",
            "ws.extension_unrequested",
            accepted("Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Extensions: permessage-deflate\r\n")),
        webSocket(
            "head-oversized", "The 101 has 70,000 bytes of fields.", "ws.head_oversized",
            accepted("X: \(String(repeating: "x", count: 70_000))\r\n")),
        webSocket(
            "first-data-blocked", "A relay lets the handshake through, and nothing after it.",
            "ws.first_data_blocked", .script([.upgradeWebSocket, .expectEnd]), seen: "mqtt.connack_timeout"),
        webSocket(
            "first-data-reset", "A relay lets the handshake through, and resets at the first frame.",
            "ws.first_data_blocked", .script([.upgradeWebSocket, .expectCount(1), .reset]),
            seen: "tcp.reset"),
        webSocket(
            "buffering-relay", "A relay waits for 4096 bytes of the server before it passes them on.",
            "ws.buffered", .hindered(.buffers(4096), .webSocket(.broker)), seen: "mqtt.connack_timeout"),
        webSocket(
            "frame-reserved-bits", "A relay sets a bit of the first frame.", "ws.frame_invalid",
            accepted(following: [0xC2, 4, 0x20, 2, 0, 0])),
        webSocket(
            "frame-masked", "The server masks its frames.", "ws.frame_invalid",
            accepted(following: [0x82, 0x84, 0, 0, 0, 0, 0x20, 2, 0, 0])),
        webSocket(
            "frame-opcode", "The server sends a frame of a kind that there isn't.", "ws.frame_invalid",
            accepted(following: [0x83, 4, 0x20, 2, 0, 0])),
        webSocket(
            "text-frame", "The server speaks MQTT in text.", "ws.text_frame",
            accepted(following: [0x81, 5] + Array("hello".utf8))),
        webSocket(
            "websocket-closed", "The server closes with a reason.", "ws.closed",
            accepted(following: [0x88, 8, 0x03, 0xF0] + Array("policy".utf8))),
        HostileNetwork(
            "size-limited", "A relay of WebSocket ends with any packet above 1024 bytes.", .preferred,
            ["*": "ok"]
        ) {
            $0.ipv4 = webSocketPorts(.webSocket(.hindered(.longestPacket(1024), .broker)))
            $0.measures = [.size]
        },
    ]
}
