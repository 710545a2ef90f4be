import MQTTCore
import Testing

@Suite("Session: messages that wait")
struct SessionQueueTests {
    private func harness(_ queue: PublishQueue, version: ProtocolVersion = .v5) -> SessionHarness {
        SessionHarness(SessionConfiguration(version: version, clientIdentifier: "c", queue: queue))
    }

    /// The payloads of the PUBLISHes that go out; each has one byte.
    private func sent(_ harness: inout SessionHarness) -> String {
        String(decoding: harness.packets().compactMap(\.last), as: UTF8.self)
    }

    @Test(arguments: [PublishQueue(maximumCount: 3), PublishQueue(maximumBytes: 6)])
    func beyond_either_bound_a_new_message_fails(queue: PublishQueue) {
        var harness = harness(queue)
        for payload in ["a", "b", "c"] { harness.publish(payload) }
        let refused = harness.publish("d")
        #expect(harness.actions() == [.failed(refused, .queueFull(waiting: 3))])
        harness.connect()
        #expect(sent(&harness) == "abc")
        // Sent and unacknowledged ones don't count.
        harness.publish("e")
        #expect(sent(&harness) == "e")
    }

    @Test func a_message_above_the_bytes_is_taken_where_nothing_waits() {
        var harness = harness(PublishQueue(maximumBytes: 3))
        harness.publish("large")
        #expect(harness.actions().isEmpty)
        let refused = harness.publish("")
        #expect(harness.actions() == [.failed(refused, .queueFull(waiting: 1))])
    }

    @Test func the_oldest_make_room_and_are_told() {
        var harness = harness(PublishQueue(maximumBytes: 8, overflow: .dropOldest))
        let tokens = ["a", "b", "c", "d"].map { harness.publish($0) }
        #expect(harness.actions().isEmpty)
        harness.publish("efg")
        #expect(
            harness.actions() == [.failed(tokens[0], .droppedForNewer), .failed(tokens[1], .droppedForNewer)])
        harness.connect()
        #expect(sent(&harness) == "cdg")
    }

    @Test func who_can_wait_waits_in_turn_and_who_cannot_fails() {
        var harness = harness(PublishQueue(maximumCount: 1, overflow: .wait))
        harness.publish("a")
        harness.publish("b", terms: PublishTerms(admission: .canWait))
        let refused = harness.publish("c")
        #expect(harness.actions() == [.failed(refused, .queueFull(waiting: 2))])
        harness.connect()
        #expect(sent(&harness) == "ab")
    }

    @Test func qos0_is_kept_in_its_order_where_configured() {
        var harness = harness(PublishQueue(keepsAtMostOnce: true))
        harness.publish("a", qos: .atMostOnce)
        harness.publish("b")
        harness.publish("c", qos: .atMostOnce)
        harness.connect()
        #expect(sent(&harness) == "abc")
        harness.publish("d", qos: .atMostOnce)
        harness.close()
        #expect(!harness.actions().contains { if case .failed = $0 { true } else { false } })
        harness.connect(sessionPresent: true)
        #expect(sent(&harness) == "bd")
    }

    @Test(arguments: [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func what_is_for_now_only_needs_a_connection_and_ends_with_it(qos: QoS) {
        var harness = harness(PublishQueue(keepsAtMostOnce: true))
        let terms = PublishTerms(whileConnected: true)
        let early = harness.publish(qos: qos, terms: terms)
        #expect(harness.actions() == [.failed(early, .notConnected)])
        harness.connect()
        let unsent = harness.publish(qos: qos, terms: terms)
        harness.close()
        #expect(harness.actions() == [.failed(unsent, .connectionLost)])
        harness.connect(sessionPresent: true)
        #expect(harness.packets().isEmpty)
    }

    @Test func what_is_for_now_only_is_resent_to_its_session_and_fails_with_it() {
        var harness = SessionHarness(connected: .v5)
        let token = harness.publish("a", terms: PublishTerms(whileConnected: true))
        #expect(sent(&harness) == "a")
        harness.reconnect(sessionPresent: true)
        #expect(sent(&harness) == "a")
        harness.reconnect(sessionPresent: false)
        let output = harness.take()
        #expect(output.actions.contains(.failed(token, .sessionLost)))
        #expect(harness.packets().isEmpty)
    }

    @Test(arguments: ProtocolVersion.allCases)
    func what_expires_fails_in_time_and_is_not_sent(version: ProtocolVersion) {
        var harness = harness(PublishQueue(), version: version)
        let short = harness.publish("a", properties: Properties([.messageExpiryInterval(5)]))
        harness.publish("b")
        harness.publish("c", properties: Properties([.messageExpiryInterval(60)]))
        #expect(harness.session.nextDeadline == harness.now + .seconds(5))
        harness.advance(.milliseconds(4999))
        harness.deadline()
        #expect(harness.actions().isEmpty)
        harness.advance(.milliseconds(1))
        harness.deadline()
        #expect(harness.actions() == [.failed(short, .messageExpired)])
        #expect(harness.session.nextDeadline == harness.now + .seconds(55))
        harness.connect()
        #expect(sent(&harness) == "bc")
    }

    @Test func what_expires_is_not_sent_before_anybody_looked_either() {
        var harness = harness(PublishQueue())
        let token = harness.publish("a", properties: Properties([.messageExpiryInterval(5)]))
        harness.advance(.seconds(5))
        harness.connect()
        harness.encode()
        #expect(harness.actions() == [.failed(token, .messageExpired)])
    }

    @Test func what_is_left_of_the_interval_is_sent_and_at_least_a_second() {
        var harness = harness(PublishQueue())
        harness.publish("a", properties: Properties([.messageExpiryInterval(100)]))
        harness.advance(.milliseconds(29_500))
        harness.connect()
        #expect(harness.packets() == [hex("32 0C 00 01 74 00 01 05 02 00 00 00 47 61")])
        harness.advance(.seconds(3600))
        harness.reconnect(sessionPresent: true)
        // Sent again whatever its age [MQTT-4.4.0-1].
        #expect(harness.packets() == [hex("3A 0C 00 01 74 00 01 05 02 00 00 00 01 61")])
    }

    @Test func many_expiries_cost_one_look_a_second() {
        var harness = harness(PublishQueue())
        for _ in 0..<100 {
            harness.publish(properties: Properties([.messageExpiryInterval(1)]))
            harness.advance(.milliseconds(10))
        }
        var looks = 0
        while let deadline = harness.session.nextDeadline {
            harness.now = max(harness.now, deadline)
            harness.deadline()
            looks += 1
        }
        #expect(looks == 2)
        #expect(harness.session.queuedCount == 0)
    }
}
