/// The bodies of SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK.
extension Subscribe {
    func remainingLength(_ version: ProtocolVersion) throws(EncodeError) -> Int {
        guard packetIdentifier != 0 else { throw .packetIdentifierMissing(.subscribe) }
        guard !subscriptions.isEmpty else { throw .emptyList(.subscribe) }
        var length = 2
        if version == .v5 { length += try properties.size(in: .subscribe, of: .subscribe) }
        for subscription in subscriptions {
            guard !subscription.topicFilter.isEmpty else { throw .emptyTopicFilter }
            if version == .v5, subscription.options.noLocal,
                subscription.topicFilter.utf8.starts(with: TopicRules.sharePrefix.utf8)
            {
                throw .noLocalOnSharedSubscription
            }
            length += try WireFormat.size(of: subscription.topicFilter) + 1
        }
        return try WireFormat.checked(length)
    }

    func write(_ version: ProtocolVersion, into output: inout [UInt8]) {
        output.append(bigEndian: packetIdentifier)
        if version == .v5 { output.append(properties) }
        for subscription in subscriptions {
            output.append(field: subscription.topicFilter)
            output.append(subscription.options.byte(version))
        }
    }
}

extension SubscriptionOptions {
    /// Section 3.8.3.1; on 3.1.1 the upper six bits are reserved.
    func byte(_ version: ProtocolVersion) -> UInt8 {
        guard version == .v5 else { return qos.rawValue }
        return qos.rawValue | (noLocal ? 0b0100 : 0) | (retainAsPublished ? 0b1000 : 0)
            | retainHandling.rawValue << 4
    }
}

extension Suback {
    func remainingLength(_ version: ProtocolVersion) throws(EncodeError) -> Int {
        guard packetIdentifier != 0 else { throw .packetIdentifierMissing(.suback) }
        guard !reasonCodes.isEmpty else { throw .emptyList(.suback) }
        for code in reasonCodes { try WireFormat.check(code, .suback, version) }
        var length = 2 + reasonCodes.count
        if version == .v5 { length += try properties.size(in: PropertyScope(.suback), of: .suback) }
        return try WireFormat.checked(length)
    }

    func write(_ version: ProtocolVersion, into output: inout [UInt8]) {
        output.append(bigEndian: packetIdentifier)
        if version == .v5 { output.append(properties) }
        for code in reasonCodes { output.append(code.rawValue) }
    }
}

extension Unsubscribe {
    func remainingLength(_ version: ProtocolVersion) throws(EncodeError) -> Int {
        guard packetIdentifier != 0 else { throw .packetIdentifierMissing(.unsubscribe) }
        guard !topicFilters.isEmpty else { throw .emptyList(.unsubscribe) }
        var length = 2
        if version == .v5 {
            length += try properties.size(in: PropertyScope(.unsubscribe), of: .unsubscribe)
        }
        for filter in topicFilters {
            guard !filter.isEmpty else { throw .emptyTopicFilter }
            length += try WireFormat.size(of: filter)
        }
        return try WireFormat.checked(length)
    }

    func write(_ version: ProtocolVersion, into output: inout [UInt8]) {
        output.append(bigEndian: packetIdentifier)
        if version == .v5 { output.append(properties) }
        for filter in topicFilters { output.append(field: filter) }
    }
}

extension Unsuback {
    func remainingLength(_ version: ProtocolVersion) throws(EncodeError) -> Int {
        guard packetIdentifier != 0 else { throw .packetIdentifierMissing(.unsuback) }
        guard version == .v5 else { return 2 }
        guard !reasonCodes.isEmpty else { throw .emptyList(.unsuback) }
        for code in reasonCodes { try WireFormat.check(code, .unsuback, version) }
        let propertiesSize = try properties.size(in: PropertyScope(.unsuback), of: .unsuback)
        return try WireFormat.checked(2 + reasonCodes.count + propertiesSize)
    }

    func write(_ version: ProtocolVersion, into output: inout [UInt8]) {
        output.append(bigEndian: packetIdentifier)
        guard version == .v5 else { return }
        output.append(properties)
        for code in reasonCodes { output.append(code.rawValue) }
    }
}
