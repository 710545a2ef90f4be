import MQTTCore
import Testing

/// One malformed packet with the error that names it and the Reason Code that answers it.
struct Malformation: Sendable, CustomTestStringConvertible {
    var reader: PacketDecoder.Role
    var versions: [ProtocolVersion]
    var text: String
    var error: DecodeError
    var code: UInt8

    var testDescription: String { "\(error.name): \(text) to \(reader)" }

    static func client(
        _ text: String, _ error: DecodeError, _ code: UInt8, _ versions: [ProtocolVersion] = [.v5]
    ) -> Malformation {
        Malformation(reader: .client, versions: versions, text: text, error: error, code: code)
    }

    static func server(
        _ text: String, _ error: DecodeError, _ code: UInt8, _ versions: [ProtocolVersion] = [.v5]
    ) -> Malformation {
        Malformation(reader: .server, versions: versions, text: text, error: error, code: code)
    }

    static let both = ProtocolVersion.allCases

    static let fixedHeaders: [Malformation] = [
        .client("30 FFFFFFFF", .variableByteIntegerTooLong, 0x81, both),
        .client("30 80808080 00", .variableByteIntegerTooLong, 0x81, both),
        .client("D0 80 00", .variableByteIntegerNotMinimal, 0x81),
        .client("00", .reservedPacketType(0), 0x81, both),
        .client("F0", .reservedPacketType(15), 0x81, [.v3_1_1]),
        .client("21", .reservedFlags(.connack), 0x81, both),
        .client("41", .reservedFlags(.puback), 0x81, both),
        .client("52", .reservedFlags(.pubrec), 0x81, both),
        .client("60", .reservedFlags(.pubrel), 0x81, both),
        .client("63", .reservedFlags(.pubrel), 0x81, both),
        .client("78", .reservedFlags(.pubcomp), 0x81, both),
        .server("80", .reservedFlags(.subscribe), 0x81, both),
        .client("91", .reservedFlags(.suback), 0x81, both),
        .server("A0", .reservedFlags(.unsubscribe), 0x81, both),
        .client("B4", .reservedFlags(.unsuback), 0x81, both),
        .server("C1", .reservedFlags(.pingreq), 0x81, both),
        .client("D1", .reservedFlags(.pingresp), 0x81, both),
        .server("E1", .reservedFlags(.disconnect), 0x81, both),
        .client("F1", .reservedFlags(.auth), 0x81),
        .client("36", .publishQoS3, 0x81, both),
        .client("3E", .publishQoS3, 0x81, both),
        .client("38", .duplicateFlagOnQoS0, 0x81, both),
        .client("10", .unexpectedPacket(.connect), 0x82, both),
        .client("82", .unexpectedPacket(.subscribe), 0x82, both),
        .client("A2", .unexpectedPacket(.unsubscribe), 0x82, both),
        .client("C0", .unexpectedPacket(.pingreq), 0x82, both),
        .client("E0", .unexpectedPacket(.disconnect), 0x82, [.v3_1_1]),
        .server("10", .unexpectedPacket(.connect), 0x82, both),
        .server("20", .unexpectedPacket(.connack), 0x82, both),
        .server("90", .unexpectedPacket(.suback), 0x82, both),
        .server("B0", .unexpectedPacket(.unsuback), 0x82, both),
        .server("D0", .unexpectedPacket(.pingresp), 0x82, both),
    ]

    static let bodies: [Malformation] = [
        .client("20 00", .missingField(.connack), 0x81, both),
        .client("20 01 00", .missingField(.connack), 0x81, both),
        .client("20 02 00 00", .missingField(.connack), 0x81),
        .client("20 02 02 00", .reservedConnackFlags, 0x81, both),
        .client("20 02 80 00", .reservedConnackFlags, 0x81, both),
        .client("20 02 01 05", .sessionPresentOnFailure, 0x82, [.v3_1_1]),
        .client("20 03 01 87 00", .sessionPresentOnFailure, 0x82),
        .client("20 02 00 06", .reasonCodeNotValid(.connack, 6), 0x82, [.v3_1_1]),
        .client("20 03 00 8E 00", .reasonCodeNotValid(.connack, 0x8E), 0x82),
        .client("20 03 00 00 00", .trailingBytes(.connack), 0x81, [.v3_1_1]),
        .client("20 04 00 00 00 00", .trailingBytes(.connack), 0x81),
        .client("30 00", .missingField(.publish), 0x81, both),
        .client("30 01 00", .missingField(.publish), 0x81, both),
        .client("32 03 0001 'a'", .missingField(.publish), 0x81, both),
        .client("32 05 0001 'a' 0000", .packetIdentifierZero(.publish), 0x82, both),
        .client("30 02 0000", .emptyTopicName, 0x82, [.v3_1_1]),
        .client("30 03 0000 00", .emptyTopicName, 0x82),
        .client("30 05 0003 'a/+'", .wildcardInTopicName, 0x81, both),
        .client("30 03 0001 '#'", .wildcardInTopicName, 0x81, both),
        .client("30 05 0003 'a' 00 'b'", .nullCharacter(.publish), 0x81, both),
        .client("30 05 0003 EDA080", .illFormedUTF8(.publish), 0x81, both),
        .client("30 04 0002 C080", .illFormedUTF8(.publish), 0x81, both),
        .client("30 06 0004 F4908080", .illFormedUTF8(.publish), 0x81, both),
        .client("30 03 0001 'a'", .missingField(.publish), 0x81),
        .client("40 01 00", .missingField(.puback), 0x81, both),
        .client("40 02 0000", .packetIdentifierZero(.puback), 0x82, both),
        .client("50 02 0000", .packetIdentifierZero(.pubrec), 0x82, both),
        .client("62 02 0000", .packetIdentifierZero(.pubrel), 0x82, both),
        .client("70 02 0000", .packetIdentifierZero(.pubcomp), 0x82, both),
        .client("40 03 0001 00", .trailingBytes(.puback), 0x81, [.v3_1_1]),
        .client("40 05 0001 00 00 00", .trailingBytes(.puback), 0x81),
        .client("40 03 0001 92", .reasonCodeNotValid(.puback, 0x92), 0x82),
        .client("50 03 0001 01", .reasonCodeNotValid(.pubrec, 1), 0x82),
        .client("62 03 0001 80", .reasonCodeNotValid(.pubrel, 0x80), 0x82),
        .client("70 03 0001 10", .reasonCodeNotValid(.pubcomp, 0x10), 0x82),
        .client("90 03 0000 00", .packetIdentifierZero(.suback), 0x82, both),
        .client("90 02 0001", .missingField(.suback), 0x81, both),
        .client("90 03 0001 00", .missingField(.suback), 0x81),
        .client("90 03 0001 03", .reasonCodeNotValid(.suback, 3), 0x82, [.v3_1_1]),
        .client("90 03 0001 87", .reasonCodeNotValid(.suback, 0x87), 0x82, [.v3_1_1]),
        .client("90 04 0001 00 11", .reasonCodeNotValid(.suback, 0x11), 0x82),
        .client("B0 02 0000", .packetIdentifierZero(.unsuback), 0x82, both),
        .client("B0 03 0001 00", .trailingBytes(.unsuback), 0x81, [.v3_1_1]),
        .client("B0 03 0001 00", .missingField(.unsuback), 0x81),
        .client("B0 04 0001 00 01", .reasonCodeNotValid(.unsuback, 1), 0x82),
        .client("D0 01 00", .trailingBytes(.pingresp), 0x81, both),
        .server("C0 01 00", .trailingBytes(.pingreq), 0x81, both),
        .server("E0 01 00", .trailingBytes(.disconnect), 0x81, [.v3_1_1]),
        .client("E0 03 00 00 00", .trailingBytes(.disconnect), 0x81),
        .client("E0 01 01", .reasonCodeNotValid(.disconnect, 1), 0x82),
        .client("E0 07 00 05 11 0000003C", .sessionExpiryIntervalFromServer, 0x82),
        .client("F0 01 01", .reasonCodeNotValid(.auth, 1), 0x82),
        .server("82 02 0001", .noTopicFilters(.subscribe), 0x82, [.v3_1_1]),
        .server("82 03 0001 00", .noTopicFilters(.subscribe), 0x82),
        .server("82 06 0000 0001'a' 00", .packetIdentifierZero(.subscribe), 0x82, [.v3_1_1]),
        .server("82 05 0001 0000 00", .emptyTopicFilter, 0x81, [.v3_1_1]),
        .server("82 05 0001 0001'a'", .missingField(.subscribe), 0x81, [.v3_1_1]),
        .server("82 06 0001 0001'a' 03", .subscriptionQoS3, 0x82, [.v3_1_1]),
        .server("82 06 0001 0001'a' 04", .reservedSubscriptionOptions, 0x81, [.v3_1_1]),
        .server("82 07 0001 00 0001'a' 03", .subscriptionQoS3, 0x82),
        .server("82 07 0001 00 0001'a' 40", .reservedSubscriptionOptions, 0x81),
        .server("82 07 0001 00 0001'a' 80", .reservedSubscriptionOptions, 0x81),
        .server("82 07 0001 00 0001'a' 30", .retainHandling3, 0x82),
        .server("82 10 0001 00 000A'$share/g/a' 04", .noLocalOnSharedSubscription, 0x82),
        .server("A2 02 0001", .noTopicFilters(.unsubscribe), 0x82, [.v3_1_1]),
        .server("A2 03 0001 00", .noTopicFilters(.unsubscribe), 0x82),
        .server("A2 04 0001 0000", .emptyTopicFilter, 0x81, [.v3_1_1]),
        .server("A2 05 0001 0003'a'", .fieldOverrun(.unsubscribe), 0x81, [.v3_1_1]),
    ]

    static let properties: [Malformation] = [
        .client("30 05 0001'a' 01 00", .unknownProperty(0), 0x81),
        .client("30 05 0001'a' 01 04", .unknownProperty(4), 0x81),
        .client("30 05 0001'a' 01 2B", .unknownProperty(0x2B), 0x81),
        .client("30 06 0001'a' 02 8101", .unknownProperty(129), 0x81),
        .client("30 06 0001'a' 02 8100", .variableByteIntegerNotMinimal, 0x81),
        .client("30 05 0001'a' 8000", .variableByteIntegerNotMinimal, 0x81),
        .client("30 08 0001'a' 80808080 00", .variableByteIntegerTooLong, 0x81),
        .client("30 04 0001'a' 05", .propertyLengthOverrun(.publish), 0x81),
        .client("30 05 0001'a' 01 80", .propertyLengthOverrun(.publish), 0x81),
        .client("30 07 0001'a' 03 21 0001", .propertyNotAllowed(.receiveMaximum, .publish), 0x81),
        .client(
            "20 08 00 00 05 17 01 00 00 00", .propertyNotAllowed(.requestProblemInformation, .connack), 0x81),
        .client("40 06 0001 00 02 24 00", .propertyNotAllowed(.maximumQoS, .puback), 0x81),
        .client("30 08 0001'a' 04 01 01 01 01", .duplicateProperty(.payloadFormatIndicator), 0x82),
        .client("20 09 00 00 06 21 0001 21 0001", .duplicateProperty(.receiveMaximum), 0x82),
        .server("82 0B 0001 04 0B 01 0B 02 0001'a' 00", .duplicateProperty(.subscriptionIdentifier), 0x82),
        .client("30 07 0001'a' 03 02 0000", .truncatedProperty(.messageExpiryInterval), 0x81),
        .client("30 07 0001'a' 03 03 0005", .truncatedProperty(.contentType), 0x81),
        .client("30 05 0001'a' 01 26", .truncatedProperty(.userProperty), 0x81),
        .client("30 08 0001'a' 04 26 0001'k'", .truncatedProperty(.userProperty), 0x81),
        .client("30 08 0001'a' 04 26 0001 00", .nullCharacter(.publish), 0x81),
        .client("30 0A 0001'a' 06 26 0000 0001 FF", .illFormedUTF8(.publish), 0x81),
        .client("30 06 0001'a' 02 01 02", .propertyValueOutOfRange(.payloadFormatIndicator), 0x82),
        .client("30 06 0001'a' 02 0B 00", .propertyValueOutOfRange(.subscriptionIdentifier), 0x82),
        .client("30 07 0001'a' 03 23 0000", .propertyValueOutOfRange(.topicAlias), 0x94),
        .client("30 07 0001'a' 03 08 0000", .emptyResponseTopic, 0x81),
        .client("30 08 0001'a' 04 08 0001'#'", .wildcardInResponseTopic, 0x81),
        .server("30 06 0001'a' 02 0B 01", .subscriptionIdentifierFromClient, 0x82),
        .client("20 06 00 00 03 21 0000", .propertyValueOutOfRange(.receiveMaximum), 0x82),
        .client("20 08 00 00 05 27 00000000", .propertyValueOutOfRange(.maximumPacketSize), 0x82),
        .client("20 05 00 00 02 24 02", .propertyValueOutOfRange(.maximumQoS), 0x82),
        .client("20 05 00 00 02 25 02", .propertyValueOutOfRange(.retainAvailable), 0x82),
        .client("20 05 00 00 02 28 02", .propertyValueOutOfRange(.wildcardSubscriptionAvailable), 0x82),
        .client("20 05 00 00 02 29 FF", .propertyValueOutOfRange(.subscriptionIdentifierAvailable), 0x82),
        .client("20 05 00 00 02 2A 02", .propertyValueOutOfRange(.sharedSubscriptionAvailable), 0x82),
        .client("20 07 00 00 04 16 0001 00", .authenticationDataWithoutMethod, 0x82),
    ]
}

@Suite struct DecodeErrorTests {
    static let firstPackets: [(String, DecodeError, UInt8)] = [
        ("20 02 00 00", DecodeError.firstPacketNotConnect(.connack), UInt8(0x82)),
        ("30", .firstPacketNotConnect(.publish), 0x82),
        ("11", .reservedFlags(.connect), 0x81),
        ("10 0C 0006'MQIsdp' 03 02 0000", .unsupportedProtocolName, 0x84),
        ("10 0D 0004'mqtt' 05 02 0000 00 0000", .unsupportedProtocolName, 0x84),
        ("10 0C 0004'MQTT' 03 02 0000 0000", .unsupportedProtocolLevel(3), 0x84),
        ("10 0D 0004'MQTT' 06 02 0000 00 0000", .unsupportedProtocolLevel(6), 0x84),
        ("10 0D 0004'MQTT' 05 03 0000 00 0000", .reservedConnectFlag, 0x81),
        ("10 0D 0004'MQTT' 05 1E 0000 00 0000", .willQoS3, 0x81),
        ("10 0D 0004'MQTT' 05 0A 0000 00 0000", .willFlagsWithoutWill, 0x81),
        ("10 0D 0004'MQTT' 05 22 0000 00 0000", .willFlagsWithoutWill, 0x81),
        ("10 0E 0004'MQTT' 04 42 0000 0000 0000", .passwordWithoutUserName, 0x81),
        ("10 0C 0004'MQTT' 05 02 0000 0000", .missingField(.connect), 0x81),
        ("10 0A 0004'MQTT' 04 02 0000", .missingField(.connect), 0x81),
        ("10 00", .missingField(.connect), 0x81),
        ("10 0C 0004'MQTT' 04 82 0000 0000", .missingField(.connect), 0x81),
        ("10 0D 0004'MQTT' 04 02 0000 0000 00", .trailingBytes(.connect), 0x81),
        ("10 0D 0004'MQTT' 04 02 0000 0001 00", .nullCharacter(.connect), 0x81),
        ("10 10 0004'MQTT' 04 06 0000 0000 0000 0000", .emptyTopicName, 0x82),
        ("10 11 0004'MQTT' 04 06 0000 0000 0001'#' 0000", .wildcardInTopicName, 0x81),
        (
            "10 12 0004'MQTT' 05 02 0000 05 18 00000000 0000",
            .propertyNotAllowed(.willDelayInterval, .connect), 0x81
        ),
        (
            "10 0F 0004'MQTT' 05 02 0000 02 19 02 0000",
            .propertyValueOutOfRange(.requestResponseInformation), 0x82
        ),
        (
            "10 16 0004'MQTT' 05 06 0000 00 0000 03 21 0001 0001'a' 0000",
            .propertyNotAllowed(.receiveMaximum, .connect), 0x81
        ),
    ]

    @Test(arguments: Malformation.fixedHeaders + Malformation.bodies + Malformation.properties)
    func a_malformed_packet_has_its_named_error(_ malformation: Malformation) throws {
        #expect(malformation.error.reasonCode.rawValue == malformation.code)
        for version in malformation.versions {
            let whole = try readyDecoder(malformation.reader, version)
            #expect(throws: malformation.error) { try whole.packets(in: wire(malformation.text)) }
            #expect(!whole.hasPartialPacket)

            let piecewise = try readyDecoder(malformation.reader, version)
            #expect(throws: malformation.error) {
                for byte in wire(malformation.text) { _ = try piecewise.packets(in: [byte]) }
            }
        }
    }

    @Test(arguments: firstPackets)
    func a_malformed_first_packet_of_a_client_has_its_named_error(
        _ text: String, _ error: DecodeError, _ code: UInt8
    ) {
        let decoder = TestDecoder(role: .server)
        #expect(throws: error) { try decoder.packets(in: wire(text)) }
        #expect(error.reasonCode.rawValue == code)
    }

    @Test func the_maximum_packet_size_is_checked_at_the_fixed_header() throws {
        // Two bytes of header and 62 of body are 64: one more is too many.
        let decoder = TestDecoder(role: .client, version: .v5, maximumPacketSize: 64)
        let fitting = wire("30 3E 0001'a' 00") + [UInt8](repeating: 1, count: 58)
        #expect(try decoder.packets(in: fitting).count == 1)
        #expect(throws: DecodeError.packetTooLarge(size: 65, maximum: 64)) {
            try decoder.packets(in: wire("30 3F"))
        }
        #expect(DecodeError.packetTooLarge(size: 65, maximum: 64).reasonCode == .packetTooLarge)
    }

    @Test func a_claimed_length_takes_no_memory() throws {
        let decoder = TestDecoder(role: .client, version: .v5)
        #expect(try decoder.packets(in: wire("30 FFFFFF7F 0001'a'")) == [])
        #expect(decoder.hasPartialPacket)
        #expect(decoder.bufferedCapacity < 1024)
    }

    @Test func a_large_torn_packet_leaves_no_capacity_behind() throws {
        var output: [UInt8] = []
        try Publish(topicName: "a", payload: [UInt8](repeating: 0, count: 100_000))
            .encode(for: .v5, into: &output)
        let decoder = TestDecoder(role: .client, version: .v5)
        #expect(try decoder.packets(in: Array(output[..<90_000])) == [])
        #expect(decoder.bufferedCapacity >= 90_000)
        #expect(try decoder.packets(in: Array(output[90_000...])).count == 1)
        #expect(decoder.bufferedCapacity <= 4096)
    }

    @Test func packets_before_an_error_are_delivered_and_the_error_stays() throws {
        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        var rest = wire("D0 00 00 D0 00")[...]
        let first = try decoder.next(in: &rest)
        #expect(first == .pingresp)
        for _ in 0..<2 {
            #expect(throws: DecodeError.reservedPacketType(0)) { try decoder.next(in: &rest) }
        }
        #expect(throws: DecodeError.reservedPacketType(0)) { try decoder.packets(in: wire("D0 00")) }
    }

    @Test func every_error_has_a_malformed_packet_a_name_of_its_own_and_a_sentence() {
        let tables = Malformation.fixedHeaders + Malformation.bodies + Malformation.properties
        let errors =
            tables.map(\.error) + Self.firstPackets.map(\.1) + [.packetTooLarge(size: 65, maximum: 64)]
        #expect(Set(errors.map(\.name)).count == 43)
        for error in errors {
            #expect(error.name.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "_" })
            #expect(error.description.hasSuffix("."))
        }
    }
}
