import CTraversalOpenSSL
import CTraversalShims

/// What a certificate is for.
public enum CertificateSubject: Sendable, Hashable {
    /// A TLS server known under DNS names and IP addresses (in text form); not both lists may be empty.
    case server(names: [String], addresses: [String])
    /// A TLS client.
    case client(commonName: String)
}

/// The validity period of a certificate, relative to the moment it is made.
public struct CertificateValidity: Sendable, Hashable {
    /// Seconds from now to Not Before.
    public var begins: Int
    /// Seconds from now to Not After.
    public var ends: Int

    public init(begins: Int, ends: Int) {
        self.begins = begins
        self.ends = ends
    }

    /// From an hour ago to 30 days from now.
    public static let current = CertificateValidity(begins: -3600, ends: 30 * 86400)
    /// Ended an hour ago.
    public static let expired = CertificateValidity(begins: -2 * 86400, ends: -3600)
    /// Begins tomorrow.
    public static let notYet = CertificateValidity(begins: 86400, ends: 30 * 86400)
}

/// A root, or what is below one, that issues certificates for tests.
public struct CertificateAuthority: Sendable {
    /// Its own certificate as PEM text: of a root, what a client trusts.
    public var certificate: String { identity.certificate }
    private let identity: CertificateIdentity
    /// What a server shows besides its own certificate: the way up to the root, as PEM text; empty for a root.
    private let chain: String

    /// A self-signed root.
    ///
    /// - Throws: `CertificateError` if libcrypto fails.
    public init(commonName: String, validity: CertificateValidity = .current) throws {
        let key = try PrivateKey()
        let draft = try CertificateDraft(commonName: commonName, key: key, validity: validity)
        try draft.makeAuthority(pathLength: 1, issuer: draft, issuerKey: key)
        identity = CertificateIdentity(certificate: try draft.pem(), key: try key.pem())
        chain = ""
    }

    private init(identity: CertificateIdentity, chain: String) {
        self.identity = identity
        self.chain = chain
    }

    /// An authority below this root; what it issues carries its certificate along.
    ///
    /// - Throws: `CertificateError` if libcrypto fails.
    public func intermediate(
        commonName: String, validity: CertificateValidity = .current
    ) throws -> CertificateAuthority {
        let key = try PrivateKey()
        let draft = try CertificateDraft(commonName: commonName, key: key, validity: validity)
        try draft.makeAuthority(
            pathLength: 0, issuer: CertificateDraft(pem: identity.certificate),
            issuerKey: PrivateKey(pem: identity.key))
        let made = CertificateIdentity(certificate: try draft.pem(), key: try key.pem())
        return CertificateAuthority(identity: made, chain: made.certificate + chain)
    }

    /// Issues a certificate with a key of its own.
    ///
    /// - Throws: `CertificateError` if a name or an address is not one, or if libcrypto fails.
    public func issue(
        _ subject: CertificateSubject, validity: CertificateValidity = .current
    ) throws -> CertificateIdentity {
        let issuer = try CertificateDraft(pem: identity.certificate)
        let issuerKey = try PrivateKey(pem: identity.key)
        let key = try PrivateKey()
        let draft: CertificateDraft
        let purpose: String
        switch subject {
        case .server(let names, let addresses):
            let alternatives = try Self.alternativeNames(names: names, addresses: addresses)
            // Common Name holds at most 64 characters (ub-common-name, RFC 5280 appendix A.1), and nobody
            // looks at it where a subjectAltName exists.
            let commonName = (names.first ?? addresses.first ?? "").prefix(64)
            draft = try CertificateDraft(commonName: String(commonName), key: key, validity: validity)
            try draft.setIssuer(issuer)
            try draft.add(NID_subject_alt_name, alternatives, issuer: issuer)
            purpose = "serverAuth"
        case .client(let commonName):
            draft = try CertificateDraft(commonName: commonName, key: key, validity: validity)
            try draft.setIssuer(issuer)
            purpose = "clientAuth"
        }
        try draft.add(NID_basic_constraints, "critical,CA:FALSE", issuer: issuer)
        try draft.add(NID_key_usage, "critical,digitalSignature", issuer: issuer)
        try draft.add(NID_ext_key_usage, purpose, issuer: issuer)
        try draft.add(NID_subject_key_identifier, "hash", issuer: issuer)
        try draft.add(NID_authority_key_identifier, "keyid:always", issuer: issuer)
        try draft.sign(with: issuerKey)
        return CertificateIdentity(certificate: try draft.pem() + chain, key: try key.pem())
    }

    /// The value of subjectAltName in libcrypto's notation, whose separators must not occur in the names.
    private static func alternativeNames(names: [String], addresses: [String]) throws -> String {
        guard !(names.isEmpty && addresses.isEmpty) else {
            throw CertificateError("a server certificate needs a name or an address")
        }
        for name in names {
            let isName =
                !name.isEmpty && name.utf8.count <= 253
                && name.utf8.allSatisfy { byte in
                    switch byte {
                    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                        UInt8(ascii: "_"), UInt8(ascii: "*"):
                        true
                    default: false
                    }
                }
            guard isName else { throw CertificateError("\"\(name)\" is not a DNS name") }
        }
        for address in addresses {
            let parsed = a2i_IPADDRESS(address)
            guard parsed != nil else { throw CertificateError("\"\(address)\" is not an IP address") }
            ASN1_OCTET_STRING_free(parsed)
        }
        return (names.map { "DNS:\($0)" } + addresses.map { "IP:\($0)" }).joined(separator: ",")
    }
}

/// An X509 under construction, or one that was read from PEM.
private final class CertificateDraft {
    private let x509: OpaquePointer

    init(pem: String) throws {
        let parsed = try MemoryBIO(reading: pem).withBIO { PEM_read_bio_X509($0, nil, nil, nil) }
        guard let parsed else { throw CertificateError.fromLibcrypto("reading a certificate") }
        x509 = parsed
    }

    init(commonName: String, key: PrivateKey, validity: CertificateValidity) throws {
        guard let new = X509_new() else { throw CertificateError.fromLibcrypto("allocating") }
        x509 = new
        try check(X509_set_version(x509, 2), "setting the version")  // 2 means v3
        try setRandomSerial()
        try setTime(X509_getm_notBefore(x509), seconds: validity.begins)
        try setTime(X509_getm_notAfter(x509), seconds: validity.ends)
        try check(X509_set_pubkey(x509, key.pointer), "setting the public key")
        let bytes = Array(commonName.utf8)
        try check(
            X509_NAME_add_entry_by_NID(
                X509_get_subject_name(x509), NID_commonName, MBSTRING_UTF8, bytes,
                Int32(clamping: bytes.count), -1, 0),
            "setting the Common Name \"\(commonName)\"")
    }

    deinit { X509_free(x509) }

    func setIssuer(_ issuer: CertificateDraft) throws {
        try check(X509_set_issuer_name(x509, X509_get_subject_name(issuer.x509)), "setting the issuer")
    }

    func add(_ extensionNID: Int32, _ value: String, issuer: CertificateDraft) throws {
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, issuer.x509, x509, nil, nil, 0)
        guard let made = X509V3_EXT_nconf_nid(nil, &context, extensionNID, value) else {
            throw CertificateError.fromLibcrypto("making the extension \(value)")
        }
        defer { X509_EXTENSION_free(made) }
        try check(X509_add_ext(x509, made, -1), "adding the extension \(value)")
    }

    /// - Parameter pathLength: how many authorities may stand below it, one above another.
    func makeAuthority(pathLength: Int, issuer: CertificateDraft, issuerKey: PrivateKey) throws {
        try setIssuer(issuer)
        try add(NID_basic_constraints, "critical,CA:TRUE,pathlen:\(pathLength)", issuer: issuer)
        try add(NID_key_usage, "critical,keyCertSign,cRLSign", issuer: issuer)
        try add(NID_subject_key_identifier, "hash", issuer: issuer)
        try add(NID_authority_key_identifier, "keyid:always", issuer: issuer)
        try sign(with: issuerKey)
    }

    func sign(with key: PrivateKey) throws {
        try check(X509_sign(x509, key.pointer, EVP_sha256()), "signing")
    }

    func pem() throws -> String {
        let bio = try MemoryBIO()
        try check(bio.withBIO { PEM_write_bio_X509($0, x509) }, "writing a certificate")
        return bio.contents()
    }

    /// A serial number is positive and has at most 20 octets (RFC 5280 section 4.1.2.2).
    private func setRandomSerial() throws {
        var bytes = [UInt8](repeating: 0, count: 16)
        try check(RAND_bytes(&bytes, Int32(bytes.count)), "making a serial number")
        bytes[0] = bytes[0] & 0x7F | 0x40
        let number = BN_bin2bn(bytes, Int32(bytes.count), nil)
        defer { BN_free(number) }
        guard BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x509)) != nil else {
            throw CertificateError.fromLibcrypto("setting the serial number")
        }
    }

    private func setTime(_ time: UnsafeMutablePointer<ASN1_TIME>?, seconds: Int) throws {
        guard X509_time_adj_ex(time, Int32(clamping: seconds / 86400), seconds % 86400, nil) != nil else {
            throw CertificateError.fromLibcrypto("setting the validity")
        }
    }
}

/// An EC P-256 key.
private final class PrivateKey {
    let pointer: OpaquePointer

    init() throws {
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else {
            throw CertificateError.fromLibcrypto("making a key")
        }
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_group_name(context, "P-256") == 1,
            EVP_PKEY_generate(context, &key) == 1, let key
        else { throw CertificateError.fromLibcrypto("making a key") }
        pointer = key
    }

    init(pem: String) throws {
        let parsed = try MemoryBIO(reading: pem).withBIO { PEM_read_bio_PrivateKey($0, nil, nil, nil) }
        guard let parsed else { throw CertificateError.fromLibcrypto("reading a key") }
        pointer = parsed
    }

    deinit { EVP_PKEY_free(pointer) }

    func pem() throws -> String {
        let bio = try MemoryBIO()
        try check(
            bio.withBIO { PEM_write_bio_PKCS8PrivateKey($0, pointer, nil, nil, 0, nil, nil) },
            "writing a key")
        return bio.contents()
    }
}

private final class MemoryBIO {
    private let bio: OpaquePointer

    init() throws {
        guard let new = BIO_new(BIO_s_mem()) else { throw CertificateError.fromLibcrypto("allocating") }
        bio = new
    }

    convenience init(reading text: String) throws {
        try self.init()
        let bytes = Array(text.utf8)
        guard BIO_write(bio, bytes, Int32(clamping: bytes.count)) == bytes.count else {
            throw CertificateError.fromLibcrypto("allocating")
        }
    }

    deinit { BIO_free(bio) }

    func withBIO<Result>(_ body: (OpaquePointer) -> Result) -> Result {
        withExtendedLifetime(self) { body(bio) }
    }

    func contents() -> String {
        withBIO { bio in
            var start: UnsafePointer<CChar>?
            let count = traversal_bio_mem_data(bio, &start)
            return String(
                decoding: UnsafeRawBufferPointer(start: start, count: max(0, count)), as: UTF8.self)
        }
    }
}

private func check(_ result: Int32, _ action: String) throws {
    guard result > 0 else { throw CertificateError.fromLibcrypto(action) }
}

extension CertificateError {
    fileprivate static func fromLibcrypto(_ action: String) -> CertificateError {
        var text = [CChar](repeating: 0, count: 256)
        ERR_error_string_n(ERR_get_error(), &text, text.count)
        ERR_clear_error()
        let reason = text.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
        return CertificateError("\(action) failed: \(reason)")
    }
}
