import Testing
import WebSocketCore

/// RFC 6455 §4.2.
@Suite struct ServerHandshakeTests {
    /// The sample of §1.2.
    static let good = """
        GET /chat HTTP/1.1\r
        Host: server.example.com\r
        Upgrade: websocket\r
        Connection: keep-alive, Upgrade\r
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
        Origin: http://example.com\r
        Sec-WebSocket-Protocol: chat, superchat\r
        Sec-WebSocket-Protocol: mqtt\r
        Sec-WebSocket-Version: 13\r
        \r

        """

    static func receive(_ pieces: [[UInt8]]) throws -> (OpeningHandshake.ServerRequest?, rest: [UInt8]) {
        var server = OpeningHandshake.Server()
        var request: OpeningHandshake.ServerRequest?
        var rest: [UInt8] = []
        for piece in pieces {
            if request != nil {
                rest += piece
                continue
            }
            try piece.withUnsafeBytes { buffer in
                var input = buffer
                request = try server.receive(&input)
                rest += Array(input)
            }
        }
        return (request, rest)
    }

    @Test func the_sample_request_is_accepted_however_it_comes() throws {
        for pieces in everySplit(Array(Self.good.utf8) + [0x81]) {
            let (received, rest) = try Self.receive(pieces)
            let request = try #require(received)
            #expect(request.path == "/chat")
            #expect(request.offeredSubprotocols == ["chat", "superchat", "mqtt"])
            #expect(request.head.value("origin") == "http://example.com")
            #expect(rest == [0x81])
            #expect(
                String(decoding: try request.accept(subprotocol: "chat"), as: UTF8.self) == """
                    HTTP/1.1 101 Switching Protocols\r
                    Upgrade: websocket\r
                    Connection: Upgrade\r
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r
                    Sec-WebSocket-Protocol: chat\r
                    \r

                    """)
        }
    }

    static let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    static let broken: [(String, HandshakeError, Int)] = [
        (good.replacing("GET", with: "POST"), .methodNotGET("POST"), 405),
        (good.replacing("HTTP/1.1", with: "HTTP/1.0"), .httpVersionTooOld, 505),
        (good.replacing("Host: server.example.com\r\n", with: ""), .badHost, 400),
        (good.replacing("Upgrade: websocket", with: "Upgrade: websocket\r\nHost: b"), .badHost, 400),
        (good.replacing("Upgrade: websocket\r\n", with: ""), .missingUpgrade(received: nil), 426),
        (good.replacing("Upgrade: websocket", with: "Upgrade: h2c"), .missingUpgrade(received: "h2c"), 426),
        (
            good.replacing("keep-alive, Upgrade", with: "keep-alive"),
            .missingConnection(received: "keep-alive"),
            400
        ),
        (good.replacing("Version: 13", with: "Version: 8"), .unsupportedVersion(received: "8"), 426),
        (good.replacing("Sec-WebSocket-Version: 13\r\n", with: ""), .unsupportedVersion(received: nil), 426),
        (good.replacing(key + "\r\n", with: ""), .badKey, 400),
        (good.replacing(key, with: key + "\r\n" + key), .badKey, 400),
        (good.replacing("b25jZQ==", with: "b25j"), .badKey, 400),
        (good.replacing("b25jZQ==", with: "b25jZQ=*"), .badKey, 400),
        (good.replacing("dGhl", with: "d-hl"), .badKey, 400),
        (
            good.replacing("/chat", with: ""), .malformedHead("not a request line of HTTP/1: GET  HTTP/1.1"),
            400
        ),
    ]

    @Test(arguments: broken)
    func each_rule_of_section_4_2_1(request: String, error: HandshakeError, status: Int) {
        #expect(throws: error) { try Self.receive([Array(request.utf8)]) }
        let answer = String(decoding: OpeningHandshake.Server.reject(error), as: UTF8.self)
        #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
        #expect(answer.hasSuffix("\r\n\r\n"))
    }

    @Test func section_4_4_names_the_version_we_speak() {
        let answer = OpeningHandshake.Server.reject(.unsupportedVersion(received: "8"))
        #expect(
            String(decoding: answer, as: UTF8.self) == """
                HTTP/1.1 426 Upgrade Required\r
                Upgrade: websocket\r
                Sec-WebSocket-Version: 13\r
                Content-Length: 0\r
                Connection: Upgrade, close\r
                \r

                """)
    }

    @Test func other_refusals_are_free() throws {
        let answer = try OpeningHandshake.Server.reject(
            status: 302, reason: "Found", headers: [("Location", "/other")])
        #expect(
            String(decoding: answer, as: UTF8.self)
                == "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    }

    @Test(
        arguments: [
            (200, "OK", []), (600, "", []), (403, "a\r\nX: y", []), (403, "", [("A b", "c")]),
            (403, "", [("A", "b\r\n\r\n<html>")]), (403, "", [("content-length", "5")]),
        ] as [(Int, String, [(name: String, value: String)])])
    func a_refusal_that_cannot_be_written(
        status: Int, reason: String, headers: [(name: String, value: String)]
    ) {
        let error = #expect(throws: HandshakeError.self) {
            try OpeningHandshake.Server.reject(status: status, reason: reason, headers: headers)
        }
        guard case .invalidResponse? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    /// The client would have to leave, or a header would make lines of its own.
    @Test func an_acceptance_that_cannot_be_written() throws {
        let request = try #require(
            try Self.receive([
                Array(Self.good.replacing("\r\n\r\n", with: "\r\nSec-WebSocket-Extensions: x\r\n\r\n").utf8)
            ]).0)
        let agreement = try DeflateTests.agree()
        #expect(throws: HandshakeError.self) { try request.accept(subprotocol: "other") }
        #expect(throws: HandshakeError.self) { try request.accept(subprotocol: nil, deflate: agreement) }
        for wrong in [.init("y"), .init("x", [.init("a", "b\r\nC: d")])] as [ExtensionHeader.Element] {
            #expect(throws: HandshakeError.self) { try request.accept(subprotocol: nil, extensions: [wrong]) }
        }
        for header in [("A", "b\nC: d"), ("A b", "c"), ("sec-websocket-accept", "x")] {
            #expect(throws: HandshakeError.self) { try request.accept(subprotocol: nil, headers: [header]) }
        }
        let response = try request.accept(
            subprotocol: nil, extensions: [.init("x")], headers: [("Set-Cookie", "a=b")])
        #expect(String(decoding: response, as: UTF8.self).contains("\r\nSet-Cookie: a=b\r\n"))
    }

    @Test func empty_lines_before_the_request_are_ignored() throws {
        #expect(try Self.receive([Array(("\r\n\r\n" + Self.good).utf8)]).0?.path == "/chat")
    }

    @Test func a_peer_that_speaks_mqtt_is_known_by_its_first_byte() {
        let connect: [UInt8] = [0x10, 0x0C, 0x00, 0x04, 0x4D, 0x51, 0x54, 0x54, 0x04, 0x02, 0, 60, 0, 0]
        #expect(throws: HandshakeError.notHTTP(connect)) { try Self.receive([connect]) }
    }

    @Test func what_the_client_offers_is_read_in_its_order() throws {
        let client = try OpeningHandshake.Client(
            host: "h", path: "/mqtt", key: [UInt8](repeating: 7, count: 16),
            subprotocols: ["mqtt", "mqttv3.1"], extensions: [.init("x", [.init("a", "1")]), .init("y")])
        let request = try #require(try Self.receive([client.requestBytes]).0)
        #expect(request.offeredSubprotocols == ["mqtt", "mqttv3.1"])
        #expect(request.offeredExtensions == [.init("x", [.init("a", "1")]), .init("y")])
    }

    @Test func client_and_server_agree() throws {
        let client = try OpeningHandshake.Client(
            host: "h", path: "/mqtt", key: (0..<16).map { UInt8($0 * 17) }, subprotocols: ["mqtt"])
        let (received, _) = try Self.receive([client.requestBytes])
        let request = try #require(received)
        let verdict = ClientHandshakeTests.judge([try request.accept(subprotocol: "mqtt")], by: client).0
        #expect(try verdict?.get().subprotocol == "mqtt")
    }
}
