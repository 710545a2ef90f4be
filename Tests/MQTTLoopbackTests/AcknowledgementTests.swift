import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Messages that the program acknowledges (sections 4.3 and 4.6).
@Suite(.timeLimit(.minutes(1))) struct AcknowledgementTests {
    private func connected(_ broker: LoopbackBroker) async throws -> MQTTClient {
        let client = MQTTClient(
            profile: try broker.profile(.tcp), configuration: .init(clientID: "c", reconnect: .quick))
        try await client.connect()
        return client
    }

    private func reconnect(_ client: MQTTClient, _ broker: LoopbackBroker) async {
        let events = client.events
        await broker.dropConnections(clientID: "c")
        var isInterrupted = false
        for await event in events {
            if case .interrupted = event { isInterrupted = true }
            if case .connected = event, isInterrupted { break }
        }
    }

    /// How many the broker has, once it has answered what comes behind them.
    private func received(
        _ kind: LoopbackBroker.PacketKind, by broker: LoopbackBroker, from client: MQTTClient
    ) async throws -> UInt64 {
        try await client.publish("", to: "fence", qos: .atLeastOnce)
        return await broker.counters.received(kind)
    }

    @Test func `[MQTT-4.6.0-2] PUBACKs leave in the order of the messages, however these are acknowledged`()
        async throws
    {
        let loop = try EventLoop()
        let message: (UInt8) -> [UInt8] = { [0x32, 6, 0, 1, 0x74, 0, $0, 0] }
        let script: [ScriptedPeer.Step] = [
            .expectUntil(Array("client-x".utf8)), .send([0x20, 3, 0, 0, 0]), .expectCount(11),
            .send([0x90, 4, 0, 1, 0, 1] + message(1) + message(2) + message(3)),
            // PUBLISH "late" at QoS 0 overtakes: the first message isn't acknowledged yet.
            .expect([0x30, 7, 0, 4] + Array("late".utf8) + [0]),
            .expect([0x40, 2, 0, 1, 0x40, 2, 0, 2, 0x40, 2, 0, 3]), .expectEnd,
        ]
        let peer = try ScriptedPeer(on: loop, scripts: [script])
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)),
            configuration: .init(clientID: "client-x", reconnect: .never))
        try await client.connect()
        let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce, acknowledgement: .manual)
        var messages: [Message] = []
        for try await message in subscription {
            messages.append(message)
            if messages.count == 3 { break }
        }
        messages[2].acknowledge()
        messages[1].acknowledge()
        #expect(messages.map(\.awaitsAcknowledgement) == [true, false, false])
        try await client.publish("", to: "late")
        _ = await peer.record { $0.received.suffix(9).starts(with: [0x30, 7, 0, 4]) }
        messages[0].acknowledge()
        let record = await peer.record { $0.received.suffix(12).starts(with: [0x40, 2, 0, 1, 0x40]) }
        #expect(record.mismatch == nil)
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }

    @Test func `a QoS 1 message that wasn't acknowledged comes again, until it is`() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = try await connected(broker)
        let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce, acknowledgement: .manual)
        var messages = subscription.makeAsyncIterator()
        for text in ["taken", "left"] { try await client.publish(text, to: "t", qos: .atLeastOnce) }
        let first = try #require(try await messages.next())
        await reconnect(client, broker)
        #expect(!first.awaitsAcknowledgement)
        // Too late: it belongs to the connection that is gone.
        first.acknowledge()
        let again = try #require(try await messages.next())
        #expect(try again.text == "taken")
        #expect(again.isDuplicate && again.awaitsAcknowledgement)
        // What nobody had taken is there once.
        let left = try #require(try await messages.next())
        #expect(try left.text == "left")
        again.acknowledge()
        left.acknowledge()
        #expect(try await received(.puback, by: broker, from: client) == 2)
        await reconnect(client, broker)
        try await client.publish("new", to: "t", qos: .atLeastOnce)
        #expect(try await messages.next()?.text == "new")
        await client.disconnect()
        await broker.stop()
    }

    @Test func `a QoS 2 message is handed out once, and owed across connections`() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = try await connected(broker)
        let subscription = try await client.subscribe(to: "t", qos: .exactlyOnce, acknowledgement: .manual)
        var messages = subscription.makeAsyncIterator()
        try await client.publish("once", to: "t", qos: .exactlyOnce)
        let message = try #require(try await messages.next())
        await reconnect(client, broker)
        #expect(message.awaitsAcknowledgement)
        #expect(try await received(.pubrec, by: broker, from: client) == 0)
        message.acknowledge()
        message.acknowledge()
        #expect(try await received(.pubrec, by: broker, from: client) == 1)
        try await client.publish("next", to: "t", qos: .exactlyOnce)
        #expect(try await messages.next()?.text == "next")
        await client.disconnect()
        await broker.stop()
    }

    @Test func `where two subscriptions have a message, it is acknowledged once both have done with it`()
        async throws
    {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = try await connected(broker)
        let manual = try await client.subscribe(to: "t", qos: .atLeastOnce, acknowledgement: .manual)
        let automatic = try await client.subscribe(to: "#", qos: .atLeastOnce)
        try await client.publish("x", to: "t", qos: .atLeastOnce)
        var messages = manual.makeAsyncIterator()
        let message = try #require(try await messages.next())
        var others = automatic.makeAsyncIterator()
        let other = try #require(try await others.next())
        #expect(other == message)
        #expect(!other.awaitsAcknowledgement)
        other.acknowledge()
        #expect(try await received(.puback, by: broker, from: client) == 0)
        message.acknowledge()
        // The first fence's copy for "#" had to wait behind it.
        #expect(try await received(.puback, by: broker, from: client) >= 2)
        await client.disconnect()
        await broker.stop()
    }

    @Test func `letting go of a subscription acknowledges what nobody has taken`() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = try await connected(broker)
        var manual: Subscription? = try await client.subscribe(
            to: "t", qos: .atLeastOnce, acknowledgement: .manual)
        let automatic = try await client.subscribe(to: "u", qos: .atLeastOnce)
        try await client.publish("x", to: "t", qos: .atLeastOnce)
        try await client.publish("y", to: "u", qos: .atLeastOnce)
        var messages = automatic.makeAsyncIterator()
        #expect(try await messages.next()?.text == "y")
        #expect(try await received(.puback, by: broker, from: client) == 0)
        #expect(manual != nil)
        manual = nil
        #expect(try await received(.puback, by: broker, from: client) == 2)
        await client.disconnect()
        await broker.stop()
    }

    @Test func `a message made by hand has nothing to acknowledge`() {
        let message = Message(topic: "t", payload: [1], qos: .atLeastOnce)
        #expect(!message.awaitsAcknowledgement)
        message.acknowledge()
    }
}
