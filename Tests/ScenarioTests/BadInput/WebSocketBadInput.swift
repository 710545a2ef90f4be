import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// What servers have been seen to send in place of WebSocket. Numbers are rows of a collection of real bug reports.
@Suite(.timeLimit(.minutes(1)))
struct WebSocketBadInput {
    /// Frames after an accepted CONNACK, and what is to become of the connection.
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var code: FailureCode
        /// Our Close frame's code; nil where there is none to be sent.
        var closeCode: UInt16?

        init(_ title: String, _ bytes: [UInt8], _ code: FailureCode, _ closeCode: UInt16?) {
            testDescription = title
            self.bytes = bytes
            self.code = code
            self.closeCode = closeCode
        }

        static let all = [
            Case("21: Close 1008 \"no\"", [0x88, 4, 0x03, 0xF0, 0x6E, 0x6F], .wsClosed, 1008),
            Case("25: Close 1000 without DISCONNECT", [0x88, 2, 0x03, 0xE8], .wsClosed, 1000),
            Case("23: a Close frame of one byte", [0x88, 1, 0x03], .wsFrameInvalid, 1002),
            Case("23: a Close frame without a body", [0x88, 0], .wsClosed, nil),
            Case("a Close code that must not travel", [0x88, 2, 0x03, 0xED], .wsFrameInvalid, 1002),
            Case("a Close reason that isn't UTF-8", [0x88, 3, 0x03, 0xE8, 0xFF], .wsFrameInvalid, 1007),
            Case("text that isn't UTF-8", [0x81, 1, 0xFF], .wsFrameInvalid, 1007),
            Case("a message inside another", [0x02, 0, 0x82, 1, 0xD0], .wsFrameInvalid, 1002),
            Case("a frame over the limit", [0x82, 0x7F, 0x40, 0, 0, 0, 0, 0, 0, 0], .wsSizeLimited, 1009),
            Case("29: a text frame", [0x81, 4, 0x20, 2, 0, 0], .wsTextFrame, 1003),
            Case("34: RSV1 without an extension", [0xC2, 1, 0], .wsFrameInvalid, 1002),
            Case("a masked frame", [0x82, 0x81, 1, 2, 3, 4, 0xD1], .wsFrameInvalid, 1002),
            Case("a reserved opcode", [0x83, 0], .wsFrameInvalid, 1002),
            Case("a reserved control opcode", [0x8B, 0], .wsFrameInvalid, 1002),
            Case("a fragmented Ping", [0x09, 0], .wsFrameInvalid, 1002),
            Case("a Ping of 126 bytes", [0x89, 0x7E, 0, 126], .wsFrameInvalid, 1002),
            Case("a continuation of nothing", [0x80, 1, 0xD0], .wsFrameInvalid, 1002),
            Case("a length that isn't minimal", [0x82, 0x7E, 0, 2, 0xD0, 0], .wsFrameInvalid, 1002),
            Case(
                "a length with the top bit", [0x82, 0x7F, 0x80, 0, 0, 0, 0, 0, 0, 1], .wsFrameInvalid, 1002),
        ]
    }

    @Test(arguments: Case.all, [false, true])
    func a_bad_frame_ends_the_connection_by_name(_ bad: Case, _ isEncrypted: Bool) async throws {
        let stand = try Stand.shared.get()
        let peer = try stand.peer(
            encrypted: isEncrypted,
            [[.upgradeWebSocket, .expectCount(8), .send(Self.connack), .send(bad.bytes), .expectEnd]])
        defer { peer.stop() }
        let client = try stand.client(peer, .v5, isEncrypted ? .webSocketSecure : .webSocket) {
            $0.reconnect = .never
        }
        let events = EventRecorder(client)
        try await client.connectInTime()
        try await events.wait(for: "connected", "interrupted", "disconnected")
        #expect(events.interruptions.map(\.code) == [bad.code])
        #expect(events.interruptions.first?.stage == .established)
        let record = try await within("the end of the connection") { await peer.ended() }
        let frames = ClientFrames(after: record.received)
        #expect(frames.areAllMasked)
        #expect(frames.closeCode == bad.closeCode)
    }

    /// 19: a WebSocket Ping isn't MQTT traffic, so the keep-alive of a second runs on while one comes each 100 ms.
    @Test func webSocket_pings_do_not_put_off_PINGREQ() async throws {
        let stand = try Stand.shared.get()
        let pings = (0..<40).flatMap { _ in
            [.send([0x89, 0]), .pause(.milliseconds(100))] as [ScriptedPeer.Step]
        }
        let peer = try stand.peer([
            [.upgradeWebSocket, .expectCount(8), .send(Self.connack)] + pings + [.hold]
        ])
        defer { peer.stop() }
        let client = try stand.client(peer, .v5, .webSocket) {
            $0.keepAlive = .seconds(1)
            $0.pingTimeout = .seconds(30)
        }
        try await client.connectInTime()
        let record = try await within("PINGREQ") {
            await peer.record { record in
                record.end != nil
                    || ClientFrames(after: record.received).payloads(opcode: 2).contains([0xC0, 0])
            }
        }
        let frames = ClientFrames(after: record.received)
        #expect(record.end == nil)
        #expect(frames.payloads(opcode: 0xA).count < 40, "it came before the last Ping")
        try await client.disconnectInTime()
    }

    /// 25: the server leaves without DISCONNECT: lost once, and connected again.
    @Test func a_close_frame_without_DISCONNECT_is_one_loss_and_a_reconnect() async throws {
        let stand = try Stand.shared.get()
        let peer = try stand.peer([
            [.upgradeWebSocket, .expectCount(8), .send(Self.connack), .send([0x88, 2, 0x03, 0xE8]), .close],
            [.upgradeWebSocket, .expectCount(8), .send(Self.connack), .hold],
        ])
        defer { peer.stop() }
        let client = try stand.client(peer, .v5, .webSocket) {
            $0.reconnect = .jittered(base: .milliseconds(50), maximum: .milliseconds(100))
        }
        let events = EventRecorder(client)
        try await client.connectInTime()
        try await events.wait(for: "connected", "interrupted", "reconnecting", "connected")
        #expect(events.interruptions.map(\.code) == [.wsClosed])
        #expect(events.interruptions.first?.evidence == .webSocketClose(code: 1000, reason: "", clean: true))
        try await client.disconnectInTime()
    }

    /// 1, 3, 6, 9, 10: how messages are cut means nothing.
    @Test(arguments: [false, true])
    func messages_are_one_stream_however_they_are_framed(_ isEncrypted: Bool) async throws {
        let stand = try Stand.shared.get()
        let version = ProtocolVersion.v3_1_1
        let cut = version.publish("t", "at 6 CEST")
        let space = try #require(cut.lastIndex(of: 0x20))
        let three = ["1", "2", "3"].flatMap { version.publish("t", $0) }
        let suback: [UInt8] = [0x90, 3, 0, 1, 0]
        let connack: [UInt8] = version.connack.flatMap { [0x82, 1, $0] as [UInt8] }
        let last = version.publish("t", "end")
        // A message in two fragments with a Ping between them, byte by byte.
        let fragments: [UInt8] =
            [0x02, 3] + last.prefix(3) + [0x89, 4, 0x61, 0x62, 0x63, 0x64]
            + [0x80, UInt8(last.count - 3)] + last.dropFirst(3)
        let peer = try stand.peer(
            encrypted: isEncrypted,
            [
                [
                    // CONNECT and SUBSCRIBE, each with the 6 bytes of its frame.
                    .upgradeWebSocket, .expectCount(6 + 22), .send(connack), .expectCount(6 + 8),
                    .send(frame(suback + three)), .send(frame(Array(cut[..<space]))),
                    .send(frame(Array(cut[space...]))), .send(frame([])),
                    .sendSlices(fragments.map { [$0] }), .expectEnd,
                ]
            ])
        defer { peer.stop() }
        let client = try stand.client(peer, version, isEncrypted ? .webSocketSecure : .webSocket)
        try await client.connectInTime()
        let subscription = try await client.subscribeInTime(to: "t", qos: .atMostOnce)
        #expect(try await subscription.texts(5) == ["1", "2", "3", "at 6 CEST", "end"])
        try await client.disconnectInTime()
        let record = try await within("the end of the connection") { await peer.ended() }
        let frames = ClientFrames(after: record.received)
        // 14, 17, 19.
        #expect(frames.areAllMasked)
        #expect(frames.payloads(opcode: 0xA) == [[0x61, 0x62, 0x63, 0x64]])
        // 3: one whole packet in each message; the last one is DISCONNECT.
        #expect(frames.payloads(opcode: 2).allSatisfy { $0.count == 2 + Int($0[1]) })
        #expect(frames.payloads(opcode: 2).last?.first == 0xE0)
        #expect(frames.closeCode == 1000)
    }

    struct Answer: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var head: String
        var code: FailureCode

        init(_ title: String, _ head: String, _ code: FailureCode) {
            testDescription = title
            self.head = head
            self.code = code
        }

        static let all = [
            Answer(
                "45: no subprotocol",
                "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    + "Sec-WebSocket-Accept: {accept}\r\n\r\n", .wsSubprotocolMissing),
            Answer(
                "another subprotocol",
                "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    + "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Accept: {accept}\r\n\r\n",
                .wsSubprotocolWrong),
            Answer(
                "34: an extension that nobody asked for",
                "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mqtt\r\n"
                    + "Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Accept: {accept}\r\n\r\n",
                .wsExtensionUnrequested),
            Answer(
                "a wrong accept value",
                "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mqtt\r\n"
                    + "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n", .wsBadAccept),
            Answer(
                "no Upgrade header",
                "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mqtt\r\n"
                    + "Sec-WebSocket-Accept: {accept}\r\n\r\n", .wsMissingUpgrade),
            Answer("not found", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", .httpNotFound),
            Answer("unauthorized", "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", .httpUnauthorized),
            Answer(
                "a redirect", "HTTP/1.1 302 Found\r\nLocation: http://login.invalid/\r\n\r\n", .wsRedirected),
            Answer("a page", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", .wsUpgradeStripped),
            Answer("unavailable", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", .httpServerError),
            Answer("not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", .wsHeadMalformed),
            Answer(
                "an endless head", "HTTP/1.1 101 X\r\n" + String(repeating: "X-A: b\r\n", count: 20_000),
                .wsHeadOversized),
        ]
    }

    @Test(arguments: Answer.all, [false, true])
    func a_bad_answer_to_the_upgrade_is_named(_ answer: Answer, _ isEncrypted: Bool) async throws {
        let stand = try Stand.shared.get()
        let peer = try stand.peer(
            encrypted: isEncrypted, [[.answerUpgrade(answer.head), .expectEnd]])
        defer { peer.stop() }
        let client = try stand.client(peer, .v5, isEncrypted ? .webSocketSecure : .webSocket)
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == answer.code, "\(error)")
        #expect(error.stage == .webSocket)
        let record = try await within("the end of the connection") { await peer.ended() }
        // 43: not a byte of MQTT.
        #expect(ClientFrames(after: record.received).frames.isEmpty)
    }

    /// An accepting CONNACK of 5.0 in one frame.
    private static let connack = frame(ProtocolVersion.v5.connack)
}

/// A binary message of at most 125 bytes, as a server frames it.
private func frame(_ payload: [UInt8]) -> [UInt8] { [0x82, UInt8(payload.count)] + payload }

/// The frames that a client sent after its opening handshake; only ones with short lengths.
private struct ClientFrames {
    private(set) var frames: [(opcode: UInt8, payload: [UInt8])] = []
    private(set) var areAllMasked = true

    init(after received: [UInt8]) {
        var rest = received[...]
        while !rest.isEmpty, !rest.starts(with: [13, 10, 13, 10]) { rest.removeFirst() }
        rest = rest.dropFirst(4)
        while rest.count >= 2 {
            let head = Array(rest.prefix(2))
            if head[1] & 0x80 == 0 { areAllMasked = false }
            let length = Int(head[1] & 0x7F)
            guard length <= 125, rest.count >= 6 + length else { return }
            let key = Array(rest.dropFirst(2).prefix(4))
            let masked = Array(rest.dropFirst(6).prefix(length))
            frames.append((head[0] & 0xF, masked.indices.map { masked[$0] ^ key[$0 % 4] }))
            rest = rest.dropFirst(6 + length)
        }
    }

    func payloads(opcode: UInt8) -> [[UInt8]] { frames.filter { $0.opcode == opcode }.map(\.payload) }

    var closeCode: UInt16? {
        guard let body = payloads(opcode: 8).first, body.count >= 2 else { return nil }
        return UInt16(body[0]) << 8 | UInt16(body[1])
    }
}
