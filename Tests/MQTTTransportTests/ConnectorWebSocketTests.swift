import MQTTConformance
import MQTTLoopback
import MQTTTransport
import Testing

private let accepted =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    + "Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mqtt\r\n"

/// An answer to the opening handshake that fails it.
struct BadAnswer: Sendable, CustomTestStringConvertible {
    let head: String
    let code: FailureCode
    /// A part of the evidence in words.
    let says: String

    init(_ head: String, _ code: FailureCode, _ says: String) {
        self.head = head
        self.code = code
        self.says = says
    }

    var testDescription: String { "\(head.prefix { $0 != "\r\n" }), \(code.rawValue)" }
}

@Suite("Connector, WebSocket stage", .timeLimit(.minutes(1)))
struct ConnectorWebSocketTests {
    static let badAnswers: [BadAnswer] = [
        BadAnswer(
            "HTTP/1.1 101 OK\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n"
                + "Sec-WebSocket-Protocol: mqtt\r\n\r\n", .wsMissingUpgrade, "Upgrade: websocket"),
        BadAnswer(
            "HTTP/1.1 101 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n"
                + "Sec-WebSocket-Protocol: mqtt\r\n\r\n", .wsMissingUpgrade, "\"h2c\""),
        BadAnswer(
            "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: close\r\n"
                + "Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
            .wsMissingUpgrade, "Connection: Upgrade"),
        BadAnswer(
            "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Protocol: mqtt\r\n\r\n", .wsBadAccept, "no Sec-WebSocket-Accept"),
        BadAnswer(
            "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
            .wsBadAccept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        BadAnswer(
            "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Accept: {accept}\r\n\r\n", .wsSubprotocolMissing, "no subprotocol"),
        BadAnswer(
            "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mqttv3.1\r\n\r\n",
            .wsSubprotocolWrong, "\"mqttv3.1\""),
        BadAnswer(
            accepted + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", .wsExtensionUnrequested,
            "permessage-deflate"),
        BadAnswer(
            "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>hi</html>", .wsUpgradeStripped,
            "body begins \"hi\""),
        BadAnswer("HTTP/1.1 400 Bad Request\r\n\r\n", .wsUpgradeStripped, "HTTP 400 Bad Request"),
        BadAnswer(
            "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n\r\n",
            .wsUpgradeStripped, "HTTP 426 Upgrade Required, Upgrade: websocket, Sec-WebSocket-Version: 8"),
        BadAnswer(
            "HTTP/1.0 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
            .wsHeadMalformed, "HTTP/1.0, which knows no Upgrade"),
        BadAnswer(
            "HTTP/1.1 301 Moved Permanently\r\nLocation: https://portal.invalid/\r\n\r\n", .wsRedirected,
            "Location: https://portal.invalid/"),
        BadAnswer("HTTP/1.1 304 Not Modified\r\n\r\n", .wsRedirected, "not followed: 304 isn't one of"),
        BadAnswer(
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\r\n", .httpUnauthorized,
            "challenge: Basic realm="),
        BadAnswer(
            "HTTP/1.1 403 Forbidden\r\nServer: BlockBox\r\n\r\nblocked", .httpBlockPage, "Server: BlockBox"),
        BadAnswer("HTTP/1.1 451 Unavailable\r\n\r\n", .httpBlockPage, "HTTP 451"),
        BadAnswer("HTTP/1.1 404 Not Found\r\n\r\n", .httpNotFound, "HTTP 404 Not Found"),
        BadAnswer(
            "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"p\"\r\n"
                + "WWW-Authenticate: Bearer\r\n\r\n", .proxyAuthRequired, "challenge: Basic realm=\"p\""),
        BadAnswer(
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 8\r\n\r\ntoo fast",
            .httpRateLimited, "Retry-After: 30, body begins \"too fast\""),
        BadAnswer(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
            .httpServerError, "HTTP 503 Service Unavailable, body compressed: gzip"),
        BadAnswer("HTTP/1.1 511 Network Authentication Required\r\n\r\n", .httpCaptivePortal, "HTTP 511"),
        BadAnswer(
            "HTTP/1.1 200 OK\r\nX: \(String(repeating: "a", count: 70_000))", .wsHeadOversized,
            "65536 bytes"),
        BadAnswer("SSH-2.0-OpenSSH_9.2\r\n", .wsHeadMalformed, "\"SSH-2.0-OpenSSH_9.2"),
        BadAnswer("\u{1b}[2J no protocol at all\r\n\r\n", .wsHeadMalformed, "\\x1b[2J no"),
        BadAnswer("HTTP/1.1 200 \u{1b}[31mred\r\n\r\n", .wsUpgradeStripped, "HTTP 200  [31mred"),
    ]

    @Test(
        .mqtt311("6.0.0-4"), .mqtt5("6.0.0-4"),
        arguments: badAnswers)
    func a_bad_answer_is_named(_ answer: BadAnswer) async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.answerUpgrade(answer.head), .expectEnd])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            let error = await client.outcome()
            #expect(error?.stage == .webSocket)
            #expect(error?.code == answer.code)
            #expect(error?.description.contains(answer.says) == true, "\(error?.description ?? "")")
            #expect(error?.hop == "127.0.0.1:\(peer.port)")
            expectObservations(client, [.resolve, .tcp, .webSocket], failure: answer.code)
            // An orderly end, since the server may still be reading.
            #expect(await peer.ended().end?.code == .tcpClosed)
        }
    }

    @Test(
        .mqtt311("6.0.0-3"), .mqtt5("6.0.0-3"))
    func the_request_is_as_RFC_6455_section_4_1_has_it() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.upgradeWebSocket, .hold])
            let url = "ws://user:secret@127.0.0.1:\(peer.port)/some/path?token=1"
            let client = try bench.client(ConnectionProfile(url: url))
            #expect(await client.outcome() == nil)
            let request = await peer.record { $0.received.count > 100 }.received
            let lines = String(decoding: request, as: UTF8.self).split(separator: "\r\n")
            #expect(lines.first == "GET /some/path?token=1 HTTP/1.1")
            #expect(lines.contains("Host: 127.0.0.1:\(peer.port)"))
            #expect(lines.contains("Upgrade: websocket"))
            #expect(lines.contains("Connection: Upgrade"))
            #expect(lines.contains("Sec-WebSocket-Version: 13"))
            #expect(lines.contains("Sec-WebSocket-Protocol: mqtt"))
            #expect(!String(decoding: request, as: UTF8.self).contains("secret"))
            expectObservations(client, [.resolve, .tcp, .webSocket], failure: nil)
        }
    }

    @Test func an_end_before_the_101_is_named_by_its_kind() async throws {
        try await Bench.run { bench in
            let ends: [([ScriptedPeer.Step], FailureCode)] = [
                ([.expectUntil([13, 10, 13, 10]), .close], .tcpClosed),
                ([.expectUntil([13, 10, 13, 10]), .send(Array("HTTP/1.1 10".utf8)), .close], .tcpClosed),
                ([.expectUntil([13, 10, 13, 10]), .reset], .tcpReset),
                ([.hold], .tcpSilent),
                ([.ignore], .tcpSilent),
            ]
            for (script, code) in ends {
                let peer = try ScriptedPeer(on: bench.peerLoop, scripts: [script])
                let client = try bench.client(
                    .webSocket(host: "127.0.0.1", port: Int(peer.port)),
                    deadlines: code == .tcpSilent ? .silent : StageDeadlines())
                let error = await client.outcome()
                #expect(error?.stage == .webSocket)
                #expect(error?.code == code)
                if code == .tcpSilent {
                    #expect(error?.evidence == .deadline(.milliseconds(300)))
                    let duration = try #require(client.state.observations.last?.duration)
                    #expect(duration >= .milliseconds(300) && duration < .seconds(3))
                }
                expectObservations(client, [.resolve, .tcp, .webSocket], failure: code)
                peer.stop()
            }
        }
    }

    @Test func a_head_that_never_ends_is_told_from_silence() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .expectUntil([13, 10, 13, 10]), .send(Array("HTTP/1.1 101 Switching".utf8)), .hold,
            ])
            let client = try bench.client(
                .webSocket(host: "127.0.0.1", port: Int(peer.port)),
                deadlines: StageDeadlines(webSocket: .seconds(2)))
            let error = await client.outcome()
            #expect(error?.stage == .webSocket)
            #expect(error?.code == .wsHeadMalformed)
            #expect(error?.evidence.description.contains("didn't end within 2.0 seconds") == true)
        }
    }

    /// CONNACK in a frame, in the same write as the 101.
    @Test func bytes_that_come_with_the_101_go_to_the_next_layer() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .answerUpgrade(accepted + "\r\n", following: [0x82, 0x04, 0x20, 0x02, 0x00, 0x00]), .hold,
            ])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            #expect(await client.received(4) == [0x20, 0x02, 0x00, 0x00])
        }
    }

    @Test func a_101_torn_into_single_bytes_is_read_as_well() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .answerUpgrade(
                    accepted + "\r\n", following: [0x82, 0x04, 0x20, 0x02, 0x00, 0x00], writeSize: 1),
                .hold,
            ])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            #expect(await client.received(4) == [0x20, 0x02, 0x00, 0x00])
            expectObservations(client, [.resolve, .tcp, .webSocket], failure: nil)
        }
    }

    /// RFC 9110, section 15.2.
    @Test func interim_answers_before_the_101_are_passed_over() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .answerUpgrade("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + accepted + "\r\n"), .hold,
            ])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            #expect(await client.outcome() == nil)
        }
    }

    /// RFC 6455, section 4.1: a nonce for each connection.
    /// Bug report 50: the brackets of an IPv6 address were lost on the way.
    @Test func row_50_an_ipv6_address_is_connected_without_brackets_and_named_with_them() async throws {
        try await Bench.run { bench in
            let peer = try ScriptedPeer(
                on: bench.peerLoop, address: "::1", scripts: [[.upgradeWebSocket, .hold]])
            let client = try bench.client(try ConnectionProfile(url: "ws://[::1]:\(peer.port)"))
            #expect(await client.outcome() == nil)
            let record = await peer.record { $0.received.count > 100 }
            peer.stop()
            let request = String(decoding: record.received, as: UTF8.self)
            #expect(request.contains("\r\nHost: [::1]:\(peer.port)\r\n"))
        }
    }

    @Test func two_attempts_have_different_keys() async throws {
        try await Bench.run { bench in
            var keys: Set<Substring> = []
            for _ in 0..<2 {
                let peer = try bench.peer([.upgradeWebSocket, .hold])
                let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
                #expect(await client.outcome() == nil)
                let request = await peer.record { $0.received.count > 100 }.received
                let lines = String(decoding: request, as: UTF8.self).split(separator: "\r\n")
                let key = try #require(lines.first { $0.hasPrefix("Sec-WebSocket-Key: ") }).dropFirst(19)
                #expect(key.utf8.count == 24 && key.hasSuffix("=="))
                keys.insert(key)
            }
            #expect(keys.count == 2)
        }
    }

    /// RFC 6455, section 5.3.
    @Test func two_frames_have_different_masking_keys() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.upgradeWebSocket, .hold])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            #expect(await client.outcome() == nil)
            client.send([0xC0, 0])
            let record = await peer.record { afterHead($0.received).count >= 8 }
            client.send([0xC0, 0])
            let first = Array(afterHead(record.received).prefix(8))
            let both = afterHead(await peer.record { afterHead($0.received).count >= 16 }.received)
            let second = Array(both.suffix(8))
            #expect(first.prefix(2) == [0x82, 0x82] && second.prefix(2) == [0x82, 0x82])
            #expect(unmasked(first) == [0xC0, 0] && unmasked(second) == [0xC0, 0])
            #expect(first[2..<6] != second[2..<6])
        }
    }

    /// The peer says 403 and resets: what it said counts.
    @Test func the_answer_counts_although_a_RST_follows_it() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.answerUpgrade("HTTP/1.1 403 Forbidden\r\n\r\n"), .reset])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            #expect(await client.outcome()?.code == .httpBlockPage)
        }
    }
}
