import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

@Suite(.timeLimit(.minutes(1))) struct ClientMetricsTests {
    @Test func who_has_the_answer_finds_it_counted() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let profile = try broker.profile(.tcp)
        let client = MQTTClient(profile: profile, configuration: .init(clientID: "c", reconnect: .quick))
        #expect(client.metrics == ClientMetrics())
        try await client.connect()
        let subscription = try await client.subscribe(to: "t", qos: .exactlyOnce)
        for qos in [QoS.atLeastOnce, .exactlyOnce, .exactlyOnce] {
            try await client.publish("0123456789", to: "t", qos: qos)
        }
        var metrics = client.metrics
        #expect(metrics.connects == 1 && metrics.reconnects == 0)
        #expect(metrics.connackTime.count == 1)
        #expect(
            metrics.sent.atLeastOnce == 1 && metrics.sent.exactlyOnce == 2 && metrics.sent.duplicates == 0)
        #expect(metrics.publishRoundTrip.count == 3)
        #expect(metrics.queue == ClientMetrics.Queue())
        // CONNACK, SUBACK, PUBACK, two of PUBREC and PUBCOMP.
        #expect(metrics.received.packets >= 7)
        #expect(metrics.sent.packets >= 7)
        #expect(metrics.sent.bytes > 3 * 10)

        var messages = subscription.makeAsyncIterator()
        for _ in 0..<3 { #expect(try await messages.next() != nil) }
        metrics = client.metrics
        #expect(metrics.received.atLeastOnce == 1 && metrics.received.exactlyOnce == 2)
        let way = try #require(metrics.routes["\(profile)"])
        #expect(way.attempts == 1 && way.connects == 1)
        #expect(way.timeConnected > .zero && way.timeConnected == metrics.timeConnected)
        #expect(way.bytesReceived > 3 * 10 && way.bytesReceived <= metrics.received.bytes)
        await client.disconnect()
        metrics = client.metrics
        #expect(metrics.timeConnected == client.metrics.timeConnected)
        await broker.stop()
    }

    @Test func losses_and_failures_are_counted_by_their_codes() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp), configuration: .init(clientID: "c", reconnect: .quick))
        var events = client.events.makeAsyncIterator()
        try await client.connect()
        _ = await events.untilConnected()
        try await broker.block(.tcp, by: .refusing)
        await broker.dropAll()
        var lost: FailureCode?
        while let event = await events.next() {
            if case .interrupted(let error) = event { lost = error.code }
            if case .reconnecting(3, _, _) = event { break }
        }
        await broker.unblock(.tcp)
        _ = await events.untilConnected()
        let metrics = client.metrics
        #expect(metrics.connectionsLost == [try #require(lost): 1])
        #expect(metrics.attemptsFailed[.tcpRefused, default: 0] >= 2)
        #expect(metrics.attemptsFailed.count == 1)
        #expect(metrics.connects == 2 && metrics.reconnects == 1)
        let way = try #require(metrics.routes.values.first)
        #expect(way.connects == 2)
        #expect(way.attempts == 2 + metrics.attemptsFailed[.tcpRefused, default: 0])
        await client.disconnect()
        await broker.stop()
    }

    @Test func what_a_full_queue_and_a_full_buffer_drop_is_counted() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(
                clientID: "c", reconnect: .jittered(base: .seconds(60), maximum: .seconds(60)),
                subscriptionCapacity: 1, publishQueue: PublishQueue(maximumCount: 2)))
        try await client.connect()
        let all = try await client.subscribe(to: "t/#", qos: .atLeastOnce, overflow: .dropNewest)
        let marks = try await client.subscribe(to: "mark", qos: .atLeastOnce)
        for number in 0..<3 { try await client.publish("a", to: "t/\(number)", qos: .atLeastOnce) }
        try await client.publish("all have come", to: "mark", qos: .atLeastOnce)
        var mark = marks.makeAsyncIterator()
        #expect(try await mark.next() != nil)
        #expect(client.metrics.messagesDropped == 2)
        #expect(all.droppedCount == 2)

        await broker.stop()
        for await event in client.events {
            if case .reconnecting = event { break }
        }
        let receipts = try ["a", "b", "c"].map { try client.enqueue($0, to: "t") }
        await #expect(throws: MQTTError.self) { try await receipts[2].outcome }
        #expect(client.metrics.publishesDropped == 1)
        #expect(client.metrics.queue.waiting == 2)
        #expect(client.metrics.queue.waitingBytes == 4)
        await client.disconnect()
    }

    @Test func pings_are_timed() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(profile: try broker.profile(.tcp), configuration: .init(clientID: "c"))
        try await client.connect()
        client.networkChanged()
        var ping = client.metrics.pingRoundTrip
        // The ping leaves 250 ms after the change.
        while ping.count == 0 {
            try await client.publish("tick", to: "t", qos: .atLeastOnce)
            ping = client.metrics.pingRoundTrip
        }
        #expect(ping.maximum ?? .zero > .zero)
        await client.disconnect()
        await broker.stop()
    }
}
