import MQTTLoopback
import MQTTTraversal
import Testing

/// An app that goes to the background and comes back.
@Suite(.timeLimit(.minutes(1))) struct SuspensionTests {
    private let status = WillMessage(topic: "app/status", payload: "away", qos: .atLeastOnce, retain: true)

    private func run(
        _ version: ClientConfiguration.Version, sessionExpiry: Duration = .seconds(3600),
        _ body: (MQTTClient, MQTTClient, LoopbackBroker) async throws -> Void
    ) async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(
                version: version, clientID: "app", sessionExpiry: sessionExpiry,
                will: .init(topic: "app/status", payload: "died", retain: true), reconnect: .quick))
        let other = MQTTClient(profile: try broker.profile(.tcp), configuration: .init(clientID: "other"))
        try await client.connect()
        try await other.connect()
        do { try await body(client, other, broker) } catch { Issue.record(error) }
        await client.disconnect()
        await other.disconnect()
        await broker.stop()
    }

    @Test func the_session_goes_on_where_it_was_and_the_last_word_is_the_programs_own() async throws {
        try await run(.v5) { client, other, broker in
            let subscription = try await client.subscribe(to: "news", qos: .atLeastOnce)
            await client.suspend(status: status)
            #expect(await broker.connectedClients == ["other"])
            let statuses = try await other.subscribe(to: "app/status", qos: .atLeastOnce)
            var words = statuses.makeAsyncIterator()
            #expect(try await words.next()?.text == "away")
            // The server keeps what comes meanwhile, and the client what is said.
            try await other.publish("while away", to: "news", qos: .atLeastOnce)
            let receipt = try client.enqueue("back", to: "app/status", qos: .atLeastOnce)
            #expect(try await client.resume().sessionPresent)
            var news = subscription.makeAsyncIterator()
            #expect(try await news.next()?.text == "while away")
            _ = try await receipt.outcome
            #expect(try await words.next()?.text == "back")
        }
    }

    @Test(arguments: [ClientConfiguration.Version.v3_1_1, .v5])
    func subscriptions_are_made_again_where_the_server_keeps_no_session(
        version: ClientConfiguration.Version
    ) async throws {
        try await run(version, sessionExpiry: .zero) { client, other, broker in
            let subscription = try await client.subscribe(to: "news", qos: .atLeastOnce)
            var events = client.events.makeAsyncIterator()
            _ = await events.untilConnected()
            await client.suspend()
            #expect(try await !client.resume().sessionPresent)
            let (happened, _) = await events.untilConnected()
            #expect(happened == ["suspended", "connecting 1"])
            // Behind the SUBSCRIBE that the client sends by itself.
            _ = try await client.subscribe(to: "later", qos: .atLeastOnce)
            try await other.publish("hello", to: "news", qos: .atLeastOnce)
            var news = subscription.makeAsyncIterator()
            #expect(try await news.next()?.text == "hello")
        }
    }

    @Test func a_status_that_cannot_be_said_holds_nothing_up() async throws {
        try await run(.v5) { client, _, broker in
            await broker.stop()
            await client.suspend(status: status, within: .seconds(30))
            let error = await #expect(throws: MQTTError.self) {
                try await client.publish("x", to: "t", qos: .atLeastOnce, whileConnected: true)
            }
            #expect(error?.code == .clientNotConnected)
        }
    }
}
