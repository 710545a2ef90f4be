import MQTTCore
import MQTTTraversal
import Testing

/// Many messages, many tasks, and calls that are given up.
@Suite(.timeLimit(.minutes(1)))
struct LoadScenarios {
    @Test(.serialized, arguments: Scenario.extremes)
    func many_tasks_publish_at_once(_ scenario: Scenario) async throws {
        let sender = try await scenario.connected()
        let receiver = try await scenario.connected()
        let base = Names.unique("tasks")
        let subscription = try await receiver.subscribeInTime(to: "\(base)/+")
        let outcomes = try await within(.seconds(50), "20 × 200 publishes") {
            try await withThrowingTaskGroup(of: Int.self) { group in
                for task in 0..<20 {
                    group.addTask {
                        var answered = 0
                        for number in 0..<200 {
                            let outcome = try await sender.publish(
                                "\(number)", to: "\(base)/\(task)", qos: .atLeastOnce)
                            if outcome.reasonCode == .success { answered += 1 }
                        }
                        return answered
                    }
                }
                return try await group.reduce(0, +)
            }
        }
        #expect(outcomes == 4000)
        let messages = try await subscription.next(4000)
        let byTopic = try Dictionary(grouping: messages, by: \.topic).mapValues { try $0.map { try $0.text } }
        #expect(byTopic.count == 20)
        #expect(byTopic.values.allSatisfy { $0 == (0..<200).map { "\($0)" } })
        try await sender.disconnectInTime()
        try await receiver.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func enqueued_messages_go_out_in_order_and_their_receipts_come_true(_ scenario: Scenario) async throws {
        let client = try await scenario.connected()
        let topic = Names.unique("enqueue")
        let highest = scenario.kind.capabilities.maximumQoS
        let subscription = try await client.subscribeInTime(to: topic, qos: highest)
        let receipts = try (0..<100).map { try client.enqueue("\($0)", to: topic, qos: highest) }
        for receipt in receipts {
            let outcome = try await within("a receipt") { try await receipt.outcome }
            #expect(outcome.reasonCode == .success)
        }
        #expect(try await subscription.texts(100) == (0..<100).map { "\($0)" })
        // A receipt may be asked again.
        let last = try #require(receipts.last)
        _ = try await within("the same receipt") { try await last.outcome }
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func cancelled_calls_end_at_once_and_harm_nothing(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        let relay = try Relay(to: broker.port(Door(transport: scenario.transport)), mode: .stall)
        let client = scenario.client(try scenario.profile(broker, through: relay)) {
            $0.pingTimeout = patience
        }

        let connecting = Task { _ = try await client.connect() }
        try await expectCancelled(connecting, "connect")
        await relay.set(.forward)
        try await client.connectInTime()

        let topic = Names.unique("cancel")
        let subscription = try await client.subscribeInTime(to: "\(topic)/#")
        await relay.set(.stall)
        for qos in [QoS.atLeastOnce, .exactlyOnce] where qos <= scenario.kind.capabilities.maximumQoS {
            let publishing = Task {
                _ = try await client.publish("given up", to: "\(topic)/given-up", qos: qos)
            }
            try await expectCancelled(publishing, "publish")
        }
        let subscribing = Task { _ = try await client.subscribe(to: "\(topic)/other") }
        try await expectCancelled(subscribing, "subscribe")
        let reading = Task { try await subscription.next(1).count }
        reading.cancel()
        _ = try await within(.seconds(10), "next") { await reading.result }

        await relay.set(.forward)
        try await client.publishInTime("kept", to: "\(topic)/kept")
        // What was given up on the wire may arrive.
        while try await subscription.next().topic != "\(topic)/kept" {}
        let later = try await client.subscribeInTime(to: "\(topic)/other")
        try await client.publishInTime("later", to: "\(topic)/other")
        #expect(try await later.next().text == "later")
        try await client.disconnectInTime()
    }

    private func expectCancelled(_ task: Task<Void, any Error>, _ what: String) async throws {
        // Wherever it finds the call: before, in the inbox, or on the wire.
        await Task.yield()
        task.cancel()
        let result = try await within(.seconds(10), "the end of a cancelled \(what)") { await task.result }
        #expect(throws: CancellationError.self) { try result.get() }
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func disconnect_returns_during_traffic_and_fails_what_waits(_ scenario: Scenario) async throws {
        let client = try await scenario.connected()
        let topic = Names.unique("leave")
        let subscription = try await client.subscribeInTime(to: topic)
        let senders = (0..<4).map { _ in
            Task { () -> FailureCode? in
                while true {
                    do {
                        try await client.publish("x", to: topic, qos: .atLeastOnce)
                    } catch let error as MQTTError {
                        return error.code
                    } catch {
                        return nil
                    }
                }
            }
        }
        _ = try await subscription.next(20)
        let waiting = try (0..<200).map { _ in try client.enqueue("y", to: topic) }
        try await client.disconnectInTime()
        for sender in senders {
            let code = try await within("the end of a sender") { await sender.value }
            #expect(code == .clientDisconnected || code == .clientNotConnected)
        }
        for receipt in waiting {
            let result = try await within("a receipt") { () -> FailureCode? in
                do {
                    _ = try await receipt.outcome
                    return nil
                } catch let error as MQTTError {
                    return error.code
                }
            }
            #expect(result == nil || result == .clientDisconnected)
        }
        // What had arrived can still be read, then the sequence ends.
        var rest = 0
        while rest < 10_000, try await !subscription.next(1).isEmpty { rest += 1 }
        #expect(rest < 10_000)
        let (error, _) = try await failure("publish") {
            try await client.publish("x", to: topic, qos: .atLeastOnce)
        }
        #expect(error.code == .clientNotConnected)
        // And it can begin again.
        try await client.connectInTime()
        try await client.publishInTime("z", to: topic)
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.extremes, [QoS.atMostOnce, .atLeastOnce])
    func a_consumer_that_starts_late_gets_what_was_promised(_ scenario: Scenario, _ qos: QoS) async throws {
        let count = scenario.kind.capabilities.manyMessages
        let capacity = 500
        let topic = Names.unique("late")
        let receiver = try await scenario.connected {
            $0.subscriptionCapacity = capacity
            $0.receiveMaximum = scenario.kind.honouredReceiveMaximum(100)
            $0.keepAlive = .seconds(1)
            $0.pingTimeout = .seconds(10)
        }
        let events = EventRecorder(receiver)
        let subscription = try await receiver.subscribeInTime(to: topic, qos: qos)
        let sender = try await scenario.connected()
        var receipts: [PublishReceipt] = []
        for number in 0..<count {
            // At QoS 0 a call that waits is what slows us down to the pace of the network.
            if qos == .atMostOnce {
                try await sender.publish("\(number)", to: topic)
            } else {
                receipts.append(try sender.enqueue("\(number)", to: topic, qos: qos))
            }
        }
        for receipt in receipts { _ = try await within("a receipt") { try await receipt.outcome } }
        // A second subscription's message is behind all of them on the same connection, and gets through.
        if qos == .atMostOnce {
            let marker = try await receiver.subscribeInTime(to: "\(topic)/marker")
            try await sender.publishInTime("done", to: "\(topic)/marker", qos: .atMostOnce)
            _ = try await marker.next()
            let arrived = capacity + subscription.droppedCount
            #expect(arrived <= count && arrived > capacity)
            let newest = try await subscription.texts(capacity)
            #expect(newest.last == "\(count - 1)" || arrived < count)
        } else {
            #expect(try await subscription.texts(count) == (0..<count).map { "\($0)" })
            #expect(subscription.droppedCount == 0)
        }
        #expect(events.interruptions == [])
        try await sender.disconnectInTime()
        try await receiver.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.extremes)
    func a_consumer_may_publish_in_its_own_loop(_ scenario: Scenario) async throws {
        let count = 500
        let base = Names.unique("echo")
        let client = try await scenario.connected {
            $0.subscriptionCapacity = 10
            $0.receiveMaximum = scenario.kind.honouredReceiveMaximum(5)
        }
        let requests = try await client.subscribeInTime(to: "\(base)/request")
        let other = try await scenario.connected()
        let answers = try await other.subscribeInTime(to: "\(base)/answer")
        let echo = Task {
            for try await message in requests {
                try await client.publish(message.payload, to: "\(base)/answer", qos: .atLeastOnce)
            }
        }
        for number in 0..<count { try other.enqueue("\(number)", to: "\(base)/request") }
        #expect(try await answers.texts(count) == (0..<count).map { "\($0)" })
        // The answer may be here before the PUBACK that the loop still waits for.
        try await client.unsubscribe(requests)
        _ = try await within("the end of the loop") { try await echo.value }
        try await client.disconnectInTime()
        try await other.disconnectInTime()
    }
}
