import MQTTConformance
import MQTTCore
import Testing

/// Bytes that a server may not send, through the decoder into the session as the driver does it: what goes
/// back before the connection is closed.
@Suite("Faults of a server")
struct ServerFaultTests {
    /// What a client with a connection answers, if it closes.
    private func reaction(
        to bytes: [UInt8], version: ProtocolVersion = .v5, isConnected: Bool = true,
        _ change: (inout SessionConfiguration) -> Void = { _ in }
    ) -> Reaction {
        var configuration = SessionConfiguration(version: version, clientIdentifier: "c")
        change(&configuration)
        var harness = SessionHarness(configuration)
        if isConnected {
            harness.connect()
        } else {
            harness.open()
            _ = harness.take()
        }
        harness.receive(bytes: bytes)
        let output = harness.take()
        guard case .close(let error?) = output.actions.last else { return Reaction(answer: output.bytes) }
        return Reaction(answer: output.bytes, error: error)
    }

    /// On 5.0 DISCONNECT with the code, on 3.1.1 nothing (its DISCONNECT would be an orderly end); then the
    /// connection is closed.
    private func expectFault(
        _ text: String, _ code: UInt8, _ versions: [ProtocolVersion] = [.v5],
        sourceLocation: SourceLocation = #_sourceLocation,
        _ change: (inout SessionConfiguration) -> Void = { _ in }
    ) {
        for version in versions {
            let reaction = reaction(to: wire(text), version: version, change)
            #expect(reaction.error != nil, "\(text)", sourceLocation: sourceLocation)
            #expect(
                reaction.answer == (version == .v5 ? [0xE0, 0x01, code] : []), "\(text)",
                sourceLocation: sourceLocation)
        }
    }

    /// A CONNACK that can't be read is answered by closing; the error has the code.
    private func expectConnackFault(
        _ text: String, _ code: UInt8, _ version: ProtocolVersion = .v5,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let reaction = reaction(to: wire(text), version: version, isConnected: false)
        guard case .malformed(let error) = reaction.error else {
            Issue.record("\(text): \(reaction)", sourceLocation: sourceLocation)
            return
        }
        #expect(error.reasonCode.rawValue == code, "\(text)", sourceLocation: sourceLocation)
        #expect(reaction.answer.isEmpty, sourceLocation: sourceLocation)
    }

    // MARK: Strings

    @Test(
        .mqtt311("1.5.3-1"), .mqtt5("1.5.4-1", "detect-ill-formed-string"),
        arguments: ["FF", "C3", "C080", "EDA080", "EDBFBF", "F4908080", "E282"])
    func ill_formed_utf8(_ text: String) {
        let string = "00" + "0\(text.count / 2)" + text
        let body = wire(string).count
        expectFault("30 0\(body) \(string)", 0x81, [.v3_1_1])
        expectFault("30 0\(body + 1) \(string) 00", 0x81)
        // In a property, and in either half of a pair.
        for property in ["03\(string)", "08\(string)", "26\(string)0000", "26 0000\(string)"] {
            let count = wire(property).count
            let head = String(4 + count, radix: 16).uppercased()
            expectFault(
                "30 \(head.count < 2 ? "0" : "")\(head) 0001'a' 0\(String(count, radix: 16)) \(property)",
                0x81)
        }
    }

    @Test(
        .mqtt311("1.5.3-2", "4.7.3-2"), .mqtt5("1.5.4-2", "1.5.7-1", "4.7.3-2", "detect-ill-formed-string"))
    func a_null_character() {
        expectFault("30 05 0003 'a' 00 'b'", 0x81, ProtocolVersion.allCases)
        expectFault("30 08 0001'a' 04 26 0001 00", 0x81)
        expectFault("30 0A 0001'a' 06 26 0000 0001 00", 0x81)
        expectFault("40 08 0001 10 04 1F 0001 00", 0x81)
    }

    @Test(.mqtt311("1.5.3-3"), .mqtt5("1.5.4-3"), arguments: ProtocolVersion.allCases)
    func a_byte_order_mark_is_a_character_like_others(version: ProtocolVersion) throws {
        let decoder = TestDecoder(role: .client, version: version)
        let text = version == .v5 ? "30 08 0005'a'EFBBBF'b' 00" : "30 07 0005'a'EFBBBF'b'"
        guard case .publish(let publish) = try decoder.packets(in: wire(text)).first else {
            Issue.record("no PUBLISH")
            return
        }
        #expect(Array(publish.topicName.utf8) == wire("'a'EFBBBF'b'"))
    }

    /// Section 1.5.4 allows to refuse them. Topics with them exist, so they pass.
    @Test(.mqtt5("detect-unusual-characters"))
    func control_characters_and_non_characters_pass() throws {
        let decoder = TestDecoder(role: .client, version: .v5)
        let packets = try decoder.packets(in: wire("30 08 0005 01 7F EFBFBF 00"))
        #expect(packets == [.publish(Publish(topicName: "\u{1}\u{7F}\u{FFFF}", payload: []))])
    }

    // MARK: The fixed header and lengths

    @Test(
        .mqtt311("2.2.2-2", "detect-client-packet-or-malformed"),
        .mqtt5("2.1.3-1", "3.14.1-1", "3.15.1-1", "detect-fixed-header-flags"))
    func wrong_flags_in_the_first_byte() {
        for first in UInt8.min...UInt8.max {
            // PUBLISH has flags of its own, and some types aren't a server's at all.
            guard let type = PacketType(rawValue: first >> 4), type != .publish else { continue }
            let isRight = first & 0x0F == ([.pubrel, .subscribe, .unsubscribe].contains(type) ? 2 : 0)
            for version in ProtocolVersion.allCases {
                guard !isRight, version == .v5 || type != .auth else { continue }
                let reaction = reaction(to: [first, 0], version: version)
                #expect(reaction.error == .malformed(.reservedFlags(type)), "\(first)")
                #expect(reaction.answer == (version == .v5 ? [0xE0, 0x01, 0x81] : []), "\(first)")
            }
        }
    }

    @Test(.mqtt311("detect-client-packet-or-malformed"), .mqtt5("detect-packet-type-0"))
    func reserved_packet_types() {
        expectFault("00 00", 0x81, ProtocolVersion.allCases)
        expectFault("F0 00", 0x81, [.v3_1_1])
    }

    @Test(
        .mqtt311("detect-client-packet-or-malformed", "4.8.0-1"),
        .mqtt5("detect-variable-byte-integer-too-long"))
    func a_length_of_more_than_four_bytes() {
        expectFault("30 80808080 01", 0x81, ProtocolVersion.allCases)
        expectFault("30 08 0001'a' 80808080 01", 0x81)
        expectFault("30 0A 0001'a' 06 0B 80808080 01", 0x81)
    }

    @Test(.mqtt311("detect-client-packet-or-malformed"), .mqtt5("detect-length-fields"))
    func lengths_that_disagree() {
        for text in ["30 02 0005", "30 01 00", "40 00", "40 01 00", "90 02 0001", "D0 01 00", "62 00"] {
            expectFault(text, 0x81, ProtocolVersion.allCases)
        }
        for text in ["40 03 0001 00", "B0 03 0001 00"] { expectFault(text, 0x81, [.v3_1_1]) }
        for text in ["30 04 0001'a' 05", "40 05 0001 00 00 00", "90 03 0001 00", "E0 03 00 00 00"] {
            expectFault(text, 0x81)
        }
    }

    @Test(
        .mqtt311("4.8.0-1", "detect-client-packet-or-malformed"), .mqtt5("detect-client-packet"),
        arguments: ["10 00", "82 06 0001 0001'a' 00", "A2 05 0001 0001'a'", "C0 00"])
    func packets_that_only_a_client_sends(text: String) {
        expectFault(text, 0x82, ProtocolVersion.allCases)
    }

    @Test(.mqtt5("detect-packet-too-large"))
    func a_packet_above_our_maximum_size() {
        expectFault("30 1F 0001'a' 00", 0x95) { $0.maximumPacketSize = 32 }
        let largest = wire("30 1E 0001'a' 00") + [UInt8](repeating: 0, count: 26)
        #expect(reaction(to: largest) { $0.maximumPacketSize = 32 }.error == nil)
    }

    // MARK: PUBLISH and its acknowledgements

    @Test(
        .mqtt311("3.3.1-4"), .mqtt5("3.3.1-4", "detect-publish-qos-3"), arguments: ["36", "37", "3E", "3F"])
    func both_qos_bits(first: String) {
        expectFault("\(first) 05 0001'a' 0001", 0x81, ProtocolVersion.allCases)
    }

    @Test(.mqtt311("detect-packet-identifier-0"), .mqtt5("detect-packet-identifier-0"))
    func a_packet_identifier_of_zero() {
        for text in ["32 05 0001'a' 0000", "40 02 0000", "50 02 0000", "62 02 0000", "70 02 0000"] {
            expectFault(text, 0x82, ProtocolVersion.allCases)
        }
        for text in ["90 04 0000 00 00", "B0 04 0000 00 00"] { expectFault(text, 0x82) }
    }

    @Test(
        .mqtt311("3.3.2-1", "3.3.2-2", "4.7.1-1", "4.7.3-1"),
        .mqtt5("3.3.2-1", "3.3.2-2", "3.3.2-14", "4.7.0-1", "detect-wildcard-in-name"))
    func a_topic_name_that_is_none() {
        for text in ["30 05 0003'a/+'", "30 03 0001'#'", "31 05 0003'a#b'"] {
            expectFault(text, 0x81, ProtocolVersion.allCases)
        }
        expectFault("30 02 0000", 0x82, [.v3_1_1])
        for topic in ["0001'#'", "0001'+'", "0000"] {
            let property = wire("08\(topic)").count
            expectFault("30 0\(4 + property) 0001'a' 0\(property) 08\(topic)", 0x81)
        }
    }

    @Test(.mqtt5("detect-topic-name-missing"))
    func neither_a_topic_name_nor_an_alias() {
        expectFault("30 03 0000 00", 0x82)
        #expect(reaction(to: wire("30 03 0000 00")).error == .malformed(.emptyTopicName))
    }

    @Test(.mqtt5("detect-topic-alias-invalid"))
    func a_topic_alias_that_was_not_offered() {
        expectFault("30 07 0001'a' 03 23 0000", 0x94) { $0.topicAliasMaximum = 10 }
        expectFault("30 07 0001'a' 03 23 000B", 0x94) { $0.topicAliasMaximum = 10 }
        expectFault("30 07 0001'a' 03 23 0001", 0x94)
        #expect(reaction(to: wire("30 07 0001'a' 03 23 000A")) { $0.topicAliasMaximum = 10 }.error == nil)
    }

    @Test(.mqtt5("3.3.2-10"), arguments: [1, 10, 65_535] as [UInt16])
    func every_topic_alias_that_was_offered(maximum: UInt16) {
        var harness = SessionHarness(connected: .v5) { $0.topicAliasMaximum = maximum }
        for alias in 1...maximum {
            harness.receive(
                .publish(Publish(topicName: "t", payload: [], properties: Properties([.topicAlias(alias)]))))
        }
        #expect(
            harness.actions() == (1...maximum).map { _ in .deliver(.init(topicName: "t", payload: []), nil) })
    }

    @Test(.mqtt5("detect-subscription-identifier-0"))
    func a_subscription_identifier_of_zero() { expectFault("30 06 0001'a' 02 0B 00", 0x82) }

    /// The check is optional, and text is the program's to read: the message arrives as it is, and a driver
    /// that checks may refuse it by 0x99.
    @Test(.mqtt5("detect-payload-format"))
    func a_payload_that_is_not_the_text_it_claims_to_be() {
        var harness = SessionHarness(connected: .v5)
        let publish = Publish(
            topicName: "t", payload: [0xFF], qos: .atLeastOnce, packetIdentifier: 1,
            properties: Properties([.payloadFormatIndicator(1)]))
        harness.receive(.publish(publish))
        let delivery = harness.take()
        #expect(delivery.actions == [.deliver(publish, delivery.tokens.first ?? nil)])
        harness.acknowledge(delivery.tokens[0], reason: .payloadFormatInvalid)
        #expect(harness.takePackets() == hex(["40 03 00 01 99"]))
    }

    @Test(.mqtt5("detect-reason-code"))
    func a_code_that_the_packet_does_not_have() {
        for text in [
            "40 03 0001 92", "50 03 0001 01", "62 03 0001 80", "70 03 0001 10", "90 04 0001 00 11",
            "B0 04 0001 00 01", "E0 01 01", "F0 01 01",
        ] {
            expectFault(text, 0x82)
        }
    }

    // MARK: Properties

    @Test(.mqtt5("detect-property-malformed"))
    func a_property_that_is_unknown_misplaced_or_cut() {
        for property in ["00", "04", "2B", "8101", "21 0001", "02 0000", "03 0005", "26", "26 0001'k'"] {
            let count = wire(property).count
            expectFault("30 0\(4 + count) 0001'a' 0\(count) \(property)", 0x81)
        }
        expectFault("40 06 0001 00 02 24 00", 0x81)
    }

    @Test(.mqtt5("detect-property-twice"))
    func a_property_twice() {
        expectFault("30 08 0001'a' 04 01 01 01 01", 0x82)
        expectFault("40 0B 0001 00 07 1F 0000 1F 0001'a'", 0x82)
        #expect(reaction(to: wire("30 0E 0001'a' 0A 26 0000 0000 26 0000 0000")).error == nil)
    }

    @Test(.mqtt5("detect-disconnect-session-expiry"))
    func a_servers_disconnect_has_no_session_expiry() { expectFault("E0 07 00 05 11 0000003C", 0x82) }

    @Test(
        .mqtt5("detect-problem-information"),
        arguments: [
            "40 07 0001 10 03 1F 0000", "50 07 0001 10 03 1F 0000", "62 07 0001 92 03 1F 0000",
            "70 07 0001 92 03 1F 0000", "90 07 0001 03 1F 0000 00", "B0 07 0001 03 1F 0000 00",
            "40 09 0001 10 05 26 0000 0000",
        ])
    func a_reason_string_that_nobody_asked_for(text: String) {
        expectFault(text, 0x82) { $0.connectProperties = Properties([.requestProblemInformation(0)]) }
        let usual = reaction(to: wire(text))
        if case .violation(.problemInformationNotRequested) = usual.error { Issue.record("\(text)") }
    }

    @Test(.mqtt5("detect-problem-information"))
    func three_packets_have_their_reason_strings_always() {
        for text in ["30 09 0001'a' 05 26 0000 0000", "E0 05 8B 03 1F 0000"] {
            let reaction = reaction(to: wire(text)) {
                $0.connectProperties = Properties([.requestProblemInformation(0)])
            }
            if case .violation = reaction.error { Issue.record("\(text)") }
        }
        let connack = reaction(to: wire("20 06 00 00 03 1F 0000"), isConnected: false) {
            $0.connectProperties = Properties([.requestProblemInformation(0)])
        }
        #expect(connack.error == nil)
    }

    // MARK: CONNACK

    @Test(.mqtt5("detect-receive-maximum-0"))
    func a_receive_maximum_of_zero() { expectConnackFault("20 06 00 00 03 21 0000", 0x82) }

    @Test(.mqtt5("detect-maximum-packet-size-0"))
    func a_maximum_packet_size_of_zero() { expectConnackFault("20 08 00 00 05 27 00000000", 0x82) }

    @Test(.mqtt5("detect-maximum-qos-value"), arguments: ["02", "03", "FF"])
    func a_maximum_qos_other_than_0_or_1(value: String) {
        expectConnackFault("20 05 00 00 02 24 \(value)", 0x82)
    }

    @Test(.mqtt5("detect-availability-value"), arguments: ["25", "28", "29", "2A"])
    func an_availability_other_than_0_or_1(property: String) {
        expectConnackFault("20 05 00 00 02 \(property) 02", 0x82)
    }

    @Test(.mqtt311("detect-connack-flags"), .mqtt5("detect-connack-flags"))
    func reserved_acknowledge_flags() {
        for bit in 1...7 {
            let flags = String(1 << bit, radix: 16)
            let text = flags.count < 2 ? "0\(flags)" : flags
            expectConnackFault("20 02 \(text) 00", 0x81, .v3_1_1)
            expectConnackFault("20 03 \(text) 00 00", 0x81)
        }
    }

    @Test(.mqtt311("detect-connack-flags"), .mqtt5("detect-session-present-on-failure"))
    func a_refusal_with_session_present() {
        expectConnackFault("20 02 01 05", 0x82, .v3_1_1)
        expectConnackFault("20 03 01 87 00", 0x82)
    }

    @Test(.mqtt5("detect-connack-refused"), arguments: ["01", "04", "8E", "FF"])
    func a_return_code_that_connack_does_not_have(code: String) {
        expectConnackFault("20 03 00 \(code) 00", 0x82)
    }

    @Test(.mqtt5("detect-authentication-data-alone"))
    func authentication_data_without_its_method() {
        expectConnackFault("20 07 00 00 04 16 0001 00", 0x82)
        expectFault("F0 06 18 04 16 0001 00", 0x82)
    }

    @Test(.mqtt5("detect-response-information"))
    func response_information_that_nobody_asked_for() {
        let connack = wire("20 07 00 00 04 1A 0001'r'")
        let unasked = reaction(to: connack, isConnected: false)
        #expect(unasked.error == .violation(.responseInformationNotRequested))
        #expect(unasked.answer == hex("E0 01 82"))
        let asked = reaction(to: connack, isConnected: false) {
            $0.connectProperties = Properties([.requestResponseInformation(1)])
        }
        #expect(asked.error == nil)
    }

    // MARK: SUBACK

    @Test(.mqtt311("detect-suback-code"), arguments: ["03", "7F", "81", "87", "FF"])
    func a_suback_code_that_3_1_1_does_not_have(code: String) {
        expectFault("90 03 0001 \(code)", 0x82, [.v3_1_1])
    }

    @Test(.mqtt311("detect-suback-order"))
    func suback_codes_belong_to_the_filters_by_their_place() {
        var harness = SessionHarness(connected: .v3_1_1)
        harness.subscribe("a", "b", "c")
        _ = harness.packets()
        let codes: [ReasonCode] = [.grantedQoS0, .unspecifiedError, .grantedQoS0]
        harness.receive(.suback(Suback(packetIdentifier: 1, reasonCodes: codes)))
        // What was granted is known by what is asked for again.
        harness.reconnect(sessionPresent: false)
        #expect(harness.packets() == hex(["82 0A 00 02 00 01 61 00 00 01 63 00"]))
    }

    /// What was sent back, and why the connection was closed; nil where it wasn't.
    private struct Reaction {
        var answer: [UInt8]
        var error: SessionError?
    }
}
