import MQTTCore
import Testing

@Suite("Session: durable mode")
struct SessionDurabilityTests {
    private func durable() -> SessionHarness {
        var harness = SessionHarness(connected: .v3_1_1) { $0.durability = .durable }
        harness.persistAll()
        _ = harness.take()
        return harness
    }

    @Test func a_publish_waits_for_its_store() {
        var harness = durable()
        harness.publish()
        harness.publish("b", qos: .exactlyOnce)
        harness.encode()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        let changes = output.changes
        guard changes.count == 4, case .queued(let first, let stamp) = changes[0].change else {
            Issue.record("not stored")
            return
        }
        #expect(first.topicName == "t" && first.payload == Array("a".utf8) && first.packetIdentifier == nil)
        #expect(changes[2].change == .outgoingStored(1, stamp: stamp))
        harness.persisted(changes[1].token)
        #expect(harness.takePackets().isEmpty)
        harness.persisted(changes[2].token)
        #expect(harness.takePackets() == hex(["32 06 00 01 74 00 01 61"]))
        harness.persisted(changes[3].token)
        #expect(harness.takePackets() == hex(["34 06 00 01 74 00 02 62"]))
    }

    @Test func a_message_that_was_stored_but_not_sent_has_no_dup() {
        var harness = durable()
        harness.publish()
        harness.encode()
        let token = harness.take().changes[1].token
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets().isEmpty)
        harness.persisted(token)
        #expect(harness.takePackets() == hex(["32 06 00 01 74 00 01 61"]))
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets() == hex(["3A 06 00 01 74 00 01 61"]))
    }

    @Test func pubrel_pubrec_and_pubcomp_wait_for_their_store() {
        var harness = durable()
        harness.publish(qos: .exactlyOnce)
        harness.encode()
        harness.persistAll()
        _ = harness.take()
        harness.receive(.pubrec(acknowledgement(1)))
        var output = harness.take()
        #expect(output.bytes.isEmpty && output.changes.map(\.change) == [.outgoingReleased(1)])
        harness.persisted(output.changes[0].token)
        #expect(harness.takePackets() == hex(["62 02 00 01"]))
        harness.deliver(qos: .exactlyOnce, id: 9)
        harness.acknowledge(harness.take().tokens[0])
        output = harness.take()
        #expect(output.bytes.isEmpty && output.changes.map(\.change) == [.incomingStored(9)])
        harness.persisted(output.changes[0].token)
        #expect(harness.takePackets() == hex(["50 02 00 09"]))
        harness.receive(.pubrel(acknowledgement(9)))
        output = harness.take()
        #expect(output.bytes.isEmpty && output.changes.map(\.change) == [.incomingReleased(9)])
        harness.persisted(output.changes[0].token)
        #expect(harness.takePackets() == hex(["70 02 00 09"]))
    }

    @Test func acceptance_is_told_when_the_message_is_stored_connected_or_not() {
        var harness = durable()
        harness.close()
        let token = harness.publish()
        let output = harness.take()
        #expect(output.changes.count == 1 && !output.actions.contains(.stored(token)))
        harness.persisted(output.changes[0].token)
        #expect(harness.actions() == [.stored(token)])
    }

    @Test func what_cannot_be_encoded_is_refused_before_it_is_stored() {
        var harness = durable()
        let properties = Properties([.contentType(String(repeating: "x", count: 70_000))])
        let token = harness.publish(properties: properties)
        let output = harness.take()
        #expect(output.changes.isEmpty && output.actions.count == 1)
        guard case .failed(token, .notEncodable)? = output.actions.first else {
            Issue.record("not refused")
            return
        }
    }

    @Test func a_message_that_is_taken_back_or_refused_leaves_the_store() {
        var harness = durable()
        let cancelled = harness.publish()
        harness.persistAll()
        let isCancelled = harness.session.cancel(cancelled, into: &harness.output)
        #expect(isCancelled && harness.take().changes.map(\.change).last == .dequeued(stamp: 1))
        harness.publish(properties: Properties([.topicAlias(1)]))
        harness.encode()
        #expect(harness.take().changes.map(\.change).last == .dequeued(stamp: 2))
    }

    @Test func what_expires_or_gives_way_leaves_the_store_too() {
        var harness = SessionHarness(connected: .v5) {
            $0.durability = .durable
            $0.queue.maximumCount = 2
            $0.queue.overflow = .dropOldest
        }
        harness.persistAll()
        harness.close()
        _ = harness.take()
        harness.publish("old")
        harness.publish("short", properties: Properties([.messageExpiryInterval(5)]))
        let stored = harness.take().changes.map(\.change)
        let stamps = stored.compactMap { if case .queued(_, let stamp) = $0 { stamp } else { nil } }
        #expect(stamps.count == 2)
        harness.publish("new")
        #expect(harness.take().changes.first?.change == .dequeued(stamp: stamps[0]))
        harness.advance(.seconds(6))
        harness.deadline()
        #expect(harness.take().changes.map(\.change) == [.dequeued(stamp: stamps[1])])
    }

    @Test func a_message_that_must_not_be_sent_late_is_not_kept_for_a_later_process() {
        var harness = durable()
        harness.publish(terms: PublishTerms(whileConnected: true))
        harness.encode()
        let output = harness.take()
        #expect(output.changes.isEmpty)
        #expect(output.bytes == hex("32 06 00 01 74 00 01 61"))
        harness.receive(.puback(acknowledgement(1)))
        #expect(harness.take().actions.contains { if case .published = $0 { true } else { false } })
    }

    @Test func a_terminal_end_leaves_the_stored_messages_in_the_queue() {
        var harness = durable()
        let token = harness.publish()
        harness.persistAll()
        _ = harness.take()
        harness.session.abandon(.disconnected, into: &harness.output)
        #expect(harness.take().actions == [.failed(token, .disconnected)])
        harness.reconnect(sessionPresent: true)
        harness.encode()
        harness.persistAll()
        #expect(harness.takePackets() == hex(["32 06 00 01 74 00 01 61"]))
    }

    @Test func a_stored_message_that_the_server_does_not_take_is_reported_and_let_go_of() {
        let message = Publish(topicName: "t", payload: [1], qos: .exactlyOnce)
        let configuration = SessionConfiguration(
            clientIdentifier: "c", cleanStart: false, durability: .durable)
        var harness = SessionHarness(configuration)
        for change: SessionChange in [
            .began(.v5), .queued(message, stamp: 1), .queued(message, stamp: 2), .outgoingStored(1, stamp: 1),
        ] {
            harness.session.restore(change)
        }
        harness.connect(sessionPresent: true, connack: Properties([.maximumQoS(1)]))
        harness.encode()
        let actions = harness.take().actions
        let discarded = SessionAction.discarded(topicName: "t", .qosNotSupported(maximum: .atLeastOnce))
        #expect(actions.count { $0 == discarded } == 2)
        #expect(harness.session.storedChanges == [.began(.v5)])
    }

    @Test func a_lost_session_queues_again_what_the_store_has_in_flight() {
        let message = Publish(topicName: "t", payload: [1], qos: .exactlyOnce)
        let queued = Publish(topicName: "t", payload: [2], qos: .atLeastOnce)
        let changes: [SessionChange] = [
            .began(.v5), .queued(message, stamp: 1), .queued(queued, stamp: 2), .outgoingStored(1, stamp: 1),
            .ended,
        ]
        var session = ClientSession(configuration: SessionConfiguration(clientIdentifier: "c"))
        for change in changes { session.restore(change) }
        #expect(!session.holdsSession)
        #expect(session.storedChanges == [.queued(message, stamp: 1), .queued(queued, stamp: 2)])
    }

    @Test func the_fewest_changes_restore_the_same_state() {
        let publish = Publish(topicName: "t", payload: [1], qos: .exactlyOnce)
        let subscription = StoredSubscription(
            topicFilter: "f", options: SubscriptionOptions(qos: .atLeastOnce), subscriptionIdentifier: 7,
            order: 1)
        var session = ClientSession(configuration: SessionConfiguration(clientIdentifier: ""))
        let changes: [SessionChange] = [
            .clientIdentifierAssigned("x"), .subscribed(subscription), .began(.v5), .incomingStored(9),
            .outgoingReleased(4), .queued(publish, stamp: 5), .outgoingStored(2, stamp: 5),
            .queued(publish, stamp: 6),
        ]
        for change in changes { session.restore(change) }
        #expect(session.storedChanges == changes)
        // Without effect: they fit nothing.
        for change: SessionChange in [
            .dequeued(stamp: 99), .outgoingStored(3, stamp: 98), .outgoingCompleted(77),
        ] {
            session.restore(change)
        }
        #expect(session.storedChanges == changes)
        session.restore(.outgoingCompleted(2))
        session.restore(.dequeued(stamp: 6))
        #expect(session.storedChanges == Array(changes.prefix(5)))
    }

    @Test func in_memory_mode_reports_no_changes() {
        var harness = SessionHarness(connected: .v5)
        harness.publish(qos: .exactlyOnce)
        harness.encode()
        harness.receive(.pubrec(acknowledgement(1)))
        harness.reconnect(sessionPresent: false)
        #expect(harness.take().changes.isEmpty)
    }

    @Test func a_session_is_resumed_from_its_stored_changes() {
        var harness = durable()
        var stored: [SessionChange] = [.began(.v3_1_1)]
        harness.publish("1")
        harness.publish("2", qos: .exactlyOnce)
        harness.publish("3", qos: .exactlyOnce)
        harness.publish("4")
        harness.subscribe("f")
        harness.encode()
        stored += harness.persistAll()
        harness.receive(.pubrec(acknowledgement(2)))
        harness.receive(.puback(acknowledgement(4)))
        harness.receive(.suback(Suback(packetIdentifier: 5, reasonCodes: [.success])))
        harness.deliver(qos: .exactlyOnce, id: 9)
        harness.acknowledge(harness.output.tokens[0])
        stored += harness.persistAll()

        var configuration = SessionConfiguration(version: .v3_1_1, clientIdentifier: "c", cleanStart: false)
        configuration.durability = .durable
        var restored = SessionHarness(configuration)
        for change in stored { restored.session.restore(change) }
        restored.connect(sessionPresent: true)
        restored.deliver(qos: .exactlyOnce, id: 9, duplicate: true)
        #expect(restored.output.tokens.isEmpty)
        restored.persistAll()
        #expect(
            restored.packets()
                == hex([
                    "62 02 00 02", "50 02 00 09", "3A 06 00 01 74 00 01 31", "3C 06 00 01 74 00 03 33",
                ]))
        restored.reconnect(sessionPresent: false)
        restored.encode()
        restored.persistAll()
        let packets = restored.takePackets()
        #expect(packets.map { $0[0] } == [0x82, 0x32, 0x34])
    }
}

extension SessionOutput {
    fileprivate var changes: [(token: PersistenceToken, change: SessionChange)] {
        actions.compactMap { if case .persist(let token, let change) = $0 { (token, change) } else { nil } }
    }
}

extension SessionHarness {
    fileprivate mutating func persisted(_ token: PersistenceToken) {
        session.persisted(token, now: now, into: &output)
    }

    /// Stores what was reported; returns it.
    @discardableResult
    fileprivate mutating func persistAll() -> [SessionChange] {
        let changes = output.changes
        output.actions.removeAll { if case .persist = $0 { true } else { false } }
        if let last = changes.last { persisted(last.token) }
        return changes.map(\.change)
    }
}
