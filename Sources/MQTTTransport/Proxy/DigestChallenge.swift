internal import CTraversalOpenSSL
package import WebSocketCore

/// A challenge of the Digest scheme and the answer to it (RFC 7616).
package struct DigestChallenge: Sendable, Hashable {
    /// In the order of their strength.
    private enum Algorithm: Int, Sendable {
        case md5
        case sha256
        // swift-format-ignore: AlwaysUseLowerCamelCase
        case sha512_256
    }

    /// Whether only the nonce was too old (section 3.3): the same credentials will do.
    package let isStale: Bool
    private let realm: String
    private let nonce: String
    private let opaque: String?
    private let algorithm: Algorithm
    /// As it came, to be said again; MD5 where nothing came.
    private let algorithmName: String?
    /// Whether the key holds for the nonce (section 3.4.2: `-sess`).
    private let isSession: Bool
    /// RFC 2069 had no `qop`.
    private let hasQuality: Bool
    private let hashesUserName: Bool
    private let isUTF8: Bool

    /// Nil for a challenge that can't be answered: of another scheme, incomplete, or with an algorithm or a quality
    /// of protection that isn't known here.
    package init?(_ challenge: HTTPChallenge) {
        guard challenge.isScheme("Digest"), let realm = challenge["realm"], let nonce = challenge["nonce"]
        else {
            return nil
        }
        algorithmName = challenge["algorithm"]
        var name = (algorithmName ?? "MD5").uppercased()
        isSession = name.hasSuffix("-SESS")
        if isSession { name.removeLast("-SESS".count) }
        switch name {
        case "MD5": algorithm = .md5
        case "SHA-256": algorithm = .sha256
        case "SHA-512-256": algorithm = .sha512_256
        default: return nil
        }
        let qualities = challenge["qop"]?.split { $0 == "," || $0 == " " }.map { $0.lowercased() }
        guard qualities?.contains("auth") != false else { return nil }
        hasQuality = qualities != nil
        self.realm = realm
        self.nonce = nonce
        opaque = challenge["opaque"]
        isStale = challenge["stale"]?.lowercased() == "true"
        hashesUserName = challenge["userhash"]?.lowercased() == "true"
        isUTF8 = challenge["charset"]?.lowercased() == "utf-8"
    }

    package func isWeaker(than other: DigestChallenge) -> Bool {
        algorithm.rawValue < other.algorithm.rawValue
    }

    /// Whether OpenSSL has the algorithm here and allows it: MD5 isn't there under FIPS.
    var isAvailable: Bool { hash("") != nil }

    /// For a person.
    var algorithmText: String { TransportError.Evidence.printable(algorithmName ?? "MD5") }

    /// The value of Authorization or Proxy-Authorization (section 3.4).
    ///
    /// - Parameters:
    ///   - uri: the target of the request, as in its first line.
    ///   - count: how often this nonce has been used, this time included.
    /// - Returns: nil where OpenSSL has no such algorithm, as MD5 under FIPS.
    package func authorization(
        userName: String, password: [UInt8], method: String, uri: String, clientNonce: String, count: UInt32
    ) -> String? {
        let user = Array("\(userName):\(realm)".utf8)
        guard var key = hash(user + [UInt8(ascii: ":")] + password) else { return nil }
        if isSession {
            guard let ofSession = hash("\(key):\(nonce):\(clientNonce)") else { return nil }
            key = ofSession
        }
        let hexadecimal = String(count, radix: 16)
        let nonceCount = String(repeating: "0", count: 8 - hexadecimal.utf8.count) + hexadecimal
        let quality = hasQuality ? "\(nonceCount):\(clientNonce):auth:" : ""
        guard let action = hash("\(method):\(uri)"), let name = hashesUserName ? hash(user) : userName,
            let response = hash("\(key):\(nonce):\(quality)\(action)")
        else { return nil }

        var parts = [
            nameParameter(name), "realm=\(Self.quoted(realm))", "uri=\(Self.quoted(uri))",
        ]
        if let algorithmName { parts.append("algorithm=\(algorithmName)") }
        parts.append("nonce=\(Self.quoted(nonce))")
        if hasQuality { parts.append("nc=\(nonceCount)") }
        if hasQuality || isSession { parts.append("cnonce=\(Self.quoted(clientNonce))") }
        if hasQuality { parts.append("qop=auth") }
        parts.append("response=\"\(response)\"")
        if let opaque { parts.append("opaque=\(Self.quoted(opaque))") }
        if hashesUserName { parts.append("userhash=true") }
        return "Digest " + parts.joined(separator: ", ")
    }

    /// A name outside ASCII has the form of RFC 8187, where the proxy says that it knows UTF-8.
    private func nameParameter(_ name: String) -> String {
        if !isUTF8 || name.utf8.allSatisfy({ $0 < 0x80 }) { return "username=\(Self.quoted(name))" }
        var encoded = ""
        for byte in name.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                encoded += (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }
        return "username*=UTF-8''\(encoded)"
    }

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" { quoted += "\\" }
            quoted.unicodeScalars.append(scalar)
        }
        return quoted + "\""
    }

    private func hash(_ text: String) -> String? { hash(Array(text.utf8)) }

    /// In lower-case hexadecimal digits.
    private func hash(_ bytes: [UInt8]) -> String? {
        let kind =
            switch algorithm {
            case .md5: EVP_md5()
            case .sha256: EVP_sha256()
            case .sha512_256: EVP_sha512_256()
            }
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard EVP_Digest(bytes, bytes.count, &digest, &count, kind, nil) == 1 else {
            ERR_clear_error()
            return nil
        }
        return digest.prefix(Int(count)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
