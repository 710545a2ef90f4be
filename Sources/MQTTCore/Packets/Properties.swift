/// The properties of a packet (5.0, section 2.2.2), in the order in which they were set or arrived.
///
/// An empty value allocates nothing. The typed accessors read and replace single properties; User
/// Properties keep their order and their duplicates.
public struct Properties: Sendable, Hashable {
    package var entries: [Property]

    public init() { entries = [] }

    package init(_ entries: [Property]) { self.entries = entries }

    public var isEmpty: Bool { entries.isEmpty }
}

/// A name and value given by an application; the same name may appear more than once (section 1.5.7).
public struct UserProperty: Sendable, Hashable, Codable {
    public var name: String
    public var value: String

    public init(name: String, value: String) {
        self.name = name
        self.value = value
    }
}

/// One property with its value (Table 2-4).
package enum Property: Sendable, Hashable {
    /// 0 or 1.
    case payloadFormatIndicator(UInt8)
    /// Seconds.
    case messageExpiryInterval(UInt32)
    case contentType(String)
    case responseTopic(String)
    case correlationData([UInt8])
    /// 1 to 268,435,455.
    case subscriptionIdentifier(UInt32)
    /// Seconds; 0xFFFFFFFF never expires.
    case sessionExpiryInterval(UInt32)
    case assignedClientIdentifier(String)
    /// Seconds.
    case serverKeepAlive(UInt16)
    case authenticationMethod(String)
    case authenticationData([UInt8])
    /// 0 or 1.
    case requestProblemInformation(UInt8)
    /// Seconds.
    case willDelayInterval(UInt32)
    /// 0 or 1.
    case requestResponseInformation(UInt8)
    case responseInformation(String)
    case serverReference(String)
    case reasonString(String)
    case receiveMaximum(UInt16)
    case topicAliasMaximum(UInt16)
    case topicAlias(UInt16)
    /// 0 or 1.
    case maximumQoS(UInt8)
    /// 0 or 1.
    case retainAvailable(UInt8)
    case userProperty(UserProperty)
    /// Bytes.
    case maximumPacketSize(UInt32)
    /// 0 or 1.
    case wildcardSubscriptionAvailable(UInt8)
    /// 0 or 1.
    case subscriptionIdentifierAvailable(UInt8)
    /// 0 or 1.
    case sharedSubscriptionAvailable(UInt8)
}

extension Properties {
    /// Whether a property with this identifier is there.
    @inline(__always)
    package func contains(_ identifier: PropertyIdentifier) -> Bool {
        entries.contains { $0.identifier == identifier }
    }
}
