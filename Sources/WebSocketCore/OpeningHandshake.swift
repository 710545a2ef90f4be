internal import CTraversalOpenSSL

/// The opening handshake (RFC 6455 §4): `Client` and `Server`.
package enum OpeningHandshake {
    static let version = "13"

    /// Sec-WebSocket-Accept for a Sec-WebSocket-Key (§4.2.2, step 5.4).
    static func acceptValue(forKey key: String) -> String {
        let input = Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)
        var digest = [UInt8](repeating: 0, count: Int(SHA_DIGEST_LENGTH))
        _ = SHA1(input, input.count, &digest)
        return base64(digest)
    }

    /// What is offered or agreed to in Sec-WebSocket-Extensions (§9.1).
    static func extensions(of head: HTTPHead) throws(HandshakeError) -> [ExtensionHeader.Element] {
        do throws(ExtensionHeader.Malformed) {
            return try ExtensionHeader.parse(head.values("Sec-WebSocket-Extensions"))
        } catch {
            throw .extensionInvalid(error.reason)
        }
    }

    /// RFC 4648 §4, padded.
    static func base64(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let bits = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << (8 * UInt32(3 - group.count))
            for position in 0..<4 {
                let digit = Int(bits >> UInt32(18 - 6 * position)) & 0x3F
                text.append(position <= group.count ? alphabet[digit] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Whether the text is 16 bytes in Base64, as a Sec-WebSocket-Key must be (§4.2.1).
    static func isKey(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        return bytes.count == 24 && bytes[22...].elementsEqual("==".utf8)
            && bytes[..<22].allSatisfy(alphabet.contains)
    }

    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
}
