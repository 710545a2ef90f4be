import MQTTCore
import MQTTTraversal
import Testing

/// Request/Response through a broker (5.0, section 4.10).
@Suite(.timeLimit(.minutes(1)))
struct RequestScenarios {
    @Test(.serialized, arguments: Scenario.transports.able(.version5))
    func `many requests at once get their own answers`(_ scenario: Scenario) async throws {
        let requester = try await scenario.connected()
        let responder = try await scenario.connected()
        let topic = Names.unique("echo")
        let requests = try await responder.subscribeInTime(to: topic, qos: .atLeastOnce)
        let count = 300
        let answering = Task {
            for request in try await requests.next(count).reversed() {
                try await responder.reply(to: request, with: request.payload.reversed())
            }
        }
        let wrong = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<count {
                group.addTask {
                    let answer = try await requester.request("<\(number)", to: topic, timeout: .seconds(40))
                    return try answer.text != String("<\(number)".reversed())
                }
            }
            return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(wrong == 0)
        try await answering.value
        try await requester.disconnectInTime()
        try await responder.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.transports.able(.version5))
    func `a request that nobody answers ends in time`(_ scenario: Scenario) async throws {
        let requester = try await scenario.connected()
        let responder = try await scenario.connected()
        let topic = Names.unique("silent")
        let requests = try await responder.subscribeInTime(to: topic, qos: .atLeastOnce)
        async let first = requester.request("w", to: topic, timeout: .seconds(40))
        try await responder.reply(to: try await requests.next(), with: "v")
        #expect(try await first.text == "v")
        let error = await #expect(throws: MQTTError.self) {
            try await requester.request("x", to: topic, timeout: .milliseconds(200))
        }
        #expect(error?.code == .mqttRequestTimeout)
        #expect(try await requests.next().properties.responseTopic != nil)
        try await requester.disconnectInTime()
        try await responder.disconnectInTime()
    }
}
