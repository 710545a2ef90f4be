/// A WebSocket after its opening handshake (RFC 6455 §5–§7): bytes in, events and bytes out.
///
/// Pieces of messages are handed on as they arrive: nothing but a header and the 125 bytes of a control
/// frame is ever held back. A compressed message comes in pieces of at most 64 KiB, from one buffer. After a
/// Close was sent, or a failure, what arrives is dropped and nothing more is sent; only the peer's Close
/// still counts.
///
/// It can't be copied, since both directions of permessage-deflate (RFC 7692) live on from message to message.
public struct WebSocketConnection: ~Copyable, Sendable {
    /// How far the connection has come.
    public enum State: Sendable, Hashable {
        case open
        /// We began the closing handshake and await the peer's Close.
        case closeSent(CloseCode, reason: String)
        /// Both Close frames have travelled (§7.1.4), in either order: the stream can be closed. The code
        /// and reason are the peer's.
        case closeReceived(CloseCode, reason: String)
        /// The peer broke a rule or a limit (§7.1.7): the stream must be closed.
        case failed(WebSocketError)
        /// The stream has ended. Clean means after both Close frames (§7.1.4).
        case closed(CloseCode, reason: String, wasClean: Bool)
    }

    public let role: WebSocketRole
    /// Bytes of payload.
    public let maximumFrameSize: UInt64
    /// Bytes of payload over all frames, inflated.
    public let maximumMessageSize: UInt64
    public private(set) var state = State.open

    private let encoder: FrameEncoder
    private var headers = FrameHeaderDecoder()
    private var reading = Reading.header
    private var message: IncomingMessage?
    private var controlPayload: [UInt8] = []
    private var outgoing: OutgoingMessage?

    private let compressedOut: PerMessageDeflate.Messages?
    private let compressedIn: PerMessageDeflate.Messages?
    // Each is made for a message that needs it, and lives until no later one can refer to what it holds.
    private var deflater: Deflater?
    private var inflater: Inflater?
    /// Bytes at the front of the input that belong to a compressed frame and are unmasked already.
    private var unmasked = 0

    /// - Parameters:
    ///   - role: which end we are.
    ///   - maximumFrameSize: bytes of payload in one frame; a header that says more fails the connection.
    ///   - maximumMessageSize: bytes of payload in one message, over all its frames; of a compressed one,
    ///     bytes when inflated, which stops there.
    ///   - deflate: what the opening handshake agreed on; nil for no compression.
    public init(
        role: WebSocketRole, maximumFrameSize: UInt64 = 1 << 24, maximumMessageSize: UInt64 = 1 << 24,
        deflate: PerMessageDeflate.Agreement? = nil
    ) {
        self.role = role
        compressedOut = deflate?.messages(from: role)
        compressedIn = deflate?.messages(from: role.peer)
        self.maximumFrameSize = maximumFrameSize
        self.maximumMessageSize = maximumMessageSize
        encoder = FrameEncoder(role: role)
    }

    /// The next event in `input`, which is moved past what was used; nil once all of it was used.
    ///
    /// Payload is unmasked in place in the server role, so the memory of `input` changes; what is left of it has
    /// to come again, as it then is, with the next call. An event may still come when nothing is left.
    /// - Parameters:
    ///   - input: any bytes, cut anywhere.
    ///   - output: gets Pongs and Close frames.
    ///   - maskingKey: unpredictable keys (§5.3), asked once for each frame sent, in the client role only.
    public mutating func next(
        in input: inout UnsafeMutableRawBufferPointer, output: inout [UInt8], maskingKey: () -> UInt32
    ) -> WebSocketEvent? {
        while true {
            do throws(WebSocketError) {
                let frame: IncomingFrame
                switch reading {
                case .header:
                    guard canReceive else {
                        input = UnsafeMutableRawBufferPointer(start: nil, count: 0)
                        return nil
                    }
                    guard let header = try headers.next(in: &input, rules: rules) else {
                        releaseInflater()
                        return nil
                    }
                    guard let begun = try begin(header) else { continue }
                    frame = begun
                case .data(let begun):
                    frame = begun
                case .control(let opcode, var frame):
                    let piece = frame.take(from: &input, unmasking: true)
                    controlPayload.append(contentsOf: piece)
                    guard frame.remaining == 0 else {
                        reading = .control(opcode, frame)
                        return nil
                    }
                    reading = .header
                    let payload = controlPayload
                    controlPayload = []
                    if let event = try control(opcode, payload, output: &output, maskingKey: maskingKey) {
                        return event
                    }
                    continue
                }
                switch try receive(frame, in: &input) {
                case .event(let event): return event
                case .frameDone: continue
                case .needsMore: return nil
                }
            } catch {
                input = UnsafeMutableRawBufferPointer(start: nil, count: 0)
                return fail(error, output: &output, maskingKey: maskingKey)
            }
        }
    }

    /// Appends a message, or with `endsMessage` false a fragment of one (§5.4), as one frame. Nothing is sent
    /// unless the state is `.open`.
    ///
    /// A message is compressed where that was agreed and it isn't shorter than the threshold; a fragmented one
    /// whatever its length, and each of its fragments so that the peer can read it at once. What doesn't get
    /// shorter by it is sent as it was, unless the window has to be kept in step with the peer's: then it is
    /// a few bytes longer.
    /// - Parameters:
    ///   - kind: the same for all fragments of a message; another one stops the program.
    ///   - payload: of text, UTF-8: it isn't checked, and a peer leaves over anything else.
    ///   - endsMessage: whether nothing of the message follows.
    ///   - isSecret: the message is never compressed, nor its bytes kept in the window, where others that a
    ///     stranger may have chosen would tell by their length what it holds. Of the first fragment.
    ///   - maskingKey: fresh and unpredictable for each frame (§5.3); the server role ignores it.
    ///   - output: gets the frame.
    public mutating func send(
        _ kind: MessageKind, payload: UnsafeRawBufferPointer, endsMessage: Bool = true,
        isSecret: Bool = false,
        maskingKey: UInt32, into output: inout [UInt8]
    ) {
        guard isOpen else { return }
        var opcode = Opcode(kind)
        var isCompressed = false
        if let outgoing {
            precondition(outgoing.kind == kind, "the message under way is of the other kind")
            opcode = .continuation
            isCompressed = outgoing.isCompressed
        } else if let compressedOut, !isSecret {
            isCompressed = compressedOut.includes(count: payload.count, endsMessage: endsMessage)
        }
        outgoing = endsMessage ? nil : OutgoingMessage(kind: kind, isCompressed: isCompressed)
        if isCompressed {
            sendCompressed(opcode, payload, endsMessage: endsMessage, maskingKey: maskingKey, to: &output)
        } else {
            encoder.append(
                opcode, isFinal: endsMessage, payload: payload, maskingKey: maskingKey, to: &output)
        }
    }

    /// Appends a Ping (§5.5.2). Nothing is sent unless the state is `.open`.
    /// - Parameters:
    ///   - payload: at most 125 bytes; further ones are left out.
    ///   - maskingKey: as for a message.
    ///   - output: gets the frame.
    public func sendPing(payload: [UInt8] = [], maskingKey: UInt32, into output: inout [UInt8]) {
        guard isOpen else { return }
        appendControl(.ping, payload.prefix(125), maskingKey: maskingKey, to: &output)
    }

    /// Begins the closing handshake (§7.1.2). Nothing is sent unless the state is `.open`. How long the peer's Close is
    /// waited for is the caller's to decide.
    /// - Parameters:
    ///   - code: one that isn't valid on the wire, such as `.noStatusReceived`, gives an empty Close.
    ///   - reason: cut to the 123 bytes of UTF-8 that fit, at a character.
    ///   - maskingKey: as for a message.
    ///   - output: gets the frame.
    public mutating func close(
        _ code: CloseCode, reason: String = "", maskingKey: UInt32, into output: inout [UInt8]
    ) {
        guard isOpen else { return }
        appendClose(code, reason: reason, maskingKey: maskingKey, to: &output)
        state = .closeSent(code, reason: reason)
    }

    /// The byte stream below has ended: settles how the connection was closed (§7.1.4–§7.1.6).
    public mutating func streamEnded() {
        switch state {
        case .open, .closeSent: state = .closed(.abnormalClosure, reason: "", wasClean: false)
        case .closeReceived(let code, let reason): state = .closed(code, reason: reason, wasClean: true)
        case .failed, .closed: break
        }
    }
}

// MARK: - Receiving

extension WebSocketConnection {
    private enum Reading: Sendable {
        case header
        case data(IncomingFrame)
        case control(Opcode, IncomingFrame)
    }

    private enum Step {
        case event(WebSocketEvent)
        case frameDone
        case needsMore
    }

    private var isOpen: Bool {
        switch state {
        case .open: true
        case .closeSent, .closeReceived, .failed, .closed: false
        }
    }

    private var canReceive: Bool {
        switch state {
        case .open, .closeSent: true
        case .closeReceived, .failed, .closed: false
        }
    }

    private var rules: FrameRules {
        // RSV1 belongs to a message's first frame (RFC 7692 §6); the other bits have no meaning (§5.2).
        FrameRules(
            role: role, isInsideMessage: message != nil,
            allowedReservedBits: compressedIn != nil && message == nil ? 0x40 : 0x00)
    }

    /// - Returns: the frame, when it is of a data message.
    @inline(__always)
    private mutating func begin(_ header: FrameHeader) throws(WebSocketError) -> IncomingFrame? {
        guard header.length <= maximumFrameSize || header.opcode.isControl else {
            throw .frameTooLarge(length: header.length, limit: maximumFrameSize)
        }
        let frame = IncomingFrame(header, role: role)
        switch header.opcode {
        case .close, .ping, .pong:
            reading = .control(header.opcode, frame)
            return nil
        case .text: message = IncomingMessage(.text, isCompressed: header.isCompressed)
        case .binary: message = IncomingMessage(.binary, isCompressed: header.isCompressed)
        case .continuation: break
        }
        let announced = message?.announced ?? 0
        message?.announced = announced &+ header.length
        guard message?.isCompressed == true || header.length <= maximumMessageSize - announced else {
            throw .messageTooLarge(length: header.length, limit: maximumMessageSize)
        }
        return frame
    }

    @inline(__always)
    private mutating func receive(
        _ frame: IncomingFrame, in input: inout UnsafeMutableRawBufferPointer
    ) throws(WebSocketError) -> Step {
        var frame = frame
        let isOpen = isOpen
        if isOpen, message?.isCompressed == true { return try inflate(frame, in: &input) }
        let piece = frame.take(from: &input, unmasking: isOpen)
        reading = frame.remaining == 0 ? .header : .data(frame)
        let endsMessage = frame.isFinal && frame.remaining == 0
        guard isOpen, let kind = message?.kind else {
            if endsMessage { message = nil }
            return frame.remaining == 0 ? .frameDone : .needsMore
        }
        if kind == .text { try message?.receive(piece, endsMessage: endsMessage) }
        if endsMessage { message = nil }
        if !piece.isEmpty || endsMessage { return .event(.payload(kind, piece, endsMessage: endsMessage)) }
        return frame.remaining == 0 ? .frameDone : .needsMore
    }

    // Inlined, it slows the way of what isn't compressed.
    @inline(never)
    private mutating func inflate(
        _ frame: IncomingFrame, in input: inout UnsafeMutableRawBufferPointer
    ) throws(WebSocketError) -> Step {
        guard var message, let compressedIn else { return .frameDone }
        if inflater == nil { inflater = Inflater(compressedIn) }
        var frame = frame
        var compressed = frame.peek(input, unmasked: &unmasked)
        let offered = compressed.count
        let allowed = maximumMessageSize - message.received
        let piece = try inflater!.next(
            in: &compressed, endsMessage: frame.isFinal && frame.remaining == UInt64(offered),
            // Where the message is full, one byte more shows whether it goes on.
            limit: Int(clamping: max(allowed, 1)))
        frame.skip(offered - compressed.count, in: &input)
        unmasked = compressed.count
        guard piece.bytes.count <= allowed else {
            throw .messageTooLarge(length: message.announced, limit: maximumMessageSize)
        }
        try message.receive(piece.bytes, endsMessage: piece.endsMessage)
        reading = frame.remaining == 0 && piece.isDrained ? .header : .data(frame)
        self.message = piece.endsMessage ? nil : message
        if !piece.bytes.isEmpty || piece.endsMessage {
            return .event(.payload(message.kind, piece.bytes, endsMessage: piece.endsMessage))
        }
        return frame.remaining == 0 ? .frameDone : .needsMore
    }

    /// Between two messages there is nothing to be kept where no context is taken over.
    private mutating func releaseInflater() {
        if compressedIn?.noContextTakeover == true, message == nil { inflater = nil }
    }

    private mutating func control(
        _ opcode: Opcode, _ payload: [UInt8], output: inout [UInt8], maskingKey: () -> UInt32
    ) throws(WebSocketError) -> WebSocketEvent? {
        switch opcode {
        case .ping:
            guard isOpen else { return nil }
            appendControl(.pong, payload[...], maskingKey: key(maskingKey), to: &output)
            return .ping(payload)
        case .pong:
            return isOpen ? .pong(payload) : nil
        case .close:
            let (code, reason) = try CloseBody.parse(payload)
            if isOpen { appendClose(code, reason: "", maskingKey: key(maskingKey), to: &output) }
            state = .closeReceived(code, reason: reason)
            return .closeReceived(code, reason: reason)
        case .continuation, .text, .binary:
            return nil
        }
    }

    private mutating func fail(
        _ error: WebSocketError, output: inout [UInt8], maskingKey: () -> UInt32
    ) -> WebSocketEvent {
        if isOpen {
            appendClose(error.closeCode, reason: "", maskingKey: key(maskingKey), to: &output)
        }
        state = .failed(error)
        reading = .header
        message = nil
        controlPayload = []
        return .failed(error)
    }
}

// MARK: - Sending

extension WebSocketConnection {
    /// The message whose fragments are being sent.
    private struct OutgoingMessage: Sendable {
        var kind: MessageKind
        var isCompressed: Bool
    }

    private mutating func sendCompressed(
        _ opcode: Opcode, _ payload: UnsafeRawBufferPointer, endsMessage: Bool, maskingKey: UInt32,
        to output: inout [UInt8]
    ) {
        guard let compressedOut else { return }
        if deflater == nil { deflater = Deflater(compressedOut) }
        let start = output.count
        let isFirst = opcode != .continuation
        var length = 0
        encoder.append(
            opcode, isFinal: endsMessage, isCompressed: isFirst, expecting: payload.count,
            maskingKey: maskingKey, to: &output
        ) { output in
            length = -output.count
            deflater!.append(payload, endsMessage: endsMessage, to: &output)
            length += output.count
        }
        if compressedOut.startsEmpty, endsMessage { deflater = nil }
        // The peer's window holds what we have sent compressed, so only an empty one can be gone back to.
        guard compressedOut.startsEmpty, isFirst, endsMessage, length >= payload.count else { return }
        output.removeLast(output.count - start)
        encoder.append(opcode, payload: payload, maskingKey: maskingKey, to: &output)
    }

    private func key(_ maskingKey: () -> UInt32) -> UInt32 {
        switch role {
        case .client: maskingKey()
        case .server: 0
        }
    }

    private func appendControl(
        _ opcode: Opcode, _ payload: ArraySlice<UInt8>, maskingKey: UInt32, to output: inout [UInt8]
    ) {
        payload.withUnsafeBytes { encoder.append(opcode, payload: $0, maskingKey: maskingKey, to: &output) }
    }

    private func appendClose(
        _ code: CloseCode, reason: String, maskingKey: UInt32, to output: inout [UInt8]
    ) {
        let body = CloseBody.bytes(code, reason: reason)
        appendControl(.close, body[...], maskingKey: maskingKey, to: &output)
    }
}
