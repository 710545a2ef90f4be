/// Takes packets out of a byte stream that arrives in pieces of any size.
///
/// A packet that is whole in the input is read in place; a torn one is assembled in a buffer that grows
/// with the bytes that really arrive, never with a length that the peer merely claims.
package struct PacketDecoder: Sendable {
    /// Which end of the connection reads.
    package enum Role: Sendable, Hashable {
        /// Reads what servers send.
        case client
        /// Reads what clients send. The first packet has to be CONNECT, and it sets the version.
        case server
    }

    package let role: Role
    /// What is spoken: as given, or for a server as the client's CONNECT said.
    package private(set) var version: ProtocolVersion
    /// The greatest packet that this end accepts, in bytes from its first to its last (section 3.1.2.11.4).
    package var maximumPacketSize: UInt32

    private var state: State
    /// The first bytes of a packet whose end hasn't arrived.
    private var carry: [UInt8] = []
    private var topics = TopicNameCache()

    private enum State: Sendable {
        case awaitingConnect
        case reading
        case failed(DecodeError)
    }

    /// The capacity that an empty carry may keep, so that idle connections stay small.
    private static let idleCarryCapacity = 4096

    package init(
        role: Role, version: ProtocolVersion = .v5,
        maximumPacketSize: UInt32 = WireFormat.maximumPacketSize
    ) {
        self.role = role
        self.version = version
        self.maximumPacketSize = maximumPacketSize
        state = role == .server ? .awaitingConnect : .reading
    }

    /// Whether a packet has begun to arrive whose end is missing.
    package var hasPartialPacket: Bool { !carry.isEmpty }

    /// Bytes of memory held for a packet whose end is missing.
    package var bufferedCapacity: Int { carry.capacity }

    /// The next packet, or nil when all of the input has been taken without completing one.
    ///
    /// `input` advances past what was consumed. After an error the stream can't be read any further:
    /// every later call throws the same error.
    package mutating func next(
        in input: inout UnsafeRawBufferPointer
    ) throws(DecodeError) -> ControlPacket? {
        if case .failed(let error) = state { throw error }
        do {
            return carry.isEmpty ? try nextInPlace(in: &input) : try nextTorn(in: &input)
        } catch {
            state = .failed(error)
            carry = []
            throw error
        }
    }

    /// The same over an array's slice.
    package mutating func next(in input: inout ArraySlice<UInt8>) throws(DecodeError) -> ControlPacket? {
        var consumed = 0
        let result = input.withUnsafeBytes { bytes in
            var rest = bytes
            defer { consumed = bytes.count - rest.count }
            return attempt(in: &rest)
        }
        input = input.dropFirst(consumed)
        return try result.get()
    }

    private mutating func attempt(
        in input: inout UnsafeRawBufferPointer
    ) -> Result<ControlPacket?, DecodeError> {
        do { return .success(try next(in: &input)) } catch { return .failure(error) }
    }
}

// MARK: - Framing

extension PacketDecoder {
    /// A complete fixed header (section 2.1).
    private struct FixedHeader {
        var type: PacketType
        var flags: UInt8
        var length: Int
        /// Header and body.
        var packetSize: Int
    }

    private mutating func nextInPlace(
        in input: inout UnsafeRawBufferPointer
    ) throws(DecodeError) -> ControlPacket? {
        if let header = try fixedHeader(of: input), header.packetSize <= input.count {
            let body = UnsafeRawBufferPointer(rebasing: input[header.length..<header.packetSize])
            let packet = try read(header, body)
            input = UnsafeRawBufferPointer(rebasing: input[header.packetSize...])
            return packet
        }
        carry.append(contentsOf: input)
        input = UnsafeRawBufferPointer(rebasing: input[input.count...])
        return nil
    }

    private mutating func nextTorn(
        in input: inout UnsafeRawBufferPointer
    ) throws(DecodeError) -> ControlPacket? {
        while true {
            let header = try carry.withUnsafeBufferPointer { bytes throws(DecodeError) in
                try fixedHeader(of: UnsafeRawBufferPointer(bytes))
            }
            guard let header else {
                guard let byte = input.first else { return nil }
                carry.append(byte)
                input = UnsafeRawBufferPointer(rebasing: input[1...])
                continue
            }
            let missing = header.packetSize - carry.count
            let taken = min(missing, input.count)
            carry.append(contentsOf: UnsafeRawBufferPointer(rebasing: input[..<taken]))
            input = UnsafeRawBufferPointer(rebasing: input[taken...])
            guard taken == missing else { return nil }

            // Moved out while it is read, since reading changes other parts of this value.
            var assembled: [UInt8] = []
            swap(&assembled, &carry)
            let packet = try assembled.withUnsafeBufferPointer { bytes throws(DecodeError) in
                let body = UnsafeBufferPointer(rebasing: bytes[header.length...])
                return try read(header, UnsafeRawBufferPointer(body))
            }
            if assembled.capacity <= Self.idleCarryCapacity {
                assembled.removeAll(keepingCapacity: true)
                carry = assembled
            }
            return packet
        }
    }

    /// The fixed header at the start of `bytes`, or nil if its end is missing. What can be judged by the
    /// first byte is judged by it: a peer that speaks something else is found out at once.
    private func fixedHeader(of bytes: UnsafeRawBufferPointer) throws(DecodeError) -> FixedHeader? {
        guard let first = bytes.first else { return nil }
        guard let type = PacketType(rawValue: first >> 4), type != .auth || version == .v5 else {
            throw .reservedPacketType(first >> 4)
        }
        let flags = first & 0x0F
        if let required = type.requiredFlags, flags != required { throw .reservedFlags(type) }
        if type == .publish { try checkPublishFlags(flags) }
        if isAwaitingConnect {
            guard type == .connect else { throw .firstPacketNotConnect(type) }
        } else {
            // A second CONNECT is a Protocol Error [MQTT-3.1.0-2].
            guard type.isReceived(by: role, version: version), type != .connect else {
                throw .unexpectedPacket(type)
            }
        }

        var remainingLength: UInt32 = 0
        var index = 0
        while true {
            guard index + 1 < bytes.count else { return nil }
            let byte = bytes[index + 1]
            remainingLength |= UInt32(byte & 0x7F) << UInt32(7 * index)
            index += 1
            if byte < 0x80 {
                // 3.1.1 doesn't demand the minimal form, and small devices there reserve four bytes.
                if byte == 0, index > 1, version == .v5, !isAwaitingConnect {
                    throw .variableByteIntegerNotMinimal
                }
                break
            }
            if index == 4 { throw .variableByteIntegerTooLong }
        }
        let length = 1 + index
        let packetSize = remainingLength + UInt32(length)
        guard packetSize <= maximumPacketSize else {
            throw .packetTooLarge(size: packetSize, maximum: maximumPacketSize)
        }
        return FixedHeader(type: type, flags: flags, length: length, packetSize: Int(packetSize))
    }

    @inline(__always)
    private var isAwaitingConnect: Bool {
        switch state {
        case .awaitingConnect: true
        case .reading, .failed: false
        }
    }

    @inline(__always)
    private func checkPublishFlags(_ flags: UInt8) throws(DecodeError) {
        // [MQTT-3.3.1-4]
        guard flags & 0b0110 != 0b0110 else { throw .publishQoS3 }
        // [MQTT-3.3.1-2]
        guard flags & 0b1110 != 0b1000 else { throw .duplicateFlagOnQoS0 }
    }

    private mutating func read(
        _ header: FixedHeader, _ body: UnsafeRawBufferPointer
    ) throws(DecodeError) -> ControlPacket {
        var reader = FieldReader(body, of: header.type)
        if header.type == .publish {
            return .publish(
                try reader.publish(flags: header.flags, version: version, role: role, topics: &topics))
        }
        let packet = try reader.packet(version: version, role: role)
        if case .connect(let connect) = packet {
            version = connect.version
            state = .reading
        }
        return packet
    }
}

/// The last Topic Name: peers publish to the same topic again and again, and comparing bytes costs much
/// less than making a String.
struct TopicNameCache: Sendable {
    private var bytes: [UInt8] = []
    private var name = ""

    /// Longer names are not kept, so that a connection stays small.
    private static let greatestLength = 512

    @inline(__always)
    mutating func name(for field: UnsafeRawBufferPointer) throws(DecodeError) -> String {
        if isSame(field) { return name }
        let name = try FieldReader.string(field, in: .publish)
        // [MQTT-3.3.2-2]
        guard !WireFormat.containsWildcard(field) else { throw .wildcardInTopicName }
        // Strings of up to fifteen bytes are stored inline: there is nothing to save.
        if field.count > 15, field.count <= Self.greatestLength {
            bytes.removeAll(keepingCapacity: true)
            bytes.append(contentsOf: field)
            self.name = name
        }
        return name
    }

    @inline(__always)
    private func isSame(_ field: UnsafeRawBufferPointer) -> Bool {
        guard field.count == bytes.count else { return false }
        return bytes.withUnsafeBytes { bytes in
            var index = 0
            while index + 8 <= bytes.count {
                let left = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                let right = field.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                if left != right { return false }
                index += 8
            }
            while index < bytes.count {
                if bytes[index] != field[index] { return false }
                index += 1
            }
            return true
        }
    }
}
