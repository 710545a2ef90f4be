internal import CTraversalOpenSSL
internal import CTraversalShims
internal import Glibc

/// The part of TLS that connections share: trust, identity, versions. Immutable once made.
package final class TLSContext: @unchecked Sendable {
    let pointer: OpaquePointer
    let role: Role

    package enum Role: Sendable {
        case client
        case server
    }

    /// For a client.
    ///
    /// - Throws: `TransportError` at stage `local`: `tls.no_trust_store`, `tls.bad_credentials`.
    package convenience init(client options: TLSOptions) throws(TransportError) {
        try self.init(role: .client)
        switch options.verification {
        case .full:
            SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, verificationCallback)
            try load(options.trust)
        case .disabledAndOpenToInterception:
            SSL_CTX_set_verify(pointer, SSL_VERIFY_NONE, nil)
        }
        switch options.minimumVersion {
        case .v1_2: traversal_ctx_set_min_version(pointer, TLS1_2_VERSION)
        case .v1_3: traversal_ctx_set_min_version(pointer, TLS1_3_VERSION)
        }
        if let identity = options.identity {
            try use(certificateFile: identity.certificateFile, privateKeyFile: identity.privateKeyFile)
        }
        // Called only when the server asks for a certificate: the error can then say that it did.
        SSL_CTX_set_client_cert_cb(pointer, clientCertificateCallback)
    }

    /// For a server: PEM files; `clientCAFile` makes a client certificate mandatory.
    package convenience init(
        serverCertificateFile: String, privateKeyFile: String, clientCAFile: String? = nil,
        maximumVersion: TLSOptions.Version? = nil
    ) throws(TransportError) {
        try self.init(role: .server)
        traversal_ctx_set_min_version(pointer, TLS1_2_VERSION)
        switch maximumVersion {
        case .v1_2: traversal_ctx_set_max_version(pointer, TLS1_2_VERSION)
        case .v1_3: traversal_ctx_set_max_version(pointer, TLS1_3_VERSION)
        case nil: break
        }
        try use(certificateFile: serverCertificateFile, privateKeyFile: privateKeyFile)
        if let clientCAFile {
            try load(.file(clientCAFile))
            SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        }
        SSL_CTX_set_alpn_select_cb(pointer, serverProtocolCallback, nil)
    }

    private init(role: Role) throws(TransportError) {
        ERR_clear_error()
        guard let context = SSL_CTX_new(role == .client ? TLS_client_method() : TLS_server_method()) else {
            throw TransportError(
                stage: .local, code: .clientResources, evidence: .openSSL(OpenSSLError.takeAll()))
        }
        pointer = context
        self.role = role
    }

    deinit { SSL_CTX_free(pointer) }

    private func load(_ trust: TLSOptions.Trust) throws(TransportError) {
        ERR_clear_error()
        switch trust {
        case .system:
            guard Self.hasSystemStore() else {
                throw TransportError(
                    stage: .local, code: .tlsNoTrustStore,
                    evidence: .text(
                        "no certificates in \(Self.systemStorePlaces().joined(separator: " or "))"))
            }
            SSL_CTX_set_default_verify_paths(pointer)
        case .file(let path):
            guard SSL_CTX_load_verify_locations(pointer, path, nil) == 1 else {
                throw Self.badCredentials("the CA file \(path)")
            }
        case .pem(let text):
            try load(pem: text)
        }
    }

    private func load(pem: [UInt8]) throws(TransportError) {
        let count = pem.withUnsafeBytes { bytes -> Int in
            guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else { return 0 }
            defer { BIO_free(bio) }
            var loaded = 0
            let store = SSL_CTX_get_cert_store(pointer)
            while let certificate = PEM_read_bio_X509(bio, nil, nil, nil) {
                if X509_STORE_add_cert(store, certificate) == 1 { loaded += 1 }
                X509_free(certificate)
            }
            return loaded
        }
        if count == 0 { throw Self.badCredentials("the CA text") }
        // The read that found the end of the text has left an error behind.
        ERR_clear_error()
    }

    private func use(certificateFile: String, privateKeyFile: String) throws(TransportError) {
        ERR_clear_error()
        guard SSL_CTX_use_certificate_chain_file(pointer, certificateFile) == 1 else {
            throw Self.badCredentials("the certificate file \(certificateFile)")
        }
        guard SSL_CTX_use_PrivateKey_file(pointer, privateKeyFile, SSL_FILETYPE_PEM) == 1 else {
            throw Self.badCredentials("the private key file \(privateKeyFile)")
        }
        guard SSL_CTX_check_private_key(pointer) == 1 else {
            throw Self.badCredentials(
                "the private key \(privateKeyFile), which doesn't belong to \(certificateFile)")
        }
    }

    private static func badCredentials(_ what: String) -> TransportError {
        let reason = OpenSSLError.takeAll()
        return TransportError(
            stage: .local, code: .tlsBadCredentials, evidence: .openSSL("can't use \(what): \(reason)"))
    }

    private static func systemStorePlaces() -> [String] {
        func place(_ variable: UnsafePointer<CChar>?, _ fallback: UnsafePointer<CChar>?) -> String? {
            if let variable, let value = getenv(variable) { return String(cString: value) }
            return fallback.map { String(cString: $0) }
        }
        return [
            place(X509_get_default_cert_file_env(), X509_get_default_cert_file()),
            place(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()),
        ].compactMap { $0 }
    }

    private static func hasSystemStore() -> Bool {
        systemStorePlaces().contains { place in
            // SSL_CERT_DIR may be a list, as PATH is.
            place.split(separator: ":").contains { entry in
                var status = stat()
                guard stat(String(entry), &status) == 0 else { return false }
                if status.st_mode & S_IFMT != S_IFDIR { return status.st_size > 0 }
                guard let directory = opendir(String(entry)) else { return false }
                defer { closedir(directory) }
                var names = 0
                while readdir(directory) != nil { names += 1 }
                // Besides "." and "..".
                return names > 2
            }
        }
    }
}

/// OpenSSL's error queue of this thread.
enum OpenSSLError {
    /// Empties the queue; all errors in words, or the system's alone, such as a missing file, since what follows it
    /// only repeats it.
    static func takeAll() -> String {
        var texts: [String] = []
        while true {
            let code = ERR_get_error()
            if code == 0 { break }
            if code & systemFlag != 0 {
                ERR_clear_error()
                return text(code)
            }
            texts.append(text(code))
        }
        return texts.isEmpty ? "no reason given" : texts.joined(separator: "; ")
    }

    /// ERR_SYSTEM_FLAG, a macro: the rest of the code is an errno.
    private static let systemFlag: UInt = 0x8000_0000

    static func text(_ code: UInt) -> String {
        if code & systemFlag != 0 {
            return String(cString: strerror(Int32(truncatingIfNeeded: code & 0x7FFF_FFFF)))
        }
        if let reason = ERR_reason_error_string(code) { return String(cString: reason) }
        var buffer = [CChar](repeating: 0, count: 256)
        ERR_error_string_n(code, &buffer, buffer.count)
        return buffer.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }
}

/// What the callbacks of one handshake found out; `SSL` carries a pointer to it.
final class HandshakeRecord {
    var problem: TransportError.CertificateProblem?
    var serverAskedForCertificate = false

    static let index: Int32 = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL, 0, nil, nil, nil, nil)

    func attach(to ssl: OpaquePointer) {
        SSL_set_ex_data(ssl, Self.index, Unmanaged.passUnretained(self).toOpaque())
    }

    static func of(_ ssl: OpaquePointer?) -> HandshakeRecord? {
        guard let ssl, let pointer = SSL_get_ex_data(ssl, index) else { return nil }
        return Unmanaged<HandshakeRecord>.fromOpaque(pointer).takeUnretainedValue()
    }
}

private let verificationCallback: @convention(c) (Int32, OpaquePointer?) -> Int32 = { isValid, store in
    guard isValid == 0, let store else { return isValid }
    let ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())
    guard let record = HandshakeRecord.of(ssl.map { OpaquePointer($0) }), record.problem == nil else {
        return isValid
    }
    let code = X509_STORE_CTX_get_error(store)
    let certificate = X509_STORE_CTX_get_current_cert(store)
    record.problem = TransportError.CertificateProblem(
        depth: Int(X509_STORE_CTX_get_error_depth(store)),
        subject: CertificateText.name(certificate.flatMap { X509_get_subject_name($0) }),
        issuer: CertificateText.name(certificate.flatMap { X509_get_issuer_name($0) }),
        notBefore: CertificateText.time(certificate.flatMap { X509_get0_notBefore($0) }),
        notAfter: CertificateText.time(certificate.flatMap { X509_get0_notAfter($0) }),
        code: Int(code), reason: String(cString: X509_verify_cert_error_string(Int(code))))
    return isValid
}

private let clientCertificateCallback:
    @convention(c) (
        OpaquePointer?, UnsafeMutablePointer<OpaquePointer?>?, UnsafeMutablePointer<OpaquePointer?>?
    ) -> Int32 = { ssl, _, _ in
        HandshakeRecord.of(ssl)?.serverAskedForCertificate = true
        return 0
    }

/// A server takes the first protocol that the client offers among those that it speaks.
private let serverProtocolCallback:
    @convention(c) (
        OpaquePointer?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, UnsafeMutablePointer<UInt8>?,
        UnsafePointer<UInt8>?, UInt32, UnsafeMutableRawPointer?
    ) -> Int32 = { _, selected, selectedLength, offered, offeredLength, _ in
        guard let offered, let selected, let selectedLength else { return SSL_TLSEXT_ERR_NOACK }
        var index = 0
        while index < Int(offeredLength) {
            let length = Int(offered[index])
            guard index + 1 + length <= Int(offeredLength) else { break }
            let name = UnsafeBufferPointer(start: offered + index + 1, count: length)
            if name.elementsEqual("http/1.1".utf8) || name.elementsEqual("mqtt".utf8) {
                selected.pointee = offered + index + 1
                selectedLength.pointee = UInt8(length)
                return SSL_TLSEXT_ERR_OK
            }
            index += 1 + length
        }
        return SSL_TLSEXT_ERR_NOACK
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

extension TLSOptions {
    /// What a context is made of: routes that differ in the rest can share one.
    package struct OfContext: Sendable, Hashable {
        let verification: Verification
        let trust: Trust
        let identity: Identity?
        let minimumVersion: Version
    }

    package var ofContext: OfContext {
        OfContext(
            verification: verification, trust: trust, identity: identity, minimumVersion: minimumVersion)
    }
}
