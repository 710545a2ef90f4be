/// Which end of the connection: a client masks what it sends, a server doesn't (RFC 6455 §5.1).
public enum WebSocketRole: Sendable, Hashable {
    case client, server

    var peer: WebSocketRole {
        switch self {
        case .client: .server
        case .server: .client
        }
    }
}

/// What a data message holds (RFC 6455 §5.6): UTF-8, or any bytes.
public enum MessageKind: Sendable, Hashable { case text, binary }

/// What a connection has found in its input.
public enum WebSocketEvent {
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
