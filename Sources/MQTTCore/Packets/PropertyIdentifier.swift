/// The identifiers of properties (5.0, Table 2-4).
package enum PropertyIdentifier: UInt8, Sendable, Hashable, CaseIterable {
    case payloadFormatIndicator = 0x01
    case messageExpiryInterval = 0x02
    case contentType = 0x03
    case responseTopic = 0x08
    case correlationData = 0x09
    case subscriptionIdentifier = 0x0B
    case sessionExpiryInterval = 0x11
    case assignedClientIdentifier = 0x12
    case serverKeepAlive = 0x13
    case authenticationMethod = 0x15
    case authenticationData = 0x16
    case requestProblemInformation = 0x17
    case willDelayInterval = 0x18
    case requestResponseInformation = 0x19
    case responseInformation = 0x1A
    case serverReference = 0x1C
    case reasonString = 0x1F
    case receiveMaximum = 0x21
    case topicAliasMaximum = 0x22
    case topicAlias = 0x23
    case maximumQoS = 0x24
    case retainAvailable = 0x25
    case userProperty = 0x26
    case maximumPacketSize = 0x27
    case wildcardSubscriptionAvailable = 0x28
    case subscriptionIdentifierAvailable = 0x29
    case sharedSubscriptionAvailable = 0x2A
}

/// The places where properties appear: packets, and the Will Properties inside CONNECT.
package struct PropertyScope: OptionSet, Sendable, Hashable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    package init(_ type: PacketType) { rawValue = 1 << UInt16(type.rawValue) }

    /// Packet type 0 doesn't exist, so its bit is free.
    package static let will = PropertyScope(rawValue: 1)
    package static let connect = PropertyScope(.connect)
    package static let connack = PropertyScope(.connack)
    package static let publish = PropertyScope(.publish)
    package static let subscribe = PropertyScope(.subscribe)
    package static let disconnect = PropertyScope(.disconnect)
    package static let auth = PropertyScope(.auth)

    static let acknowledgements: PropertyScope = [
        PropertyScope(.puback), PropertyScope(.pubrec), PropertyScope(.pubrel), PropertyScope(.pubcomp),
        PropertyScope(.suback), PropertyScope(.unsuback),
    ]
    static let everywhere: PropertyScope = [
        .will, .connect, .connack, .publish, .acknowledgements, .subscribe, PropertyScope(.unsubscribe),
        .disconnect, .auth,
    ]
}

extension PropertyIdentifier {
    /// Where the property may stand (Table 2-4).
    package var scope: PropertyScope {
        switch self {
        case .payloadFormatIndicator, .messageExpiryInterval, .contentType, .responseTopic,
            .correlationData:
            [.publish, .will]
        case .subscriptionIdentifier: [.publish, .subscribe]
        case .sessionExpiryInterval: [.connect, .connack, .disconnect]
        case .assignedClientIdentifier, .serverKeepAlive, .responseInformation, .maximumQoS,
            .retainAvailable, .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable,
            .sharedSubscriptionAvailable:
            .connack
        case .authenticationMethod, .authenticationData: [.connect, .connack, .auth]
        case .requestProblemInformation, .requestResponseInformation: .connect
        case .willDelayInterval: .will
        case .serverReference: [.connack, .disconnect]
        case .reasonString: [.connack, .acknowledgements, .disconnect, .auth]
        case .receiveMaximum, .topicAliasMaximum, .maximumPacketSize: [.connect, .connack]
        case .topicAlias: .publish
        case .userProperty: .everywhere
        }
    }

    /// User Properties repeat everywhere; a server repeats the Subscription Identifier in PUBLISH, once
    /// for each overlapping subscription (section 3.3.2.3.8).
    package func mayRepeat(in place: PropertyScope) -> Bool {
        switch self {
        case .userProperty: true
        case .subscriptionIdentifier: place == .publish
        case .payloadFormatIndicator, .messageExpiryInterval, .contentType, .responseTopic,
            .correlationData, .sessionExpiryInterval, .assignedClientIdentifier, .serverKeepAlive,
            .authenticationMethod, .authenticationData, .requestProblemInformation, .willDelayInterval,
            .requestResponseInformation, .responseInformation, .serverReference, .reasonString,
            .receiveMaximum, .topicAliasMaximum, .topicAlias, .maximumQoS, .retainAvailable,
            .maximumPacketSize, .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable,
            .sharedSubscriptionAvailable:
            false
        }
    }

    /// One bit of a set of identifiers: all of them are below 64.
    var bit: UInt64 { 1 << UInt64(rawValue) }
}

extension Property {
    package var identifier: PropertyIdentifier {
        switch self {
        case .payloadFormatIndicator: .payloadFormatIndicator
        case .messageExpiryInterval: .messageExpiryInterval
        case .contentType: .contentType
        case .responseTopic: .responseTopic
        case .correlationData: .correlationData
        case .subscriptionIdentifier: .subscriptionIdentifier
        case .sessionExpiryInterval: .sessionExpiryInterval
        case .assignedClientIdentifier: .assignedClientIdentifier
        case .serverKeepAlive: .serverKeepAlive
        case .authenticationMethod: .authenticationMethod
        case .authenticationData: .authenticationData
        case .requestProblemInformation: .requestProblemInformation
        case .willDelayInterval: .willDelayInterval
        case .requestResponseInformation: .requestResponseInformation
        case .responseInformation: .responseInformation
        case .serverReference: .serverReference
        case .reasonString: .reasonString
        case .receiveMaximum: .receiveMaximum
        case .topicAliasMaximum: .topicAliasMaximum
        case .topicAlias: .topicAlias
        case .maximumQoS: .maximumQoS
        case .retainAvailable: .retainAvailable
        case .userProperty: .userProperty
        case .maximumPacketSize: .maximumPacketSize
        case .wildcardSubscriptionAvailable: .wildcardSubscriptionAvailable
        case .subscriptionIdentifierAvailable: .subscriptionIdentifierAvailable
        case .sharedSubscriptionAvailable: .sharedSubscriptionAvailable
        }
    }

    /// Whether the value is one that the specification allows for this property.
    ///
    /// Zero is excluded from Receive Maximum, Maximum Packet Size, Topic Alias and Subscription
    /// Identifier; the single-byte properties are 0 or 1 (section 2.2.2.2 and the sections it names).
    var isInRange: Bool {
        switch self {
        case .payloadFormatIndicator(let value), .requestProblemInformation(let value),
            .requestResponseInformation(let value), .maximumQoS(let value), .retainAvailable(let value),
            .wildcardSubscriptionAvailable(let value), .subscriptionIdentifierAvailable(let value),
            .sharedSubscriptionAvailable(let value):
            value <= 1
        case .receiveMaximum(let value), .topicAlias(let value): value != 0
        case .maximumPacketSize(let value): value != 0
        case .subscriptionIdentifier(let value): value != 0 && value <= WireFormat.maximumRemainingLength
        case .messageExpiryInterval, .contentType, .responseTopic, .correlationData,
            .sessionExpiryInterval, .assignedClientIdentifier, .serverKeepAlive, .authenticationMethod,
            .authenticationData, .willDelayInterval, .responseInformation, .serverReference,
            .reasonString, .topicAliasMaximum, .userProperty:
            true
        }
    }
}
