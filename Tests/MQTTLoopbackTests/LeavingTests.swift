import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

@Suite(.timeLimit(.minutes(1))) struct LeavingTests {
    private static let connect = ScriptedPeer.Step.expectUntil(Array("client-x".utf8))
    private static let connack = ScriptedPeer.Step.send([0x20, 3, 0, 0, 0])

    private func run(_ script: [ScriptedPeer.Step], _ body: (MQTTClient, ScriptedPeer) async throws -> Void)
        async throws
    {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(on: loop, scripts: [script])
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)),
            configuration: .init(version: .v5, clientID: "client-x", keepAlive: .zero, reconnect: .quick))
        do { try await body(client, peer) } catch { Issue.record(error) }
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }

    @Test func what_is_under_way_arrives_first() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let profile = try broker.profile(.tcp)
        let client = MQTTClient(profile: profile, configuration: .init(clientID: "c"))
        let reader = MQTTClient(profile: profile, configuration: .init(clientID: "reader"))
        try await client.connect()
        try await reader.connect()
        let all = try await reader.subscribe(to: "t", qos: .exactlyOnce)
        let receipts = try (0..<3000).map { number in
            try client.enqueue("\(number)", to: "t", qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce)
        }
        let outcome = await client.disconnect(drain: .seconds(30))
        #expect(outcome.isEmpty)
        #expect(client.state == .ended(nil))
        for receipt in receipts { _ = try await receipt.outcome }
        var messages = all.makeAsyncIterator()
        for number in 0..<3000 { #expect(try await messages.next()?.text == "\(number)") }
        await reader.disconnect()
        await broker.stop()
    }

    @Test func what_has_not_arrived_in_time_is_told_and_nothing_new_is_taken() async throws {
        try await run([Self.connect, Self.connack, .hold]) { client, _ in
            try await client.connect()
            let receipt = try client.enqueue("unanswered", to: "t", qos: .atLeastOnce)
            let leaving = Task { await client.disconnect(drain: .milliseconds(300)) }
            // Refused as soon as the drain has begun; accepted before.
            var refused: MQTTError?
            while refused == nil {
                do { try await client.publish("tick", to: "t") } catch { refused = error as? MQTTError }
            }
            #expect([.clientDisconnected, .clientNotConnected].contains(refused?.code))
            #expect(await leaving.value == DrainOutcome(unconfirmed: 1))
            let error = await #expect(throws: MQTTError.self) { try await receipt.outcome }
            #expect(error?.code == .clientDisconnected)
        }
    }

    @Test func new_calls_are_refused_while_it_drains() async throws {
        try await run([Self.connect, Self.connack, .hold]) { client, _ in
            try await client.connect()
            _ = try client.enqueue("unanswered", to: "t", qos: .atLeastOnce)
            let leaving = Task { await client.disconnect(drain: .seconds(3600)) }
            var codes: [FailureCode] = []
            while codes.isEmpty {
                do { try await client.publish("tick", to: "t") } catch let error as MQTTError {
                    codes.append(error.code)
                }
            }
            let receipt = try client.enqueue("late", to: "t")
            do { _ = try await receipt.outcome } catch let error as MQTTError { codes.append(error.code) }
            do { _ = try await client.subscribe(to: "t") } catch let error as MQTTError {
                codes.append(error.code)
            }
            #expect(codes == [.clientDisconnected, .clientDisconnected, .clientDisconnected])
            // Who is tired of waiting leaves at once.
            leaving.cancel()
            #expect(await leaving.value == DrainOutcome(unconfirmed: 1))
            #expect(client.state == .ended(nil))
        }
    }

    @Test func a_drain_goes_on_over_a_lost_connection() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp), configuration: .init(clientID: "c", reconnect: .quick))
        var events = client.events.makeAsyncIterator()
        try await client.connect()
        _ = await events.untilConnected()
        try await broker.block(.tcp, by: .refusing)
        await broker.dropAll()
        while let event = await events.next() {
            if case .reconnecting = event { break }
        }
        let receipt = try client.enqueue("kept", to: "t", qos: .atLeastOnce)
        let leaving = Task { await client.disconnect(drain: .seconds(30)) }
        await broker.unblock(.tcp)
        #expect(await leaving.value.isEmpty)
        _ = try await receipt.outcome
        await broker.stop()
    }

    @Test func without_a_connection_and_with_nothing_to_say_it_returns_at_once() async throws {
        let client = MQTTClient(profile: try .tcp(host: "127.0.0.1", port: 1))
        #expect(await client.disconnect(drain: .seconds(3600)).isEmpty)
        _ = try? await client.connect()
        #expect(await client.disconnect(drain: .seconds(3600)).isEmpty)
    }

    /// Acknowledgements queue behind a peer that doesn't read any more.
    @Test func row_129_disconnect_during_an_inbound_burst_returns_in_time() async throws {
        // PUBLISH of QoS 1 to `t`, with each packet identifier once.
        var burst: [UInt8] = []
        for identifier in 1...60_000 {
            burst += [0x32, 6, 0, 1, 0x74, UInt8(identifier >> 8), UInt8(identifier & 0xFF), 0x61]
        }
        let server = try SilentServer(burst: burst)
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(server.port)),
            configuration: .init(version: .v3_1_1, clientID: "c", keepAlive: .zero))
        try await client.connect()
        // More than the kernel takes.
        let payload = [UInt8](repeating: 0, count: 1 << 20)
        for _ in 0..<32 { _ = try client.enqueue(payload, to: "t", qos: .atLeastOnce) }
        while client.metrics.received.atLeastOnce == 0 || client.metrics.sent.atLeastOnce == 0 {
            await Task.yield()
        }
        let start = ContinuousClock.now
        await client.disconnect()
        // `ByteStream.closeDeadline`, and what a busy machine adds.
        #expect(ContinuousClock.now - start < .seconds(6))
        #expect(client.state == .ended(nil))
        server.close()
    }

    @Test(arguments: [ScriptedPeer.Step.close, .reset])
    func row_129_a_peer_that_drops_during_the_call_does_not_hold_it_up(_ end: ScriptedPeer.Step) async throws
    {
        // DISCONNECT of 5.0 without a reason is two bytes.
        try await run([Self.connect, Self.connack, .expectCount(2), end]) { client, _ in
            try await client.connect()
            let start = ContinuousClock.now
            await client.disconnect()
            #expect(ContinuousClock.now - start < .seconds(6))
            #expect(client.state == .ended(nil))
        }
    }

    @Test func letting_go_of_a_client_says_goodbye() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let profile = try broker.profile(.tcp)
        let witness = MQTTClient(profile: profile, configuration: .init(clientID: "witness"))
        try await witness.connect()
        let words = try await witness.subscribe(to: "words", qos: .atLeastOnce)
        var client: MQTTClient? = MQTTClient(
            profile: profile,
            configuration: .init(clientID: "c", will: .init(topic: "words", payload: "the will")))
        try await client?.connect()
        try await client?.publish("alive", to: "words", qos: .atLeastOnce)
        client = nil
        while await broker.connectedClients.contains("c") { await Task.yield() }
        try await witness.publish("gone", to: "words", qos: .atLeastOnce)
        var iterator = words.makeAsyncIterator()
        #expect(try await iterator.next()?.text == "alive")
        #expect(try await iterator.next()?.text == "gone")
        await witness.disconnect()
        await broker.stop()
    }
}
