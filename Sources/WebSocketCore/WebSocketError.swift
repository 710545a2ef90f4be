/// A broken rule of RFC 6455 §5, or one of our limits: the connection is failed (§7.1.7).
public enum WebSocketError: Error, Sendable, Hashable {
    /// RSV1, RSV2 or RSV3 without an extension that gives it a meaning (§5.2). The frame's first byte.
    case reservedBits(firstByte: UInt8)
    /// Opcodes 3–7 and 11–15 (§5.2).
    case reservedOpcode(UInt8)
    /// A control frame without FIN (§5.5).
    case fragmentedControlFrame
    /// A control frame of more than 125 bytes (§5.5).
    case controlFrameTooLong
    /// A client must not accept masked frames (§5.1).
    case maskedFrameFromServer
    /// A server must not accept unmasked frames (§5.1).
    case unmaskedFrameFromClient
    /// A length that a shorter form could have said (§5.2).
    case lengthNotMinimal(UInt64)
    /// A 64-bit length with its top bit set (§5.2).
    case lengthTopBitSet(UInt64)
    /// A continuation frame with no message to continue (§5.4).
    case continuationWithoutStart
    /// A new text or binary frame before the previous message ended (§5.4).
    case messageInsideMessage
    /// A Close body of one byte can't hold a status code (§5.5.1).
    case closeBodyOfOneByte
    /// A status code that must not travel (§7.4).
    case invalidCloseCode(UInt16)
    /// The reason of a Close isn't UTF-8 (§5.5.1).
    case closeReasonNotUTF8
    /// A text message isn't UTF-8 (§8.1); bytes of the message before the first bad one (or before its
    /// end, when it ends inside a character).
    case textNotUTF8(offset: UInt64)
    /// A compressed message isn't a whole number of DEFLATE blocks (RFC 7692 §7.2.2); what is wrong, in words.
    case compressedDataInvalid(String)
    /// The header announces more payload than `limit` bytes.
    case frameTooLarge(length: UInt64, limit: UInt64)
    /// With this frame the message would have more than `limit` bytes; `length` is of this frame. A compressed
    /// message inflates to more than `limit` bytes; `length` is of its frames so far, and what comes before
    /// the limit was handed on.
    case messageTooLarge(length: UInt64, limit: UInt64)

    /// What the Close frame that fails the connection says (§7.4.1).
    public var closeCode: CloseCode {
        switch self {
        case .reservedBits, .reservedOpcode, .fragmentedControlFrame, .controlFrameTooLong,
            .maskedFrameFromServer, .unmaskedFrameFromClient, .lengthNotMinimal, .lengthTopBitSet,
            .continuationWithoutStart, .messageInsideMessage, .closeBodyOfOneByte, .invalidCloseCode:
            .protocolError
        case .closeReasonNotUTF8, .textNotUTF8, .compressedDataInvalid: .invalidPayload
        case .frameTooLarge, .messageTooLarge: .messageTooBig
        }
    }
}
