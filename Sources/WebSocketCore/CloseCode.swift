/// The status code of a Close frame (RFC 6455 §7.4).
public struct CloseCode: RawRepresentable, Sendable, Hashable {
    public let rawValue: UInt16

    /// Any number; `isValidOnWire` tells whether it may be sent.
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// 1000: its purpose is fulfilled.
    public static let normalClosure = CloseCode(rawValue: 1000)
    /// 1001: a server goes down, or a page is left.
    public static let goingAway = CloseCode(rawValue: 1001)
    /// 1002: the peer broke the protocol.
    public static let protocolError = CloseCode(rawValue: 1002)
    /// 1003: a kind of data that can't be accepted, such as text.
    public static let unsupportedData = CloseCode(rawValue: 1003)
    /// 1005, local only: the peer's Close had no body.
    public static let noStatusReceived = CloseCode(rawValue: 1005)
    /// 1006, local only: the stream ended without a Close from the peer.
    public static let abnormalClosure = CloseCode(rawValue: 1006)
    /// 1007: data that doesn't fit its kind, such as text that isn't UTF-8.
    public static let invalidPayload = CloseCode(rawValue: 1007)
    /// 1008: against the endpoint's own rules.
    public static let policyViolation = CloseCode(rawValue: 1008)
    /// 1009: too large to be processed.
    public static let messageTooBig = CloseCode(rawValue: 1009)
    /// 1010: a client misses an extension in the server's answer.
    public static let mandatoryExtension = CloseCode(rawValue: 1010)
    /// 1011: something unexpected at the server.
    public static let internalError = CloseCode(rawValue: 1011)
    /// 1012 (IANA registry, WebSocket Close Code Number).
    public static let serviceRestart = CloseCode(rawValue: 1012)
    /// 1013 (the same registry).
    public static let tryAgainLater = CloseCode(rawValue: 1013)
    /// 1014 (the same registry).
    public static let badGateway = CloseCode(rawValue: 1014)
    /// 1015, local only: the TLS handshake failed.
    public static let tlsHandshakeFailed = CloseCode(rawValue: 1015)

    /// Whether a Close frame may carry this code: the registered ones of 1000–1014, and 3000–4999 for
    /// libraries and applications. 1005, 1006 and 1015 never travel (§7.4.1, §7.4.2).
    public var isValidOnWire: Bool {
        switch rawValue {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}

/// The body of a Close frame (RFC 6455 §5.5.1).
enum CloseBody {
    /// - Parameter reason: cut to the 123 bytes that fit, at a character.
    /// - Returns: no bytes for a code that must not travel.
    static func bytes(_ code: CloseCode, reason: String) -> [UInt8] {
        guard code.isValidOnWire else { return [] }
        var body = [UInt8(code.rawValue >> 8), UInt8(code.rawValue & 0xFF)]
        for character in reason.unicodeScalars {
            let bytes = UTF8.encode(character)
            guard let bytes, body.count + bytes.count <= 125 else { break }
            body.append(contentsOf: bytes)
        }
        return body
    }

    /// §5.5.1, §7.1.5, §7.1.6.
    static func parse(_ body: [UInt8]) throws(WebSocketError) -> (CloseCode, reason: String) {
        guard !body.isEmpty else { return (.noStatusReceived, "") }
        guard body.count >= 2 else { throw .closeBodyOfOneByte }
        let code = CloseCode(rawValue: UInt16(body[0]) << 8 | UInt16(body[1]))
        guard code.isValidOnWire else { throw .invalidCloseCode(code.rawValue) }
        guard let reason = String(validating: body[2...], as: UTF8.self) else { throw .closeReasonNotUTF8 }
        return (code, reason)
    }
}
