import MQTTLoopback
import MQTTTraversal
import Testing

/// What a retained message that comes again after a lost session looks like to a consumer.
@Suite(.timeLimit(.minutes(1))) struct RetainedRepetitionTests {
    private func run(
        _ version: ClientConfiguration.Version, sessionExpiry: Duration = .zero,
        _ body: (MQTTClient, LoopbackBroker, inout ClientEvents.AsyncIterator) async throws -> Void
    ) async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(
                version: version, clientID: "c", sessionExpiry: sessionExpiry, reconnect: .quick))
        var events = client.events.makeAsyncIterator()
        try await client.connect()
        _ = await events.untilConnected()
        do { try await body(client, broker, &events) } catch { Issue.record(error) }
        await client.disconnect()
        await broker.stop()
    }

    private func text(_ message: Message?) throws -> String {
        let message = try #require(message)
        let marks = (message.retain ? " retained" : "") + (message.isRetainedRepetition ? " again" : "")
        return try message.text + marks
    }

    @Test(arguments: [ClientConfiguration.Version.v5, .v3_1_1])
    func what_comes_for_a_restored_subscription_is_marked(_ version: ClientConfiguration.Version) async throws
    {
        try await run(version) { client, broker, events in
            try await client.publish("old", to: "state/1", qos: .atLeastOnce, retain: true)
            let states = try await client.subscribe(to: "state/+", qos: .atLeastOnce)
            var messages = states.makeAsyncIterator()
            #expect(try text(await messages.next()) == "old retained")
            await broker.dropAll()
            _ = await events.untilConnected()
            #expect(try text(await messages.next()) == "old retained again")
            // Live, whether the topic has a retained message or not.
            try await client.publish("new", to: "state/1", qos: .atLeastOnce, retain: true)
            #expect(try text(await messages.next()) == "new")
            // A newcomer gets its first, and what it shares with the other comes to both.
            let later = try await client.subscribe(to: "state/1", qos: .atLeastOnce)
            var first = later.makeAsyncIterator()
            #expect(try text(await first.next()) == "new retained")
        }
    }

    @Test func a_session_that_lives_on_brings_no_repetition() async throws {
        try await run(.v5, sessionExpiry: .seconds(3600)) { client, broker, events in
            try await client.publish("old", to: "state", qos: .atLeastOnce, retain: true)
            let states = try await client.subscribe(to: "state", qos: .atLeastOnce)
            var messages = states.makeAsyncIterator()
            #expect(try text(await messages.next()) == "old retained")
            // Behind the PUBACK, without which it would rightly come again.
            try await client.publish("", to: "other", qos: .atLeastOnce)
            await broker.dropAll()
            _ = await events.untilConnected()
            try await client.publish("new", to: "state", qos: .atLeastOnce)
            #expect(try text(await messages.next()) == "new")
        }
    }

    @Test func with_retain_as_published_nothing_is_marked() async throws {
        try await run(.v5) { client, broker, events in
            try await client.publish("old", to: "state", qos: .atLeastOnce, retain: true)
            let states = try await client.subscribe(
                to: "state", options: SubscriptionOptions(qos: .atLeastOnce, retainAsPublished: true))
            var messages = states.makeAsyncIterator()
            #expect(try text(await messages.next()) == "old retained")
            await broker.dropAll()
            _ = await events.untilConnected()
            #expect(try text(await messages.next()) == "old retained")
            try await client.publish("new", to: "state", qos: .atLeastOnce, retain: true)
            #expect(try text(await messages.next()) == "new retained")
        }
    }
}
