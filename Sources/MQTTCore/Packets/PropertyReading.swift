extension FieldReader {
    /// Property Length and properties (section 2.2.2).
    @inline(__always)
    mutating func properties(in place: PropertyScope) throws(DecodeError) -> Properties {
        // No properties, the common case, is one zero byte [MQTT-2.2.2-1].
        let length = try variableByteInteger()
        return length == 0 ? Properties() : try properties(length: length, in: place)
    }

    private mutating func properties(
        length: UInt32, in place: PropertyScope
    ) throws(DecodeError) -> Properties {
        guard var section = section(length) else { throw .propertyLengthOverrun(type) }
        var entries: [Property] = []
        var seen: UInt64 = 0
        while !section.isAtEnd {
            let rawIdentifier = try section.propertyIdentifier()
            guard let byte = UInt8(exactly: rawIdentifier),
                let identifier = PropertyIdentifier(rawValue: byte)
            else { throw .unknownProperty(rawIdentifier) }
            guard !identifier.scope.isDisjoint(with: place) else {
                throw .propertyNotAllowed(identifier, type)
            }
            if seen & identifier.bit != 0, !identifier.mayRepeat(in: place) {
                throw .duplicateProperty(identifier)
            }
            seen |= identifier.bit
            let property = try section.property(identifier)
            guard property.isInRange else { throw .propertyValueOutOfRange(identifier) }
            entries.append(property)
        }
        if seen & PropertyIdentifier.authenticationData.bit != 0,
            seen & PropertyIdentifier.authenticationMethod.bit == 0
        {
            throw .authenticationDataWithoutMethod
        }
        return Properties(entries)
    }

    private mutating func propertyIdentifier() throws(DecodeError) -> UInt32 {
        do { return try variableByteInteger() } catch .missingField { throw .propertyLengthOverrun(type) }
    }

    private mutating func property(_ identifier: PropertyIdentifier) throws(DecodeError) -> Property {
        do {
            return try value(of: identifier)
        } catch {
            switch error {
            case .missingField, .fieldOverrun: throw .truncatedProperty(identifier)
            default: throw error
            }
        }
    }

    private mutating func value(of identifier: PropertyIdentifier) throws(DecodeError) -> Property {
        switch identifier {
        case .payloadFormatIndicator: .payloadFormatIndicator(try byte())
        case .messageExpiryInterval: .messageExpiryInterval(try uint32())
        case .contentType: .contentType(try string())
        case .responseTopic: .responseTopic(try responseTopic())
        case .correlationData: .correlationData(try binary())
        case .subscriptionIdentifier: .subscriptionIdentifier(try variableByteInteger())
        case .sessionExpiryInterval: .sessionExpiryInterval(try uint32())
        case .assignedClientIdentifier: .assignedClientIdentifier(try string())
        case .serverKeepAlive: .serverKeepAlive(try uint16())
        case .authenticationMethod: .authenticationMethod(try string())
        case .authenticationData: .authenticationData(try binary())
        case .requestProblemInformation: .requestProblemInformation(try byte())
        case .willDelayInterval: .willDelayInterval(try uint32())
        case .requestResponseInformation: .requestResponseInformation(try byte())
        case .responseInformation: .responseInformation(try string())
        case .serverReference: .serverReference(try string())
        case .reasonString: .reasonString(try string())
        case .receiveMaximum: .receiveMaximum(try uint16())
        case .topicAliasMaximum: .topicAliasMaximum(try uint16())
        case .topicAlias: .topicAlias(try uint16())
        case .maximumQoS: .maximumQoS(try byte())
        case .retainAvailable: .retainAvailable(try byte())
        case .userProperty: .userProperty(UserProperty(name: try string(), value: try string()))
        case .maximumPacketSize: .maximumPacketSize(try uint32())
        case .wildcardSubscriptionAvailable: .wildcardSubscriptionAvailable(try byte())
        case .subscriptionIdentifierAvailable: .subscriptionIdentifierAvailable(try byte())
        case .sharedSubscriptionAvailable: .sharedSubscriptionAvailable(try byte())
        }
    }

    /// A Topic Name, and so not empty and without wildcards [MQTT-3.3.2-14].
    private mutating func responseTopic() throws(DecodeError) -> String {
        let field = try field()
        guard !field.isEmpty else { throw .emptyResponseTopic }
        let name = try Self.string(field, in: type)
        guard !WireFormat.containsWildcard(field) else { throw .wildcardInResponseTopic }
        return name
    }
}
