import MQTTCore
import Testing

@Suite struct PropertyTests {
    /// Table 2-4, column by column: identifier and the places that it names, `W` for Will Properties.
    @Test(arguments: [
        (UInt8(0x01), "PUBLISH W"), (0x02, "PUBLISH W"), (0x03, "PUBLISH W"), (0x08, "PUBLISH W"),
        (0x09, "PUBLISH W"), (0x0B, "PUBLISH SUBSCRIBE"), (0x11, "CONNECT CONNACK DISCONNECT"),
        (0x12, "CONNACK"), (0x13, "CONNACK"), (0x15, "CONNECT CONNACK AUTH"), (0x16, "CONNECT CONNACK AUTH"),
        (0x17, "CONNECT"), (0x18, "W"), (0x19, "CONNECT"), (0x1A, "CONNACK"), (0x1C, "CONNACK DISCONNECT"),
        (0x1F, "CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH"),
        (0x21, "CONNECT CONNACK"), (0x22, "CONNECT CONNACK"), (0x23, "PUBLISH"), (0x24, "CONNACK"),
        (0x25, "CONNACK"),
        (
            0x26,
            """
            CONNECT CONNACK PUBLISH W PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK \
            DISCONNECT AUTH
            """
        ),
        (0x27, "CONNECT CONNACK"), (0x28, "CONNACK"), (0x29, "CONNACK"), (0x2A, "CONNACK"),
    ])
    func a_property_stands_where_table_2_4_says(_ raw: UInt8, _ places: String) throws {
        let identifier = try #require(PropertyIdentifier(rawValue: raw))
        let names = Set(places.split(separator: " ").map(String.init))
        for type in PacketType.allCases {
            #expect(identifier.scope.contains(PropertyScope(type)) == names.contains(type.specificationName))
        }
        #expect(identifier.scope.contains(.will) == names.contains("W"))
    }

    @Test func there_are_27_properties_and_two_repeat() {
        #expect(PropertyIdentifier.allCases.count == 27)
        #expect(
            PropertyIdentifier.allCases.filter { $0.mayRepeat(in: .publish) }
                == [.subscriptionIdentifier, .userProperty])
        #expect(PropertyIdentifier.allCases.filter { $0.mayRepeat(in: .subscribe) } == [.userProperty])
    }

    @Test func every_typed_property_is_read_replaced_and_removed() {
        check(\.messageExpiryInterval, 1, 2)
        check(\.contentType, "a", "b")
        check(\.responseTopic, "a", "b")
        check(\.correlationData, [1], [2])
        check(\.topicAlias, 1, 2)
        check(\.willDelayInterval, 1, 2)
        check(\.sessionExpiryInterval, 1, 2)
        check(\.receiveMaximum, 1, 2)
        check(\.maximumPacketSize, 1, 2)
        check(\.topicAliasMaximum, 1, 2)
        check(\.requestResponseInformation, true, false)
        check(\.requestProblemInformation, true, false)
        check(\.assignedClientIdentifier, "a", "b")
        check(\.serverKeepAlive, 1, 2)
        check(\.maximumQoS, .atMostOnce, .atLeastOnce)
        check(\.retainAvailable, true, false)
        check(\.wildcardSubscriptionAvailable, true, false)
        check(\.subscriptionIdentifierAvailable, true, false)
        check(\.sharedSubscriptionAvailable, true, false)
        check(\.responseInformation, "a", "b")
        check(\.authenticationMethod, "a", "b")
        check(\.authenticationData, [1], [2])
        check(\.reasonString, "a", "b")
        check(\.serverReference, "a", "b")
    }

    private func check<Value: Equatable>(
        _ path: WritableKeyPath<Properties, Value?>, _ first: Value, _ second: Value,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        var properties = Properties([.userProperty(UserProperty(name: "before", value: ""))])
        #expect(properties[keyPath: path] == nil, sourceLocation: sourceLocation)
        properties[keyPath: path] = first
        properties.entries.append(.userProperty(UserProperty(name: "after", value: "")))
        properties[keyPath: path] = second
        #expect(properties[keyPath: path] == second, sourceLocation: sourceLocation)
        #expect(properties.entries.count == 3, sourceLocation: sourceLocation)
        #expect(properties.entries[1].identifier != .userProperty, sourceLocation: sourceLocation)
        properties[keyPath: path] = nil
        #expect(properties[keyPath: path] == nil, sourceLocation: sourceLocation)
        #expect(properties.userProperties.map(\.name) == ["before", "after"], sourceLocation: sourceLocation)
    }

    @Test func payload_format_is_absent_or_1() {
        var properties = Properties()
        #expect(!properties.isPayloadUTF8)
        properties.isPayloadUTF8 = true
        #expect(properties.entries == [.payloadFormatIndicator(1)])
        properties.isPayloadUTF8 = false
        #expect(properties.isEmpty)
        #expect(!Properties([.payloadFormatIndicator(0)]).isPayloadUTF8)
    }

    @Test func user_properties_keep_order_and_duplicates_over_the_wire() throws {
        let pairs = [("b", "1"), ("a", "2"), ("b", "1"), ("b", "3")].map(UserProperty.init)
        var publish = Publish(topicName: "t", payload: [])
        publish.properties.userProperties = pairs
        publish.properties.subscriptionIdentifiers = [268_435_455, 1, 128, 1]
        var output: [UInt8] = []
        try publish.encode(for: .v5, into: &output)
        let decoder = TestDecoder(role: .client, version: .v5)
        guard case .publish(let received) = try decoder.packets(in: output).first else {
            Issue.record("no PUBLISH")
            return
        }
        #expect(received.properties.userProperties == pairs)
        #expect(received.properties.subscriptionIdentifiers == [268_435_455, 1, 128, 1])
        #expect(
            output == wire("30 2C 0001't' 28")
                + pairs.flatMap {
                    wire("26 0001") + $0.name.utf8 + wire("0001") + $0.value.utf8
                } + wire("0B FFFFFF7F 0B 01 0B 8001 0B 01"))
    }
}

@Suite struct ReasonCodeTests {
    @Test(arguments: [
        (UInt8(0), "Success (0x00)"), (0x04, "Disconnect with Will Message (0x04)"),
        (0x87, "Not authorized (0x87)"), (0x8E, "Session taken over (0x8E)"),
        (0xA2, "Wildcard Subscriptions not supported (0xA2)"), (0xFE, "Unknown reason (0xFE)"),
    ])
    func a_reason_code_describes_itself(_ raw: UInt8, _ text: String) {
        #expect(ReasonCode(rawValue: raw).description == text)
    }

    @Test func all_43_values_of_the_table_have_a_name() {
        #expect((UInt8.min...UInt8.max).filter { ReasonCode(rawValue: $0).name != nil }.count == 43)
    }

    @Test func connect_return_codes_of_3_1_1_have_their_own_names() {
        #expect(ReasonCode(rawValue: 1).connectReturnCodeDescription == "unacceptable protocol version (1)")
        #expect(ReasonCode(rawValue: 5).connectReturnCodeDescription == "not authorized (5)")
        #expect(ReasonCode(rawValue: 6).connectReturnCodeDescription == "reserved return code (6)")
    }

    /// The columns of Table 2-6.
    @Test(arguments: [
        (
            PacketType.connack,
            "00 80 81 82 83 84 85 86 87 88 89 8A 8C 90 95 97 99 9A 9B 9C 9D 9F"
        ),
        (.puback, "00 10 80 83 87 90 91 97 99"), (.pubrec, "00 10 80 83 87 90 91 97 99"),
        (.pubrel, "00 92"), (.pubcomp, "00 92"), (.suback, "00 01 02 80 83 87 8F 91 97 9E A1 A2"),
        (.unsuback, "00 11 80 83 87 8F 91"),
        (
            .disconnect,
            """
            00 04 80 81 82 83 87 89 8B 8C 8D 8E 8F 90 93 94 95 96 97 98 99 9A 9B 9C 9D 9E 9F A0 A1 A2
            """
        ),
        (.auth, "00 18 19"),
    ])
    func a_packet_carries_the_codes_of_its_table(_ type: PacketType, _ codes: String) {
        let valid = (UInt8.min...UInt8.max).filter {
            ReasonCode(rawValue: $0).isValid(in: type, version: .v5)
        }
        #expect(valid == wire(codes))
    }
}
