internal import CTraversalOpenSSL

/// The keys of SCRAM-SHA-256 and what they sign (RFC 5802 §3, RFC 7677 §3), for both sides.
package struct SCRAMKeys: Sendable {
    package static let method = "SCRAM-SHA-256"
    /// RFC 7677 §4.
    package static let leastIterations = 4096

    private let client: [UInt8]
    private let server: [UInt8]

    /// Takes CPU time in proportion to `iterations`.
    ///
    /// - Parameter password: prepared by SASLprep.
    /// - Returns: nil where OpenSSL refuses, as for a salt or iterations of none.
    package init?(password: [UInt8], salt: [UInt8], iterations: Int) {
        guard let count = Int32(exactly: iterations), count > 0, !salt.isEmpty else { return nil }
        var salted = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        let isMade = password.withUnsafeBytes { bytes in
            PKCS5_PBKDF2_HMAC(
                bytes.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(bytes.count), salt,
                Int32(salt.count), count, EVP_sha256(), Int32(salted.count), &salted)
        }
        guard isMade == 1 else { return nil }
        client = Self.hmac(salted, Array("Client Key".utf8))
        server = Self.hmac(salted, Array("Server Key".utf8))
    }

    /// ClientProof: ClientKey XOR ClientSignature.
    package func clientProof(of authMessage: String) -> [UInt8] {
        zip(client, Self.hmac(Self.sha256(client), Array(authMessage.utf8))).map { $0 ^ $1 }
    }

    package func serverSignature(of authMessage: String) -> [UInt8] {
        Self.hmac(server, Array(authMessage.utf8))
    }

    /// In a time that doesn't tell where they differ.
    package static func isEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        one.count == other.count && CRYPTO_memcmp(one, other, one.count) == 0
    }

    private static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        _ = SHA256(bytes, bytes.count, &digest)
        return digest
    }

    private static func hmac(_ key: [UInt8], _ bytes: [UInt8]) -> [UInt8] {
        var code = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        _ = HMAC(EVP_sha256(), key, Int32(key.count), bytes, bytes.count, &code, nil)
        return code
    }
}
