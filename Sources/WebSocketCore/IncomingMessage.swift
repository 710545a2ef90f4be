/// A frame whose header is known.
struct IncomingFrame: Sendable {
    let isFinal: Bool
    private(set) var remaining: UInt64
    private let isMasked: Bool
    private var key: MaskingKey

    init(_ header: FrameHeader, role: WebSocketRole) {
        isFinal = header.isFinal
        remaining = header.length
        isMasked = role == .server
        key = MaskingKey(header.maskingKey)
    }

    /// The part of `input` that belongs to the frame, which is moved past it.
    mutating func take(
        from input: inout UnsafeMutableRawBufferPointer, unmasking: Bool
    ) -> UnsafeRawBufferPointer {
        let count = remaining < UInt64(input.count) ? Int(remaining) : input.count
        let piece = UnsafeMutableRawBufferPointer(rebasing: input[..<count])
        input = UnsafeMutableRawBufferPointer(rebasing: input[count...])
        remaining -= UInt64(count)
        if isMasked, unmasking { key.apply(to: piece) }
        return UnsafeRawBufferPointer(piece)
    }

    /// The part of `input` that belongs to the frame; `skip` moves past what was used of it.
    /// - Parameter unmasked: bytes at its front that are unmasked already; all of them are after the call.
    mutating func peek(
        _ input: UnsafeMutableRawBufferPointer, unmasked: inout Int
    ) -> UnsafeRawBufferPointer {
        let count = remaining < UInt64(input.count) ? Int(remaining) : input.count
        if isMasked, unmasked < count {
            key.apply(to: UnsafeMutableRawBufferPointer(rebasing: input[unmasked..<count]))
        }
        unmasked = count
        return UnsafeRawBufferPointer(rebasing: input[..<count])
    }

    mutating func skip(_ count: Int, in input: inout UnsafeMutableRawBufferPointer) {
        input = UnsafeMutableRawBufferPointer(rebasing: input[count...])
        remaining -= UInt64(count)
    }
}

/// The message whose frames are arriving.
struct IncomingMessage: Sendable {
    let kind: MessageKind
    let isCompressed: Bool
    /// Payload of the frames whose headers have arrived; never above the limit, unless it is compressed.
    var announced: UInt64 = 0
    /// Counted for text and for what is inflated.
    private(set) var received: UInt64 = 0
    private var text = UTF8Validator()

    init(_ kind: MessageKind, isCompressed: Bool) {
        self.kind = kind
        self.isCompressed = isCompressed
    }

    mutating func receive(_ piece: UnsafeRawBufferPointer, endsMessage: Bool) throws(WebSocketError) {
        switch kind {
        case .text: try check(piece, endsMessage: endsMessage)
        case .binary: received += UInt64(piece.count)
        }
    }

    /// §8.1, at the first byte that breaks it.
    private mutating func check(_ piece: UnsafeRawBufferPointer, endsMessage: Bool) throws(WebSocketError) {
        if let index = text.firstInvalid(in: piece) { throw .textNotUTF8(offset: received + UInt64(index)) }
        received += UInt64(piece.count)
        if endsMessage, !text.isComplete { throw .textNotUTF8(offset: received) }
    }
}
