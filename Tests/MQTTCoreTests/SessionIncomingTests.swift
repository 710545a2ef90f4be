import MQTTConformance
import MQTTCore
import Testing

@Suite("Session: messages from the server")
struct SessionIncomingTests {
    @Test(
        .mqtt311("3.3.4-1"),
        arguments: ProtocolVersion.allCases)
    func qos0_is_delivered_as_it_is(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let publish = Publish(topicName: "t", payload: [1], retain: true)
        harness.receive(.publish(publish))
        let output = harness.take()
        #expect(output.actions == [.deliver(publish, nil)])
        #expect(output.bytes.isEmpty)
    }

    @Test(
        .mqtt311("2.3.1-6", "3.3.4-1"), .mqtt5("2.2.1-5", "3.3.4-1", "4.3.2-4"),
        arguments: ProtocolVersion.allCases)
    func qos1_is_acknowledged_when_the_driver_has_it(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.deliver(qos: .atLeastOnce, id: 0x1234)
        let delivery = harness.take()
        #expect(delivery.bytes.isEmpty && delivery.tokens.count == 1)
        harness.acknowledge(delivery.tokens[0])
        harness.acknowledge(delivery.tokens[0])
        #expect(harness.takePackets() == hex(["40 02 12 34"]))
    }

    @Test(
        .mqtt311("4.3.2-2"), .mqtt5("4.3.2-5"),
        arguments: ProtocolVersion.allCases)
    func after_puback_the_identifier_is_new_whatever_dup_says(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        for _ in 1...2 {
            harness.deliver(qos: .atLeastOnce, id: 5, duplicate: true)
            let tokens = harness.take().tokens
            #expect(tokens.count == 1)
            harness.acknowledge(tokens.first ?? nil)
            #expect(harness.takePackets() == hex(["40 02 00 05"]))
        }
    }

    @Test(
        .mqtt311("4.6.0-2", "4.6.0-3"), .mqtt5("4.6.0-2", "4.6.0-3"),
        arguments: ProtocolVersion.allCases)
    func acknowledgements_keep_the_order_of_arrival(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.deliver(qos: .atLeastOnce, id: 1)
        harness.deliver(qos: .exactlyOnce, id: 2)
        harness.deliver(qos: .atLeastOnce, id: 3)
        harness.deliver(qos: .exactlyOnce, id: 4)
        let tokens = harness.take().tokens
        for index in [3, 1, 2] { harness.acknowledge(tokens[index]) }
        #expect(harness.takePackets().isEmpty)
        harness.acknowledge(tokens[0])
        #expect(harness.takePackets() == hex(["40 02 00 01", "50 02 00 02", "40 02 00 03", "50 02 00 04"]))
    }

    @Test(
        .mqtt311("3.3.4-1", "4.3.3-2"), .mqtt5("3.3.4-1", "4.3.3-8", "4.3.3-10", "4.3.3-11", "4.3.3-12"),
        arguments: ProtocolVersion.allCases)
    func qos2_is_delivered_once(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.deliver(qos: .exactlyOnce, id: 7)
        let tokens = harness.take().tokens
        #expect(tokens.count == 1)
        harness.acknowledge(tokens.first ?? nil)
        harness.deliver(qos: .exactlyOnce, id: 7, duplicate: true)
        harness.receive(.pubrel(acknowledgement(7)))
        let output = harness.take()
        #expect(output.tokens.isEmpty)
        #expect(output.bytes == hex("50 02 00 07 50 02 00 07 70 02 00 07"))
        harness.deliver(qos: .exactlyOnce, id: 7)
        #expect(harness.take().tokens.count == 1)
    }

    @Test(arguments: ProtocolVersion.allCases)
    func qos2_is_delivered_once_across_connections(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.deliver(qos: .exactlyOnce, id: 7)
        harness.acknowledge(harness.take().tokens.first ?? nil)
        harness.reconnect(sessionPresent: true)
        _ = harness.take()
        harness.deliver(qos: .exactlyOnce, id: 7, duplicate: true)
        let repeated = harness.take()
        #expect(repeated.tokens.isEmpty && repeated.bytes == hex("50 02 00 07"))
        harness.reconnect(sessionPresent: true)
        harness.receive(.pubrel(acknowledgement(7)))
        #expect(harness.takePackets() == hex(["70 02 00 07"]))
    }

    @Test func a_repetition_waits_for_the_acknowledgement_of_the_delivery_it_repeats() {
        var harness = SessionHarness(connected: .v5)
        harness.deliver(qos: .exactlyOnce, id: 7)
        let tokens = harness.take().tokens
        harness.reconnect(sessionPresent: true)
        harness.deliver(qos: .exactlyOnce, id: 7, duplicate: true)
        let repeated = harness.take()
        #expect(repeated.tokens.isEmpty && repeated.bytes.isEmpty)
        harness.acknowledge(tokens.first ?? nil)
        #expect(harness.takePackets() == hex(["50 02 00 07"]))
    }

    @Test func an_answer_held_up_when_the_connection_went_is_given_to_the_repetition() {
        var harness = SessionHarness(connected: .v5)
        harness.deliver(qos: .atLeastOnce, id: 1)
        harness.deliver(qos: .exactlyOnce, id: 7)
        harness.acknowledge(harness.take().tokens[1])
        harness.reconnect(sessionPresent: true)
        harness.deliver(qos: .exactlyOnce, id: 7, duplicate: true)
        let repeated = harness.take()
        #expect(repeated.tokens.isEmpty && repeated.bytes == hex("50 02 00 07"))
    }

    @Test func acknowledgements_of_an_earlier_connection_are_not_sent_on_the_next() {
        var harness = SessionHarness(connected: .v5)
        harness.deliver(qos: .atLeastOnce, id: 1)
        let old = harness.take().tokens
        harness.reconnect(sessionPresent: true)
        harness.deliver(qos: .atLeastOnce, id: 1, duplicate: true)
        let new = harness.take().tokens
        #expect(new.count == 1 && old != new)
        harness.acknowledge(old.first ?? nil)
        #expect(harness.takePackets().isEmpty)
        harness.acknowledge(new.first ?? nil)
        #expect(harness.takePackets() == hex(["40 02 00 01"]))
    }

    @Test func a_lost_session_forgets_received_identifiers() {
        var harness = SessionHarness(connected: .v5)
        harness.deliver(qos: .exactlyOnce, id: 7)
        harness.acknowledge(harness.take().tokens.first ?? nil)
        harness.reconnect(sessionPresent: false)
        _ = harness.take()
        harness.deliver(qos: .exactlyOnce, id: 7)
        #expect(harness.take().tokens.count == 1)
    }

    @Test(
        .mqtt5("4.3.3-9"))
    func a_failing_pubrec_frees_the_identifier() {
        var harness = SessionHarness(connected: .v5)
        harness.deliver(qos: .exactlyOnce, id: 7)
        harness.acknowledge(harness.take().tokens.first ?? nil, reason: .payloadFormatInvalid)
        #expect(harness.takePackets() == hex(["50 03 00 07 99"]))
        harness.deliver(qos: .exactlyOnce, id: 7)
        #expect(harness.take().tokens.count == 1)
    }

    @Test func reasons_do_not_exist_in_3_1_1() {
        var harness = SessionHarness(connected: .v3_1_1)
        harness.deliver(qos: .atLeastOnce, id: 7)
        harness.acknowledge(harness.take().tokens.first ?? nil, reason: .payloadFormatInvalid)
        #expect(harness.takePackets() == hex(["40 02 00 07"]))
    }

    @Test(
        .mqtt5("detect-unknown-pubrel"),
        arguments: ProtocolVersion.allCases)
    func unknown_pubrel_is_answered(version: ProtocolVersion) {  // section 3.7
        var harness = SessionHarness(connected: version)
        harness.receive(.pubrel(acknowledgement(7)))
        #expect(harness.takePackets() == [version.of("70 02 00 07", "70 03 00 07 92")])
    }

    @Test(
        .mqtt5("detect-receive-maximum-exceeded"))
    func our_receive_maximum_is_enforced() {
        var harness = SessionHarness(connected: .v5) { $0.receiveMaximum = 2 }
        harness.deliver(qos: .atLeastOnce, id: 1)
        harness.deliver(qos: .exactlyOnce, id: 2)
        let tokens = harness.take().tokens
        harness.acknowledge(tokens[0])
        harness.acknowledge(tokens[1])
        harness.deliver(qos: .atLeastOnce, id: 3)
        #expect(harness.session.state == .established)
        _ = harness.take()
        harness.deliver(qos: .atLeastOnce, id: 4)
        let output = harness.take()
        #expect(output.bytes == hex("E0 01 93"))
        #expect(output.actions == [.close(.violation(.receiveMaximumExceeded))])
    }

    @Test func pubcomp_makes_room_and_repetitions_count_once() {
        var harness = SessionHarness(connected: .v5) { $0.receiveMaximum = 1 }
        for _ in 1...3 {
            harness.deliver(qos: .exactlyOnce, id: 2)
            harness.acknowledge(harness.take().tokens.first ?? nil)
            harness.deliver(qos: .exactlyOnce, id: 2)
            harness.receive(.pubrel(acknowledgement(2)))
        }
        harness.deliver(qos: .exactlyOnce, id: 2)
        harness.acknowledge(harness.take().tokens.first ?? nil)
        harness.reconnect(sessionPresent: true)
        harness.receive(.pubrel(acknowledgement(2)))
        harness.deliver(qos: .atLeastOnce, id: 3)
        #expect(harness.session.state == .established)
    }

    @Test(
        .mqtt5("3.3.2-7", "detect-topic-alias-unknown"))
    func topic_aliases_are_resolved_and_forgotten_with_the_connection() {
        var harness = SessionHarness(connected: .v5) { $0.topicAliasMaximum = 5 }
        let set = Publish(topicName: "long", payload: [], properties: Properties([.topicAlias(5)]))
        var use = set
        use.topicName = ""
        harness.receive(.publish(set))
        harness.receive(.publish(use))
        let plain = Publish(topicName: "long", payload: [])
        #expect(harness.actions() == [.deliver(plain, nil), .deliver(plain, nil)])
        harness.reconnect(sessionPresent: true)
        _ = harness.take()
        harness.receive(.publish(use))
        let output = harness.take()
        #expect(output.bytes == hex("E0 01 82"))
        #expect(output.actions == [.close(.violation(.topicAliasUnknown(5)))])
    }

    @Test(
        .mqtt5("detect-topic-alias-invalid"),
        arguments: [(0, 5), (6, 5), (1, 0)] as [(UInt16, UInt16)])
    func invalid_topic_aliases(alias: UInt16, maximum: UInt16) {
        var harness = SessionHarness(connected: .v5) { $0.topicAliasMaximum = maximum }
        harness.receive(
            .publish(Publish(topicName: "t", payload: [], properties: Properties([.topicAlias(alias)]))))
        let output = harness.take()
        #expect(output.bytes == hex("E0 01 94"))
        #expect(output.actions == [.close(.violation(.topicAliasInvalid(alias)))])
    }

    @Test(
        .mqtt5("detect-subscription-identifier-unknown"))
    func a_subscription_identifier_that_was_never_used_is_a_protocol_error() {  // section 3.3.4
        var harness = SessionHarness(connected: .v5)
        harness.subscribe("t", identifier: 9)
        _ = harness.packets()
        let known = Publish(
            topicName: "t", payload: [], properties: Properties([.subscriptionIdentifier(9)]))
        harness.receive(.publish(known))
        #expect(harness.actions() == [.deliver(known, nil)])
        harness.receive(
            .publish(
                Publish(topicName: "t", payload: [], properties: Properties([.subscriptionIdentifier(8)]))))
        #expect(harness.actions() == [.close(.violation(.subscriptionIdentifierUnknown(8)))])
    }

    @Test(
        .mqtt311("4.8.0-1"),
        arguments: ProtocolVersion.allCases)
    func malformed_input_ends_the_connection(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.session.decodeFailed(.reservedFlags(.pubrel), now: harness.now, into: &harness.output)
        let output = harness.take()
        #expect(output.bytes == (version == .v5 ? hex("E0 01 81") : []))
        #expect(output.actions == [.close(.malformed(.reservedFlags(.pubrel)))])
        harness.deliver(qos: .atMostOnce, id: 0)
        #expect(harness.actions().isEmpty)
    }

    /// The session of the next CONNACK may have been made by the CONNECT without an answer: DUP tells the message that
    /// had the identifier from another one.
    @Test(arguments: ProtocolVersion.allCases)
    func an_identifier_of_a_doubtful_session_is_taken_for_another_message_where_dup_is_0(
        _ version: ProtocolVersion
    ) {
        for isDuplicate in [false, true] {
            var harness = SessionHarness(connected: version) { $0.cleanStart = false }
            harness.deliver("old", qos: .exactlyOnce, id: 1)
            harness.acknowledge(harness.take().tokens.first ?? nil)
            harness.close()
            harness.open()
            harness.close()
            _ = harness.take()
            harness.connect(sessionPresent: true)
            _ = harness.take()
            harness.deliver("new", qos: .exactlyOnce, id: 1, duplicate: isDuplicate)
            let output = harness.take()
            #expect(output.tokens.count == (isDuplicate ? 0 : 1))
            harness.acknowledge(output.tokens.first ?? nil)
            // Only what came first is in doubt.
            harness.deliver("new", qos: .exactlyOnce, id: 1)
            #expect(harness.take().tokens.isEmpty)
        }
    }
}
