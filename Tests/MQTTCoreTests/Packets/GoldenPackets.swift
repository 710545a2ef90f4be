import MQTTCore
import Testing

/// A packet and its one right form on the wire.
struct GoldenPacket: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var version: ProtocolVersion
    /// Who reads it.
    var reader: PacketDecoder.Role
    var bytes: [UInt8]
    var packet: ControlPacket

    init(
        _ name: String, _ version: ProtocolVersion, to reader: PacketDecoder.Role, _ bytes: String,
        _ packet: ControlPacket
    ) {
        testDescription = "\(name), \(version), to \(reader)"
        self.version = version
        self.reader = reader
        self.bytes = wire(bytes)
        self.packet = packet
    }
}

extension GoldenPacket {
    static let all = connections + messages + acknowledgements + subscriptions + ends

    private static let pair = Property.userProperty(UserProperty(name: "k", value: "v"))

    private static let connections: [GoldenPacket] = [
        GoldenPacket(
            "CONNECT", .v3_1_1, to: .server, "10 10 0004'MQTT' 04 02 003C 0004'test'",
            .connect(Connect(version: .v3_1_1, clientIdentifier: "test", keepAlive: 60))),
        GoldenPacket(
            "CONNECT with everything", .v3_1_1, to: .server,
            "10 1E 0004'MQTT' 04 EE 000A 0001'a' 0003'w/t' 0003'bye' 0001'u' 0002'pw'",
            .connect(
                Connect(
                    version: .v3_1_1, clientIdentifier: "a", keepAlive: 10,
                    will: Will(
                        topicName: "w/t", payload: wire("'bye'"), qos: .atLeastOnce, retain: true),
                    userName: "u", password: wire("'pw'")))),
        GoldenPacket(
            "CONNECT resuming with an empty user name", .v3_1_1, to: .server,
            "10 0F 0004'MQTT' 04 80 0000 0001'a' 0000",
            .connect(
                Connect(
                    version: .v3_1_1, clientIdentifier: "a", cleanStart: false, keepAlive: 0, userName: ""))),
        GoldenPacket(
            "CONNECT", .v5, to: .server, "10 11 0004'MQTT' 05 02 003C 00 0004'test'",
            .connect(Connect(clientIdentifier: "test", keepAlive: 60))),
        GoldenPacket(
            "CONNECT with everything", .v5, to: .server,
            """
            10 63 0004'MQTT' 05 F6 000A
            26 11 0000003C 21 0014 27 00001000 22 000A 19 01 17 00 26 0001'k'0001'v' 15 0003'SCR' 16 0002 DEAD
            0001'a'
            1D 18 00000005 01 01 02 0000000A 03 0001'c' 08 0001'r' 09 0001 FF 26 0000 0000
            0003'w/t' 0003'bye' 0001'u' 0002'pw'
            """,
            .connect(
                Connect(
                    clientIdentifier: "a", keepAlive: 10,
                    will: Will(
                        topicName: "w/t", payload: wire("'bye'"), qos: .exactlyOnce, retain: true,
                        properties: Properties([
                            .willDelayInterval(5), .payloadFormatIndicator(1), .messageExpiryInterval(10),
                            .contentType("c"), .responseTopic("r"), .correlationData([0xFF]),
                            .userProperty(UserProperty(name: "", value: "")),
                        ])),
                    userName: "u", password: wire("'pw'"),
                    properties: Properties([
                        .sessionExpiryInterval(60), .receiveMaximum(20), .maximumPacketSize(4096),
                        .topicAliasMaximum(10), .requestResponseInformation(1), .requestProblemInformation(0),
                        pair, .authenticationMethod("SCR"), .authenticationData([0xDE, 0xAD]),
                    ])))),
        GoldenPacket(
            "CONNECT with a password only", .v5, to: .server,
            "10 11 0004'MQTT' 05 42 0000 00 0001'a' 0001'p'",
            .connect(Connect(clientIdentifier: "a", keepAlive: 0, password: wire("'p'")))),
        GoldenPacket(
            "CONNACK, session present", .v3_1_1, to: .client, "20 02 01 00",
            .connack(Connack(sessionPresent: true))),
        GoldenPacket(
            "CONNACK, not authorized", .v3_1_1, to: .client, "20 02 00 05",
            .connack(Connack(sessionPresent: false, reasonCode: ReasonCode(rawValue: 5)))),
        GoldenPacket(
            "CONNACK", .v5, to: .client, "20 03 00 00 00", .connack(Connack(sessionPresent: false))),
        GoldenPacket(
            "CONNACK, not authorized", .v5, to: .client, "20 03 00 87 00",
            .connack(Connack(sessionPresent: false, reasonCode: .notAuthorized))),
        GoldenPacket(
            "CONNACK with everything", .v5, to: .client,
            """
            20 41 01 00 3E
            11 00000000 21 000A 24 01 25 00 27 00010000 12 0002'id' 22 0005 1F 0002'ok' 26 0001'k'0001'v'
            28 00 29 00 2A 01 13 003C 1A 0001'r' 1C 0001's' 15 0001'm' 16 0001 00
            """,
            .connack(
                Connack(
                    sessionPresent: true,
                    properties: Properties([
                        .sessionExpiryInterval(0), .receiveMaximum(10), .maximumQoS(1), .retainAvailable(0),
                        .maximumPacketSize(65536), .assignedClientIdentifier("id"), .topicAliasMaximum(5),
                        .reasonString("ok"), pair, .wildcardSubscriptionAvailable(0),
                        .subscriptionIdentifierAvailable(0), .sharedSubscriptionAvailable(1),
                        .serverKeepAlive(60), .responseInformation("r"), .serverReference("s"),
                        .authenticationMethod("m"), .authenticationData([0]),
                    ])))),
    ]

    private static let messages: [GoldenPacket] =
        [PacketDecoder.Role.client, .server].flatMap { reader in
            [
                GoldenPacket(
                    "PUBLISH at QoS 0", .v3_1_1, to: reader, "30 07 0003'a/b' 'hi'",
                    .publish(Publish(topicName: "a/b", payload: wire("'hi'")))),
                GoldenPacket(
                    "PUBLISH at QoS 1, retained", .v3_1_1, to: reader, "33 08 0003'a/b' 000A 'x'",
                    .publish(
                        Publish(
                            topicName: "a/b", payload: wire("'x'"), qos: .atLeastOnce, retain: true,
                            packetIdentifier: 10))),
                GoldenPacket(
                    "PUBLISH at QoS 2, duplicate, empty", .v3_1_1, to: reader, "3C 07 0003'a/b' FFFF",
                    .publish(
                        Publish(
                            topicName: "a/b", payload: [], qos: .exactlyOnce, isDuplicate: true,
                            packetIdentifier: 65535))),
                GoldenPacket(
                    "PUBLISH to a longer topic", .v3_1_1, to: reader,
                    "30 19 0016'sensors/kitchen/status' '1'",
                    .publish(Publish(topicName: "sensors/kitchen/status", payload: wire("'1'")))),
                GoldenPacket(
                    "PUBLISH at QoS 0", .v5, to: reader, "30 08 0003'a/b' 00 'hi'",
                    .publish(Publish(topicName: "a/b", payload: wire("'hi'")))),
                GoldenPacket(
                    "PUBLISH with an alias in place of the topic", .v5, to: reader,
                    "30 07 0000 03 23 0005 'x'",
                    .publish(
                        Publish(topicName: "", payload: wire("'x'"), properties: Properties([.topicAlias(5)]))
                    )),
                GoldenPacket(
                    "PUBLISH to U+FEFF and U+10FFFF", .v5, to: reader, "30 0A 0007 EFBBBF F48FBFBF 00",
                    .publish(Publish(topicName: "\u{FEFF}\u{10FFFF}", payload: []))),
            ]
        } + [
            GoldenPacket(
                "PUBLISH with everything", .v5, to: .client,
                """
                32 2C 0003'a/b' 0001
                24 01 01 02 0000003C 23 0001 08 0001'r' 09 0002 0001 26 0001'k'0001'v' 0B 01 0B 808001 03 0001'c'
                """,
                .publish(
                    Publish(
                        topicName: "a/b", payload: [], qos: .atLeastOnce, packetIdentifier: 1,
                        properties: Properties([
                            .payloadFormatIndicator(1), .messageExpiryInterval(60), .topicAlias(1),
                            .responseTopic("r"), .correlationData([0, 1]), pair, .subscriptionIdentifier(1),
                            .subscriptionIdentifier(16384), .contentType("c"),
                        ]))))
        ]

    private static let acknowledgements: [GoldenPacket] = [PacketDecoder.Role.client, .server].flatMap {
        reader in
        ProtocolVersion.allCases.flatMap { version in
            [
                GoldenPacket(
                    "PUBACK", version, to: reader, "40 02 1234",
                    .puback(Acknowledgement(packetIdentifier: 0x1234))),
                GoldenPacket(
                    "PUBREC", version, to: reader, "50 02 0001", .pubrec(Acknowledgement(packetIdentifier: 1))
                ),
                GoldenPacket(
                    "PUBREL", version, to: reader, "62 02 0001", .pubrel(Acknowledgement(packetIdentifier: 1))
                ),
                GoldenPacket(
                    "PUBCOMP", version, to: reader, "70 02 0001",
                    .pubcomp(Acknowledgement(packetIdentifier: 1))),
            ]
        } + [
            GoldenPacket(
                "PUBACK, no subscribers", .v5, to: reader, "40 03 1234 10",
                .puback(Acknowledgement(packetIdentifier: 0x1234, reasonCode: .noMatchingSubscribers))),
            GoldenPacket(
                "PUBACK with a reason string", .v5, to: reader, "40 09 1234 87 05 1F 0002'no'",
                .puback(
                    Acknowledgement(
                        packetIdentifier: 0x1234, reasonCode: .notAuthorized,
                        properties: Properties([.reasonString("no")])))),
            GoldenPacket(
                "PUBREC, identifier in use", .v5, to: reader, "50 03 0001 91",
                .pubrec(Acknowledgement(packetIdentifier: 1, reasonCode: .packetIdentifierInUse))),
            GoldenPacket(
                "PUBREL, identifier not found", .v5, to: reader, "62 03 0001 92",
                .pubrel(Acknowledgement(packetIdentifier: 1, reasonCode: .packetIdentifierNotFound))),
            GoldenPacket(
                "PUBCOMP with a user property", .v5, to: reader, "70 0B 0001 92 07 26 0001'k'0001'v'",
                .pubcomp(
                    Acknowledgement(
                        packetIdentifier: 1, reasonCode: .packetIdentifierNotFound,
                        properties: Properties([pair])))),
        ]
    }

    private static let subscriptions: [GoldenPacket] = [
        GoldenPacket(
            "SUBSCRIBE", .v3_1_1, to: .server, "82 0C 000A 0003'a/b' 01 0001'#' 02",
            .subscribe(
                Subscribe(
                    packetIdentifier: 10,
                    subscriptions: [
                        .init(topicFilter: "a/b", options: .init(qos: .atLeastOnce)),
                        .init(topicFilter: "#", options: .init(qos: .exactlyOnce)),
                    ]))),
        GoldenPacket(
            "SUBSCRIBE with every option", .v5, to: .server, "82 0B 000A 02 0B 05 0003'a/b' 2D",
            .subscribe(
                Subscribe(
                    packetIdentifier: 10,
                    subscriptions: [
                        .init(
                            topicFilter: "a/b",
                            options: .init(
                                qos: .atLeastOnce, noLocal: true, retainAsPublished: true,
                                retainHandling: .doNotSend))
                    ],
                    properties: Properties([.subscriptionIdentifier(5)])))),
        GoldenPacket(
            "SUBACK", .v3_1_1, to: .client, "90 05 000A 00 02 80",
            .suback(
                Suback(packetIdentifier: 10, reasonCodes: [.grantedQoS0, .grantedQoS2, .unspecifiedError]))),
        GoldenPacket(
            "SUBACK", .v5, to: .client, "90 06 000A 00 01 8F A2",
            .suback(
                Suback(
                    packetIdentifier: 10,
                    reasonCodes: [.grantedQoS1, .topicFilterInvalid, .wildcardSubscriptionsNotSupported]))),
        GoldenPacket(
            "UNSUBSCRIBE", .v3_1_1, to: .server, "A2 07 000B 0003'a/b'",
            .unsubscribe(Unsubscribe(packetIdentifier: 11, topicFilters: ["a/b"]))),
        GoldenPacket(
            "UNSUBSCRIBE", .v5, to: .server, "A2 0B 000B 00 0003'a/b' 0001'+'",
            .unsubscribe(Unsubscribe(packetIdentifier: 11, topicFilters: ["a/b", "+"]))),
        GoldenPacket(
            "UNSUBACK", .v3_1_1, to: .client, "B0 02 000B", .unsuback(Unsuback(packetIdentifier: 11))),
        GoldenPacket(
            "UNSUBACK", .v5, to: .client, "B0 05 000B 00 00 11",
            .unsuback(Unsuback(packetIdentifier: 11, reasonCodes: [.success, .noSubscriptionExisted]))),
    ]

    private static let ends: [GoldenPacket] =
        ProtocolVersion.allCases.flatMap { version in
            [
                GoldenPacket("PINGREQ", version, to: .server, "C0 00", .pingreq),
                GoldenPacket("PINGRESP", version, to: .client, "D0 00", .pingresp),
                GoldenPacket("DISCONNECT", version, to: .server, "E0 00", .disconnect(Disconnect())),
            ]
        } + [
            GoldenPacket("DISCONNECT", .v5, to: .client, "E0 00", .disconnect(Disconnect())),
            GoldenPacket(
                "DISCONNECT with will", .v5, to: .server, "E0 01 04",
                .disconnect(Disconnect(reasonCode: .disconnectWithWillMessage))),
            GoldenPacket(
                "DISCONNECT with session expiry", .v5, to: .server, "E0 07 00 05 11 00000000",
                .disconnect(Disconnect(properties: Properties([.sessionExpiryInterval(0)])))),
            GoldenPacket(
                "DISCONNECT to another server", .v5, to: .client, "E0 06 9C 04 1C 0001's'",
                .disconnect(
                    Disconnect(reasonCode: .useAnotherServer, properties: Properties([.serverReference("s")]))
                )),
            GoldenPacket("AUTH, success", .v5, to: .client, "F0 00", .auth(Auth())),
            GoldenPacket(
                "AUTH", .v5, to: .server, "F0 0A 18 08 15 0001'm' 16 0001 FF",
                .auth(
                    Auth(
                        reasonCode: .continueAuthentication,
                        properties: Properties([.authenticationMethod("m"), .authenticationData([0xFF])])))),
        ]
}
