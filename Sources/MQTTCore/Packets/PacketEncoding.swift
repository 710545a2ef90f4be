/// Packets to bytes (chapter 3). Sizes are computed and everything is checked before the first byte is
/// appended, so a packet that can't be written leaves the output as it was.
extension ControlPacket {
    /// Appends the packet as `version` writes it. On 3.1.1 properties and Reason Codes of 5.0 are left out.
    ///
    /// CONNECT is written as its own `version` says.
    package func encode(for version: ProtocolVersion, into output: inout [UInt8]) throws(EncodeError) {
        switch self {
        case .connect(let packet):
            let length = try packet.remainingLength()
            output.appendFixedHeader(.connect, length)
            packet.write(into: &output)
        case .connack(let packet):
            let length = try packet.remainingLength(version)
            output.appendFixedHeader(.connack, length)
            packet.write(version, into: &output)
        case .publish(let packet):
            try packet.encode(for: version, into: &output)
        case .puback(let packet), .pubrec(let packet), .pubrel(let packet), .pubcomp(let packet):
            try packet.encode(as: type, for: version, into: &output)
        case .subscribe(let packet):
            let length = try packet.remainingLength(version)
            output.appendFixedHeader(.subscribe, length)
            packet.write(version, into: &output)
        case .suback(let packet):
            let length = try packet.remainingLength(version)
            output.appendFixedHeader(.suback, length)
            packet.write(version, into: &output)
        case .unsubscribe(let packet):
            let length = try packet.remainingLength(version)
            output.appendFixedHeader(.unsubscribe, length)
            packet.write(version, into: &output)
        case .unsuback(let packet):
            let length = try packet.remainingLength(version)
            output.appendFixedHeader(.unsuback, length)
            packet.write(version, into: &output)
        case .pingreq: output.appendFixedHeader(.pingreq, 0)
        case .pingresp: output.appendFixedHeader(.pingresp, 0)
        case .disconnect(let packet):
            let length = try packet.remainingLength(version)
            output.appendFixedHeader(.disconnect, length)
            if version == .v5 {
                output.appendOptionalReason(packet.reasonCode, packet.properties)
            }
        case .auth(let packet):
            let length = try packet.remainingLength(version)
            output.appendFixedHeader(.auth, length)
            output.appendOptionalReason(packet.reasonCode, packet.properties)
        }
    }

    /// How many bytes `encode(for:into:)` appends, to be held against the peer's Maximum Packet Size.
    package func encodedSize(for version: ProtocolVersion) throws(EncodeError) -> Int {
        WireFormat.packetSize(try remainingLength(version))
    }

    private func remainingLength(_ version: ProtocolVersion) throws(EncodeError) -> Int {
        switch self {
        case .connect(let packet): try packet.remainingLength()
        case .connack(let packet): try packet.remainingLength(version)
        case .publish(let packet):
            try packet.remainingLength(version, packet.isDuplicate, packet.packetIdentifier)
        case .puback(let packet), .pubrec(let packet), .pubrel(let packet), .pubcomp(let packet):
            try packet.remainingLength(type, version)
        case .subscribe(let packet): try packet.remainingLength(version)
        case .suback(let packet): try packet.remainingLength(version)
        case .unsubscribe(let packet): try packet.remainingLength(version)
        case .unsuback(let packet): try packet.remainingLength(version)
        case .pingreq, .pingresp: 0
        case .disconnect(let packet): try packet.remainingLength(version)
        case .auth(let packet): try packet.remainingLength(version)
        }
    }
}

// MARK: - PUBLISH and its acknowledgements

extension Publish {
    /// Appends PUBLISH with this value's own DUP flag and packet identifier.
    package func encode(for version: ProtocolVersion, into output: inout [UInt8]) throws(EncodeError) {
        try encode(
            for: version, isDuplicate: isDuplicate, packetIdentifier: packetIdentifier, into: &output)
    }

    /// Appends PUBLISH with the DUP flag and packet identifier given, which stay out of the stored value.
    package func encode(
        for version: ProtocolVersion, isDuplicate: Bool, packetIdentifier: PacketIdentifier?,
        into output: inout [UInt8]
    ) throws(EncodeError) {
        let length = try remainingLength(version, isDuplicate, packetIdentifier)
        let flags = (isDuplicate ? 0b1000 : 0) | qos.rawValue << 1 | (retain ? 1 : 0)
        output.append(PacketType.publish.rawValue << 4 | flags)
        output.append(variableByteInteger: length)
        output.append(field: topicName)
        if let packetIdentifier { output.append(bigEndian: packetIdentifier) }
        if version == .v5 { output.append(properties) }
        output.append(contentsOf: payload)
    }

    package func encodedSize(for version: ProtocolVersion) throws(EncodeError) -> Int {
        WireFormat.packetSize(try remainingLength(version, isDuplicate, packetIdentifier))
    }

    fileprivate func remainingLength(
        _ version: ProtocolVersion, _ isDuplicate: Bool, _ packetIdentifier: PacketIdentifier?
    ) throws(EncodeError) -> Int {
        var length = try WireFormat.size(of: topicName) + payload.count
        if qos == .atMostOnce {
            guard packetIdentifier == nil else { throw .packetIdentifierOnQoS0 }
            guard !isDuplicate else { throw .duplicateFlagOnQoS0 }
        } else {
            guard let packetIdentifier, packetIdentifier != 0 else {
                throw .packetIdentifierMissing(.publish)
            }
            length += 2
        }
        if version == .v5 { length += try properties.size(in: .publish, of: .publish) }
        if topicName.isEmpty {
            guard version == .v5, properties.contains(.topicAlias) else { throw .emptyTopicName }
        }
        return try WireFormat.checked(length)
    }
}

extension Acknowledgement {
    /// Appends the value as `type`: PUBACK, PUBREC, PUBREL or PUBCOMP.
    package func encode(
        as type: PacketType, for version: ProtocolVersion, into output: inout [UInt8]
    ) throws(EncodeError) {
        let length = try remainingLength(type, version)
        output.appendFixedHeader(type, length)
        output.append(bigEndian: packetIdentifier)
        if version == .v5 { output.appendOptionalReason(reasonCode, properties) }
    }

    fileprivate func remainingLength(
        _ type: PacketType, _ version: ProtocolVersion
    ) throws(EncodeError) -> Int {
        guard packetIdentifier != 0 else { throw .packetIdentifierMissing(type) }
        guard version == .v5 else { return 2 }
        return 2 + (try WireFormat.optionalReasonSize(reasonCode, properties, type))
    }
}

// MARK: - Shared by several packets

extension WireFormat {
    static func packetSize(_ remainingLength: Int) -> Int {
        1 + variableByteIntegerSize(remainingLength) + remainingLength
    }

    @inline(__always)
    static func checked(_ remainingLength: Int) throws(EncodeError) -> Int {
        guard remainingLength <= Int(maximumRemainingLength) else {
            throw .packetTooLarge(remainingLength: remainingLength)
        }
        return remainingLength
    }

    /// The size of a string with its length, checked for what no string may hold.
    @inline(__always)
    static func size(of string: String) throws(EncodeError) -> Int {
        let count = string.utf8.count
        guard count <= maximumFieldLength else { throw .fieldTooLong(length: count) }
        let hasNull =
            string.utf8.withContiguousStorageIfAvailable { containsNull(UnsafeRawBufferPointer($0)) }
            ?? string.utf8.contains(0)
        guard !hasNull else { throw .nullCharacter }
        return 2 + count
    }

    /// The same for a Response Topic, which is a Topic Name.
    static func size(ofTopicName string: String) throws(EncodeError) -> Int {
        let hasWildcard = TopicRules.withUTF8(string) { containsWildcard($0) }
        guard !string.isEmpty, !hasWildcard else { throw .responseTopicNotValid }
        return try size(of: string)
    }

    static func size(of bytes: [UInt8]) throws(EncodeError) -> Int {
        guard bytes.count <= maximumFieldLength else { throw .fieldTooLong(length: bytes.count) }
        return 2 + bytes.count
    }

    static func check(
        _ code: ReasonCode, _ type: PacketType, _ version: ProtocolVersion
    ) throws(EncodeError) {
        guard code.isValid(in: type, version: version) else {
            throw .reasonCodeNotValid(type, code.rawValue)
        }
    }

    /// Reason Code and properties where both may be left out from the end: 0x00 without properties takes
    /// no byte at all, and a code without properties one (section 3.4.2).
    static func optionalReasonSize(
        _ code: ReasonCode, _ properties: Properties, _ type: PacketType
    ) throws(EncodeError) -> Int {
        try check(code, type, .v5)
        if properties.isEmpty { return code == .success ? 0 : 1 }
        return try checked(1 + properties.size(in: PropertyScope(type), of: type))
    }
}

extension [UInt8] {
    @inline(__always)
    mutating func appendFixedHeader(_ type: PacketType, _ remainingLength: Int) {
        append(type.rawValue << 4 | (type.requiredFlags ?? 0))
        append(variableByteInteger: remainingLength)
    }

    mutating func appendOptionalReason(_ code: ReasonCode, _ properties: Properties) {
        if properties.isEmpty, code == .success { return }
        append(code.rawValue)
        if !properties.isEmpty { append(properties) }
    }
}
