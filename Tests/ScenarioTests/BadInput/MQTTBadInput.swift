import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// What servers have been seen to send in place of MQTT. Numbers in the titles are rows of a collection of real
/// bug reports.
@Suite(.timeLimit(.minutes(1)))
struct MQTTBadInput {
    /// Bytes that a server sends right after its CONNACK, and what is to become of the connection.
    struct Malformation: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var code: FailureCode
        /// The Reason Code of our DISCONNECT (5.0).
        var reason: UInt8

        init(_ title: String, _ bytes: [UInt8], _ code: FailureCode, _ reason: UInt8) {
            testDescription = title
            self.bytes = bytes
            self.code = code
            self.reason = reason
        }

        static let all = [
            Malformation("5: a topic that is longer than its packet", [0x30, 2, 0, 5], .mqttMalformed, 0x81),
            Malformation("5: SUBACK that is cut short", [0x90, 1, 0], .mqttMalformed, 0x81),
            Malformation("5: PUBACK without an identifier", [0x40, 0], .mqttMalformed, 0x81),
            Malformation(
                "27: a topic that isn't UTF-8", [0x30, 5, 0, 2, 0xFF, 0xFE, 0x78], .mqttMalformed, 0x81),
            Malformation("reserved packet type 0", [0x00, 0], .mqttMalformed, 0x81),
            Malformation("reserved flags in PUBACK", [0x41, 2, 0, 1], .mqttMalformed, 0x81),
            Malformation("QoS 3", [0x36, 6, 0, 1, 0x74, 0, 1, 0], .mqttMalformed, 0x81),
            Malformation(
                "a Remaining Length of five bytes", [0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], .mqttMalformed, 0x81
            ),
            Malformation("U+0000 in a topic", [0x30, 4, 0, 1, 0x00, 0x61], .mqttMalformed, 0x81),
            Malformation("a wildcard in a topic", [0x30, 5, 0, 1, 0x23, 0x00, 0x61], .mqttMalformed, 0x81),
            Malformation(
                "a packet over the limit", [0x30, 0xFF, 0xFF, 0xFF, 0x7F], .mqttPacketTooLarge, 0x95),
            Malformation("a second CONNACK", [0x20, 3, 0, 0, 0], .mqttProtocolError, 0x82),
            Malformation("CONNECT from a server", [0x10, 2, 0, 0], .mqttProtocolError, 0x82),
            Malformation("PINGREQ from a server", [0xC0, 0], .mqttProtocolError, 0x82),
        ]
    }

    @Test(arguments: Malformation.all, [ProtocolVersion.v3_1_1, .v5])
    func a_malformed_packet_ends_the_connection(_ bad: Malformation, _ version: ProtocolVersion) async throws
    {
        let stand = try Stand.shared.get()
        let connack = version.connack
        let peer = try stand.peer([[.expectPacket, .send(connack), .send(bad.bytes), .expectEnd]])
        defer { peer.stop() }
        let client = try stand.client(peer, version) { $0.reconnect = .never }
        let events = EventRecorder(client)
        try await client.connectInTime()
        try await events.wait(for: "interrupted", "disconnected")
        let error = try #require(events.interruptions.first)
        // Under 3.1.1 a second CONNACK of 5.0 is malformed first; either way it is named.
        #expect(
            error.code == bad.code
                || version == .v3_1_1 && [.mqttMalformed, .mqttProtocolError].contains(error.code),
            "\(error)")
        #expect(error.stage == .established)
        let record = try await within("the end of the connection") { await peer.ended() }
        let said = record.received.suffix(record.received.count - connectLength(record.received))
        if version == .v5 {
            // 4.13.1: DISCONNECT with the reason, then the end.
            #expect(said.first == 0xE0, "\(Array(said))")
            #expect(
                said.dropFirst(2).first == bad.reason || bad.reason == 0x82 && said.dropFirst(2).first == 0x81
            )
        } else {
            // 4.8: 3.1.1 closes without a word.
            #expect(said.isEmpty)
        }
    }

    @Test(arguments: [ProtocolVersion.v3_1_1, .v5])
    func packets_come_one_byte_at_a_time_and_many_at_once(_ version: ProtocolVersion) async throws {
        let stand = try Stand.shared.get()
        let subscribe = version == .v5 ? 9 : 8
        let suback: [UInt8] = version == .v5 ? [0x90, 4, 0, 1, 0, 0] : [0x90, 3, 0, 1, 0]
        // 6, 9: several packets in one write.
        let three = ["1", "2", "3"].flatMap { version.publish("t", $0) }
        // 1: a message in two writes, the second of which begins with a space.
        let cut = version.publish("t", "at 6 CEST")
        let space = try #require(cut.lastIndex(of: 0x20))
        let last = version.publish("t", "end")
        let peer = try stand.peer([
            [
                .expectPacket, .sendSlices(version.connack.map { [$0] }), .expectCount(subscribe),
                .send(suback + three), .send(Array(cut[..<space])), .send(Array(cut[space...])),
                .sendSlices(last.map { [$0] }), .expectEnd,
            ]
        ])
        defer { peer.stop() }
        let client = try stand.client(peer, version)
        try await client.connectInTime()
        let subscription = try await client.subscribeInTime(to: "t", qos: .atMostOnce)
        #expect(try await subscription.texts(5) == ["1", "2", "3", "at 6 CEST", "end"])
        try await client.disconnectInTime()
    }

    /// 124: the lengths of what we send.
    @Test(arguments: [65535, 65536, 200_000], [ProtocolVersion.v3_1_1, .v5])
    func large_payloads_leave_with_their_exact_length(_ size: Int, _ version: ProtocolVersion) async throws {
        let stand = try Stand.shared.get()
        // PUBLISH, Remaining Length (2.2.3), topic "t", and under 5.0 no properties.
        let remaining = 3 + (version == .v5 ? 1 : 0) + size
        let length = [
            UInt8(remaining & 0x7F) | 0x80, UInt8(remaining >> 7 & 0x7F) | 0x80,
            UInt8(remaining >> 14 & 0x7F),
        ]
        let payload = DeliveryScenarios.pattern(size)
        let packet = [0x30] + length + [0, 1, 0x74] + (version == .v5 ? [0] : []) + payload
        let peer = try stand.peer([[.expectPacket, .send(version.connack), .expect(packet), .expectEnd]])
        defer { peer.stop() }
        let client = try stand.client(peer, version)
        try await client.connectInTime()
        try await client.publishInTime(payload, to: "t", qos: .atMostOnce)
        try await client.disconnectInTime()
        let record = try await within("the end of the connection") { await peer.ended() }
        #expect(record.mismatch == nil)
    }

    /// 131: no CONNACK, a time-out, and then a broker that answers.
    @Test func a_retry_after_a_missing_CONNACK_works() async throws {
        let stand = try Stand.shared.get()
        let peer = try stand.peer([
            [.expectPacket, .hold], [.expectPacket, .send(ProtocolVersion.v5.connack), .expectEnd],
        ])
        defer { peer.stop() }
        let client = try stand.client(peer, .v5, connack: .seconds(2))
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == .mqttConnackTimeout)
        _ = try await within("the end of the first connection") { await peer.ended() }
        try await client.connectInTime()
        try await client.disconnectInTime()
        _ = try await within("the end of the second connection") { await peer.ended(connection: 1) }
    }

    /// 133: cancelled at every moment after its start.
    @Test func a_cancelled_connect_leaves_nothing_behind() async throws {
        let stand = try Stand.shared.get()
        let peer = try stand.peer([[.expectPacket, .send(ProtocolVersion.v5.connack), .expectEnd]])
        defer { peer.stop() }
        for yields in 0..<40 {
            let client = try stand.client(peer, .v5)
            let connecting = Task { _ = try await client.connect() }
            for _ in 0..<yields { await Task.yield() }
            connecting.cancel()
            let result = try await within("the end of connect") { await connecting.result }
            if case .failure(let error) = result { #expect(error is CancellationError, "\(error)") }
            try await client.connectInTime()
            try await client.disconnectInTime()
        }
    }

    /// 129: disconnect during a burst, while the peer reads nothing.
    @Test(arguments: [ProtocolVersion.v3_1_1, .v5])
    func disconnect_returns_though_the_peer_reads_nothing(_ version: ProtocolVersion) async throws {
        let stand = try Stand.shared.get()
        let burst = (0..<2000).flatMap { version.publish("t", "\($0)") }
        let peer = try stand.peer([[.expectPacket, .send(version.connack), .send(burst), .hold]])
        defer { peer.stop() }
        let client = try stand.client(peer, version)
        try await client.connectInTime()
        let large = [UInt8](repeating: 0x78, count: 4 << 20)
        let receipts = try (0..<4).map { _ in try client.enqueue(large, to: "t") }
        let start = ContinuousClock.now
        try await client.disconnectInTime()
        #expect(ContinuousClock.now - start < .seconds(8))
        for receipt in receipts {
            let (error, _) = try await failure("a receipt") { _ = try await receipt.outcome }
            #expect(error.code == .clientDisconnected)
        }
    }

    @Test(arguments: [ProtocolVersion.v3_1_1, .v5])
    func answers_to_nothing_are_passed_over(_ version: ProtocolVersion) async throws {
        let stand = try Stand.shared.get()
        let answers: [UInt8] = [0x40, 2, 0, 9, 0x70, 2, 0, 9, 0xD0, 0]
        let peer = try stand.peer([
            [.expectPacket, .send(version.connack + answers + version.publish("t", "x")), .expectEnd]
        ])
        defer { peer.stop() }
        let client = try stand.client(peer, version)
        let events = EventRecorder(client)
        try await client.connectInTime()
        try await client.publishInTime("y", to: "t", qos: .atMostOnce)
        #expect(events.interruptions == [])
        try await client.disconnectInTime()
    }
}

/// The length of the CONNECT at the beginning.
private func connectLength(_ bytes: [UInt8]) -> Int {
    bytes.count > 1 ? 2 + Int(bytes[1]) : 0
}

extension ProtocolVersion {
    /// An accepting CONNACK.
    var connack: [UInt8] { self == .v5 ? [0x20, 3, 0, 0, 0] : [0x20, 2, 0, 0] }

    /// A QoS 0 PUBLISH of at most 127 bytes.
    func publish(_ topic: String, _ payload: String) -> [UInt8] {
        let body =
            [0, UInt8(topic.utf8.count)] + Array(topic.utf8) + (self == .v5 ? [0] : []) + Array(payload.utf8)
        return [0x30, UInt8(body.count)] + body
    }
}

extension ScriptedPeer.Step {
    /// CONNECT of the stand's clients: their identifier stands last.
    static var expectPacket: ScriptedPeer.Step { .expectUntil(Array("scripted".utf8)) }
}

extension Stand {
    func client(
        _ peer: ScriptedPeer, _ version: ProtocolVersion, _ transport: Transport = .tcp,
        connack: Duration = .seconds(10), _ configure: (inout ClientConfiguration) -> Void = { _ in }
    ) throws -> MQTTClient {
        var configuration = ClientConfiguration(
            version: .init(version), clientID: "scripted",
            reconnect: .jittered(base: .milliseconds(50), maximum: .milliseconds(200)))
        configure(&configuration)
        var profile = try transport.profile(port: Int(peer.port), trusting)
        profile.deadlines.mqttConnect = connack
        return MQTTClient(profile: profile, configuration: configuration)
    }
}
