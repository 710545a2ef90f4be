import Glibc
import MQTTCore
import Testing

/// Scenarios over a link that breaks at any byte, each from its seed. `MQTT_SIMULATIONS` says how many there
/// are for each version.
@Suite("Session: delivery over a link that breaks")
struct SimulationTests {
    private static let scenarios = getenv("MQTT_SIMULATIONS").flatMap { Int(String(cString: $0)) } ?? 250

    @Test(arguments: ProtocolVersion.allCases, 0..<4)
    func every_message_arrives_as_its_qos_promises(version: ProtocolVersion, part: Int) throws {
        var drops = 0
        var messages = 0
        for seed in stride(from: part, to: Self.scenarios, by: 4) {
            var link = SimulatedLink(version: version, seed: UInt64(seed))
            try link.run(steps: 300)
            let problems = link.violations + link.server.violations + broken(link)
            guard problems.isEmpty else {
                Issue.record("\(version), seed \(seed): \(problems.prefix(5))")
                return
            }
            drops += link.drops
            messages += link.published.count + link.publishedByServer.count
        }
        #expect(drops > Self.scenarios / 4 && messages > Self.scenarios * 10)
    }

    /// What was promised and not kept.
    private func broken(_ link: SimulatedLink) -> [String] {
        var broken: [String] = []
        func check(_ message: Message, _ count: Int, _ direction: String) {
            let isKept =
                switch message.qos {
                case .atMostOnce: count <= 1
                case .atLeastOnce: count >= 1
                case .exactlyOnce: count == 1
                }
            if !isKept { broken.append("\(count) times \(direction): \(message)") }
        }
        for message in link.published { check(message, link.server.received[message.number] ?? 0, "sent") }
        for message in link.publishedByServer {
            check(message, link.delivered[message.number] ?? 0, "received")
        }
        if !isRising(link.server.firstArrivals) { broken.append("order sent") }
        if !isRising(link.deliveries) { broken.append("order received") }
        if link.ended.count != link.published.count { broken.append("publishes that wait") }
        if link.session.inFlightCount + link.session.queuedCount != 0 { broken.append("messages left") }
        return broken
    }

    private func isRising(_ numbers: [Int]) -> Bool { zip(numbers, numbers.dropFirst()).allSatisfy(<) }
}
