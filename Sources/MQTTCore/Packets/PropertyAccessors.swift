/// Typed access to single properties. Reading gives nil where the property is absent; assigning nil
/// removes it. Whether it belongs into the packet and the value is in its range is checked when the packet
/// is written.
// MARK: - Messages (sections 3.3.2.3 and 3.1.3.2)

extension Properties {
    /// Whether the payload is UTF-8 text (Payload Format Indicator, section 3.3.2.3.2). False also means
    /// unspecified, and is written as no property.
    public var isPayloadUTF8: Bool {
        get { first { if case .payloadFormatIndicator(let value) = $0 { value == 1 } else { nil } } ?? false }
        set { set(.payloadFormatIndicator, newValue ? .payloadFormatIndicator(1) : nil) }
    }

    /// Seconds for which the server keeps the message for subscribers; nil never expires (section 3.3.2.3.3).
    public var messageExpiryInterval: UInt32? {
        get { first { if case .messageExpiryInterval(let value) = $0 { value } else { nil } } }
        set { set(.messageExpiryInterval, newValue.map { .messageExpiryInterval($0) }) }
    }

    /// What the payload is, often a MIME type (section 3.3.2.3.9).
    public var contentType: String? {
        get { first { if case .contentType(let value) = $0 { value } else { nil } } }
        set { set(.contentType, newValue.map { .contentType($0) }) }
    }

    /// The Topic Name for the answer, without wildcards (section 3.3.2.3.5).
    public var responseTopic: String? {
        get { first { if case .responseTopic(let value) = $0 { value } else { nil } } }
        set { set(.responseTopic, newValue.map { .responseTopic($0) }) }
    }

    /// Bytes by which the requester knows the answer, at most 65,535 (section 3.3.2.3.6).
    public var correlationData: [UInt8]? {
        get { first { if case .correlationData(let value) = $0 { value } else { nil } } }
        set { set(.correlationData, newValue.map { .correlationData($0) }) }
    }

    /// The number that stands for the Topic Name on this connection, 1 to the peer's Topic Alias Maximum
    /// (section 3.3.2.3.4).
    public var topicAlias: UInt16? {
        get { first { if case .topicAlias(let value) = $0 { value } else { nil } } }
        set { set(.topicAlias, newValue.map { .topicAlias($0) }) }
    }

    /// Seconds between the end of the connection and the Will Message; nil means 0 (section 3.1.3.2.2).
    public var willDelayInterval: UInt32? {
        get { first { if case .willDelayInterval(let value) = $0 { value } else { nil } } }
        set { set(.willDelayInterval, newValue.map { .willDelayInterval($0) }) }
    }
}

// MARK: - Sessions and limits (sections 3.1.2.11 and 3.2.2.3)

extension Properties {
    /// Seconds for which the session outlives the connection: nil means 0, 0xFFFFFFFF for ever (section
    /// 3.1.2.11.2).
    public var sessionExpiryInterval: UInt32? {
        get { first { if case .sessionExpiryInterval(let value) = $0 { value } else { nil } } }
        set { set(.sessionExpiryInterval, newValue.map { .sessionExpiryInterval($0) }) }
    }

    /// How many QoS 1 and 2 messages the sender of this property takes at a time, 1 to 65,535; nil means
    /// 65,535 (section 3.1.2.11.3).
    public var receiveMaximum: UInt16? {
        get { first { if case .receiveMaximum(let value) = $0 { value } else { nil } } }
        set { set(.receiveMaximum, newValue.map { .receiveMaximum($0) }) }
    }

    /// The greatest packet that the sender of this property accepts, in bytes, from 1; nil sets no limit
    /// (section 3.1.2.11.4).
    public var maximumPacketSize: UInt32? {
        get { first { if case .maximumPacketSize(let value) = $0 { value } else { nil } } }
        set { set(.maximumPacketSize, newValue.map { .maximumPacketSize($0) }) }
    }

    /// The greatest Topic Alias that the sender of this property accepts; nil means 0, none (section
    /// 3.1.2.11.5).
    public var topicAliasMaximum: UInt16? {
        get { first { if case .topicAliasMaximum(let value) = $0 { value } else { nil } } }
        set { set(.topicAliasMaximum, newValue.map { .topicAliasMaximum($0) }) }
    }

    /// Whether the server may return Response Information; nil means no (section 3.1.2.11.6).
    public var requestResponseInformation: Bool? {
        get { first { if case .requestResponseInformation(let value) = $0 { value == 1 } else { nil } } }
        set { set(.requestResponseInformation, newValue.map { .requestResponseInformation($0 ? 1 : 0) }) }
    }

    /// Whether the server may send Reason Strings and User Properties with failures; nil means yes (section
    /// 3.1.2.11.7).
    public var requestProblemInformation: Bool? {
        get { first { if case .requestProblemInformation(let value) = $0 { value == 1 } else { nil } } }
        set { set(.requestProblemInformation, newValue.map { .requestProblemInformation($0 ? 1 : 0) }) }
    }

    /// The Client Identifier that the server chose (section 3.2.2.3.7).
    public var assignedClientIdentifier: String? {
        get { first { if case .assignedClientIdentifier(let value) = $0 { value } else { nil } } }
        set { set(.assignedClientIdentifier, newValue.map { .assignedClientIdentifier($0) }) }
    }

    /// Seconds of Keep Alive that the server imposes (section 3.2.2.3.14).
    public var serverKeepAlive: UInt16? {
        get { first { if case .serverKeepAlive(let value) = $0 { value } else { nil } } }
        set { set(.serverKeepAlive, newValue.map { .serverKeepAlive($0) }) }
    }

    /// The highest QoS that the server supports, 0 or 1; nil means 2 (section 3.2.2.3.4).
    public var maximumQoS: QoS? {
        get { first { if case .maximumQoS(let value) = $0 { QoS(rawValue: value) } else { nil } } }
        set { set(.maximumQoS, newValue.map { .maximumQoS($0.rawValue) }) }
    }

    /// Whether the server supports retained messages; nil means yes (section 3.2.2.3.5).
    public var retainAvailable: Bool? {
        get { first { if case .retainAvailable(let value) = $0 { value == 1 } else { nil } } }
        set { set(.retainAvailable, newValue.map { .retainAvailable($0 ? 1 : 0) }) }
    }

    /// Whether the server supports wildcards in subscriptions; nil means yes (section 3.2.2.3.11).
    public var wildcardSubscriptionAvailable: Bool? {
        get { first { if case .wildcardSubscriptionAvailable(let value) = $0 { value == 1 } else { nil } } }
        set {
            set(.wildcardSubscriptionAvailable, newValue.map { .wildcardSubscriptionAvailable($0 ? 1 : 0) })
        }
    }

    /// Whether the server supports Subscription Identifiers; nil means yes (section 3.2.2.3.12).
    public var subscriptionIdentifierAvailable: Bool? {
        get { first { if case .subscriptionIdentifierAvailable(let value) = $0 { value == 1 } else { nil } } }
        set {
            set(
                .subscriptionIdentifierAvailable,
                newValue.map { .subscriptionIdentifierAvailable($0 ? 1 : 0) })
        }
    }

    /// Whether the server supports shared subscriptions; nil means yes (section 3.2.2.3.13).
    public var sharedSubscriptionAvailable: Bool? {
        get { first { if case .sharedSubscriptionAvailable(let value) = $0 { value == 1 } else { nil } } }
        set { set(.sharedSubscriptionAvailable, newValue.map { .sharedSubscriptionAvailable($0 ? 1 : 0) }) }
    }

    /// The base for Response Topics that the server suggests (section 3.2.2.3.15).
    public var responseInformation: String? {
        get { first { if case .responseInformation(let value) = $0 { value } else { nil } } }
        set { set(.responseInformation, newValue.map { .responseInformation($0) }) }
    }
}

// MARK: - Authentication and reasons

extension Properties {
    /// The name of the extended authentication method (sections 3.1.2.11.9 and 4.12).
    public var authenticationMethod: String? {
        get { first { if case .authenticationMethod(let value) = $0 { value } else { nil } } }
        set { set(.authenticationMethod, newValue.map { .authenticationMethod($0) }) }
    }

    /// The method's data, at most 65,535 bytes; only together with a method (section 3.1.2.11.10).
    public var authenticationData: [UInt8]? {
        get { first { if case .authenticationData(let value) = $0 { value } else { nil } } }
        set { set(.authenticationData, newValue.map { .authenticationData($0) }) }
    }

    /// A sentence for people about the outcome, not to be parsed (section 3.2.2.3.9).
    public var reasonString: String? {
        get { first { if case .reasonString(let value) = $0 { value } else { nil } } }
        set { set(.reasonString, newValue.map { .reasonString($0) }) }
    }

    /// The server to use instead (sections 3.2.2.3.16 and 4.11).
    public var serverReference: String? {
        get { first { if case .serverReference(let value) = $0 { value } else { nil } } }
        set { set(.serverReference, newValue.map { .serverReference($0) }) }
    }
}

// MARK: - Properties that repeat

extension Properties {
    /// Names and values of the application's own, in order and with duplicates (section 3.3.2.3.7).
    public var userProperties: [UserProperty] {
        get { entries.compactMap { if case .userProperty(let pair) = $0 { pair } else { nil } } }
        set { set(.userProperty, newValue.map { .userProperty($0) }) }
    }

    /// The numbers, 1 to 268,435,455, of the subscriptions that the message matches; in SUBSCRIBE at most
    /// one, the number for the subscriptions of that packet (sections 3.3.2.3.8 and 3.8.2.1.2).
    public var subscriptionIdentifiers: [UInt32] {
        get { entries.compactMap { if case .subscriptionIdentifier(let value) = $0 { value } else { nil } } }
        set { set(.subscriptionIdentifier, newValue.map { .subscriptionIdentifier($0) }) }
    }
}

extension Properties {
    private func first<Value>(_ value: (Property) -> Value?) -> Value? {
        for property in entries {
            if let value = value(property) { return value }
        }
        return nil
    }

    /// Puts the property where the old one stood, so that an assignment doesn't change the order.
    private mutating func set(_ identifier: PropertyIdentifier, _ property: Property?) {
        set(identifier, property.map { [$0] } ?? [])
    }

    private mutating func set(_ identifier: PropertyIdentifier, _ properties: [Property]) {
        let index = entries.firstIndex { $0.identifier == identifier } ?? entries.endIndex
        entries.removeAll { $0.identifier == identifier }
        entries.insert(contentsOf: properties, at: index)
    }
}
