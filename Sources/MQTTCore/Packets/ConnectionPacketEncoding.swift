/// The bodies of CONNECT, CONNACK, DISCONNECT and AUTH.
extension Connect {
    func remainingLength() throws(EncodeError) -> Int {
        // Protocol Name and Version, Connect Flags, Keep Alive (section 3.1.2).
        var length = 10
        if version == .v5 { length += try properties.size(in: .connect, of: .connect) }
        guard version == .v5 || cleanStart || !clientIdentifier.isEmpty else {
            throw .clientIdentifierMissing
        }
        length += try WireFormat.size(of: clientIdentifier)
        if let will {
            if version == .v5 { length += try will.properties.size(in: .will, of: .connect) }
            guard !will.topicName.isEmpty else { throw .emptyTopicName }
            length += try WireFormat.size(of: will.topicName) + WireFormat.size(of: will.payload)
        }
        if let userName { length += try WireFormat.size(of: userName) }
        if let password {
            guard userName != nil || version == .v5 else { throw .passwordWithoutUserName }
            length += try WireFormat.size(of: password)
        }
        return try WireFormat.checked(length)
    }

    func write(into output: inout [UInt8]) {
        output.append(field: "MQTT")
        output.append(version.rawValue)
        output.append(flags)
        output.append(bigEndian: keepAlive)
        if version == .v5 { output.append(properties) }
        // The order is fixed [MQTT-3.1.3-1].
        output.append(field: clientIdentifier)
        if let will {
            if version == .v5 { output.append(will.properties) }
            output.append(field: will.topicName)
            output.append(field: will.payload)
        }
        if let userName { output.append(field: userName) }
        if let password { output.append(field: password) }
    }

    private var flags: UInt8 {
        var flags: UInt8 = cleanStart ? 0b0000_0010 : 0
        if let will {
            flags |= 0b0000_0100 | will.qos.rawValue << 3 | (will.retain ? 0b0010_0000 : 0)
        }
        if password != nil { flags |= 0b0100_0000 }
        if userName != nil { flags |= 0b1000_0000 }
        return flags
    }
}

extension Connack {
    func remainingLength(_ version: ProtocolVersion) throws(EncodeError) -> Int {
        try WireFormat.check(reasonCode, .connack, version)
        guard reasonCode == .success || !sessionPresent else { throw .sessionPresentOnFailure }
        guard version == .v5 else { return 2 }
        return try WireFormat.checked(2 + properties.size(in: .connack, of: .connack))
    }

    func write(_ version: ProtocolVersion, into output: inout [UInt8]) {
        output.append(sessionPresent ? 1 : 0)
        output.append(reasonCode.rawValue)
        if version == .v5 { output.append(properties) }
    }
}

extension Disconnect {
    func remainingLength(_ version: ProtocolVersion) throws(EncodeError) -> Int {
        version == .v5 ? try WireFormat.optionalReasonSize(reasonCode, properties, .disconnect) : 0
    }
}

extension Auth {
    func remainingLength(_ version: ProtocolVersion) throws(EncodeError) -> Int {
        guard version == .v5 else { throw .notInProtocolVersion(.auth) }
        return try WireFormat.optionalReasonSize(reasonCode, properties, .auth)
    }
}
