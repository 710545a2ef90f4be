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
        #expect(changes.count == 2)
        guard case .outgoingStored(let first) = changes[0].change else {
            Issue.record("not stored")
            return
        }
        #expect(first.packetIdentifier == 1)
        harness.persisted(changes[0].token)
        #expect(harness.takePackets() == hex(["32 06 00 01 74 00 01 61"]))
        harness.persisted(changes[1].token)
        #expect(harness.takePackets() == hex(["34 06 00 01 74 00 02 62"]))
    }

    @Test func a_message_that_was_stored_but_not_sent_has_no_dup() {
        var harness = durable()
        harness.publish()
        harness.encode()
        let token = harness.take().changes[0].token
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
        var stored: [SessionChange] = [.began]
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
