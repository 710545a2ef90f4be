internal import CTraversalOpenSSL
internal import CTraversalShims

/// The part of TLS that connections share: trust, identity, versions, and what connections leave to the next
/// that are made with it. The rest is immutable.
package final class TLSContext: @unchecked Sendable {
    let pointer: OpaquePointer
    let role: Role
    /// What the chain that a server shows is held against.
    let verification: ChainVerification
    private let sessions = Lock(Shelf<TLSTarget, TLSSession>())

    package enum Role: Sendable {
        case client
        case server
    }

    /// For a client.
    ///
    /// - Throws: `TransportError` at stage `local`: `tls.no_trust_store`, `tls.bad_credentials`.
    package convenience init(client options: TLSOptions) throws(TransportError) {
        try self.init(
            role: .client,
            verification: ChainVerification(isFull: options.verification == .full, pins: options.pins))
        if verification.isFull { try load(options.trust) }
        if verification.isFull || !verification.pins.isEmpty {
            SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
            SSL_CTX_set_cert_verify_callback(pointer, verificationCallback, nil)
        } else {
            SSL_CTX_set_verify(pointer, SSL_VERIFY_NONE, nil)
        }
        switch options.minimumVersion {
        case .v1_2: traversal_ctx_set_min_version(pointer, TLS1_2_VERSION)
        case .v1_3: traversal_ctx_set_min_version(pointer, TLS1_3_VERSION)
        }
        if let identity = options.identity {
            try use(
                certificateFile: identity.certificateFile, privateKeyFile: identity.privateKeyFile,
                passphrase: identity.passphrase)
        }
        // What nobody has verified isn't to be resumed either.
        if verification.isFull {
            traversal_ctx_keep_client_sessions(pointer)
            SSL_CTX_sess_set_new_cb(pointer, newSessionCallback)
        }
        // Called only when the server asks for a certificate: the error can then say that it did.
        SSL_CTX_set_client_cert_cb(pointer, clientCertificateCallback)
    }

    /// For a server: PEM files; `clientCAFile` makes a client certificate mandatory.
    ///
    /// - Parameter selectsProtocol: by ALPN, where the client offers one that is spoken here.
    package convenience init(
        serverCertificateFile: String, privateKeyFile: String, clientCAFile: String? = nil,
        maximumVersion: TLSOptions.Version? = nil, selectsProtocol: Bool = true
    ) throws(TransportError) {
        try self.init(role: .server, verification: ChainVerification(isFull: false, pins: []))
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
        if selectsProtocol { SSL_CTX_set_alpn_select_cb(pointer, serverProtocolCallback, nil) }
        // Without it OpenSSL resumes nothing where clients have certificates.
        let name = Array("MQTTTransport".utf8)
        SSL_CTX_set_session_id_context(pointer, name, UInt32(name.count))
    }

    private init(role: Role, verification: ChainVerification) throws(TransportError) {
        ERR_clear_error()
        guard let context = SSL_CTX_new(role == .client ? TLS_client_method() : TLS_server_method()) else {
            throw TransportError(
                stage: .local, code: .clientResources, evidence: .openSSL(OpenSSLError.takeAll()))
        }
        pointer = context
        self.role = role
        self.verification = verification
    }

    deinit { SSL_CTX_free(pointer) }

    /// A session to offer.
    func takeSession(for target: TLSTarget) -> TLSSession? {
        while let session = sessions.withLock({ $0.take(target) }) {
            if session.isUsable { return session }
        }
        return nil
    }

    func keep(_ session: TLSSession, for target: TLSTarget) {
        sessions.withLock { $0.put(session, for: target) }
    }
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

extension TLSOptions {
    /// What a context is made of: routes that differ in the rest can share one.
    package struct OfContext: Sendable, Hashable {
        let verification: Verification
        let trust: Trust
        let pins: [PublicKeyPin]
        let identity: Identity?
        let minimumVersion: Version
    }

    package var ofContext: OfContext {
        OfContext(
            verification: verification, trust: trust, pins: pins, identity: identity,
            minimumVersion: minimumVersion)
    }
}
