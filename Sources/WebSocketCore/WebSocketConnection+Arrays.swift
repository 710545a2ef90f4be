// For who holds bytes in arrays: the same machines, without pointers.

extension OpeningHandshake.Client {
    /// Takes what has arrived; see `receive(_:)` for pointers.
    ///
    /// - Parameter input: what was used is removed; on success the bytes that belong to the frames are left.
    /// - Returns: nil when more is needed.
    /// - Throws: `HandshakeError`: the rule of §4.1 that the response breaks.
    public mutating func receive(_ input: inout [UInt8]) throws(HandshakeError) -> Accepted? {
        try input.consume { bytes throws(HandshakeError) in try receive(&bytes) }
    }
}

extension OpeningHandshake.Server {
    /// Takes what has arrived; see `receive(_:)` for pointers.
    ///
    /// - Parameter input: what was used is removed; on success the bytes that belong to the frames are left.
    /// - Returns: nil when more is needed.
    /// - Throws: the rule of §4.2.1 that is broken; `reject(_:)` gives the answer to send.
    public mutating func receive(
        _ input: inout [UInt8]
    ) throws(HandshakeError) -> OpeningHandshake.ServerRequest? {
        try input.consume { bytes throws(HandshakeError) in try receive(&bytes) }
    }
}

extension WebSocketConnection {
    /// Takes what has arrived, and hands on each event in it.
    ///
    /// - Parameters:
    ///   - input: any bytes, cut anywhere.
    ///   - output: gets Pongs and Close frames, to be sent.
    ///   - maskingKey: unpredictable (§5.3); evaluated anew for each frame sent, in the client role only.
    ///   - event: a payload's bytes are valid during the call only.
    public mutating func receive(
        _ input: [UInt8], output: inout [UInt8], maskingKey: @autoclosure () -> UInt32,
        event: (WebSocketEvent) -> Void
    ) {
        var input = input
        input.withUnsafeMutableBytes { bytes in
            var rest = bytes
            while let next = next(in: &rest, output: &output, maskingKey: maskingKey) { event(next) }
        }
    }

    /// Appends a binary message; see `send(_:payload:endsMessage:isSecret:maskingKey:into:)`.
    public mutating func send(_ payload: [UInt8], maskingKey: UInt32, into output: inout [UInt8]) {
        payload.withUnsafeBytes { send(.binary, payload: $0, maskingKey: maskingKey, into: &output) }
    }

    /// Appends a text message; see `send(_:payload:endsMessage:isSecret:maskingKey:into:)`.
    public mutating func send(_ text: String, maskingKey: UInt32, into output: inout [UInt8]) {
        var text = text
        text.withUTF8 {
            send(.text, payload: UnsafeRawBufferPointer($0), maskingKey: maskingKey, into: &output)
        }
    }
}

extension [UInt8] {
    /// Removes what `body` has moved its argument past.
    fileprivate mutating func consume<Value>(
        _ body: (inout UnsafeRawBufferPointer) throws(HandshakeError) -> Value
    ) throws(HandshakeError) -> Value {
        let (result, used) = withUnsafeBytes { bytes -> (Result<Value, HandshakeError>, Int) in
            var rest = bytes
            let result = Result { () throws(HandshakeError) in try body(&rest) }
            return (result, bytes.count - rest.count)
        }
        removeFirst(used)
        return try result.get()
    }
}
