extension Properties {
    /// Property Length and properties in bytes, after a check that they may stand in `place`.
    @inline(__always)
    func size(in place: PropertyScope, of type: PacketType) throws(EncodeError) -> Int {
        if entries.isEmpty { return 1 }
        try check(place, type)
        let length = try contentSize()
        return WireFormat.variableByteIntegerSize(length) + length
    }

    private func check(_ place: PropertyScope, _ type: PacketType) throws(EncodeError) {
        var seen: UInt64 = 0
        for property in entries {
            let identifier = property.identifier
            guard !identifier.scope.isDisjoint(with: place) else {
                throw .propertyNotAllowed(identifier, type)
            }
            if seen & identifier.bit != 0, !identifier.mayRepeat(in: place) {
                throw .duplicateProperty(identifier)
            }
            seen |= identifier.bit
            guard property.isInRange else { throw .propertyValueOutOfRange(identifier) }
        }
    }

    private func contentSize() throws(EncodeError) -> Int {
        var size = 0
        for property in entries { size += try property.size() }
        return try WireFormat.checked(size)
    }

    /// The Property Length's value, for properties whose size has been checked.
    fileprivate var writtenSize: Int { (try? contentSize()) ?? 0 }
}

extension Property {
    /// The identifier and the value in bytes.
    fileprivate func size() throws(EncodeError) -> Int {
        switch self {
        case .payloadFormatIndicator, .requestProblemInformation, .requestResponseInformation, .maximumQoS,
            .retainAvailable, .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable,
            .sharedSubscriptionAvailable:
            2
        case .serverKeepAlive, .receiveMaximum, .topicAliasMaximum, .topicAlias: 3
        case .messageExpiryInterval, .sessionExpiryInterval, .willDelayInterval, .maximumPacketSize: 5
        case .subscriptionIdentifier(let value):
            1 + WireFormat.variableByteIntegerSize(Int(value))
        case .contentType(let value), .assignedClientIdentifier(let value), .authenticationMethod(let value),
            .responseInformation(let value), .serverReference(let value), .reasonString(let value):
            1 + (try WireFormat.size(of: value))
        case .responseTopic(let value):
            1 + (try WireFormat.size(ofTopicName: value))
        case .correlationData(let value), .authenticationData(let value):
            1 + (try WireFormat.size(of: value))
        case .userProperty(let pair):
            1 + (try WireFormat.size(of: pair.name)) + (try WireFormat.size(of: pair.value))
        }
    }

    fileprivate func write(into output: inout [UInt8]) {
        output.append(identifier.rawValue)
        switch self {
        case .payloadFormatIndicator(let value), .requestProblemInformation(let value),
            .requestResponseInformation(let value), .maximumQoS(let value), .retainAvailable(let value),
            .wildcardSubscriptionAvailable(let value), .subscriptionIdentifierAvailable(let value),
            .sharedSubscriptionAvailable(let value):
            output.append(value)
        case .serverKeepAlive(let value), .receiveMaximum(let value), .topicAliasMaximum(let value),
            .topicAlias(let value):
            output.append(bigEndian: value)
        case .messageExpiryInterval(let value), .sessionExpiryInterval(let value),
            .willDelayInterval(let value), .maximumPacketSize(let value):
            output.append(bigEndian: value)
        case .subscriptionIdentifier(let value):
            output.append(variableByteInteger: Int(value))
        case .contentType(let value), .responseTopic(let value), .assignedClientIdentifier(let value),
            .authenticationMethod(let value), .responseInformation(let value), .serverReference(let value),
            .reasonString(let value):
            output.append(field: value)
        case .correlationData(let value), .authenticationData(let value):
            output.append(field: value)
        case .userProperty(let pair):
            output.append(field: pair.name)
            output.append(field: pair.value)
        }
    }
}

extension [UInt8] {
    /// Property Length and properties; none is one zero byte [MQTT-2.2.2-1].
    @inline(__always)
    mutating func append(_ properties: Properties) {
        if properties.entries.isEmpty { return append(0) }
        append(variableByteInteger: properties.writtenSize)
        for property in properties.entries { property.write(into: &self) }
    }
}
