/// Why received bytes are not a packet that this end may accept.
///
/// On 5.0 the connection ends with `reasonCode` (section 4.13), on 3.1.1 it is just closed
/// ([MQTT-4.8.0-1] there).
package enum DecodeError: Error, Sendable, Hashable {
    // The fixed header (section 2.1)
    /// A Variable Byte Integer goes on after its fourth byte (section 1.5.5).
    case variableByteIntegerTooLong
    /// 5.0: a Variable Byte Integer has more bytes than its value needs [MQTT-1.5.5-1].
    case variableByteIntegerNotMinimal
    /// Packet type 0, or 15 on 3.1.1 (section 2.1.2).
    case reservedPacketType(UInt8)
    /// The lower four bits of the first byte are not those of the table [MQTT-2.1.3-1].
    case reservedFlags(PacketType)
    /// The packet is longer than this end accepts [MQTT-3.1.2-24].
    case packetTooLarge(size: UInt32, maximum: UInt32)
    /// A peer in this role never sends this type (Table 2-1), or not now.
    case unexpectedPacket(PacketType)
    /// A client's first packet is not CONNECT [MQTT-3.1.0-1].
    case firstPacketNotConnect(PacketType)

    // Fields (section 1.5)
    /// The packet ends before a field that it needs.
    case missingField(PacketType)
    /// A field's length points past the end of the packet.
    case fieldOverrun(PacketType)
    /// Bytes are left over after the last field.
    case trailingBytes(PacketType)
    /// A string is not well-formed UTF-8 [MQTT-1.5.4-1].
    case illFormedUTF8(PacketType)
    /// A string includes U+0000 [MQTT-1.5.4-2].
    case nullCharacter(PacketType)
    /// A packet identifier of 0 (section 2.2.1).
    case packetIdentifierZero(PacketType)
    /// A Reason Code that the packet's table doesn't list.
    case reasonCodeNotValid(PacketType, UInt8)

    // Properties (section 2.2.2)
    case unknownProperty(UInt32)
    case propertyNotAllowed(PropertyIdentifier, PacketType)
    /// A property that may appear once appears again.
    case duplicateProperty(PropertyIdentifier)
    /// The value runs past the Property Length.
    case truncatedProperty(PropertyIdentifier)
    /// The Property Length points past the end of the packet.
    case propertyLengthOverrun(PacketType)
    case propertyValueOutOfRange(PropertyIdentifier)
    /// Authentication Data without Authentication Method (section 3.1.2.11.10).
    case authenticationDataWithoutMethod
    /// A server sends Session Expiry Interval in DISCONNECT [MQTT-3.14.2-2].
    case sessionExpiryIntervalFromServer
    /// A client sends a Subscription Identifier in PUBLISH [MQTT-3.3.4-6].
    case subscriptionIdentifierFromClient

    // CONNECT (section 3.1) and CONNACK (section 3.2)
    case unsupportedProtocolName
    case unsupportedProtocolLevel(UInt8)
    case reservedConnectFlag
    case willQoS3
    /// Will QoS or Will Retain without the Will Flag [MQTT-3.1.2-11], [MQTT-3.1.2-13].
    case willFlagsWithoutWill
    /// 3.1.1: Password Flag without User Name Flag ([MQTT-3.1.2-22] there).
    case passwordWithoutUserName
    case reservedConnackFlags
    /// Session Present together with a failing code [MQTT-3.2.2-6].
    case sessionPresentOnFailure

    // PUBLISH (section 3.3)
    /// Both QoS bits are set [MQTT-3.3.1-4].
    case publishQoS3
    /// DUP is set on a QoS 0 message [MQTT-3.3.1-2].
    case duplicateFlagOnQoS0
    /// No Topic Name, and no Topic Alias in its place (section 3.3.2.1).
    case emptyTopicName
    case wildcardInTopicName
    case emptyResponseTopic
    case wildcardInResponseTopic

    // SUBSCRIBE (section 3.8), UNSUBSCRIBE (section 3.10)
    /// No Topic Filter at all [MQTT-3.8.3-2], [MQTT-3.10.3-2].
    case noTopicFilters(PacketType)
    case emptyTopicFilter
    case subscriptionQoS3
    case reservedSubscriptionOptions
    case retainHandling3
    /// No Local on a shared subscription [MQTT-3.8.3-4].
    case noLocalOnSharedSubscription
}

extension DecodeError {
    /// What a 5.0 endpoint states in DISCONNECT or CONNACK (section 4.13, Table 3-10).
    package var reasonCode: ReasonCode {
        switch self {
        case .variableByteIntegerTooLong, .variableByteIntegerNotMinimal, .reservedPacketType,
            .reservedFlags, .missingField, .fieldOverrun, .trailingBytes, .illFormedUTF8, .nullCharacter,
            .unknownProperty, .propertyNotAllowed, .truncatedProperty, .propertyLengthOverrun,
            .reservedConnectFlag, .willQoS3, .willFlagsWithoutWill, .passwordWithoutUserName,
            .reservedConnackFlags, .publishQoS3, .duplicateFlagOnQoS0, .wildcardInTopicName,
            .emptyResponseTopic, .wildcardInResponseTopic, .emptyTopicFilter, .reservedSubscriptionOptions:
            .malformedPacket
        case .propertyValueOutOfRange(.topicAlias): .topicAliasInvalid
        case .unexpectedPacket, .firstPacketNotConnect, .packetIdentifierZero, .reasonCodeNotValid,
            .duplicateProperty, .propertyValueOutOfRange, .authenticationDataWithoutMethod,
            .sessionExpiryIntervalFromServer, .subscriptionIdentifierFromClient, .sessionPresentOnFailure,
            .emptyTopicName, .noTopicFilters, .subscriptionQoS3, .retainHandling3,
            .noLocalOnSharedSubscription:
            .protocolError
        case .packetTooLarge: .packetTooLarge
        case .unsupportedProtocolName, .unsupportedProtocolLevel: .unsupportedProtocolVersion
        }
    }

    /// A name for reports and logs that doesn't change between releases.
    package var name: String {
        switch self {
        case .variableByteIntegerTooLong: "variable_byte_integer_too_long"
        case .variableByteIntegerNotMinimal: "variable_byte_integer_not_minimal"
        case .reservedPacketType: "reserved_packet_type"
        case .reservedFlags: "reserved_flags"
        case .packetTooLarge: "packet_too_large"
        case .unexpectedPacket: "unexpected_packet"
        case .firstPacketNotConnect: "first_packet_not_connect"
        case .missingField: "missing_field"
        case .fieldOverrun: "field_overrun"
        case .trailingBytes: "trailing_bytes"
        case .illFormedUTF8: "ill_formed_utf8"
        case .nullCharacter: "null_character"
        case .packetIdentifierZero: "packet_identifier_zero"
        case .reasonCodeNotValid: "reason_code_not_valid"
        case .unknownProperty: "unknown_property"
        case .propertyNotAllowed: "property_not_allowed"
        case .duplicateProperty: "duplicate_property"
        case .truncatedProperty: "truncated_property"
        case .propertyLengthOverrun: "property_length_overrun"
        case .propertyValueOutOfRange: "property_value_out_of_range"
        case .authenticationDataWithoutMethod: "authentication_data_without_method"
        case .sessionExpiryIntervalFromServer: "session_expiry_interval_from_server"
        case .subscriptionIdentifierFromClient: "subscription_identifier_from_client"
        case .unsupportedProtocolName: "unsupported_protocol_name"
        case .unsupportedProtocolLevel: "unsupported_protocol_level"
        case .reservedConnectFlag: "reserved_connect_flag"
        case .willQoS3: "will_qos_3"
        case .willFlagsWithoutWill: "will_flags_without_will"
        case .passwordWithoutUserName: "password_without_user_name"
        case .reservedConnackFlags: "reserved_connack_flags"
        case .sessionPresentOnFailure: "session_present_on_failure"
        case .publishQoS3: "publish_qos_3"
        case .duplicateFlagOnQoS0: "duplicate_flag_on_qos_0"
        case .emptyTopicName: "empty_topic_name"
        case .wildcardInTopicName: "wildcard_in_topic_name"
        case .emptyResponseTopic: "empty_response_topic"
        case .wildcardInResponseTopic: "wildcard_in_response_topic"
        case .noTopicFilters: "no_topic_filters"
        case .emptyTopicFilter: "empty_topic_filter"
        case .subscriptionQoS3: "subscription_qos_3"
        case .reservedSubscriptionOptions: "reserved_subscription_options"
        case .retainHandling3: "retain_handling_3"
        case .noLocalOnSharedSubscription: "no_local_on_shared_subscription"
        }
    }
}

extension DecodeError: CustomStringConvertible {
    /// One sentence for a person.
    package var description: String {
        switch self {
        case .variableByteIntegerTooLong: "A Variable Byte Integer is longer than four bytes."
        case .variableByteIntegerNotMinimal: "A Variable Byte Integer has more bytes than it needs."
        case .reservedPacketType(let type): "Packet type \(type) is reserved."
        case .reservedFlags(let type): "The fixed header flags of \(type.specificationName) are wrong."
        case .packetTooLarge(let size, let maximum):
            "A packet of \(size) bytes exceeds the limit of \(maximum) bytes."
        case .unexpectedPacket(let type): "The peer may not send \(type.specificationName) here."
        case .firstPacketNotConnect(let type):
            "The first packet is \(type.specificationName), not CONNECT."
        case .missingField(let type): "\(type.specificationName) ends before a field that it needs."
        case .fieldOverrun(let type): "A field of \(type.specificationName) runs past the packet's end."
        case .trailingBytes(let type): "\(type.specificationName) has bytes after its last field."
        case .illFormedUTF8(let type): "A string in \(type.specificationName) is not well-formed UTF-8."
        case .nullCharacter(let type): "A string in \(type.specificationName) includes U+0000."
        case .packetIdentifierZero(let type): "The packet identifier of \(type.specificationName) is 0."
        case .reasonCodeNotValid(let type, let code):
            "Reason Code 0x\(hex(code)) is not one for \(type.specificationName)."
        case .unknownProperty(let identifier): "Property \(identifier) doesn't exist."
        case .propertyNotAllowed(let property, let type):
            "Property \(property) is not allowed in \(type.specificationName)."
        case .duplicateProperty(let property): "Property \(property) appears more than once."
        case .truncatedProperty(let property): "Property \(property) runs past the Property Length."
        case .propertyLengthOverrun(let type):
            "The Property Length of \(type.specificationName) runs past the packet's end."
        case .propertyValueOutOfRange(let property): "The value of property \(property) is not allowed."
        case .authenticationDataWithoutMethod: "Authentication Data comes without Authentication Method."
        case .sessionExpiryIntervalFromServer:
            "The server sent a Session Expiry Interval in DISCONNECT, which only a client may do."
        case .subscriptionIdentifierFromClient:
            "The client sent a Subscription Identifier in PUBLISH, which only a server may do."
        case .unsupportedProtocolName: "The protocol name in CONNECT is not MQTT."
        case .unsupportedProtocolLevel(let level): "Protocol level \(level) is not supported."
        case .reservedConnectFlag: "The reserved flag of CONNECT is set."
        case .willQoS3: "The Will QoS is 3."
        case .willFlagsWithoutWill: "Will QoS or Will Retain is set without the Will Flag."
        case .passwordWithoutUserName: "CONNECT has a password but no user name."
        case .reservedConnackFlags: "Reserved flags of CONNACK are set."
        case .sessionPresentOnFailure: "CONNACK states a failure and yet a present session."
        case .publishQoS3: "The QoS of PUBLISH is 3."
        case .duplicateFlagOnQoS0: "The DUP flag is set on a QoS 0 PUBLISH."
        case .emptyTopicName: "The Topic Name is empty."
        case .wildcardInTopicName: "The Topic Name includes a wildcard."
        case .emptyResponseTopic: "The Response Topic is empty."
        case .wildcardInResponseTopic: "The Response Topic includes a wildcard."
        case .noTopicFilters(let type): "\(type.specificationName) has no Topic Filter."
        case .emptyTopicFilter: "A Topic Filter is empty."
        case .subscriptionQoS3: "The requested QoS of a subscription is 3."
        case .reservedSubscriptionOptions: "Reserved bits of the Subscription Options are set."
        case .retainHandling3: "The Retain Handling of a subscription is 3."
        case .noLocalOnSharedSubscription: "No Local is set on a shared subscription."
        }
    }

    private func hex(_ byte: UInt8) -> String {
        (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }
}
