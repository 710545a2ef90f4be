internal import WebSocketCore

/// The SHA-256 of a certificate's public key, its SubjectPublicKeyInfo (RFC 7469, section 2.4): what stays when a
/// certificate is renewed with the same key.
///
/// ```sh
/// openssl x509 -in ca.pem -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64
/// ```
public struct PublicKeyPin: Sendable, Hashable {
    /// The 32 bytes of the hash.
    public let bytes: [UInt8]

    /// A pin from Base64, as the command above prints it, also with `sha256/` (OkHttp) or `sha256//` (curl) before it.
    ///
    /// - Throws: `ProfileError` for anything but the Base64 of 32 bytes.
    public init(_ text: String) throws(ProfileError) {
        var digits = text[...]
        while let last = digits.last, last.isWhitespace { digits.removeLast() }
        if digits.hasPrefix("sha256/") {
            digits = digits.dropFirst("sha256/".count)
            // The Base64 itself may begin with a slash.
            if digits.utf8.count > Self.digits, digits.hasPrefix("/") { digits = digits.dropFirst() }
        }
        guard let bytes = Base64.decode(digits), bytes.count == Self.length else {
            throw ProfileError(
                "\"\(text)\" is no pin, which is the Base64 of a SHA-256, with sha256/ or without")
        }
        self.bytes = bytes
    }

    /// A pin from the bytes of the hash.
    ///
    /// - Throws: `ProfileError` unless there are 32.
    public init(bytes: [UInt8]) throws(ProfileError) {
        guard bytes.count == Self.length else {
            throw ProfileError("a pin is a SHA-256 of 32 bytes, not of \(bytes.count)")
        }
        self.bytes = bytes
    }

    init(digest: [UInt8]) { bytes = digest }

    private static let length = 32
    private static let digits = 44
}

extension PublicKeyPin: CustomStringConvertible {
    /// `sha256/` and the Base64, which `init(_:)` reads.
    public var description: String { "sha256/\(Base64.encode(bytes))" }
}
