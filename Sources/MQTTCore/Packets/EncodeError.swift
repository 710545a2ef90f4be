/// Why a packet can't be written as the specification demands. Nothing has been appended then.
package enum EncodeError: Error, Sendable, Hashable {
    /// A string or binary field exceeds 65,535 bytes (sections 1.5.4 and 1.5.6).
    case fieldTooLong(length: Int)
    /// The Remaining Length exceeds 268,435,455 (section 2.1.4).
    case packetTooLarge(remainingLength: Int)
    /// A string includes U+0000 [MQTT-1.5.4-2].
    case nullCharacter
    /// No packet identifier, or 0, where one is needed [MQTT-2.2.1-3].
    case packetIdentifierMissing(PacketType)
    /// A packet identifier on a QoS 0 PUBLISH [MQTT-2.2.1-2].
    case packetIdentifierOnQoS0
    /// DUP on a QoS 0 PUBLISH [MQTT-3.3.1-2].
    case duplicateFlagOnQoS0
    /// No Topic Name, and no Topic Alias in its place [MQTT-4.7.3-1].
    case emptyTopicName
    /// An empty Response Topic, or one with a wildcard [MQTT-3.3.2-14].
    case responseTopicNotValid
    /// SUBSCRIBE or UNSUBSCRIBE without a Topic Filter, SUBACK or UNSUBACK without a Reason Code.
    case emptyList(PacketType)
    /// An empty Topic Filter [MQTT-4.7.3-1].
    case emptyTopicFilter
    /// 3.1.1: a password without a user name ([MQTT-3.1.2-22] there).
    case passwordWithoutUserName
    /// 3.1.1: no client identifier, and Clean Session 0 ([MQTT-3.1.3-7] there).
    case clientIdentifierMissing
    /// No Local on a shared subscription [MQTT-3.8.3-4].
    case noLocalOnSharedSubscription
    /// A Reason Code that the packet's table doesn't list.
    case reasonCodeNotValid(PacketType, UInt8)
    /// Session Present together with a failing code [MQTT-3.2.2-6].
    case sessionPresentOnFailure
    /// A property that this packet doesn't have (Table 2-4).
    case propertyNotAllowed(PropertyIdentifier, PacketType)
    /// A property twice that may appear once.
    case duplicateProperty(PropertyIdentifier)
    case propertyValueOutOfRange(PropertyIdentifier)
    /// AUTH doesn't exist in 3.1.1.
    case notInProtocolVersion(PacketType)
}

extension EncodeError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .fieldTooLong(let length): "A field of \(length) bytes exceeds 65,535 bytes."
        case .packetTooLarge(let length): "A Remaining Length of \(length) exceeds 268,435,455."
        case .nullCharacter: "A string includes U+0000."
        case .packetIdentifierMissing(let type): "\(type.specificationName) needs a packet identifier."
        case .packetIdentifierOnQoS0: "A QoS 0 PUBLISH has no packet identifier."
        case .duplicateFlagOnQoS0: "A QoS 0 PUBLISH is never a duplicate."
        case .emptyTopicName: "The Topic Name is empty."
        case .responseTopicNotValid: "The Response Topic is empty or has a wildcard."
        case .emptyList(let type): "\(type.specificationName) needs at least one entry."
        case .emptyTopicFilter: "A Topic Filter is empty."
        case .passwordWithoutUserName: "In MQTT 3.1.1 a password needs a user name."
        case .clientIdentifierMissing:
            "In MQTT 3.1.1 a session that lasts needs a client identifier."
        case .noLocalOnSharedSubscription: "A shared subscription can't have No Local."
        case .reasonCodeNotValid(let type, let code):
            "Reason Code \(code) is not one for \(type.specificationName)."
        case .sessionPresentOnFailure: "A failing CONNACK states no present session."
        case .propertyNotAllowed(let property, let type):
            "Property \(property) is not allowed in \(type.specificationName)."
        case .duplicateProperty(let property): "Property \(property) may appear once only."
        case .propertyValueOutOfRange(let property): "The value of property \(property) is not allowed."
        case .notInProtocolVersion(let type): "\(type.specificationName) doesn't exist in MQTT 3.1.1."
        }
    }
}
