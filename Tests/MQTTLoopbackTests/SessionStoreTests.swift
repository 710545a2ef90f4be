import Glibc
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// What one client has stored, and a later one with the same directory sends.
@Suite(.serialized, .timeLimit(.minutes(1))) struct SessionStoreTests {
    private let temporary = TemporaryDirectory()
    private var directory: String { temporary.path }

    private func client(
        _ broker: LoopbackBroker, _ identifier: String = "c", version: ClientConfiguration.Version = .v5,
        log: (@Sendable (LogLevel, LogEvent) -> Void)? = nil
    ) throws -> MQTTClient {
        MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(
                version: version, clientID: identifier, cleanStart: version != .v3_1_1, reconnect: .quick,
                log: log,
                sessionStore: .directory(directory)))
    }

    /// A subscriber of all, whose messages come in order.
    private func reader(_ broker: LoopbackBroker) async throws -> (MQTTClient, Subscription) {
        let client = MQTTClient(profile: try broker.profile(.tcp), configuration: .init(clientID: "reader"))
        try await client.connect()
        return (client, try await client.subscribe(to: "#", qos: .exactlyOnce))
    }

    @Test(arguments: [ClientConfiguration.Version.v5, .v3_1_1, .automatic])
    func messages_accepted_offline_are_sent_by_the_next_client(version: ClientConfiguration.Version)
        async throws
    {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp), .init(.webSocket)])
        let over = try ConnectionProfile(url: broker.url(.webSocket))
        let first = try client(broker, version: version)
        try await first.connect()
        let events = first.events
        try await broker.block(.tcp, by: .refusing)
        await broker.dropAll()
        for await event in events { if case .interrupted = event { break } }
        var receipts: [PublishReceipt] = []
        for number in 0..<20 {
            receipts.append(
                try first.enqueue("\(number)", to: "t", qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce))
        }
        for receipt in receipts { try await receipt.stored() }
        await first.disconnect()
        await #expect(throws: MQTTError.self) { try await receipts[0].outcome }

        let subscriber = MQTTClient(profile: over, configuration: .init(clientID: "reader"))
        try await subscriber.connect()
        let messages = try await subscriber.subscribe(to: "#", qos: .exactlyOnce)
        await broker.unblock(.tcp)
        let second = try client(broker, version: version)
        let outcome = try await second.connect()
        #expect(outcome.sessionPresent)
        var iterator = messages.makeAsyncIterator()
        for number in 0..<20 { #expect(try await iterator.next()?.text == "\(number)") }
        try await second.publish("last", to: "t", qos: .exactlyOnce)
        #expect(try await iterator.next()?.text == "last")
        await second.disconnect()
        await subscriber.disconnect()
        await broker.stop()
    }

    @Test func the_same_client_connects_again_after_disconnect() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let (other, messages) = try await reader(broker)
        var iterator = messages.makeAsyncIterator()
        let client = try client(broker)
        for round in 0..<3 {
            let outcome = try await client.connect()
            #expect(outcome.sessionPresent == (round > 0))
            try await client.publish("\(round)", to: "t", qos: .exactlyOnce)
            #expect(try await iterator.next()?.text == "\(round)")
            await client.disconnect()
        }
        await other.disconnect()
        await broker.stop()
    }

    @Test func a_directory_in_use_and_one_of_another_client_are_named() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let owner = try client(broker)
        try await owner.connect()
        for identifier in ["c", "d"] {
            let error = await #expect(throws: MQTTError.self) {
                try await self.client(broker, identifier).connect()
            }
            #expect(error?.code == .clientStorageFailed && error?.description.contains("in use") == true)
        }
        await owner.disconnect()
        let late = try client(broker, "d")
        let error = await #expect(throws: MQTTError.self) { try await late.connect() }
        #expect(error?.code == .clientStorageFailed && error?.description.contains("not of \"d\"") == true)
        // Nothing of it is left behind: the owner may come back.
        try await owner.connect()
        await owner.disconnect()
        await broker.stop()
    }

    @Test func what_no_store_keeps_says_so() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let stored = try client(broker)
        try await stored.connect()
        let kept = try stored.enqueue("a", to: "t")
        try await kept.stored()
        try await kept.stored()
        let unkept = try stored.enqueue("a", to: "t", qos: .atMostOnce)
        let memory = MQTTClient(profile: try broker.profile(.tcp), configuration: .init(clientID: "m"))
        try await memory.connect()
        for receipt in [unkept, try memory.enqueue("a", to: "t")] {
            let error = await #expect(throws: MQTTError.self) { try await receipt.stored() }
            #expect(error?.code == .clientInvalidArgument)
        }
        await memory.disconnect()
        await stored.disconnect()
        await broker.stop()
    }

    @Test func a_configuration_that_does_not_fit_a_store_is_refused() async throws {
        let profile = try ConnectionProfile(url: "mqtt://127.0.0.1:1")
        let refused: [ClientConfiguration] = [
            .init(version: .v3_1_1, clientID: "c", sessionStore: .directory(directory)),
            .init(clientID: "c", sessionStore: .directory("")),
            .init(clientID: "c", sessionStore: .directory(directory, fsync: .interval(.zero))),
        ]
        for configuration in refused {
            let error = await #expect(throws: MQTTError.self) {
                try await MQTTClient(profile: profile, configuration: configuration).connect()
            }
            #expect(error?.code == .clientInvalidArgument)
        }
    }
}
