import MQTTCore
import Testing

@Suite struct EncodeErrorTests {
    private static let long = String(repeating: "a", count: 65_536)

    private static let cases: [(ControlPacket, ProtocolVersion, EncodeError)] = [
        (.publish(Publish(topicName: long, payload: [])), .v5, .fieldTooLong(length: 65_536)),
        (.publish(Publish(topicName: "a\0", payload: [])), .v5, .nullCharacter),
        (.publish(Publish(topicName: "", payload: [])), .v5, .emptyTopicName),
        (
            .publish(Publish(topicName: "", payload: [], properties: Properties([.topicAlias(1)]))), .v3_1_1,
            .emptyTopicName
        ),
        (
            .publish(Publish(topicName: "a", payload: [], properties: Properties([.topicAlias(0)]))), .v5,
            .propertyValueOutOfRange(.topicAlias)
        ),
        (
            .publish(
                Publish(topicName: "a", payload: [], properties: Properties([.subscriptionIdentifier(0)]))),
            .v5, .propertyValueOutOfRange(.subscriptionIdentifier)
        ),
        (
            .publish(
                Publish(
                    topicName: "a", payload: [],
                    properties: Properties([.subscriptionIdentifier(268_435_456)]))),
            .v5, .propertyValueOutOfRange(.subscriptionIdentifier)
        ),
        (
            .publish(Publish(topicName: "a", payload: [], qos: .atLeastOnce)), .v5,
            .packetIdentifierMissing(.publish)
        ),
        (
            .publish(Publish(topicName: "a", payload: [], qos: .exactlyOnce, packetIdentifier: 0)), .v3_1_1,
            .packetIdentifierMissing(.publish)
        ),
        (.publish(Publish(topicName: "a", payload: [], packetIdentifier: 1)), .v5, .packetIdentifierOnQoS0),
        (.publish(Publish(topicName: "a", payload: [], isDuplicate: true)), .v5, .duplicateFlagOnQoS0),
        (.puback(Acknowledgement(packetIdentifier: 0)), .v5, .packetIdentifierMissing(.puback)),
        (
            .pubrel(Acknowledgement(packetIdentifier: 1, reasonCode: .unspecifiedError)), .v5,
            .reasonCodeNotValid(.pubrel, 0x80)
        ),
        (
            .puback(
                Acknowledgement(packetIdentifier: 1, properties: Properties([.serverReference("x")]))), .v5,
            .propertyNotAllowed(.serverReference, .puback)
        ),
        (
            .disconnect(Disconnect(properties: Properties([.reasonString("a"), .reasonString("b")]))), .v5,
            .duplicateProperty(.reasonString)
        ),
        (.subscribe(Subscribe(packetIdentifier: 1, subscriptions: [])), .v5, .emptyList(.subscribe)),
        (
            .subscribe(
                Subscribe(packetIdentifier: 1, subscriptions: [.init(topicFilter: "", options: .init())])),
            .v5, .emptyTopicFilter
        ),
        (.unsubscribe(Unsubscribe(packetIdentifier: 1, topicFilters: [])), .v5, .emptyList(.unsubscribe)),
        (.suback(Suback(packetIdentifier: 1, reasonCodes: [])), .v3_1_1, .emptyList(.suback)),
        (
            .suback(Suback(packetIdentifier: 1, reasonCodes: [.notAuthorized])), .v3_1_1,
            .reasonCodeNotValid(.suback, 0x87)
        ),
        (.unsuback(Unsuback(packetIdentifier: 1)), .v5, .emptyList(.unsuback)),
        (
            .connect(Connect(version: .v3_1_1, clientIdentifier: "a", password: [1])), .v5,
            .passwordWithoutUserName
        ),
        (
            .connect(Connect(clientIdentifier: "a", will: Will(topicName: "", payload: []))), .v5,
            .emptyTopicName
        ),
        (
            .connect(
                Connect(
                    clientIdentifier: "a",
                    will: Will(topicName: "w", payload: [UInt8](repeating: 0, count: 65_536)))),
            .v5, .fieldTooLong(length: 65_536)
        ),
        (
            .connack(Connack(sessionPresent: true, reasonCode: .banned)), .v5, .sessionPresentOnFailure
        ),
        (.auth(Auth()), .v3_1_1, .notInProtocolVersion(.auth)),
    ]

    @Test(arguments: cases.indices)
    func a_packet_that_breaks_a_rule_is_not_written(_ index: Int) {
        let (packet, version, error) = Self.cases[index]
        var output: [UInt8] = [1, 2, 3]
        #expect(throws: error) { try packet.encode(for: version, into: &output) }
        #expect(output == [1, 2, 3])
        #expect(throws: error) { try packet.encodedSize(for: version) }
    }

    @Test func a_packet_over_the_greatest_remaining_length_is_not_written() {
        // 2 + 1 bytes of topic, so one byte too many.
        let payload = [UInt8](repeating: 0, count: 268_435_453)
        var output: [UInt8] = []
        #expect(throws: EncodeError.packetTooLarge(remainingLength: 268_435_456)) {
            try Publish(topicName: "a", payload: payload).encode(for: .v3_1_1, into: &output)
        }
        #expect(output.isEmpty)
    }
}
