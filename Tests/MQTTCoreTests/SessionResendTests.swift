import MQTTConformance
import MQTTCore
import Testing

@Suite("Session: messages to the server, across connections")
struct SessionResendTests {
    @Test(
        .mqtt311("2.3.1-3", "3.3.1-1", "4.4.0-1", "4.6.0-1"),
        .mqtt5("3.3.1-1", "4.3.3-3", "4.3.3-5", "4.4.0-1", "4.6.0-1"),
        arguments: ProtocolVersion.allCases)
    func reconnection_resends_unacknowledged_packets_before_new_ones(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.publish("1")
        harness.publish("2", qos: .exactlyOnce)
        harness.publish("3")
        harness.publish("4", qos: .exactlyOnce)
        _ = harness.packets()
        harness.receive(.pubrec(acknowledgement(2)))
        harness.receive(.puback(acknowledgement(1)))
        harness.close()
        harness.publish("5")
        harness.connect(sessionPresent: true)
        #expect(
            harness.packets() == [
                hex("62 02 00 02"),
                version.of("3A 06 00 01 74 00 03 33", "3A 07 00 01 74 00 03 00 33"),
                version.of("3C 06 00 01 74 00 04 34", "3C 07 00 01 74 00 04 00 34"),
                version.of("32 06 00 01 74 00 05 35", "32 07 00 01 74 00 05 00 35"),
            ])
    }

    @Test(
        .mqtt311("4.3.3-1"), .mqtt5("4.3.3-6"),
        arguments: ProtocolVersion.allCases)
    func publish_is_never_resent_after_pubrel(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.publish(qos: .exactlyOnce)
        _ = harness.packets()
        harness.receive(.pubrec(acknowledgement(1)))
        for _ in 1...3 {
            harness.reconnect(sessionPresent: true)
            #expect(harness.packets() == hex(["62 02 00 01"]))
        }
    }

    @Test(
        .mqtt5("3.2.2-5", "4.4.0-1"),
        arguments: ProtocolVersion.allCases)
    func a_lost_session_publishes_again_as_new(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let first = harness.publish("1")
        harness.publish("2")
        let released = harness.publish("3", qos: .exactlyOnce)
        _ = harness.packets()
        harness.receive(.pubrec(acknowledgement(3)))
        harness.close()
        _ = harness.take()
        harness.connect(sessionPresent: false)
        harness.encode()
        let output = harness.take()
        #expect(output.actions == [.failed(released, .sessionLost), .sessionLost])
        let expected =
            version.of("32 06 00 01 74 00 04 31", "32 07 00 01 74 00 04 00 31")
            + version.of("32 06 00 01 74 00 05 32", "32 07 00 01 74 00 05 00 32")
        #expect(output.bytes == expected)
        harness.receive(.puback(acknowledgement(4)))
        #expect(harness.actions() == [.published(first, .success, Properties())])
    }

    @Test(
        .mqtt5("3.2.2-5"))
    func a_lost_session_fails_messages_where_configured() {
        var harness = SessionHarness(connected: .v5) { $0.onSessionLost = .fail }
        let first = harness.publish("1")
        _ = harness.packets()
        let queued = harness.publish("2")
        harness.reconnect(sessionPresent: false)
        harness.encode()
        let output = harness.take()
        #expect(output.actions == [.failed(first, .sessionLost), .sessionLost])
        #expect(output.bytes == hex("32 07 00 01 74 00 02 00 32"))
        #expect(queued.rawValue == 2)
    }

    @Test(
        .mqtt311("3.1.2-6"))
    func clean_session_3_1_1_loses_the_session_with_the_connection() {
        var harness = SessionHarness(connected: .v3_1_1) { $0.cleanStart = true }
        harness.publish()
        _ = harness.packets()
        harness.close()
        #expect(harness.actions() == [.sessionLost])
        harness.connect()
        harness.encode()
        let output = harness.take()
        #expect(output.bytes == hex("32 06 00 01 74 00 02 61"))
        #expect(output.actions.isEmpty)
    }

    @Test func session_expiry_zero_granted_by_the_server_ends_the_session() {
        var harness = SessionHarness(connected: .v5, connack: Properties([.sessionExpiryInterval(0)]))
        harness.close()
        #expect(harness.actions() == [.sessionLost])
    }

    @Test(
        .mqtt5("4.9.0-1"))
    func the_send_quota_is_fresh_for_each_connection_and_covers_resends() {
        var harness = SessionHarness(connected: .v5)
        for _ in 1...10 { harness.publish() }
        #expect(harness.packets().count == 10)
        harness.reconnect(sessionPresent: true, connack: Properties([.receiveMaximum(2)]))
        #expect(harness.packets().map { $0[6] } == [1, 2])
        harness.receive(.puback(acknowledgement(2)))
        #expect(harness.packets().map { $0[6] } == [3])
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets().map { $0[6] } == [1, 3, 4, 5, 6, 7, 8, 9, 10])
    }

    @Test func an_unknown_identifier_is_no_error_for_a_PUBREL_sent_again() {  // 3.7.2.1
        var harness = SessionHarness(connected: .v5)
        let token = harness.publish(qos: .exactlyOnce)
        _ = harness.packets()
        harness.receive(.pubrec(acknowledgement(1)))
        _ = harness.take()
        harness.reconnect(sessionPresent: true)
        #expect(harness.takePackets() == hex(["62 02 00 01"]))
        harness.receive(.pubcomp(acknowledgement(1, .packetIdentifierNotFound)))
        #expect(harness.actions() == [.published(token, .success, Properties())])

        let other = harness.publish(qos: .exactlyOnce)
        let identifier = PacketIdentifier(harness.packets()[0][6])
        harness.receive(.pubrec(acknowledgement(identifier)))
        _ = harness.take()
        harness.receive(.pubcomp(acknowledgement(identifier, .packetIdentifierNotFound)))
        #expect(harness.actions() == [.published(other, .packetIdentifierNotFound, Properties())])
    }

    @Test func an_answer_that_precedes_the_resend_makes_no_room_and_spares_the_resend() {
        var harness = SessionHarness(connected: .v5)
        for _ in 1...4 { harness.publish(qos: .exactlyOnce) }
        harness.publish()
        harness.publish()
        _ = harness.packets()
        harness.reconnect(sessionPresent: true, connack: Properties([.receiveMaximum(2)]))
        harness.receive(.pubrec(acknowledgement(1)))
        #expect(harness.takePackets() == hex(["62 02 00 01"]))
        #expect(harness.packets().map { $0[6] } == [2, 3])
        harness.receive(.puback(acknowledgement(5)))
        #expect(harness.packets().isEmpty)
        harness.receive(.pubrec(acknowledgement(2)))
        harness.receive(.pubcomp(acknowledgement(2)))
        #expect(harness.takePackets() == hex(["62 02 00 02"]))
        #expect(harness.packets().map { $0[6] } == [4])
        harness.receive(.pubrec(acknowledgement(3, .unspecifiedError)))
        #expect(harness.packets().map { $0[6] } == [6])
    }

    @Test func the_identifier_of_a_message_that_may_not_be_resent_stays_taken() {
        var harness = SessionHarness(connected: .v5)
        let large = harness.publish("0123456789abcdefghijk", qos: .exactlyOnce)
        _ = harness.packets()
        harness.reconnect(sessionPresent: true, connack: Properties([.maximumPacketSize(20)]))
        harness.encode()
        #expect(harness.actions() == [.failed(large, .packetTooLarge(size: 29, limit: 20))])
        for _ in 1...200 {
            harness.publish("")
            let id = harness.packets().first.map { $0[6] }
            #expect(id != 1)
            harness.receive(.puback(acknowledgement(PacketIdentifier(id ?? 0))))
        }
    }

    @Test func an_abandoned_message_is_resent_but_never_published_anew() {
        var harness = SessionHarness(connected: .v3_1_1)
        harness.publish()
        _ = harness.packets()
        harness.close()
        harness.session.abandon(.disconnected, into: &harness.output)
        harness.connect(sessionPresent: true)
        #expect(harness.packets() == hex(["3A 06 00 01 74 00 01 61"]))
        harness.reconnect(sessionPresent: false)
        #expect(harness.packets().isEmpty)
    }
}
