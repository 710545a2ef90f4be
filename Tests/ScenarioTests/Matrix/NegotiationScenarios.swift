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
