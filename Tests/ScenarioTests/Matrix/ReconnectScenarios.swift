import MQTTCore
import MQTTTraversal
import Testing

/// Connections that go, and what must not go with them.
@Suite(.timeLimit(.minutes(1)))
struct ReconnectScenarios {
    @Test(arguments: Scenario.matrix)
    func a_keep_alive_of_one_second_outlives_idle_seconds(_ scenario: Scenario) async throws {
        let identifier = Names.unique("idle")
        let client = try await scenario.client {
            $0.keepAlive = .seconds(1)
            $0.clientID = identifier
            $0.pingTimeout = .seconds(10)
        }
        let events = EventRecorder(client)
        try await client.connectInTime()
        let topic = Names.unique("idle")
        let subscription = try await client.subscribeInTime(to: topic)
        // Being idle is what is tested here.
        try await Task.sleep(for: .milliseconds(4500))
        try await client.publishInTime("still here", to: topic)
        #expect(try await subscription.next().text == "still here")
        #expect(events.interruptions == [])
        #expect(events.names.filter { $0 == "connected" }.count == 1)
        if scenario.kind == .mosquitto {
            let pings = try await Mosquitto.shared.log.split(separator: "\n")
                .filter { $0.hasSuffix("Received PINGREQ from \(identifier)") }
            #expect(pings.count >= 3)
        }
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix.able(.quickStart))
    func a_broker_that_dies_and_comes_back_is_found_again(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.launch([Door(transport: scenario.transport)])
        let client = scenario.client(try scenario.profile(broker))
        let events = EventRecorder(client)
        try await client.connectInTime()
        let subscription = try await client.subscribeInTime(to: "restart/#")
        try await client.publishInTime("before", to: "restart/a")
        #expect(try await subscription.next().text == "before")

        try await broker.kill()
        try await events.wait(for: "connected", "interrupted", "reconnecting")
        let away = try client.enqueue("while away", to: "restart/b")
        let highest = scenario.kind.capabilities.maximumQoS
        let waiting = Task { try await client.publish("while away too", to: "restart/c", qos: highest) }
        try await broker.restart()
        try await events.wait(
            for: "connected", "interrupted", "reconnecting", "connecting", "connected")
        _ = try await within("the receipt") { try await away.outcome }
        _ = try await within("the call that waited") { try await waiting.value }
        #expect(Set(try await subscription.texts(2)) == ["while away", "while away too"])

        try await client.publishInTime("after", to: "restart/d")
        #expect(try await subscription.next().text == "after")
        #expect(events.outcomes.allSatisfy { !$0.sessionPresent })
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func a_session_brings_what_was_sent_while_its_client_was_away(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        let relay = try Relay(to: broker.port(Door(transport: scenario.transport)))
        let client = scenario.client(try scenario.profile(broker, through: relay)) { $0.cleanStart = false }
        let events = EventRecorder(client)
        try await client.connectInTime()
        let topic = Names.unique("resume")
        let subscription = try await client.subscribeInTime(to: topic)
        let sender = try await scenario.connected()

        await relay.cut(.refuse)
        try await events.wait(for: "connected", "interrupted", "reconnecting")
        for number in 1...3 { try await sender.publishInTime("\(number)", to: topic) }
        await relay.set(.forward)
        try await events.wait(for: "connected", "interrupted", "connected")
        #expect(events.outcomes.last?.sessionPresent == true)
        #expect(!events.names.contains("sessionLost"))
        #expect(try await subscription.texts(3) == ["1", "2", "3"])
        try await sender.publishInTime("4", to: topic)
        #expect(try await subscription.next().text == "4")
        try await client.disconnectInTime()
        try await sender.disconnectInTime()
    }

    /// Each time the connection is cut in the middle of traffic.
    @Test(.serialized, arguments: Scenario.extremes.able(.exactlyOnce, .answersAgain))
    func cuts_during_traffic_lose_nothing(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        let relay = try Relay(to: broker.port(Door(transport: scenario.transport)))
        let client = scenario.client(try scenario.profile(broker, through: relay)) { $0.cleanStart = false }
        try await client.connectInTime()
        let receiver = try await scenario.connected()
        let topic = Names.unique("cuts")
        let subscription = try await receiver.subscribeInTime(to: topic, qos: .exactlyOnce)
        var expected: [String] = []
        for round in 0..<4 {
            let receipts = try (0..<200).map { number in
                try client.enqueue("\(round) \(number)", to: topic, qos: .exactlyOnce)
            }
            expected += (0..<200).map { "\(round) \($0)" }
            _ = try await within("the first answer") { try await receipts[0].outcome }
            await relay.cut()
            for receipt in receipts { _ = try await within("the answers") { try await receipt.outcome } }
        }
        // Exactly once, in order [MQTT-4.6.0-5].
        #expect(try await subscription.texts(800) == expected)
        try await client.disconnectInTime()
        try await receiver.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.extremes)
    func a_peer_that_falls_silent_is_noticed_by_the_keep_alive(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        let relay = try Relay(to: broker.port(Door(transport: scenario.transport)))
        let stages = StageRecorder()
        let client = scenario.client(try scenario.profile(broker, through: relay)) {
            $0.keepAlive = .seconds(1)
            $0.pingTimeout = .seconds(1)
            $0.cleanStart = false
            $0.log = stages.log
        }
        let events = EventRecorder(client)
        try await client.connectInTime()
        let silence = await relay.set(.stall)
        // Outgoing QoS 0 traffic must not hide a dead peer.
        let traffic = Task {
            while !Task.isCancelled {
                try await client.publish("x", to: "nobody")
                try await Task.sleep(for: .milliseconds(100))
            }
        }
        try await events.wait(for: "connected", "interrupted")
        traffic.cancel()
        #expect(events.interruptions.first?.code == .idleBlackholed)
        await relay.cut()
        try await events.wait(for: "connected", "interrupted", "reconnecting", "connected")
        // To the next attempt, whose delay is 400 ms at most.
        let duration = silence.duration(to: try #require(stages.all(.resolve).dropFirst().first).started)
        #expect(duration >= .seconds(1) && duration < .seconds(6), "\(duration)")
        try await client.publishInTime("again", to: "nobody")
        try await client.disconnectInTime()
    }
}
