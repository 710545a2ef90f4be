import MQTTConformance
import MQTTCore
import Testing

@Suite("Session: messages to the server")
struct SessionOutgoingTests {
    @Test(
        .mqtt311("2.3.1-5", "4.3.1-1"), .mqtt5("2.2.1-2", "4.3.1-1"),
        arguments: ProtocolVersion.allCases)
    func qos0_is_done_when_encoded(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let token = harness.publish(qos: .atMostOnce)
        harness.encode()
        let output = harness.take()
        #expect(output.bytes == version.of("30 04 00 01 74 61", "30 05 00 01 74 00 61"))
        #expect(output.actions == [.published(token, .success, Properties())])
    }

    @Test func qos0_needs_a_connection() {
        var harness = SessionHarness(SessionConfiguration(clientIdentifier: "c"))
        let token = harness.publish(qos: .atMostOnce)
        #expect(harness.actions() == [.failed(token, .notConnected)])
    }

    @Test func queued_qos0_fails_with_its_connection() {
        var harness = SessionHarness(connected: .v5)
        let token = harness.publish(qos: .atMostOnce)
        harness.close()
        #expect(harness.actions() == [.failed(token, .connectionLost)])
    }

    @Test(
        .mqtt311("4.3.2-1"), .mqtt5("4.3.2-2", "4.3.2-3"),
        arguments: ProtocolVersion.allCases)
    func qos1_is_done_at_puback(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let token = harness.publish()
        #expect(
            harness.packets() == [version.of("32 06 00 01 74 00 01 61", "32 07 00 01 74 00 01 00 61")])
        harness.receive(.puback(acknowledgement(1)))
        #expect(harness.actions() == [.published(token, .success, Properties())])
        harness.receive(.puback(acknowledgement(1)))
        #expect(harness.actions().isEmpty)
    }

    /// What RabbitMQ 3.10 does with QoS 2, which it doesn't have.
    @Test(arguments: ProtocolVersion.allCases)
    func a_PUBACK_for_a_QoS_2_message_fails_it_and_frees_its_identifier(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let token = harness.publish(qos: .exactlyOnce)
        _ = harness.packets()
        harness.receive(.puback(acknowledgement(1)))
        #expect(harness.actions() == [.failed(token, .exactlyOnceNotKept)])
        harness.reconnect(sessionPresent: version == .v5)
        #expect(harness.packets().isEmpty)
    }

    @Test(
        .mqtt5("4.4.0-2"))
    func failing_puback_ends_the_message() {
        var harness = SessionHarness(connected: .v5)
        let token = harness.publish()
        _ = harness.packets()
        harness.receive(.puback(acknowledgement(1, .quotaExceeded)))
        #expect(harness.actions() == [.published(token, .quotaExceeded, Properties())])
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets().isEmpty)
    }

    @Test(
        .mqtt311("2.3.1-6", "4.3.3-1"), .mqtt5("2.2.1-5", "4.3.3-2", "4.3.3-4"),
        arguments: ProtocolVersion.allCases)
    func qos2_is_done_at_pubcomp(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let token = harness.publish(qos: .exactlyOnce)
        #expect(
            harness.packets() == [version.of("34 06 00 01 74 00 01 61", "34 07 00 01 74 00 01 00 61")])
        harness.receive(.pubrec(acknowledgement(1)))
        #expect(harness.takePackets() == hex(["62 02 00 01"]))
        harness.receive(.pubcomp(acknowledgement(1)))
        #expect(harness.actions() == [.published(token, .success, Properties())])
        #expect(harness.session.inFlightCount == 0)
    }

    @Test(
        .mqtt5("4.4.0-2"))
    func failing_pubrec_frees_the_identifier_and_sends_no_pubrel() {
        var harness = SessionHarness(connected: .v5, connack: Properties([.receiveMaximum(1)]))
        let token = harness.publish(qos: .exactlyOnce)
        harness.publish("b")
        _ = harness.packets()
        harness.receive(.pubrec(acknowledgement(1, .notAuthorized)))
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.actions == [.published(token, .notAuthorized, Properties())])
        #expect(harness.packets().count == 1)
    }

    @Test func a_repeated_pubrec_is_answered_again() {
        var harness = SessionHarness(connected: .v5)
        harness.publish(qos: .exactlyOnce)
        _ = harness.packets()
        harness.receive(.pubrec(acknowledgement(1)))
        harness.receive(.pubrec(acknowledgement(1)))
        #expect(harness.takePackets() == hex(["62 02 00 01", "62 02 00 01"]))
    }

    @Test(
        .mqtt5("detect-unknown-pubrel"),
        arguments: ProtocolVersion.allCases)
    func unknown_acknowledgements(version: ProtocolVersion) {  // 5.0 section 3.5, 3.7
        var harness = SessionHarness(connected: version)
        harness.receive(.puback(acknowledgement(7)))
        harness.receive(.pubcomp(acknowledgement(7)))
        #expect(harness.take().bytes.isEmpty)
        harness.receive(.pubrec(acknowledgement(7)))
        #expect(harness.takePackets() == [version.of("62 02 00 07", "62 03 00 07 92")])
        #expect(harness.session.state == .established)
    }

    @Test(
        .mqtt311("4.6.0-4"), .mqtt5("4.6.0-4"),
        arguments: ProtocolVersion.allCases)
    func pubrels_keep_the_order_of_pubrecs(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        for _ in 1...3 { harness.publish(qos: .exactlyOnce) }
        _ = harness.packets()
        for id: PacketIdentifier in [2, 3, 1] { harness.receive(.pubrec(acknowledgement(id))) }
        #expect(harness.takePackets() == hex(["62 02 00 02", "62 02 00 03", "62 02 00 01"]))
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets() == hex(["62 02 00 02", "62 02 00 03", "62 02 00 01"]))
    }

    @Test(
        .mqtt5("3.3.4-7", "3.3.4-8", "4.9.0-2", "4.9.0-3"))
    func the_send_quota_holds_up_publishes_only() {
        var harness = SessionHarness(connected: .v5, connack: Properties([.receiveMaximum(2)]))
        for text in ["1", "2", "3", "4"] { harness.publish(text) }
        harness.subscribe("f")
        #expect(
            harness.packets()
                == hex([
                    "32 07 00 01 74 00 01 00 31", "32 07 00 01 74 00 02 00 32",
                    "82 07 00 03 00 00 01 66 00",
                ]))
        #expect(harness.packets().isEmpty)
        harness.deliver(qos: .atMostOnce, id: 0)
        #expect(harness.take().tokens.count == 1)
        harness.receive(.puback(acknowledgement(2)))
        #expect(harness.packets() == hex(["32 07 00 01 74 00 04 00 33"]))
    }

    @Test func a_3_1_1_server_gets_at_most_20_QoS_2_messages_at_once() {
        var harness = SessionHarness(connected: .v3_1_1)
        for _ in 1...22 { harness.publish(qos: .exactlyOnce) }
        #expect(harness.packets().count == 20)
        #expect(harness.packets().isEmpty)
        // PUBREC isn't the end of it: the server still holds its place.
        harness.receive(.pubrec(acknowledgement(1)))
        #expect(harness.packets() == hex(["62 02 00 01"]))
        harness.receive(.pubcomp(acknowledgement(1)))
        #expect(harness.packets().map { $0[6] } == [21])
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets().map { $0[6] } == Array(2...21))
        harness.receive(.pubrec(acknowledgement(2)))
        harness.receive(.pubcomp(acknowledgement(2)))
        #expect(harness.packets().map { $0.last } == [2, UInt8(ascii: "a")])
    }

    @Test(
        .mqtt311("2.3.1-2"), .mqtt5("2.2.1-3", "4.3.2-1"),
        arguments: ProtocolVersion.allCases)
    func identifiers_are_shared_skip_those_in_use_and_run_out(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        for _ in 1...65_536 { harness.publish("") }
        harness.encode(upTo: .max)
        #expect(harness.session.inFlightCount == 65_535)
        #expect(harness.session.queuedCount == 1)
        harness.subscribe("f")
        _ = harness.take()
        #expect(harness.packets().isEmpty)
        harness.receive(.puback(acknowledgement(0x1234)))
        #expect(harness.packets() == [version.of("32 05 00 01 74 12 34", "32 06 00 01 74 12 34 00")])
        harness.receive(.puback(acknowledgement(0x0001)))
        #expect(harness.packets() == [version.of("82 06 00 01 00 01 66 00", "82 07 00 01 00 00 01 66 00")])
    }

    @Test(
        .mqtt311("2.3.1-2"),
        arguments: ProtocolVersion.allCases)
    func a_subscribe_never_takes_the_identifier_of_a_publish_in_flight(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.publish("kept")
        _ = harness.packets()
        for round in 2..<70_000 {
            harness.publish("")
            guard let packet = harness.packets().first else {
                Issue.record("no packet in round \(round)")
                return
            }
            let id = PacketIdentifier(packet[5]) << 8 | PacketIdentifier(packet[6])
            if id <= 1 { Issue.record("identifier \(id) in round \(round)") }
            harness.receive(.puback(acknowledgement(id)))
        }
        #expect(harness.session.inFlightCount == 1)
    }

    @Test(
        .mqtt5("3.2.2-15"))
    func packets_above_the_servers_maximum_size_fail_and_cost_nothing() {
        var harness = SessionHarness(
            connected: .v5, connack: Properties([.maximumPacketSize(20), .receiveMaximum(1)]))
        let large = harness.publish("0123456789abcdefghijk")
        harness.publish("b")
        harness.encode()
        let output = harness.take()
        #expect(output.actions == [.failed(large, .packetTooLarge(size: 29, limit: 20))])
        #expect(output.bytes == hex("32 07 00 01 74 00 01 00 62"))
        harness.reconnect(sessionPresent: true)
        _ = harness.packets()
        harness.publish("0123456789abcdefghijk")
        #expect(harness.packets().map(\.count) == [29])
    }

    @Test(
        .mqtt5("3.2.2-11", "3.2.2-14"))
    func unavailable_features_fail_locally() {
        var harness = SessionHarness(
            connected: .v5, connack: Properties([.maximumQoS(0), .retainAvailable(0)]))
        let qos = harness.publish()
        let retained = harness.publish(qos: .atMostOnce, retain: true)
        let alias = harness.publish(qos: .atMostOnce, properties: Properties([.topicAlias(1)]))
        harness.encode()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(
            output.actions == [
                .failed(qos, .qosNotSupported(maximum: .atMostOnce)),
                .failed(retained, .retainNotAvailable), .failed(alias, .topicAliasNotAvailable),
            ])
    }

    @Test(
        .mqtt311("3.3.1-3"), .mqtt5("3.3.1-3"),
        arguments: ProtocolVersion.allCases)
    func dup_of_an_incoming_message_is_not_passed_on(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.session.publish(
            Publish(
                topicName: "t", payload: [], qos: .atLeastOnce, isDuplicate: true, packetIdentifier: 77),
            token: harness.makeToken(), now: harness.now, into: &harness.output)
        #expect(harness.packets() == [version.of("32 05 00 01 74 00 01", "32 06 00 01 74 00 01 00")])
    }

    @Test func operations_leave_in_the_order_they_were_asked_for() {
        var harness = SessionHarness(connected: .v3_1_1)
        harness.publish(qos: .atMostOnce)
        harness.subscribe("a")
        harness.publish()
        harness.unsubscribe("a")
        harness.publish(qos: .exactlyOnce)
        #expect(harness.packets().map { $0[0] } == [0x30, 0x82, 0x32, 0xA2, 0x34])
    }

    @Test func encoding_stops_at_the_byte_limit() {
        var harness = SessionHarness(connected: .v3_1_1)
        for _ in 1...100 { harness.publish(qos: .atMostOnce) }
        harness.encode(upTo: 31)
        #expect(harness.output.packetEnds == [6, 12, 18, 24, 30, 36])
        #expect(harness.session.queuedCount == 94 && harness.session.queuedBytes == 188)
    }

    @Test func a_queued_operation_can_be_cancelled_one_on_the_wire_cannot() {
        var harness = SessionHarness(connected: .v3_1_1)
        let sent = harness.publish("1")
        _ = harness.packets()
        let tokens = (0..<10).map { _ in harness.publish("x", qos: .atMostOnce) }
        let request = harness.subscribe("f")
        let sentIsCancelled = harness.session.cancel(sent, into: &harness.output)
        #expect(!sentIsCancelled)
        for token in [tokens[0], tokens[5], tokens[9], request] {
            let isCancelled = harness.session.cancel(token, into: &harness.output)
            #expect(isCancelled)
        }
        let isCancelledTwice = harness.session.cancel(tokens[5], into: &harness.output)
        #expect(!isCancelledTwice)
        #expect(harness.session.queuedCount == 7)
        #expect(harness.packets().count == 7)
        #expect(harness.session.queuedBytes == 0)
    }
}
