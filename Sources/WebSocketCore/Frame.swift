/// The opcodes of RFC 6455 §5.2 that have a meaning.
enum Opcode: UInt8, Sendable {
    case continuation = 0x0
    case text = 0x1
    case binary = 0x2
    case close = 0x8
    case ping = 0x9
    case pong = 0xA

    var isControl: Bool { rawValue & 0x8 != 0 }

    init(_ kind: MessageKind) {
        self =
            switch kind {
            case .text: .text
            case .binary: .binary
            }
    }
}

/// A frame's header, all rules of RFC 6455 §5.2 checked.
struct FrameHeader: Sendable {
    var isFinal: Bool
    var opcode: Opcode
    var length: UInt64
    /// RSV1, which says so of a message that it begins (RFC 7692 §6).
    var isCompressed: Bool
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
        return FrameHeader(
            isFinal: isFinal, opcode: opcode, length: length, isCompressed: first & 0x40 != 0, maskingKey: key
        )
    }
}

/// Writes whole frames (RFC 6455 §5.2), in the shortest form of their length.
struct FrameEncoder: Sendable {
    var role: WebSocketRole

    /// - Parameter maskingKey: used by the client role only; first wire byte most significant.
    @inline(__always)
    func append(
        _ opcode: Opcode, isFinal: Bool = true, payload: UnsafeRawBufferPointer, maskingKey: UInt32,
        to output: inout [UInt8]
    ) {
        let first = (isFinal ? 0x80 : 0x00) | opcode.rawValue
        withUnsafeTemporaryAllocation(byteCount: 14, alignment: 1) { header in
            let end = write(first, length: payload.count, maskingKey, to: header)
            output.append(contentsOf: UnsafeRawBufferPointer(rebasing: header[..<end]))
        }
        let start = output.count
        output.append(contentsOf: payload)
        mask(from: start, maskingKey, in: &output)
    }

    /// - Parameters:
    ///   - isCompressed: RSV1.
    ///   - expected: bytes of the payload; another number costs a move of them.
    ///   - appendPayload: appends the payload to the output.
    func append(
        _ opcode: Opcode, isFinal: Bool, isCompressed: Bool, expecting expected: Int, maskingKey: UInt32,
        to output: inout [UInt8], _ appendPayload: (inout [UInt8]) -> Void
    ) {
        let start = output.count
        let reserved = headerLength(expected)
        output.append(contentsOf: repeatElement(0, count: reserved))
        appendPayload(&output)
        let length = output.count - start - reserved
        let end = headerLength(length)
        if end < reserved {
            output.removeSubrange(start + end..<start + reserved)
        } else if end > reserved {
            output.insert(contentsOf: repeatElement(0, count: end - reserved), at: start)
        }
        let first = (isFinal ? 0x80 : 0x00) | (isCompressed ? 0x40 : 0x00) | opcode.rawValue
        output.withUnsafeMutableBytes {
            _ = write(
                first, length: length, maskingKey, to: UnsafeMutableRawBufferPointer(rebasing: $0[start...]))
        }
        mask(from: start + end, maskingKey, in: &output)
    }

    private var isMasking: Bool {
        switch role {
        case .client: true
        case .server: false
        }
    }

    private func headerLength(_ length: Int) -> Int {
        (length <= 125 ? 2 : length <= 0xFFFF ? 4 : 10) + (isMasking ? 4 : 0)
    }

    /// - Returns: the header's length.
    @inline(__always)
    private func write(
        _ first: UInt8, length: Int, _ maskingKey: UInt32, to header: UnsafeMutableRawBufferPointer
    ) -> Int {
        let mask: UInt8 = isMasking ? 0x80 : 0x00
        header[0] = first
        var end = 2
        if length <= 125 {
            header[1] = mask | UInt8(length)
        } else if length <= 0xFFFF {
            header[1] = mask | 126
            header.storeBytes(of: UInt16(length).bigEndian, toByteOffset: 2, as: UInt16.self)
            end = 4
        } else {
            header[1] = mask | 127
            header.storeBytes(of: UInt64(length).bigEndian, toByteOffset: 2, as: UInt64.self)
            end = 10
        }
        if isMasking {
            header.storeBytes(of: maskingKey.bigEndian, toByteOffset: end, as: UInt32.self)
            end += 4
        }
        return end
    }

    @inline(__always)
    private func mask(from start: Int, _ maskingKey: UInt32, in output: inout [UInt8]) {
        guard isMasking, start < output.count else { return }
        var key = MaskingKey(maskingKey)
        output.withUnsafeMutableBytes {
            key.apply(to: UnsafeMutableRawBufferPointer(rebasing: $0[start...]))
        }
    }
}
