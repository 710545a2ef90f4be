/// The bodies of the packets, field by field (chapter 3).
extension FieldReader {
    /// PUBLISH, the one packet whose flags carry meaning (section 3.3). The flags have been checked.
    mutating func publish(
        flags: UInt8, version: ProtocolVersion, role: PacketDecoder.Role, topics: inout TopicNameCache
    ) throws(DecodeError) -> Publish {
        let topicField = try field()
        let topicName = topicField.isEmpty ? "" : try topics.name(for: topicField)
        guard let qos = QoS(rawValue: (flags >> 1) & 0b11) else { throw .publishQoS3 }
        let identifier: PacketIdentifier? = qos == .atMostOnce ? nil : try packetIdentifier()
        var properties = Properties()
        if version == .v5 {
            properties = try self.properties(in: .publish)
            // [MQTT-3.3.4-6]
            if role == .server, properties.contains(.subscriptionIdentifier) {
                throw .subscriptionIdentifierFromClient
            }
        }
        if topicField.isEmpty, !properties.contains(.topicAlias) { throw .emptyTopicName }
        return Publish(
            topicName: topicName, payload: remaining(), qos: qos, retain: flags & 0b0001 != 0,
            isDuplicate: flags & 0b1000 != 0, packetIdentifier: identifier, properties: properties)
    }

    /// Every other packet.
    mutating func packet(
        version: ProtocolVersion, role: PacketDecoder.Role
    ) throws(DecodeError) -> ControlPacket {
        let packet: ControlPacket
        switch type {
        case .connect: packet = .connect(try connect())
        case .connack: packet = .connack(try connack(version))
        case .publish: throw .unexpectedPacket(.publish)
        case .puback: packet = .puback(try acknowledgement(version))
        case .pubrec: packet = .pubrec(try acknowledgement(version))
        case .pubrel: packet = .pubrel(try acknowledgement(version))
        case .pubcomp: packet = .pubcomp(try acknowledgement(version))
        case .subscribe: packet = .subscribe(try subscribe(version))
        case .suback: packet = .suback(try suback(version))
        case .unsubscribe: packet = .unsubscribe(try unsubscribe(version))
        case .unsuback: packet = .unsuback(try unsuback(version))
        case .pingreq: packet = .pingreq
        case .pingresp: packet = .pingresp
        case .disconnect: packet = .disconnect(try disconnect(version, role))
        case .auth: packet = .auth(try auth())
        }
        try expectEnd()
        return packet
    }
}

// MARK: - CONNECT and CONNACK

extension FieldReader {
    private mutating func connect() throws(DecodeError) -> Connect {
        // The name of 3.1 was "MQIsdp" [MQTT-3.1.2-1].
        guard try field().elementsEqual("MQTT".utf8) else { throw .unsupportedProtocolName }
        let level = try byte()
        guard let version = ProtocolVersion(rawValue: level) else { throw .unsupportedProtocolLevel(level) }
        let flags = try connectFlags(version)
        let keepAlive = try uint16()
        let properties = version == .v5 ? try properties(in: .connect) : Properties()
        let clientIdentifier = try string()
        let will = flags & 0b0000_0100 != 0 ? try will(flags, version) : nil
        let userName = flags & 0b1000_0000 != 0 ? try string() : nil
        let password = flags & 0b0100_0000 != 0 ? try binary() : nil
        return Connect(
            version: version, clientIdentifier: clientIdentifier, cleanStart: flags & 0b0000_0010 != 0,
            keepAlive: keepAlive, will: will, userName: userName, password: password,
            properties: properties)
    }

    /// Connect Flags (section 3.1.2.3).
    private mutating func connectFlags(_ version: ProtocolVersion) throws(DecodeError) -> UInt8 {
        let flags = try byte()
        // [MQTT-3.1.2-3]
        guard flags & 0b0000_0001 == 0 else { throw .reservedConnectFlag }
        // [MQTT-3.1.2-12]
        guard flags & 0b0001_1000 != 0b0001_1000 else { throw .willQoS3 }
        if flags & 0b0000_0100 == 0, flags & 0b0011_1000 != 0 { throw .willFlagsWithoutWill }
        // [MQTT-3.1.2-22] of 3.1.1; 5.0 allows it.
        if version == .v3_1_1, flags & 0b1100_0000 == 0b0100_0000 { throw .passwordWithoutUserName }
        return flags
    }

    private mutating func will(_ flags: UInt8, _ version: ProtocolVersion) throws(DecodeError) -> Will {
        guard let qos = QoS(rawValue: (flags >> 3) & 0b11) else { throw .willQoS3 }
        let properties = version == .v5 ? try properties(in: .will) : Properties()
        let topicField = try field()
        guard !topicField.isEmpty else { throw .emptyTopicName }
        let topicName = try Self.string(topicField, in: type)
        guard !WireFormat.containsWildcard(topicField) else { throw .wildcardInTopicName }
        return Will(
            topicName: topicName, payload: try binary(), qos: qos, retain: flags & 0b0010_0000 != 0,
            properties: properties)
    }

    private mutating func connack(_ version: ProtocolVersion) throws(DecodeError) -> Connack {
        let flags = try byte()
        // [MQTT-3.2.2-1]
        guard flags & 0b1111_1110 == 0 else { throw .reservedConnackFlags }
        let reasonCode = try reasonCode(version)
        // [MQTT-3.2.2-6]
        if reasonCode != .success, flags != 0 { throw .sessionPresentOnFailure }
        return Connack(
            sessionPresent: flags != 0, reasonCode: reasonCode,
            properties: version == .v5 ? try properties(in: .connack) : Properties())
    }

    /// A Reason Code that the packet's table lists.
    private mutating func reasonCode(_ version: ProtocolVersion) throws(DecodeError) -> ReasonCode {
        let code = ReasonCode(rawValue: try byte())
        guard code.isValid(in: type, version: version) else {
            throw .reasonCodeNotValid(type, code.rawValue)
        }
        return code
    }
}

// MARK: - Acknowledgements, DISCONNECT and AUTH

extension FieldReader {
    private mutating func acknowledgement(
        _ version: ProtocolVersion
    ) throws(DecodeError) -> Acknowledgement {
        var packet = Acknowledgement(packetIdentifier: try packetIdentifier())
        if version == .v5 {
            (packet.reasonCode, packet.properties) = try optionalReason(in: PropertyScope(type))
        }
        return packet
    }

    private mutating func disconnect(
        _ version: ProtocolVersion, _ role: PacketDecoder.Role
    ) throws(DecodeError) -> Disconnect {
        guard version == .v5 else { return Disconnect() }
        let (reasonCode, properties) = try optionalReason(in: .disconnect)
        // [MQTT-3.14.2-2]
        if role == .client, properties.contains(.sessionExpiryInterval) {
            throw .sessionExpiryIntervalFromServer
        }
        return Disconnect(reasonCode: reasonCode, properties: properties)
    }

    private mutating func auth() throws(DecodeError) -> Auth {
        let (reasonCode, properties) = try optionalReason(in: .auth)
        return Auth(reasonCode: reasonCode, properties: properties)
    }

    /// A Reason Code and properties, either of which may be left out at the end (sections 3.4.2.1,
    /// 3.4.2.2.1, 3.14.2.1, 3.15.2.1): absent means 0x00 and none.
    private mutating func optionalReason(
        in place: PropertyScope
    ) throws(DecodeError) -> (ReasonCode, Properties) {
        if isAtEnd { return (.success, Properties()) }
        let code = try reasonCode(.v5)
        return (code, isAtEnd ? Properties() : try properties(in: place))
    }
}

// MARK: - Subscriptions

extension FieldReader {
    private mutating func subscribe(_ version: ProtocolVersion) throws(DecodeError) -> Subscribe {
        var packet = Subscribe(packetIdentifier: try packetIdentifier(), subscriptions: [])
        if version == .v5 { packet.properties = try properties(in: .subscribe) }
        // [MQTT-3.8.3-2]
        guard !isAtEnd else { throw .noTopicFilters(type) }
        while !isAtEnd {
            let filter = try topicFilter()
            let options = try subscriptionOptions(version)
            // [MQTT-3.8.3-4]
            if options.noLocal, filter.utf8.starts(with: "$share/".utf8) {
                throw .noLocalOnSharedSubscription
            }
            packet.subscriptions.append(Subscribe.Subscription(topicFilter: filter, options: options))
        }
        return packet
    }

    /// Subscription Options (section 3.8.3.1); 3.1.1 has the QoS alone (section 3.8.3 there).
    private mutating func subscriptionOptions(
        _ version: ProtocolVersion
    ) throws(DecodeError) -> SubscriptionOptions {
        let byte = try byte()
        let reserved: UInt8 = version == .v5 ? 0b1100_0000 : 0b1111_1100
        // [MQTT-3.8.3-5]
        guard byte & reserved == 0 else { throw .reservedSubscriptionOptions }
        guard let qos = QoS(rawValue: byte & 0b11) else { throw .subscriptionQoS3 }
        guard let handling = SubscriptionOptions.RetainHandling(rawValue: (byte >> 4) & 0b11) else {
            throw .retainHandling3
        }
        return SubscriptionOptions(
            qos: qos, noLocal: byte & 0b0100 != 0, retainAsPublished: byte & 0b1000 != 0,
            retainHandling: handling)
    }

    /// Where wildcards stand is left to the receiver, who answers with 0x8F for that one filter.
    private mutating func topicFilter() throws(DecodeError) -> String {
        let filter = try string()
        // [MQTT-4.7.3-1]
        guard !filter.isEmpty else { throw .emptyTopicFilter }
        return filter
    }

    private mutating func suback(_ version: ProtocolVersion) throws(DecodeError) -> Suback {
        var packet = Suback(packetIdentifier: try packetIdentifier(), reasonCodes: [])
        if version == .v5 { packet.properties = try properties(in: PropertyScope(.suback)) }
        packet.reasonCodes = try reasonCodes(version)
        return packet
    }

    private mutating func unsubscribe(_ version: ProtocolVersion) throws(DecodeError) -> Unsubscribe {
        var packet = Unsubscribe(packetIdentifier: try packetIdentifier(), topicFilters: [])
        if version == .v5 { packet.properties = try properties(in: PropertyScope(.unsubscribe)) }
        // [MQTT-3.10.3-2]
        guard !isAtEnd else { throw .noTopicFilters(type) }
        while !isAtEnd { packet.topicFilters.append(try topicFilter()) }
        return packet
    }

    private mutating func unsuback(_ version: ProtocolVersion) throws(DecodeError) -> Unsuback {
        var packet = Unsuback(packetIdentifier: try packetIdentifier())
        guard version == .v5 else { return packet }
        packet.properties = try properties(in: PropertyScope(.unsuback))
        packet.reasonCodes = try reasonCodes(version)
        return packet
    }

    /// One for each Topic Filter, so there is at least one (sections 3.9.3 and 3.11.3).
    private mutating func reasonCodes(_ version: ProtocolVersion) throws(DecodeError) -> [ReasonCode] {
        var codes = [try reasonCode(version)]
        while !isAtEnd { codes.append(try reasonCode(version)) }
        return codes
    }
}
