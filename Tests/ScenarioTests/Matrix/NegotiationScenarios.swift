import MQTTCore
import MQTTTransport
import MQTTTraversal
import Testing

/// What the two sides agree on.
@Suite(.timeLimit(.minutes(1)))
struct NegotiationScenarios {
    @Test(.serialized, arguments: Scenario.transports.able(.refusesVersions))
    func `the newest version that the broker speaks is found without being told`(
        _ scenario: Scenario
    ) async throws {
        let client = try await scenario.client { $0.version = .automatic }
        let outcome = try await client.connectInTime()
        #expect(outcome.version == scenario.version)
        let topic = Names.unique("automatic")
        let subscription = try await client.subscribeInTime(to: topic)
        try await client.publishInTime("found", to: topic)
        #expect(try await subscription.next().text == "found")
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.transports)
    func `a publish at QoS 2 ends, with a broker that has no QoS 2 too`(_ scenario: Scenario) async throws {
        let client = try await scenario.connected()
        let topic = Names.unique("twice")
        if scenario.kind.capabilities.maximumQoS == .exactlyOnce {
            try await client.publishInTime("once", to: topic, qos: .exactlyOnce)
        } else {
            let (error, _) = try await failure("publish") {
                try await client.publish("once", to: topic, qos: .exactlyOnce)
            }
            #expect(error.code == .mqttProtocolError)
            #expect(error.description.contains("more than once"))
            try await client.publishInTime("goes on", to: topic, qos: .atLeastOnce)
        }
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.webSockets)
    func `a WebSocket is compressed where the broker agrees to it`(_ scenario: Scenario) async throws {
        var profile = try await scenario.profile()
        profile.webSocket?.compression = .init()
        let stages = StageRecorder()
        let client = scenario.client(profile) { $0.log = stages.log }
        try await client.connectInTime()
        let detail = try #require(stages.all(.webSocket).last?.detail)
        #expect(detail.contains("compressed") == scenario.kind.capabilities.compressesWebSocket, "\(detail)")
        let topic = Names.unique("compressed")
        let subscription = try await client.subscribeInTime(to: topic)
        // The first can be compressed, the second hardly.
        for payload in [Array(repeating: 7, count: 100_000), DeliveryScenarios.pattern(100_000)] {
            try await client.publishInTime(payload, to: topic)
            #expect(try await subscription.next().payload == payload)
        }
        try await client.disconnectInTime()
    }
}
