import MQTTConformance
import MQTTCore
import Testing

/// What the packets of a client look like, apart from CONNECT.
@Suite("Rules of the packets that a client sends")
struct PacketRules {
    private static func bytes(_ packet: ControlPacket, _ version: ProtocolVersion) throws -> [UInt8] {
        var bytes: [UInt8] = []
        try packet.encode(for: version, into: &bytes)
        return bytes
    }

    private static let subscribe = Subscribe(
        packetIdentifier: 1, subscriptions: [.init(topicFilter: "f", options: .init())])
    private static let unsubscribe = Unsubscribe(packetIdentifier: 1, topicFilters: ["f"])

    @Test(
        .mqtt311("2.2.2-1", "3.6.1-1", "3.8.1-1", "3.10.1-1", "3.14.1-1"),
        .mqtt5("2.1.3-1", "3.6.1-1", "3.8.1-1", "3.10.1-1", "3.14.1-1", "3.15.1-1"),
        arguments: ProtocolVersion.allCases)
    func the_first_byte_is_the_one_of_the_table(version: ProtocolVersion) throws {
        let id = acknowledgement(1)
        var packets: [(ControlPacket, UInt8)] = [
            (.connect(Connect(version: version, clientIdentifier: "c")), 0x10), (.puback(id), 0x40),
            (.pubrec(id), 0x50), (.pubrel(id), 0x62), (.pubcomp(id), 0x70),
            (.subscribe(Self.subscribe), 0x82),
            (.unsubscribe(Self.unsubscribe), 0xA2), (.pingreq, 0xC0), (.disconnect(Disconnect()), 0xE0),
        ]
        if version == .v5 { packets.append((.auth(Auth()), 0xF0)) }
        for (packet, first) in packets {
            #expect(try Self.bytes(packet, version).first == first)
        }
    }

    @Test(
        .mqtt311("3.3.1-2", "3.3.1-4", "4.3.1-1"), .mqtt5("3.3.1-2", "3.3.1-4", "4.3.1-1"),
        arguments: ProtocolVersion.allCases)
    func the_flags_of_publish_are_dup_qos_and_retain(version: ProtocolVersion) throws {
        for qos in QoS.allCases {
            for retain in [false, true] {
                for isDuplicate in [false, true] {
                    let publish = Publish(
                        topicName: "t", payload: [], qos: qos, retain: retain, isDuplicate: isDuplicate,
                        packetIdentifier: qos == .atMostOnce ? nil : 1)
                    guard qos != .atMostOnce || !isDuplicate else {
                        #expect(throws: EncodeError.duplicateFlagOnQoS0) {
                            try Self.bytes(.publish(publish), version)
                        }
                        continue
                    }
                    let first = try #require(try Self.bytes(.publish(publish), version).first)
                    #expect(first == 0x30 | (isDuplicate ? 8 : 0) | qos.rawValue << 1 | (retain ? 1 : 0))
                    #expect(first & 0b0110 != 0b0110)
                }
            }
        }
        var harness = SessionHarness(connected: version)
        harness.session.publish(
            Publish(topicName: "t", payload: [], isDuplicate: true), token: harness.makeToken(),
            now: harness.now, into: &harness.output)
        #expect(harness.packets().map { $0[0] } == [0x30])
    }

    @Test(.mqtt311("3.3.2-1", "1.5.3-3"), .mqtt5("3.3.2-1", "1.5.4-3"), arguments: ProtocolVersion.allCases)
    func the_topic_name_comes_first_as_utf8(version: ProtocolVersion) throws {
        let publish = Publish(topicName: "\u{FEFF}ä", payload: [9], qos: .atLeastOnce, packetIdentifier: 1)
        let end = version == .v5 ? "0001 00 09" : "0001 09"
        #expect(
            try Self.bytes(.publish(publish), version).dropFirst(2) == wire("0005 EFBBBF C3A4 \(end)")[...])
    }

    @Test(.mqtt311("2.3.1-1"), .mqtt5("2.2.1-3"), arguments: ProtocolVersion.allCases)
    func identifiers_are_never_zero_and_all_three_kinds_share_them(version: ProtocolVersion) throws {
        var harness = SessionHarness(connected: version)
        harness.publish()
        harness.subscribe("f")
        harness.unsubscribe("f")
        harness.publish(qos: .exactlyOnce)
        let packets = harness.packets()
        let identifiers = packets.map { $0[0] & 0xF0 == 0x30 ? Array($0[5...6]) : Array($0[2...3]) }
        #expect(identifiers == [[0, 1], [0, 2], [0, 3], [0, 4]])
        var subscribe = Self.subscribe
        subscribe.packetIdentifier = 0
        var unsubscribe = Self.unsubscribe
        unsubscribe.packetIdentifier = 0
        for (packet, type) in [
            (.subscribe(subscribe), .subscribe), (.unsubscribe(unsubscribe), .unsubscribe),
            (
                .publish(Publish(topicName: "t", payload: [], qos: .atLeastOnce, packetIdentifier: 0)),
                .publish
            ),
        ] as [(ControlPacket, PacketType)] {
            #expect(throws: EncodeError.packetIdentifierMissing(type)) { try Self.bytes(packet, version) }
        }
    }

    @Test(
        .mqtt311("3.8.3-1", "3.8.3-4", "3.10.3-1"), .mqtt5("3.8.3-1", "3.8.3-5", "3.10.3-1"),
        arguments: ProtocolVersion.allCases)
    func filters_are_packed_as_utf8_with_their_options(version: ProtocolVersion) throws {
        let isV5 = version == .v5
        for qos in QoS.allCases {
            for handling in [0, 1, 2] as [UInt8] {
                let options = SubscriptionOptions(
                    qos: qos, noLocal: true, retainAsPublished: true,
                    retainHandling: try #require(.init(rawValue: handling)))
                let subscribe = Subscribe(
                    packetIdentifier: 1,
                    subscriptions: [
                        .init(topicFilter: "ä/+", options: options),
                        .init(topicFilter: "#", options: options),
                    ])
                let byte = isV5 ? qos.rawValue | 0b1100 | handling << 4 : qos.rawValue
                let head = wire(isV5 ? "82 0E 0001 00" : "82 0D 0001")
                #expect(
                    try Self.bytes(.subscribe(subscribe), version) == head + wire("0004 C3A4 '/+'") + [byte]
                        + wire("0001'#'") + [byte])
                #expect(byte & (isV5 ? 0b1100_0000 : 0b1111_1100) == 0)
            }
        }
        let unsubscribe = Unsubscribe(packetIdentifier: 1, topicFilters: ["ä/+", "#"])
        #expect(
            try Self.bytes(.unsubscribe(unsubscribe), version)
                == wire(isV5 ? "A2 0C 0001 00" : "A2 0B 0001") + wire("0004 C3A4 '/+' 0001'#'"))
    }

    @Test(
        .mqtt311("3.8.3-3", "3.10.3-2"), .mqtt5("3.8.3-2", "3.10.3-2"), arguments: ProtocolVersion.allCases)
    func a_request_without_filters_is_not_sent(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let subscribing = harness.subscribe()
        let unsubscribing = harness.unsubscribe()
        harness.encode()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(
            output.actions == [
                .failed(subscribing, .notEncodable(.emptyList(.subscribe))),
                .failed(unsubscribing, .notEncodable(.emptyList(.unsubscribe))),
            ])
    }

    @Test(.mqtt5("3.8.3-4"))
    func no_local_is_not_asked_of_a_shared_subscription() throws {
        var harness = SessionHarness(connected: .v5)
        let token = harness.makeToken()
        let subscription = Subscribe.Subscription(topicFilter: "$share/g/f", options: .init(noLocal: true))
        harness.session.subscribe([subscription], token: token, now: harness.now, into: &harness.output)
        harness.encode()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.actions == [.failed(token, .notEncodable(.noLocalOnSharedSubscription))])
        harness.subscribe("$share/g/f")
        #expect(harness.packets().count == 1)
    }

    @Test(.mqtt5("2.2.2-1"))
    func no_properties_are_one_zero_byte() throws {
        let publish = Publish(topicName: "t", payload: [])
        for (packet, bytes) in [
            (.connect(Connect(clientIdentifier: "", keepAlive: 0)), "10 0D 0004'MQTT' 05 02 0000 00 0000"),
            (.publish(publish), "30 04 0001't' 00"), (.subscribe(Self.subscribe), "82 07 0001 00 0001'f' 01"),
            (.unsubscribe(Self.unsubscribe), "A2 06 0001 00 0001'f'"),
        ] as [(ControlPacket, String)] {
            #expect(try Self.bytes(packet, .v5) == wire(bytes))
        }
    }

    @Test(
        .mqtt5("1.5.5-1"),
        arguments: [
            (1, "01"), (127, "7F"), (128, "8001"), (16_383, "FF7F"), (16_384, "808001"),
            (2_097_151, "FFFF7F"), (2_097_152, "80808001"), (268_435_455, "FFFFFF7F"),
        ] as [(UInt32, String)])
    func variable_byte_integers_take_the_fewest_bytes(value: UInt32, text: String) throws {
        var subscribe = Self.subscribe
        subscribe.properties = Properties([.subscriptionIdentifier(value)])
        let integer = wire(text)
        #expect(
            try Self.bytes(.subscribe(subscribe), .v5).dropFirst(4).prefix(2 + integer.count)
                == ([UInt8(1 + integer.count), 0x0B] + integer)[...])
        // As Remaining Length: 2 bytes of topic length, 1 of topic.
        guard value > 2, value < 200_000 else { return }
        let publish = Publish(topicName: "t", payload: [UInt8](repeating: 0, count: Int(value) - 3))
        #expect(
            try Self.bytes(.publish(publish), .v3_1_1).prefix(1 + integer.count) == ([0x30] + integer)[...])
    }

    @Test(.mqtt5("1.5.4-2", "1.5.7-1"), arguments: [("\0", "v"), ("k", "\0")])
    func a_user_property_has_no_null_in_either_half(name: String, value: String) {
        var publish = Publish(topicName: "t", payload: [])
        publish.properties.userProperties = [UserProperty(name: name, value: value)]
        #expect(throws: EncodeError.nullCharacter) { try Self.bytes(.publish(publish), .v5) }
    }

    @Test(.mqtt5("3.3.2-13", "3.3.2-14", "3.3.2-19"))
    func response_topic_and_content_type_are_strings_the_former_without_wildcards() throws {
        let publish = Publish(
            topicName: "t", payload: [], properties: Properties([.responseTopic("ä"), .contentType("ö")]))
        #expect(
            try Self.bytes(.publish(publish), .v5) == wire("30 0E 0001't' 0A 08 0002 C3A4 03 0002 C3B6"))
        for topic in ["", "#", "a/+", "+"] {
            let broken = Publish(topicName: "t", payload: [], properties: Properties([.responseTopic(topic)]))
            #expect(throws: EncodeError.responseTopicNotValid) { try Self.bytes(.publish(broken), .v5) }
        }
        for property in [Property.responseTopic("\0"), .contentType("\0")] {
            let broken = Publish(topicName: "t", payload: [], properties: Properties([property]))
            #expect(throws: EncodeError.nullCharacter) { try Self.bytes(.publish(broken), .v5) }
        }
    }

    @Test(.mqtt5("3.3.4-6"))
    func a_subscription_identifier_is_not_published() {
        var harness = SessionHarness(connected: .v5)
        let token = harness.publish(properties: Properties([.subscriptionIdentifier(1)]))
        harness.encode()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.actions == [.failed(token, .subscriptionIdentifierNotAllowed)])
    }

    @Test(
        .mqtt5("3.4.2-1", "3.5.2-1", "3.6.2-1", "3.7.2-1"),
        arguments: [
            (.puback, "00 10 80 83 87 90 91 97 99"), (.pubrec, "00 10 80 83 87 90 91 97 99"),
            (.pubrel, "00 92"), (.pubcomp, "00 92"),
        ] as [(PacketType, String)])
    func an_acknowledgement_has_a_code_of_its_table(type: PacketType, codes: String) {
        let listed = Set(wire(codes))
        for code in UInt8.min...UInt8.max {
            var bytes: [UInt8] = []
            let packet = acknowledgement(1, ReasonCode(rawValue: code))
            if listed.contains(code) {
                #expect(throws: Never.self) { try packet.encode(as: type, for: .v5, into: &bytes) }
                #expect(bytes.last == (code == 0 ? 1 : code))
            } else {
                #expect(throws: EncodeError.reasonCodeNotValid(type, code)) {
                    try packet.encode(as: type, for: .v5, into: &bytes)
                }
            }
        }
    }

    @Test(.mqtt5("3.15.2-1"))
    func auth_has_a_code_of_its_table() {
        for code in UInt8.min...UInt8.max {
            let auth = ControlPacket.auth(Auth(reasonCode: ReasonCode(rawValue: code)))
            if [0x00, 0x18, 0x19].contains(code) {
                #expect(throws: Never.self) { try Self.bytes(auth, .v5) }
            } else {
                #expect(throws: EncodeError.reasonCodeNotValid(.auth, code)) { try Self.bytes(auth, .v5) }
            }
        }
    }

    /// Table 3-10: the values that a client sends, and those that only a server sends.
    @Test(.mqtt5("3.14.2-1"))
    func disconnect_has_a_code_that_is_a_clients() throws {
        let ofClients = Set(wire("00 04 80 81 82 83 90 93 94 95 96 97 98 99"))
        let faults: [ReasonCode] =
            SessionViolation.samples.map(\.reasonCode)
            + (Malformation.fixedHeaders + Malformation.bodies + Malformation.properties)
            .filter { $0.reader == .client }.map(\.error.reasonCode)
            + [DecodeError.packetTooLarge(size: 2, maximum: 1).reasonCode]
        for code in faults { #expect(ofClients.contains(code.rawValue), "\(code)") }
        for code in UInt8.min...UInt8.max where ReasonCode(rawValue: code).name == nil {
            let disconnect = ControlPacket.disconnect(Disconnect(reasonCode: ReasonCode(rawValue: code)))
            #expect(throws: EncodeError.reasonCodeNotValid(.disconnect, code)) {
                try Self.bytes(disconnect, .v5)
            }
        }
    }

    /// The client puts neither Reason String nor User Property into them, so there is nothing to leave out:
    /// the bare packet fits every Maximum Packet Size with which a client can be served.
    @Test(
        .mqtt5(
            "3.4.2-2", "3.4.2-3", "3.5.2-2", "3.5.2-3", "3.6.2-2", "3.6.2-3", "3.7.2-2", "3.7.2-3",
            "3.2.2-15"))
    func acknowledgements_are_bare_and_never_above_the_servers_limit() {
        var harness = SessionHarness(connected: .v5, connack: Properties([.maximumPacketSize(5)]))
        harness.deliver(qos: .atLeastOnce, id: 1)
        harness.deliver(qos: .exactlyOnce, id: 2)
        harness.deliver(qos: .exactlyOnce, id: 3)
        let tokens = harness.take().tokens
        harness.acknowledge(tokens[0], reason: .quotaExceeded)
        harness.acknowledge(tokens[1], reason: .payloadFormatInvalid)
        harness.acknowledge(tokens[2])
        harness.receive(.pubrel(acknowledgement(3)))
        harness.receive(.pubrel(acknowledgement(4)))
        harness.receive(.pubrec(acknowledgement(4)))
        #expect(
            harness.takePackets()
                == hex([
                    "40 03 00 01 97", "50 03 00 02 99", "50 02 00 03", "70 02 00 03", "70 03 00 04 92",
                    "62 03 00 04 92",
                ]))
        harness = SessionHarness(connected: .v5, connack: Properties([.maximumPacketSize(4)]))
        harness.deliver(qos: .atLeastOnce, id: 1)
        harness.acknowledge(harness.take().tokens[0], reason: .quotaExceeded)
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.actions == [.close(.packetTooLarge(size: 5, limit: 4))])
    }
}

extension SessionViolation {
    /// One of each case.
    fileprivate static let samples: [SessionViolation] = [
        .packetBeforeConnack, .secondConnack, .connackReasonCode(.success), .sessionPresentAfterCleanStart,
        .sessionPresentWithoutSession, .clientIdentifierNotAssigned, .clientIdentifierReplaced,
        .unexpectedAuthenticationMethod, .unexpectedAuth, .clientPacketFromServer, .unknownSuback(1),
        .unknownUnsuback(1), .subackCount(expected: 1, received: 2), .unsubackCount(expected: 1, received: 2),
        .receiveMaximumExceeded, .topicAliasInvalid(0), .topicAliasUnknown(1), .topicNameMissing,
        .problemInformationNotRequested(.puback), .responseInformationNotRequested,
        .subscriptionIdentifierUnknown(1), .authenticationMethodChanged, .authenticationCutShort,
        .packetBeforeConnect,
    ]
}
