import MQTTCore
import Testing

/// A session that meets more than one server (5.0, section 4.11).
@Suite("Session: several servers")
struct SessionServersTests {
    /// Clean Start of the CONNECT that goes out now (section 3.1.2.4).
    private static func startsClean(_ harness: inout SessionHarness, at server: String) -> Bool? {
        harness.open(at: server)
        let connect = harness.takePackets().first
        return connect.map { $0[9] & 0b10 != 0 }
    }

    private static func subscribed() -> SessionHarness {
        var harness = SessionHarness(SessionConfiguration(version: .v5, clientIdentifier: "c"))
        harness.connect(at: "a")
        harness.subscribe("x")
        _ = harness.packets()
        harness.receive(.suback(Suback(packetIdentifier: 1, reasonCodes: [.grantedQoS0])))
        _ = harness.take()
        return harness
    }

    @Test func servers_that_share_a_session_resume_it_wherever_the_client_goes() {
        var harness = Self.subscribed()
        for server in ["b", "a", "c", "b"] {
            harness.close()
            #expect(Self.startsClean(&harness, at: server) == false)
            harness.receive(.connack(Connack(sessionPresent: true)))
            #expect(harness.packets().isEmpty)
            #expect(!harness.actions().contains(.sessionLost))
        }
    }

    @Test func what_another_server_has_replaced_is_not_resumed() {
        var harness = Self.subscribed()
        harness.close()
        harness.connect(at: "b")
        #expect(harness.output.actions == [.sessionLost])
        // Subscribed to anew; the acknowledgement is lost with the connection.
        #expect(harness.packets().count == 1)
        harness.close()
        #expect(Self.startsClean(&harness, at: "a") == true)
        harness.receive(.connack(Connack(sessionPresent: false)))
        #expect(harness.actions().contains(.sessionLost))
        #expect(harness.packets().count == 1)
        // Now it is b that has an old one.
        harness.close()
        #expect(Self.startsClean(&harness, at: "a") == false)
        harness.receive(.connack(Connack(sessionPresent: true)))
        harness.close()
        #expect(Self.startsClean(&harness, at: "b") == true)
    }

    @Test func a_refusal_in_between_changes_nothing() {
        var harness = Self.subscribed()
        harness.close()
        harness.open(at: "b")
        harness.receive(.connack(Connack(sessionPresent: false, reasonCode: .useAnotherServer)))
        harness.close()
        #expect(Self.startsClean(&harness, at: "a") == false)
    }

    @Test func messages_in_flight_are_published_anew_where_the_session_is_unknown() {
        var harness = Self.subscribed()
        harness.publish("m")
        let first = harness.packets()
        #expect(first.count == 1)
        harness.close()
        harness.connect(at: "b")
        let packets = harness.packets()
        // SUBSCRIBE, and PUBLISH with DUP 0.
        #expect(packets.map { $0[0] } == [0x82, 0x32])
    }
}
