import MQTTLoopback
import MQTTTraversal
import Testing

/// Publishing while the broker is away.
@Suite(.timeLimit(.minutes(1))) struct PublishQueueTests {
    /// A client whose broker has gone, and which waits for a minute to try again.
    private func interrupted(
        _ queue: PublishQueue = PublishQueue(),
        _ body: (MQTTClient) async throws -> Void
    ) async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(
                clientID: "c", reconnect: .jittered(base: .seconds(60), maximum: .seconds(60)),
                publishQueue: queue))
        try await client.connect()
        await broker.stop()
        for await event in client.events {
            if case .reconnecting = event { break }
        }
        try await body(client)
        await client.disconnect()
    }

    @Test func receipts_of_what_was_dropped_say_so() async throws {
        try await interrupted(PublishQueue(maximumCount: 2, overflow: .dropOldest)) { client in
            let receipts = try ["a", "b", "c"].map { try client.enqueue($0, to: "t") }
            let error = await #expect(throws: MQTTError.self) { try await receipts[0].outcome }
            #expect(error?.code == .clientQueueFull)
        }
    }

    @Test func what_is_for_now_only_fails_at_once() async throws {
        try await interrupted { client in
            for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
                let error = await #expect(throws: MQTTError.self) {
                    try await client.publish("ON", to: "fan/set", qos: qos, whileConnected: true)
                }
                #expect(error?.code == .clientNotConnected)
            }
        }
    }

    @Test func an_expired_message_fails_while_there_is_no_connection() async throws {
        try await interrupted { client in
            let error = await #expect(throws: MQTTError.self) {
                try await client.publish(
                    "a", to: "t", qos: .atLeastOnce, properties: Properties([.messageExpiryInterval(1)]))
            }
            #expect(error?.code == .clientMessageExpired)
        }
    }
}
