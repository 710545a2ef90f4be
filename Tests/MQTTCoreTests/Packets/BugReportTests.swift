import MQTTCore
import Testing

/// Byte sequences on which other clients have failed.
@Suite struct BugReportTests {
    private func publish(_ topic: String, _ payload: String, retain: Bool = false) -> ControlPacket {
        .publish(Publish(topicName: topic, payload: Array(payload.utf8), retain: retain))
    }

    @Test func a_publish_cut_before_a_space_is_one_message() throws {
        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        #expect(try decoder.packets(in: wire("30 0D 00 02 68 62 61 74 20 36")) == [])
        #expect(try decoder.packets(in: wire("20 43 45 53 54")) == [publish("hb", "at 6 CEST")])
    }

    @Test func a_connack_in_four_pieces_is_put_together() throws {
        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        for byte in wire("20 02 00") { #expect(try decoder.packets(in: [byte]) == []) }
        #expect(try decoder.packets(in: [0]) == [.connack(Connack(sessionPresent: false))])
    }

    @Test func retained_messages_behind_a_suback_are_separate() throws {
        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        let packets = try decoder.packets(in: wire("90 03 00 01 00 31 04 00 01 61 31 31 04 00 01 62 32"))
        #expect(
            packets == [
                .suback(Suback(packetIdentifier: 1, reasonCodes: [.grantedQoS0])),
                publish("a", "1", retain: true), publish("b", "2", retain: true),
            ])
    }

    @Test func three_messages_in_one_read_come_in_order() throws {
        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        let packets = try decoder.packets(
            in: wire("30 04 00 01 74 31 30 04 00 01 74 32 30 04 00 01 74 33"))
        #expect(packets == [publish("t", "1"), publish("t", "2"), publish("t", "3")])
    }

    @Test(arguments: [
        ("30 02 00 05", DecodeError.fieldOverrun(.publish)), ("90 01 00", .missingField(.suback)),
        ("40 00", .missingField(.puback)),
    ])
    func truncated_inner_fields_are_an_error(_ bytes: String, _ error: DecodeError) throws {
        for version in ProtocolVersion.allCases {
            let decoder = TestDecoder(role: .client, version: version)
            #expect(throws: error) { try decoder.packets(in: wire(bytes)) }
        }
    }

    @Test func an_undecodable_topic_is_ill_formed_utf8() throws {
        for version in ProtocolVersion.allCases {
            let decoder = TestDecoder(role: .client, version: version)
            #expect(throws: DecodeError.illFormedUTF8(.publish)) {
                try decoder.packets(in: wire("30 05 00 02 FF FE 78"))
            }
        }
    }

    @Test func a_disconnect_of_one_byte_has_its_reason() throws {
        let decoder = TestDecoder(role: .client, version: .v5)
        #expect(
            try decoder.packets(in: wire("E0 01 8E")) == [
                .disconnect(Disconnect(reasonCode: .sessionTakenOver))
            ])
    }

    @Test(arguments: [
        ("31 04 00 01 74 76", QoS.atMostOnce), ("33 06 00 01 74 0001 76", .atLeastOnce),
        ("35 06 00 01 74 0001 76", .exactlyOnce),
    ])
    func the_retain_flag_is_passed_through(_ bytes: String, _ qos: QoS) throws {
        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        let packet = Publish(
            topicName: "t", payload: wire("'v'"), qos: qos, retain: true,
            packetIdentifier: qos == .atMostOnce ? nil : 1)
        #expect(try decoder.packets(in: wire(bytes)) == [.publish(packet)])
    }

    @Test func a_refused_subscription_is_reported_with_and_without_a_reason_string() throws {
        let decoder = TestDecoder(role: .client, version: .v5)
        let packets = try decoder.packets(in: wire("90 04 00 01 00 87 90 09 00 01 05 1F 00 02 6E 6F 87"))
        #expect(
            packets == [
                .suback(Suback(packetIdentifier: 1, reasonCodes: [.notAuthorized])),
                .suback(
                    Suback(
                        packetIdentifier: 1, reasonCodes: [.notAuthorized],
                        properties: Properties([.reasonString("no")]))),
            ])
    }

    @Test func an_unsuback_of_3_1_1_has_no_codes() throws {
        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        #expect(try decoder.packets(in: wire("B0 02 00 02")) == [.unsuback(Unsuback(packetIdentifier: 2))])
    }

    @Test func a_text_answer_is_found_out_by_its_first_byte() throws {
        let decoder = TestDecoder(role: .client, version: .v5)
        #expect(throws: DecodeError.reservedFlags(.puback)) { try decoder.packets(in: wire("'H'")) }
    }

    /// A 3.1.1 server answers a 5.0 CONNECT in its own form: return code 1, no Property Length.
    @Test func a_version_refusal_of_3_1_1_is_recognisable_on_5_0() throws {
        let decoder = TestDecoder(role: .client, version: .v5)
        #expect(throws: DecodeError.reasonCodeNotValid(.connack, 1)) {
            try decoder.packets(in: wire("20 02 00 01"))
        }
    }
}
