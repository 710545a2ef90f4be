internal import CTraversalOpenSSL

/// The opening handshake (RFC 6455 §4): `Client` and `Server`.
public enum OpeningHandshake {
    static let version = "13"

    /// Bytes of the other side's head, its end included, unless told otherwise.
    public static let defaultHeadLimit = 65_536

    /// Sec-WebSocket-Accept for a Sec-WebSocket-Key (§4.2.2, step 5.4).
    static func acceptValue(forKey key: String) -> String {
        let input = Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)
        var digest = [UInt8](repeating: 0, count: Int(SHA_DIGEST_LENGTH))
        _ = SHA1(input, input.count, &digest)
        return Base64.encode(digest)
    }

    /// What is offered or agreed to in Sec-WebSocket-Extensions (§9.1).
    static func extensions(of head: HTTPHead) throws(HandshakeError) -> [ExtensionHeader.Element] {
        do throws(ExtensionHeader.Malformed) {
            return try ExtensionHeader.parse(head.values("Sec-WebSocket-Extensions"))
        } catch {
            throw .extensionInvalid(error.reason)
        }
    }

    /// Whether the text is 16 bytes in Base64, as a Sec-WebSocket-Key must be (§4.2.1).
    static func isKey(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        return bytes.count == 24 && bytes[22...].elementsEqual("==".utf8)
            && bytes[..<22].allSatisfy(Base64.alphabet.contains)
    }

    /// Whether the text is one origin, `scheme://host` and perhaps `:port`, or `null` (RFC 6454 §7.1).
    package static func isOrigin(_ text: String) -> Bool {
        if text == "null" { return true }
        guard let separator = text.firstRange(of: "://") else { return false }
        let scheme = text[..<separator.lowerBound].utf8
        guard let first = scheme.first, first.isASCIILetter,
            scheme.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || "+-.".utf8.contains($0) })
        else { return false }
        var host = text[separator.upperBound...].utf8
        // RFC 3986 §3.2.2: a colon inside brackets is the address's own.
        if let colon = host.lastIndex(of: UInt8(ascii: ":")),
            host[colon...].dropFirst().allSatisfy(\.isASCIIDigit)
        {
            guard let port = UInt16(String(Substring(host[colon...].dropFirst()))), port > 0 else {
                return false
            }
            host = host[..<colon]
        }
        if host.first == UInt8(ascii: "[") {
            return host.last == UInt8(ascii: "]") && host.count > 2
                && host.dropFirst().dropLast().allSatisfy {
                    $0.isASCIIDigit || $0.isASCIILetter || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".")
                }
        }
        return !host.isEmpty
            && host.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "-._~%!$&'()*+,;=".utf8.contains($0) }
    }
}

extension UInt8 {
    fileprivate var isASCIIDigit: Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= self }

    fileprivate var isASCIILetter: Bool { UInt8(ascii: "a")...UInt8(ascii: "z") ~= self | 0x20 }
}
