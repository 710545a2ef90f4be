/// The opcodes of RFC 6455 §5.2 that have a meaning.
enum Opcode: UInt8, Sendable {
    case continuation = 0x0
    case text = 0x1
    case binary = 0x2
    case close = 0x8
    case ping = 0x9
    case pong = 0xA

    var isControl: Bool { rawValue & 0x8 != 0 }
}

/// A frame's header, all rules of RFC 6455 §5.2 checked.
struct FrameHeader: Sendable {
    var isFinal: Bool
    var opcode: Opcode
    var length: UInt64
    /// Zero when the frame isn't masked.
    var maskingKey: UInt32
}

/// What the state of the connection allows the next header to be.
struct FrameRules: Sendable {
    /// The role of the one who receives.
    var role: WebSocketRole
    /// Whether a fragmented message awaits its continuation.
    var isInsideMessage: Bool
    /// The RSV bits that a negotiated extension has given a meaning, in place (0x40, 0x20, 0x10).
    var allowedReservedBits: UInt8
}

/// Collects a header that may arrive in pieces. Each rule is checked with the first byte that can break it.
struct FrameHeaderDecoder: Sendable {
    /// The longest header: 2 bytes, a 64-bit length, a masking key.
    private var partial = InlineArray<14, UInt8>(repeating: 0)
    private var partialCount = 0

    /// - Returns: nil when all of `input` was used and the header isn't complete.
    mutating func next(
        in input: inout UnsafeMutableRawBufferPointer, rules: FrameRules
    ) throws(WebSocketError) -> FrameHeader? {
        if partialCount == 0 {
            var used = 0
            let whole = UnsafeRawBufferPointer(input)
            if let header = try Self.parse(
                whole.count, rules: rules, used: &used, byte: { whole[$0] })
            {
                input = UnsafeMutableRawBufferPointer(rebasing: input[used...])
                return header
            }
        }
        while let byte = input.first {
            input = UnsafeMutableRawBufferPointer(rebasing: input.dropFirst())
            partial[partialCount] = byte
            partialCount += 1
            var used = 0
            let bytes = partial
            if let header = try Self.parse(partialCount, rules: rules, used: &used, byte: { bytes[$0] }) {
                partialCount = 0
                return header
            }
        }
        return nil
    }

    @inline(__always)
    private static func parse(
        _ count: Int, rules: FrameRules, used: inout Int, byte: (Int) -> UInt8
    ) throws(WebSocketError) -> FrameHeader? {
        guard count >= 1 else { return nil }
        let first = byte(0)
        let isFinal = first & 0x80 != 0
        guard first & 0x70 & ~rules.allowedReservedBits == 0 else {
            throw .reservedBits(firstByte: first)
        }
        guard let opcode = Opcode(rawValue: first & 0x0F) else { throw .reservedOpcode(first & 0x0F) }
        switch opcode {
        case .continuation:
            guard rules.isInsideMessage else { throw .continuationWithoutStart }
        case .text, .binary:
            guard !rules.isInsideMessage else { throw .messageInsideMessage }
        case .close, .ping, .pong:
            // An extension's bits concern data frames only (RFC 7692 §6).
            guard first & 0x70 == 0 else { throw .reservedBits(firstByte: first) }
            guard isFinal else { throw .fragmentedControlFrame }
        }

        guard count >= 2 else { return nil }
        let second = byte(1)
        let isMasked = second & 0x80 != 0
        switch rules.role {
        case .client: if isMasked { throw .maskedFrameFromServer }
        case .server: if !isMasked { throw .unmaskedFrameFromClient }
        }
        var length = UInt64(second & 0x7F)
        if opcode.isControl, length > 125 { throw .controlFrameTooLong }

        var end = 2
        if length == 126 {
            end = 4
            guard count >= end else { return nil }
            length = UInt64(byte(2)) << 8 | UInt64(byte(3))
            guard length > 125 else { throw .lengthNotMinimal(length) }
        } else if length == 127 {
            end = 10
            guard count >= end else { return nil }
            length = 0
            for index in 2..<10 { length = length << 8 | UInt64(byte(index)) }
            guard length >> 63 == 0 else { throw .lengthTopBitSet(length) }
            guard length > 0xFFFF else { throw .lengthNotMinimal(length) }
        }

        var key: UInt32 = 0
        if isMasked {
            guard count >= end + 4 else { return nil }
            for index in end..<end + 4 { key = key << 8 | UInt32(byte(index)) }
            end += 4
        }
        used = end
        return FrameHeader(isFinal: isFinal, opcode: opcode, length: length, maskingKey: key)
    }
}

/// Writes whole frames (RFC 6455 §5.2), in the shortest form of their length.
struct FrameEncoder: Sendable {
    var role: WebSocketRole

    /// - Parameter maskingKey: used by the client role only; first wire byte most significant.
    @inline(__always)
    func append(
        _ opcode: Opcode, payload: UnsafeRawBufferPointer, maskingKey: UInt32, to output: inout [UInt8]
    ) {
        let count = payload.count
        let mask: UInt8 =
            switch role {
            case .client: 0x80
            case .server: 0x00
            }
        withUnsafeTemporaryAllocation(byteCount: 14, alignment: 1) { header in
            header[0] = 0x80 | opcode.rawValue
            var end = 2
            if count <= 125 {
                header[1] = mask | UInt8(count)
            } else if count <= 0xFFFF {
                header[1] = mask | 126
                header.storeBytes(of: UInt16(count).bigEndian, toByteOffset: 2, as: UInt16.self)
                end = 4
            } else {
                header[1] = mask | 127
                header.storeBytes(of: UInt64(count).bigEndian, toByteOffset: 2, as: UInt64.self)
                end = 10
            }
            if mask != 0 {
                header.storeBytes(of: maskingKey.bigEndian, toByteOffset: end, as: UInt32.self)
                end += 4
            }
            output.append(contentsOf: UnsafeRawBufferPointer(rebasing: header[..<end]))
        }
        let start = output.count
        output.append(contentsOf: payload)
        if mask != 0, count > 0 {
            var key = MaskingKey(maskingKey)
            output.withUnsafeMutableBytes {
                key.apply(to: UnsafeMutableRawBufferPointer(rebasing: $0[start...]))
            }
        }
    }
}
