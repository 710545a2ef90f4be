package enum WebSocketRole: Sendable, Hashable { case client, server }

package enum MessageKind: Sendable, Hashable { case text, binary }

package enum WebSocketEvent {
    /// A piece of a data message, valid until the next call and until the input's memory is reused.
    /// Pieces come while their frame is still arriving; an empty message is one event with no bytes.
    case payload(MessageKind, UnsafeRawBufferPointer, endsMessage: Bool)
    /// The Pong is already in the output.
    case ping([UInt8])
    case pong([UInt8])
    /// The reply, where one is due, is already in the output. `.noStatusReceived` for an empty body.
    case closeReceived(CloseCode, reason: String)
    /// The Close frame that says why is already in the output; nothing else will come.
    case failed(WebSocketError)
}

/// A WebSocket after its opening handshake (RFC 6455 §5–§7): bytes in, events and bytes out.
///
/// Pieces of messages are handed on as they arrive: nothing but a header and the 125 bytes of a control
/// frame is ever held back. After a Close was sent, or a failure, what arrives is dropped and nothing more
/// is sent; only the peer's Close still counts.
package struct WebSocketConnection: Sendable {
    package enum State: Sendable, Hashable {
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

    package let role: WebSocketRole
    package let maximumFrameSize: UInt64
    package let maximumMessageSize: UInt64
    package private(set) var state = State.open

    private let encoder: FrameEncoder
    private var headers = FrameHeaderDecoder()
    private var reading = Reading.header
    private var message: Message?
    private var controlPayload: [UInt8] = []

    /// - Parameters:
    ///   - maximumFrameSize: bytes of payload in one frame; a header that says more fails the connection.
    ///   - maximumMessageSize: bytes of payload in one message, over all its frames.
    package init(role: WebSocketRole, maximumFrameSize: UInt64, maximumMessageSize: UInt64) {
        self.role = role
        self.maximumFrameSize = maximumFrameSize
        self.maximumMessageSize = maximumMessageSize
        encoder = FrameEncoder(role: role)
    }

    /// The next event in `input`, which is moved past what was used; nil once all of it was used.
    ///
    /// Payload is unmasked in place in the server role, so the memory of `input` changes.
    /// - Parameters:
    ///   - output: gets Pongs and Close frames.
    ///   - maskingKey: unpredictable keys (§5.3), asked once for each frame sent, in the client role only.
    package mutating func next(
        in input: inout UnsafeMutableRawBufferPointer, output: inout [UInt8], maskingKey: () -> UInt32
    ) -> WebSocketEvent? {
        while true {
            do throws(WebSocketError) {
                switch reading {
                case .header:
                    guard canReceive else {
                        input = UnsafeMutableRawBufferPointer(start: nil, count: 0)
                        return nil
                    }
                    guard let header = try headers.next(in: &input, rules: rules) else { return nil }
                    try begin(header)
                case .data(var frame):
                    let step = try receive(&frame, in: &input)
                    reading = frame.remaining == 0 ? .header : .data(frame)
                    switch step {
                    case .event(let event): return event
                    case .frameDone: continue
                    case .needsMore: return nil
                    }
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
                }
            } catch {
                input = UnsafeMutableRawBufferPointer(start: nil, count: 0)
                return fail(error, output: &output, maskingKey: maskingKey)
            }
        }
    }

    /// Appends one unfragmented message. Nothing is sent unless the state is `.open`.
    /// - Parameter maskingKey: fresh and unpredictable for each frame (§5.3); the server role ignores it.
    package func send(
        _ kind: MessageKind, payload: UnsafeRawBufferPointer, maskingKey: UInt32, into output: inout [UInt8]
    ) {
        guard isOpen else { return }
        switch kind {
        case .text: encoder.append(.text, payload: payload, maskingKey: maskingKey, to: &output)
        case .binary: encoder.append(.binary, payload: payload, maskingKey: maskingKey, to: &output)
        }
    }

    /// Appends a Ping (§5.5.2). Nothing is sent unless the state is `.open`.
    /// - Parameter payload: at most 125 bytes; further ones are left out.
    package func sendPing(payload: [UInt8] = [], maskingKey: UInt32, into output: inout [UInt8]) {
        guard isOpen else { return }
        appendControl(.ping, payload.prefix(125), maskingKey: maskingKey, to: &output)
    }

    /// Begins the closing handshake (§7.1.2). Nothing is sent unless the state is `.open`.
    /// - Parameters:
    ///   - code: one that isn't valid on the wire, such as `.noStatusReceived`, gives an empty Close.
    ///   - reason: cut to the 123 bytes of UTF-8 that fit, at a character.
    package mutating func close(
        _ code: CloseCode, reason: String = "", maskingKey: UInt32, into output: inout [UInt8]
    ) {
        guard isOpen else { return }
        appendClose(code, reason: reason, maskingKey: maskingKey, to: &output)
        state = .closeSent(code, reason: reason)
    }

    /// The byte stream below has ended: settles how the connection was closed (§7.1.4–§7.1.6).
    package mutating func streamEnded() {
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

    /// A frame whose header is known.
    private struct IncomingFrame: Sendable {
        var isFinal: Bool
        var isMasked: Bool
        var remaining: UInt64
        var key: MaskingKey

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
    }

    /// The message whose frames are arriving.
    private struct Message: Sendable {
        let kind: MessageKind
        /// Payload of the frames whose headers have arrived; never above the limit.
        var announced: UInt64 = 0
        var received: UInt64 = 0
        var text = UTF8Validator()
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
        // No extension is negotiated, so no RSV bit has a meaning (§5.2).
        FrameRules(role: role, isInsideMessage: message != nil, allowedReservedBits: 0)
    }

    private mutating func begin(_ header: FrameHeader) throws(WebSocketError) {
        guard header.length <= maximumFrameSize || header.opcode.isControl else {
            throw .frameTooLarge(length: header.length, limit: maximumFrameSize)
        }
        let frame = IncomingFrame(
            isFinal: header.isFinal, isMasked: role == .server, remaining: header.length,
            key: MaskingKey(header.maskingKey))
        switch header.opcode {
        case .close, .ping, .pong:
            reading = .control(header.opcode, frame)
            return
        case .text: message = Message(kind: .text)
        case .binary: message = Message(kind: .binary)
        case .continuation: break
        }
        let announced = message?.announced ?? 0
        guard header.length <= maximumMessageSize - announced else {
            throw .messageTooLarge(length: header.length, limit: maximumMessageSize)
        }
        message?.announced = announced + header.length
        reading = .data(frame)
    }

    private mutating func receive(
        _ frame: inout IncomingFrame, in input: inout UnsafeMutableRawBufferPointer
    ) throws(WebSocketError) -> Step {
        let isOpen = isOpen
        let piece = frame.take(from: &input, unmasking: isOpen)
        let endsMessage = frame.isFinal && frame.remaining == 0
        guard isOpen, let kind = message?.kind else {
            if endsMessage { message = nil }
            return frame.remaining == 0 ? .frameDone : .needsMore
        }
        if kind == .text { try checkText(piece, endsMessage: endsMessage) }
        if endsMessage { message = nil }
        if !piece.isEmpty || endsMessage { return .event(.payload(kind, piece, endsMessage: endsMessage)) }
        return frame.remaining == 0 ? .frameDone : .needsMore
    }

    /// §8.1, at the first byte that breaks it.
    private mutating func checkText(
        _ piece: UnsafeRawBufferPointer, endsMessage: Bool
    ) throws(WebSocketError) {
        let before = message?.received ?? 0
        if let index = message?.text.firstInvalid(in: piece) {
            throw .textNotUTF8(offset: before + UInt64(index))
        }
        message?.received = before + UInt64(piece.count)
        if endsMessage, message?.text.isComplete == false {
            throw .textNotUTF8(offset: before + UInt64(piece.count))
        }
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
            let (code, reason) = try Self.closeBody(payload)
            if isOpen { appendClose(code, reason: "", maskingKey: key(maskingKey), to: &output) }
            state = .closeReceived(code, reason: reason)
            return .closeReceived(code, reason: reason)
        case .continuation, .text, .binary:
            return nil
        }
    }

    /// §5.5.1, §7.1.5, §7.1.6.
    private static func closeBody(
        _ payload: [UInt8]
    ) throws(WebSocketError) -> (CloseCode, reason: String) {
        guard !payload.isEmpty else { return (.noStatusReceived, "") }
        guard payload.count >= 2 else { throw .closeBodyOfOneByte }
        let code = CloseCode(rawValue: UInt16(payload[0]) << 8 | UInt16(payload[1]))
        guard code.isValidOnWire else { throw .invalidCloseCode(code.rawValue) }
        guard let reason = String(validating: payload[2...], as: UTF8.self) else { throw .closeReasonNotUTF8 }
        return (code, reason)
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
        var body: [UInt8] = []
        if code.isValidOnWire {
            body = [UInt8(code.rawValue >> 8), UInt8(code.rawValue & 0xFF)]
            for character in reason.unicodeScalars {
                let bytes = UTF8.encode(character)
                guard let bytes, body.count + bytes.count <= 125 else { break }
                body.append(contentsOf: bytes)
            }
        }
        appendControl(.close, body[...], maskingKey: maskingKey, to: &output)
    }
}
