import MQTTConformance
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// A client against a server that says exactly what its script says.
@Suite(.timeLimit(.minutes(1))) struct ClientScriptTests {
    /// CONNACK of 5.0: accepted, no session, no properties.
    private static let accepted: [UInt8] = [0x20, 3, 0, 0, 0]
    private static let connect = ScriptedPeer.Step.expectUntil(Array("client-x".utf8))

    private func run(
        _ scripts: [[ScriptedPeer.Step]], scheme: String = "mqtt", configuration: ClientConfiguration,
        _ body: (MQTTClient, ScriptedPeer) async throws -> Void
    ) async throws {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(on: loop, scripts: scripts)
        let client = MQTTClient(
            profile: try ConnectionProfile(url: "\(scheme)://127.0.0.1:\(peer.port)"),
            configuration: configuration)
        do {
            try await body(client, peer)
        } catch {
            Issue.record(error)
        }
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }

    @Test func messages_read_together_with_the_servers_disconnect_are_delivered_once() async throws {
        let first: [ScriptedPeer.Step] = [
            Self.connect, .send(Self.accepted),
            // SUBSCRIBE 1 to "t", QoS 0, Subscription Identifier 1
            .expect([0x82, 9, 0, 1, 2, 0x0B, 1, 0, 1, 0x74, 0]),
            // SUBACK; PUBLISH "a", PUBLISH "b"; DISCONNECT 0x8B Server shutting down
            .send(
                [0x90, 4, 0, 1, 0, 0, 0x30, 5, 0, 1, 0x74, 0, 0x61, 0x30, 5, 0, 1, 0x74, 0, 0x62]
                    + [0xE0, 2, 0x8B, 0]),
            .expectEnd,
        ]
        let second: [ScriptedPeer.Step] = [
            Self.connect, .send(Self.accepted), .expect([0x82, 9, 0, 2, 2, 0x0B, 1, 0, 1, 0x74, 0]),
            .send([0x90, 4, 0, 2, 0, 0, 0x30, 5, 0, 1, 0x74, 0, 0x63]), .hold,
        ]
        // With an expiry of 0 the lost connection has actions of its own: the session is lost.
        let configuration = ClientConfiguration(
            clientID: "client-x", sessionExpiry: .zero, reconnect: .quick)
        try await run([first, second], configuration: configuration) { client, _ in
            try await client.connect()
            let subscription = try await client.subscribe(to: "t", qos: .atMostOnce)
            var messages = subscription.makeAsyncIterator()
            for expected in ["a", "b", "c"] { #expect(try await messages.next()?.text == expected) }
        }
    }

    @Test(
        .mqtt311("3.1.0-1"))
    func nothing_of_a_lost_connection_goes_ahead_of_the_next_CONNECT() async throws {
        let first: [ScriptedPeer.Step] = [
            // CONNECT is 22 bytes, PUBLISH 8; a masked frame has a head of 6.
            .upgradeWebSocket, .expectCount(28), .send([0x82, 4, 0x20, 2, 0, 0]), .expectCount(14),
            // PUBREC, which asks for a PUBREL, and a Close frame (1000) behind it.
            .send([0x82, 4, 0x50, 2, 0, 1, 0x88, 2, 0x03, 0xE8]), .expectEnd,
        ]
        let second: [ScriptedPeer.Step] = [.upgradeWebSocket, .expect([0x82, 0x80 | 22]), .expectCount(26)]
        let configuration = ClientConfiguration(
            version: .v3_1_1, clientID: "client-x", keepAlive: .zero, reconnect: .quick)
        try await run([first, second], scheme: "ws", configuration: configuration) { client, peer in
            try await client.connect()
            try client.enqueue("x", to: "t", qos: .exactlyOnce)
            let record = await peer.finished(connection: 1)
            #expect(record.isScriptDone)
            #expect(record.mismatch == nil)
        }
    }

    @Test func disconnect_while_CONNACK_is_awaited_says_so_to_the_server() async throws {
        let configuration = ClientConfiguration(
            version: .v3_1_1, clientID: "client-x", keepAlive: .zero)
        try await run([[Self.connect, .expectEnd]], configuration: configuration) { client, peer in
            let connecting = Task { try await client.connect() }
            _ = await peer.record { $0.received.count >= 22 }
            await client.disconnect()
            let error = await #expect(throws: MQTTError.self) { try await connecting.value }
            #expect(error?.code == .clientDisconnected)
            #expect(await peer.ended().received.suffix(2) == [0xE0, 0])
        }
    }

    @Test func who_joins_a_reconnect_and_is_cancelled_does_not_end_it() async throws {
        let first: [ScriptedPeer.Step] = [Self.connect, .send(Self.accepted), .reset]
        let second: [ScriptedPeer.Step] = [
            Self.connect, .pause(.milliseconds(300)), .send(Self.accepted), .hold,
        ]
        let configuration = ClientConfiguration(clientID: "client-x", reconnect: .quick)
        try await run([first, second], configuration: configuration) { client, peer in
            try await client.connect()
            _ = await peer.record(1) { $0.received.count > 8 }
            let joining = Task { try await client.connect() }
            for _ in 0..<100 { await Task.yield() }
            joining.cancel()
            _ = await joining.result
            var isConnected = false
            for await event in client.events {
                if case .connected = event { isConnected = true }
                if case .disconnected = event { break }
                if isConnected { break }
            }
            #expect(isConnected)
        }
    }

    @Test func a_server_that_drops_after_each_CONNACK_is_tried_at_growing_delays() async throws {
        let configuration = ClientConfiguration(
            clientID: "client-x",
            reconnect: .jittered(base: .milliseconds(1), maximum: .milliseconds(300)))
        try await run(
            [[Self.connect, .send(Self.accepted), .reset]], configuration: configuration
        ) { client, peer in
            let events = client.events
            try await client.connect()
            var delays: [Duration] = []
            for await event in events {
                if case .reconnecting(_, let delay, _) = event { delays.append(delay) }
                if delays.count == 12 { break }
            }
            // Full jitter: four draws in a row rarely stay below the first bounds.
            #expect(delays.allSatisfy { $0 <= .milliseconds(300) })
            #expect(delays.suffix(4).max() ?? .zero > .milliseconds(5))
        }
    }

    @Test func a_path_that_goes_dead_is_noticed_although_messages_still_go_out() async throws {
        let began = ContinuousClock.now
        let configuration = ClientConfiguration(
            clientID: "client-x", keepAlive: .seconds(1), pingTimeout: .milliseconds(500), reconnect: .never)
        try await run(
            [[Self.connect, .send(Self.accepted), .hold]], configuration: configuration
        ) { client, _ in
            let events = client.events
            try await client.connect()
            let traffic = Task {
                while !Task.isCancelled {
                    _ = try? await client.publish("x", to: "t")
                    try? await Task.sleep(for: .milliseconds(50))
                }
            }
            var last: MQTTError?
            for await event in events {
                if case .disconnected(let error) = event {
                    last = error
                    break
                }
            }
            traffic.cancel()
            #expect(last?.code == .idleBlackholed)
            #expect(ContinuousClock.now - began >= .milliseconds(1500))
            #expect(ContinuousClock.now - began < .seconds(20))
        }
    }

    /// The program has no subscription for them, and no use; the server has to be answered.
    @Test(
        .mqtt311("4.5.0-2", "detect-unmatched-topic"), .mqtt5("4.5.0-2"), arguments: ProtocolVersion.allCases)
    func messages_that_no_subscription_matches_are_acknowledged(_ version: ProtocolVersion) async throws {
        let messages: [UInt8] =
            version == .v5
            ? [0x32, 7, 0, 1, 0x78, 0, 1, 0, 0x61, 0x34, 7, 0, 1, 0x78, 0, 2, 0, 0x61]
            : [0x32, 6, 0, 1, 0x78, 0, 1, 0x61, 0x34, 6, 0, 1, 0x78, 0, 2, 0x61]
        let script: [ScriptedPeer.Step] = [
            Self.connect, .send(version == .v5 ? Self.accepted : [0x20, 2, 0, 0]), .send(messages),
            .expect([0x40, 2, 0, 1, 0x50, 2, 0, 2]), .send([0x62, 2, 0, 2]), .expect([0x70, 2, 0, 2]), .hold,
        ]
        let configuration = ClientConfiguration(
            version: .init(version), clientID: "client-x", keepAlive: .zero)
        try await run([script], configuration: configuration) { client, peer in
            try await client.connect()
            let record = await peer.record { $0.received.suffix(4) == [0x70, 2, 0, 2] || $0.end != nil }
            #expect(record.mismatch == nil && record.end == nil)
        }
    }

    /// Messages beyond the program's byte limit, which nobody reads: a fault of this side.
    @Test(.mqtt311("4.8.0-2"))
    func a_message_that_cannot_be_kept_ends_the_connection() async throws {
        let payload = [UInt8](repeating: 0, count: 2000)
        let message = [0x32, 0xD5, 0x0F, 0, 1, 0x74, 0, 1] + payload
        let script: [ScriptedPeer.Step] = [
            Self.connect, .send([0x20, 2, 0, 0]), .expect([0x82, 6, 0, 1, 0, 1, 0x74, 1]),
            .send([0x90, 3, 0, 1, 1] + message), .expectEnd,
        ]
        let configuration = ClientConfiguration(
            version: .v3_1_1, clientID: "client-x", keepAlive: .zero, reconnect: .never,
            subscriptionByteLimit: 1000)
        try await run([script], configuration: configuration) { client, peer in
            try await client.connect()
            let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce)
            let events = client.events
            var reason: MQTTError?
            for await event in events {
                if case .disconnected(let error) = event {
                    reason = error
                    break
                }
            }
            #expect(reason?.code == .clientQueueFull)
            let record = await peer.finished(connection: 0)
            // Without a DISCONNECT, which in 3.1.1 would be an orderly end.
            #expect(record.isScriptDone && record.received.last != 0)
            withExtendedLifetime(subscription) {}
        }
    }

    /// Section 4.13: DISCONNECT with the code that fits best, then the end.
    @Test(
        arguments: [
            ([0x36, 6, 0, 1, 0x74, 0, 1, 0], 0x81), ([0xC0, 0], 0x82), ([0x90, 4, 0, 9, 0, 0], 0x82),
            (
                [0x32, 6, 0, 1, 0x78, 0, 1, 0, 0x32, 6, 0, 1, 0x78, 0, 2, 0, 0x32, 6, 0, 1, 0x78, 0, 3, 0],
                0x93
            ),
            ([0x30, 7, 0, 1, 0x74, 3, 0x23, 0, 1], 0x94), ([0x30, 0xFF, 1, 0, 1, 0x74, 0], 0x95),
        ] as [([UInt8], UInt8)])
    func a_server_that_breaks_a_rule_is_told_so(_ bytes: [UInt8], _ code: UInt8) async throws {
        let isHeldUp = code == 0x93
        // For 0x93, one message more than Receive Maximum, the first of which nobody can acknowledge.
        let script: [ScriptedPeer.Step] =
            isHeldUp
            ? [
                Self.connect, .send(Self.accepted), .expect([0x82, 9, 0, 1, 2, 0x0B, 1, 0, 1, 0x78, 1]),
                .send([0x90, 4, 0, 1, 0, 1] + bytes), .expect([0xE0, 1, code]), .expectEnd,
            ]
            : [Self.connect, .send(Self.accepted), .send(bytes), .expect([0xE0, 1, code]), .expectEnd]
        let configuration = ClientConfiguration(
            clientID: "client-x", keepAlive: .zero, reconnect: .never, maximumPacketSize: 128,
            receiveMaximum: 2, subscriptionCapacity: 0)
        try await run([script], configuration: configuration) { client, peer in
            try await client.connect()
            let subscription = isHeldUp ? try await client.subscribe(to: "x", qos: .atLeastOnce) : nil
            let record = await peer.finished(connection: 0)
            #expect(record.mismatch == nil && record.isScriptDone)
            withExtendedLifetime(subscription) {}
        }
    }

    @Test(
        .mqtt311("3.14.4-1"), .mqtt5("3.14.4-2", "3.14.2-1"), arguments: ProtocolVersion.allCases)
    func a_disconnect_is_followed_by_the_end_of_the_connection(_ version: ProtocolVersion) async throws {
        let script: [ScriptedPeer.Step] = [
            Self.connect, .send(version == .v5 ? Self.accepted : [0x20, 2, 0, 0]), .expect([0xE0, 0]),
            .expectEnd,
        ]
        let configuration = ClientConfiguration(
            version: .init(version), clientID: "client-x", keepAlive: .zero, sessionExpiry: .zero)
        try await run([script], configuration: configuration) { client, peer in
            try await client.connect()
            await client.disconnect()
            let record = await peer.finished(connection: 0)
            #expect(record.mismatch == nil && record.isScriptDone)
        }
    }

    @Test func what_the_fast_path_of_QoS_0_cannot_send_is_refused_all_the_same() async throws {
        // CONNACK: Retain Available 0; Maximum Packet Size 40.
        let limited: [UInt8] = [0x20, 10, 0, 0, 7, 0x25, 0, 0x27, 0, 0, 0, 40]
        let configuration = ClientConfiguration(clientID: "client-x", keepAlive: .zero)
        try await run(
            [[Self.connect, .send(limited), .hold]], configuration: configuration
        ) { client, peer in
            try await client.connect()
            let before = await peer.record { $0.received.count > 8 }.received.count
            let retained = await #expect(throws: MQTTError.self) {
                try await client.publish("x", to: "t", retain: true)
            }
            #expect(retained?.code == .clientNotSupportedByServer)
            let large = await #expect(throws: MQTTError.self) {
                try await client.publish([UInt8](repeating: 0, count: 40), to: "t")
            }
            #expect(large?.code == .mqttPacketTooLarge)
            let described = await #expect(throws: MQTTError.self) {
                try await client.publish(
                    "x", to: "t",
                    properties: Properties([.contentType(String(repeating: "x", count: 40))]))
            }
            #expect(described?.code == .mqttPacketTooLarge)
            let aliased = await #expect(throws: MQTTError.self) {
                try await client.publish("x", to: "t", properties: Properties([.topicAlias(1)]))
            }
            #expect(aliased?.code == .clientInvalidArgument)
            // PUBLISH "y" is all that follows CONNECT.
            try await client.publish("y", to: "t")
            let record = await peer.record { $0.received.count >= before + 7 }
            #expect(record.received.suffix(from: before) == [0x30, 5, 0, 1, 0x74, 0, 0x79])
        }
    }
}
