import MQTTCore
import MQTTTraversal
import Testing

/// Messages that the program acknowledges, through a broker (sections 4.3, 4.4 and 4.6).
@Suite(.timeLimit(.minutes(1)))
struct AcknowledgementScenarios {
    @Test(.serialized, arguments: Scenario.matrix)
    func `what isn't acknowledged comes again, and what is doesn't`(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        let relay = try Relay(to: broker.port(Door(transport: scenario.transport)))
        let client = scenario.client(try scenario.profile(broker, through: relay)) { $0.cleanStart = false }
        let events = EventRecorder(client)
        try await client.connectInTime()
        let sender = try await scenario.connected()
        let topic = Names.unique("manual")
        let subscription = try await within("subscribe") {
            try await client.subscribe(to: topic, qos: .atLeastOnce, acknowledgement: .manual)
        }
        for number in 0..<6 { try await sender.publishInTime("\(number)", to: topic) }
        let first = try await subscription.next(6)
        // The last first: the broker hears of all of them only when the first is acknowledged too.
        for message in first[0..<3].reversed() { message.acknowledge() }
        // PUBACKs before this have arrived when it is answered.
        try await client.publishInTime("", to: "\(topic)/fence")
        await relay.cut()
        try await events.wait(for: "connected", "interrupted", "reconnecting", "connecting", "connected")
        let again = try await subscription.next(3)
        let texts = try again.map { try $0.text }
        #expect(texts == ["3", "4", "5"])
        #expect(again.allSatisfy { $0.isDuplicate })
        for message in again { message.acknowledge() }
        try await sender.publishInTime("end", to: topic)
        let last = try await subscription.next()
        #expect(try last.text == "end")
        last.acknowledge()
        try await client.disconnectInTime()
        try await sender.disconnectInTime()
    }
}
