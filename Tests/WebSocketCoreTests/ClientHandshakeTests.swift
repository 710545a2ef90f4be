import Testing
import WebSocketCore

/// RFC 6455 §1.3, §4.1.
@Suite struct ClientHandshakeTests {
    /// "the sample nonce", the 16 bytes behind the key of §1.3.
    static let key = Array("the sample nonce".utf8)
    static let good = """
        HTTP/1.1 101 Switching Protocols\r
        Upgrade: websocket\r
        Connection: Upgrade\r
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r
        Sec-WebSocket-Protocol: mqtt\r
        \r

        """

    static func client(
        subprotocols: [String] = ["mqtt"], requiresSubprotocol: Bool = true,
        extensions: [ExtensionHeader.Element] = [],
        headLimit: Int = 65_536
    ) throws -> OpeningHandshake.Client {
        try OpeningHandshake.Client(
            host: "[::1]:9001", path: "/mqtt", key: key, subprotocols: subprotocols,
            requiresSubprotocol: requiresSubprotocol, extensions: extensions, headLimit: headLimit)
    }

    /// Feeds the pieces; the bytes after the head come back with the verdict.
    static func judge(
        _ pieces: [[UInt8]], by client: OpeningHandshake.Client
    ) -> (Result<OpeningHandshake.Client.Accepted, HandshakeError>?, rest: [UInt8]) {
        var client = client
        var rest: [UInt8] = []
        var verdict: Result<OpeningHandshake.Client.Accepted, HandshakeError>?
        for piece in pieces {
            guard verdict == nil else {
                rest += piece
                continue
            }
            piece.withUnsafeBytes { buffer in
                var input = buffer
                do throws(HandshakeError) {
                    if let accepted = try client.receive(&input) { verdict = .success(accepted) }
                } catch {
                    verdict = .failure(error)
                }
                if verdict != nil { rest += Array(input) } else { #expect(input.isEmpty) }
            }
        }
        return (verdict, rest)
    }

    static func verdict(
        _ response: String, by client: OpeningHandshake.Client
    ) -> Result<OpeningHandshake.Client.Accepted, HandshakeError>? {
        judge([Array(response.utf8)], by: client).0
    }

    static func error(_ response: String) throws -> HandshakeError? {
        guard case .failure(let error) = verdict(response, by: try client()) else { return nil }
        return error
    }

    @Test func the_request_is_written_as_section_4_1_asks() throws {
        let client = try OpeningHandshake.Client(
            host: "server.example.com", path: "/chat?a=%20", key: Self.key,
            subprotocols: ["chat", "superchat"],
            headers: [("Authorization", "Bearer x"), ("X-Empty", "")], origin: "http://example.com")
        #expect(
            String(decoding: client.requestBytes, as: UTF8.self) == """
                GET /chat?a=%20 HTTP/1.1\r
                Host: server.example.com\r
                Upgrade: websocket\r
                Connection: Upgrade\r
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
                Origin: http://example.com\r
                Sec-WebSocket-Protocol: chat, superchat\r
                Sec-WebSocket-Version: 13\r
                Authorization: Bearer x\r
                X-Empty: \r
                \r

                """)
    }

    @Test func the_sample_response_is_accepted_however_it_comes() throws {
        let frames: [UInt8] = [0x82, 0x02, 0x20, 0x02]
        for pieces in everySplit(Array(Self.good.utf8) + frames) {
            let (verdict, rest) = Self.judge(pieces, by: try Self.client())
            let accepted = try #require(try verdict?.get())
            #expect(accepted.subprotocol == "mqtt")
            #expect(accepted.extensions.isEmpty)
            #expect(accepted.head.value("upgrade") == "websocket")
            #expect(rest == frames)
        }
    }

    @Test func row_37_names_and_tokens_in_any_case() throws {
        let response = """
            HTTP/1.1 101 Switching Protocols\r
            upgrade: WebSocket\r
            connection: keep-alive, upgrade\r
            sec-websocket-accept:   s3pPLMBiTxaQ9kYGzzhZRbK+xOo= \t\r
            sec-websocket-protocol: mqtt\r
            \r

            """
        #expect(try Self.verdict(response, by: Self.client())?.get().subprotocol == "mqtt")
        let exact = response.replacing("s3pPLMB", with: "S3PPLMB")
        #expect(
            try Self.error(exact)
                == .badAccept(
                    expected: "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", received: "S3PPLMBiTxaQ9kYGzzhZRbK+xOo="))
    }

    @Test func row_39_a_long_head_is_accepted_within_the_limit() throws {
        let cookie = "Set-Cookie: " + String(repeating: "c", count: 6 * 1024) + "\r\n"
        let response = Self.good.replacing("Upgrade: websocket", with: cookie + "Upgrade: websocket")
        let bytes = Array(response.utf8)
        let pieces = [Array(bytes.dropLast()), [0x0A]]
        #expect(try Self.judge(pieces, by: Self.client()).0?.get().subprotocol == "mqtt")
        let small = try Self.client(headLimit: 4096)
        for pieces in [[bytes], bytes.map { [$0] }] {
            guard case .failure(let error) = Self.judge(pieces, by: small).0 else {
                Issue.record("accepted beyond the limit")
                return
            }
            #expect(error == .headTooLarge(limit: 4096))
        }
    }

    @Test func a_head_of_exactly_the_limit_is_accepted() throws {
        let count = Self.good.utf8.count
        #expect(try Self.verdict(Self.good, by: Self.client(headLimit: count))?.get().subprotocol == "mqtt")
        guard case .failure(let error) = Self.verdict(Self.good, by: try Self.client(headLimit: count - 1))
        else {
            Issue.record("accepted beyond the limit")
            return
        }
        #expect(error == .headTooLarge(limit: count - 1))
    }

    @Test func each_rule_of_section_4_1_has_its_error() throws {
        let good = Self.good
        let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
        let cases: [(String, HandshakeError)] = [
            (good.replacing("Upgrade: websocket\r\n", with: ""), .missingUpgrade(received: nil)),
            (good.replacing("Upgrade: websocket", with: "Upgrade: h2c"), .missingUpgrade(received: "h2c")),
            (good.replacing("Connection: Upgrade\r\n", with: ""), .missingConnection(received: nil)),
            (
                good.replacing("Connection: Upgrade", with: "Connection: keep-alive"),
                .missingConnection(received: "keep-alive")
            ),
            (good.replacing(accept, with: ""), .missingAccept),
            (
                good.replacing(accept, with: accept + accept),
                .badAccept(
                    expected: "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
                    received: "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=, s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            ),
            (good.replacing("Sec-WebSocket-Protocol: mqtt\r\n", with: ""), .subprotocolMissing),
            (good.replacing("Protocol: mqtt", with: "Protocol: mqttv3.1"), .subprotocolWrong("mqttv3.1")),
            (good.replacing("Protocol: mqtt", with: "Protocol: MQTT"), .subprotocolWrong("MQTT")),
            (good.replacing("Protocol: mqtt", with: "Protocol: mqtt, mqtt"), .subprotocolWrong("mqtt, mqtt")),
            (
                good.replacing(
                    "Upgrade: websocket",
                    with:
                        "Upgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover"
                ),
                .extensionUnrequested("permessage-deflate; server_no_context_takeover")
            ),
            (
                good.replacing("HTTP/1.1 101 Switching Protocols", with: "HTTP/1.1 1O1 Switching"),
                .malformedHead("not a status code: HTTP/1.1 1O1 Switching")
            ),
            (
                good.replacing("Connection: Upgrade", with: "Connection"),
                .malformedHead("a field without a colon: Connection")
            ),
            (
                good.replacing("HTTP/1.1", with: "HTTP/2.0"),
                .malformedHead("not a status line of HTTP/1: HTTP/2.0 101 Switching Protocols")
            ),
        ]
        for (response, expected) in cases { #expect(try Self.error(response) == expected) }
    }

    @Test func row_45_a_missing_subprotocol_can_be_tolerated() throws {
        let response = Self.good.replacing("Sec-WebSocket-Protocol: mqtt\r\n", with: "")
        let tolerant = try Self.client(requiresSubprotocol: false)
        let accepted = try #require(try Self.verdict(response, by: tolerant)?.get())
        #expect(accepted.subprotocol == nil)
    }

    @Test func a_subprotocol_nobody_asked_for_is_wrong() throws {
        guard case .failure(let error) = Self.verdict(Self.good, by: try Self.client(subprotocols: [])) else {
            Issue.record("accepted")
            return
        }
        #expect(error == .subprotocolWrong("mqtt"))
    }

    @Test func an_offered_extension_may_be_chosen() throws {
        let response = Self.good.replacing(
            "Upgrade: websocket", with: "Upgrade: websocket\r\nSec-WebSocket-Extensions: x-test; a=\"1\"")
        let client = try Self.client(extensions: [.init("x-test", [.init("b")])])
        #expect(
            String(decoding: client.requestBytes, as: UTF8.self)
                .contains("\r\nSec-WebSocket-Extensions: x-test; b\r\n"))
        let accepted = try #require(try Self.verdict(response, by: client)?.get())
        #expect(accepted.extensions == [.init("x-test", [.init("a", "1")])])
    }

    @Test func interim_responses_come_before_the_final_one() throws {
        let response =
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + Self.good
        for pieces in everySplit(Array(response.utf8)) {
            #expect(try Self.judge(pieces, by: Self.client()).0?.get().subprotocol == "mqtt")
        }
        let endless = String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 100)
        guard case .failure(let error) = Self.verdict(endless, by: try Self.client(headLimit: 1000)) else {
            Issue.record("no end")
            return
        }
        #expect(error == .headTooLarge(limit: 1000))
    }

    @Test(
        arguments: [[0x15, 0x03, 0x01, 0x00, 0x02], [0x20, 0x02, 0x00, 0x00], Array("SSH-2.0-x\r\n".utf8)]
            as [[UInt8]])
    func a_peer_without_http_is_known_by_its_first_byte(bytes: [UInt8]) throws {
        guard case .failure(let error) = Self.judge([bytes], by: try Self.client()).0 else {
            Issue.record("not noticed")
            return
        }
        #expect(error == .notHTTP(bytes))
    }

    @Test(arguments: [
        ("Host", "x"), ("upgrade", "x"), ("CONNECTION", "keep-alive"), ("Sec-WebSocket-Key", "x"),
        ("sec-websocket-extensions", "permessage-deflate"), ("Sec-WebSocket-Foo", "x"),
        ("Content-Length", "5"), ("content-length", "0"), ("TE", "trailers"), ("Trailer", "X"),
        ("Expect", "100-continue"), ("http2-settings", "AAMAAABk"), ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "close"), ("HOST", "x"), ("Sec-WebSocket-Accept", "x"),
        ("Transfer-Encoding", "chunked"), ("X", "a\r\nHost: b"), ("X", "a\nb"), ("X", "a\u{0}b"),
        ("X", "a\rb"),
        ("X\r\nY", "a"), ("X Y", "a"), ("X:", "a"), ("", "a"),
    ])
    func row_41_headers_that_would_break_the_request(name: String, value: String) {
        #expect(throws: HandshakeError.self) {
            try OpeningHandshake.Client(host: "h", path: "/", key: Self.key, headers: [(name, value)])
        }
    }

    @Test(arguments: [
        "http://example.com", "https://example.com:8443", "HTTPS://a-b.example", "null",
        "http://[::1]:9001", "chrome-extension://abcdef",
    ])
    func an_origin_is_sent_as_it_is(origin: String) throws {  // RFC 6454 §7.1
        let client = try OpeningHandshake.Client(host: "h", path: "/", key: Self.key, origin: origin)
        let lines = String(decoding: client.requestBytes, as: UTF8.self).split(separator: "\r\n")
        #expect(lines.filter { $0.hasPrefix("Origin:") } == ["Origin: \(origin)"])
    }

    @Test(arguments: [
        "", "example.com", "http://", "http://a/", "http://a/b", "http://a b", "http://a http://b",
        "1http://a",
        "http://a:", "http://a:0", "http://a:65536", "http://a:x", "http://u@a", "http://a\r\nX: y",
        "http://é",
        "http://[::1", "http://[]", "://a", "Null", "http://a?b", "http://a#b",
    ])
    func what_is_no_origin_is_refused(origin: String) {
        #expect(throws: HandshakeError.invalidRequest("origin")) {
            try OpeningHandshake.Client(host: "h", path: "/", key: Self.key, origin: origin)
        }
    }

    @Test func there_is_one_origin_at_most() throws {
        let one = ("Origin", "http://a")
        _ = try OpeningHandshake.Client(host: "h", path: "/", key: Self.key, headers: [one])
        for (headers, origin) in [([one, ("origin", "http://b")], nil), ([one], "http://b")] {
            #expect(throws: HandshakeError.invalidRequest("more than one Origin")) {
                try OpeningHandshake.Client(
                    host: "h", path: "/", key: Self.key, headers: headers, origin: origin)
            }
        }
    }

    /// RFC 9110 §15.2, §7.8.
    @Test func a_101_of_HTTP_1_0_is_no_switch() throws {
        #expect(
            try Self.error(Self.good.replacing("HTTP/1.1", with: "HTTP/1.0")) == .httpVersionTooOld)
    }

    @Test func several_lines_of_one_name_are_one_list() throws {
        let response = """
            HTTP/1.1 101 Switching Protocols\r
            Connection: keep-alive\r
            UPGRADE:\r
             \t websocket \r
            Connection:\tclose, \r
            CONNECTION: UPGRADE\r
            Sec-WebSocket-Accept:\r
            \ts3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r
            sec-WEBSOCKET-protocol: \t mqtt\t\r
            \r

            """
        #expect(try Self.verdict(response, by: Self.client())?.get().subprotocol == "mqtt")
    }

    /// A 101 has no body (RFC 9110 §15.2): what follows is frames, whatever its head says of a length.
    @Test func other_headers_of_a_101_mean_nothing() throws {
        let others = [
            "Transfer-Encoding: chunked", "Content-Length: 3", "Content-Length: 0", "Date: now",
            "Content-Type: text/html", "Keep-Alive: timeout=5", "Location: /x", "X-Empty:",
            "Set-Cookie: " + String(repeating: "c", count: 6 * 1024),
        ]
        let frames: [UInt8] = [0x82, 0x02, 0x20, 0x02]
        for other in others + [others.joined(separator: "\r\n")] {
            let response = Self.good.replacing("Upgrade: websocket", with: other + "\r\nUpgrade: websocket")
            let (verdict, rest) = Self.judge([Array(response.utf8) + frames], by: try Self.client())
            #expect(try verdict?.get().subprotocol == "mqtt", "\(other.prefix(40))")
            #expect(rest == frames)
        }
    }

    @Test func many_lines_count_against_the_limit_as_one_long_line_does() throws {
        let head = "HTTP/1.1 101 Switching Protocols\r\n"
        let rest = Self.good.replacing(head, with: "")
        let most = 65_536 - Self.good.utf8.count
        let lines = String(repeating: "A:\r\n", count: most / 4)
        #expect(
            try Self.verdict(head + lines + rest, by: Self.client())?.get().subprotocol == "mqtt")
        #expect(try Self.error(head + lines + "A:\r\n" + rest) == .headTooLarge(limit: 65_536))
    }

    @Test(arguments: [
        ("", "/"), ("h\r\nX: y", "/"), ("a b", "/"), ("h", ""), ("h", "mqtt"), ("h", "/a b"), ("h", "/#f"),
        ("h", "/\r\nX: y"), ("h", "/é"),
    ])
    func hosts_and_paths_that_would_break_the_request(host: String, path: String) {
        #expect(throws: HandshakeError.self) {
            try OpeningHandshake.Client(host: host, path: path, key: Self.key)
        }
    }

    @Test func a_key_of_another_size_or_a_bad_subprotocol_is_refused() {
        #expect(throws: HandshakeError.invalidRequest("the key isn't 16 bytes")) {
            try OpeningHandshake.Client(host: "h", path: "/", key: [1, 2, 3])
        }
        for subprotocols in [["mqtt", "mqtt"], [""], ["a,b"], ["a\r\n"]] {
            #expect(throws: HandshakeError.invalidRequest("subprotocols")) {
                try OpeningHandshake.Client(host: "h", path: "/", key: Self.key, subprotocols: subprotocols)
            }
        }
    }
}
