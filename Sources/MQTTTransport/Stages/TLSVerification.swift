internal import CTraversalOpenSSL
internal import CTraversalShims

/// What a client holds the server's chain against.
struct ChainVerification: Sendable {
    /// Whether the chain has to lead to a trusted CA, and the certificate to be for this host.
    let isFull: Bool
    /// One of them has to be in the verified chain; without full verification, in the server's own certificate.
    let pins: [PublicKeyPin]
}

/// What the callbacks of one handshake found out; `SSL` carries a pointer to it.
final class HandshakeRecord {
    let verification: ChainVerification
    private(set) var problem: TransportError.CertificateProblem?
    fileprivate(set) var serverAskedForCertificate = false
    /// Nil until the connection has been accepted.
    var keeper: TLSSessionKeeper?

    private static let index: Int32 = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, nil, nil, nil, nil)

    init(verification: ChainVerification) { self.verification = verification }

    func attach(to ssl: OpaquePointer) {
        SSL_set_ex_data(ssl, Self.index, Unmanaged.passUnretained(self).toOpaque())
    }

    static func of(_ ssl: OpaquePointer?) -> HandshakeRecord? {
        guard let ssl, let pointer = SSL_get_ex_data(ssl, index) else { return nil }
        return Unmanaged<HandshakeRecord>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Whether the handshake may go on; OpenSSL makes the alert out of the context's error.
    fileprivate func accepts(_ context: OpaquePointer) -> Bool {
        if verification.isFull, X509_verify_cert(context) != 1 {
            let certificate = X509_STORE_CTX_get_current_cert(context)
            problem = TransportError.CertificateProblem(
                certificate, depth: Int(X509_STORE_CTX_get_error_depth(context)),
                code: X509_STORE_CTX_get_error(context))
            if problem?.isOfTrust == true { problem?.inspector = Self.inspector(context) }
            return false
        }
        return holdsPin(context)
    }

    private func holdsPin(_ context: OpaquePointer) -> Bool {
        let leaf = X509_STORE_CTX_get0_cert(context)
        let seen = (verification.isFull ? Self.chain(context) : [leaf]).compactMap { $0 }.map(
            PublicKeyPin.init(of:))
        if verification.pins.isEmpty || seen.contains(where: verification.pins.contains) {
            X509_STORE_CTX_set_error(context, X509_V_OK)
            return true
        }
        // The alert for it is bad_certificate.
        X509_STORE_CTX_set_error(context, X509_V_ERR_CERT_REJECTED)
        problem = TransportError.CertificateProblem(leaf, depth: 0, code: X509_V_ERR_CERT_REJECTED)
        problem?.reason = "none of the pinned keys"
        problem?.pins = seen
        problem?.inspector = Self.inspector(context)
        return false
    }

    /// The server's certificate and its issuers, as far as they were found.
    private static func chain(_ context: OpaquePointer) -> [OpaquePointer?] {
        let stack = X509_STORE_CTX_get0_chain(context)
        return (0..<max(0, OPENSSL_sk_num(stack))).map {
            OPENSSL_sk_value(stack, $0).map { OpaquePointer($0) }
        }
    }

    /// Whether issuers bear the name of a product; what a server calls itself says nothing.
    private static func inspector(_ context: OpaquePointer) -> String? {
        let found = chain(context)
        for certificate in found.isEmpty ? [X509_STORE_CTX_get0_cert(context)] : found {
            let issuer = CertificateText.name(certificate.flatMap { X509_get_issuer_name($0) })
            if let product = InspectionProduct.named(in: issuer) { return product }
        }
        return nil
    }
}

/// In place of X509_verify_cert.
let verificationCallback: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { context, _ in
    guard let context else { return 0 }
    let ssl = X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx())
    let record = HandshakeRecord.of(ssl.map { OpaquePointer($0) })
    return record?.accepts(context) == true ? 1 : 0
}

let clientCertificateCallback:
    @convention(c) (
        OpaquePointer?, UnsafeMutablePointer<OpaquePointer?>?, UnsafeMutablePointer<OpaquePointer?>?
    ) -> Int32 = { ssl, _, _ in
        HandshakeRecord.of(ssl)?.serverAskedForCertificate = true
        return 0
    }

extension PublicKeyPin {
    fileprivate init(of certificate: OpaquePointer) {
        var info: UnsafeMutablePointer<UInt8>?
        let count = Int(i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &info))
        defer { CRYPTO_free(info, nil, 0) }
        var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        SHA256(info, max(0, count), &digest)
        self.init(digest: digest)
    }
}

extension TransportError.CertificateProblem {
    fileprivate init(_ certificate: OpaquePointer?, depth: Int, code: Int32) {
        self.init(
            depth: depth,
            subject: CertificateText.name(certificate.flatMap { X509_get_subject_name($0) }),
            issuer: CertificateText.name(certificate.flatMap { X509_get_issuer_name($0) }),
            notBefore: CertificateText.time(certificate.flatMap { X509_get0_notBefore($0) }),
            notAfter: CertificateText.time(certificate.flatMap { X509_get0_notAfter($0) }),
            code: Int(code), reason: String(cString: X509_verify_cert_error_string(Int(code))))
    }

    /// Whether the chain leads to nobody who is trusted here, rather than to somebody whose certificate is amiss.
    fileprivate var isOfTrust: Bool {
        switch Int32(clamping: code) {
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED:
            true
        default: false
        }
    }

    /// - Parameter verification: as it was asked for.
    func failureCode(_ verification: ChainVerification) -> FailureCode {
        switch Int32(clamping: code) {
        case X509_V_ERR_CERT_HAS_EXPIRED: .tlsExpired
        case X509_V_ERR_CERT_NOT_YET_VALID: .tlsNotYetValid
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH: .tlsNameMismatch
        case X509_V_ERR_CERT_REJECTED where verification.isFull && !pins.isEmpty: .tlsInterceptedTrusted
        default: inspector == nil ? .tlsUntrusted : .tlsIntercepted
        }
    }
}

/// Certificates' fields in words.
enum CertificateText {
    static func name(_ name: OpaquePointer?) -> String {
        guard let name else { return "?" }
        return text { traversal_print_name($0, name) > 0 }
    }

    static func time(_ time: UnsafePointer<ASN1_TIME>?) -> String {
        guard let time else { return "?" }
        return text { ASN1_TIME_print($0, time) == 1 }
    }

    private static func text(_ write: (OpaquePointer) -> Bool) -> String {
        guard let bio = BIO_new(BIO_s_mem()) else { return "?" }
        defer { BIO_free(bio) }
        guard write(bio) else { return "?" }
        var data: UnsafePointer<CChar>?
        let count = Int(traversal_bio_mem_data(bio, &data))
        guard let data, count > 0 else { return "" }
        return String(decoding: UnsafeRawBufferPointer(start: data, count: count), as: UTF8.self)
    }
}
