internal import CTraversalOpenSSL
internal import CTraversalShims
internal import Glibc

/// TLS as bytes in, bytes out (OpenSSL over memory BIOs): it never sees the socket, so it runs as well inside
/// a proxy's tunnel.
final class TLSStage {
    /// What reading gave.
    enum ReadResult {
        case bytes(Int)
        case needsMore
        /// The peer's close_notify: nothing more will come.
        case closed
    }

    private let ssl: OpaquePointer
    private let incoming: OpaquePointer
    private let outgoing: OpaquePointer
    private let record: HandshakeRecord
    private let context: TLSContext
    private let target: TLSTarget?
    private var offeredSession: TLSSession?
    /// The first bytes that the peer sent, for the error if they aren't TLS.
    private var firstBytes: [UInt8] = []
    private(set) var isHandshakeComplete = false

    /// - Parameter target: of a client.
    init(context: TLSContext, target: TLSTarget? = nil) throws(TransportError) {
        self.context = context
        self.target = target
        record = HandshakeRecord(verification: context.verification)
        ERR_clear_error()
        guard let ssl = SSL_new(context.pointer) else { throw Self.outOfResources() }
        guard let incoming = BIO_new(BIO_s_mem()), let outgoing = BIO_new(BIO_s_mem()) else {
            SSL_free(ssl)
            throw Self.outOfResources()
        }
        self.ssl = ssl
        self.incoming = incoming
        self.outgoing = outgoing
        // An empty BIO means "wait", not "end": the end is told by `receivedEOF`.
        traversal_bio_set_eof_return(incoming, -1)
        traversal_bio_set_eof_return(outgoing, -1)
        SSL_set_bio(ssl, incoming, outgoing)
        traversal_ssl_configure(ssl)
        record.attach(to: ssl)
        switch context.role {
        case .client:
            SSL_set_connect_state(ssl)
            if let target { try prepare(for: target) }
        case .server:
            SSL_set_accept_state(ssl)
        }
    }

    deinit {
        // Otherwise OpenSSL spoils the session of a connection that ended without close_notify, as most do that a network
        // cuts. TLS forbids that no longer (RFC 5246, section 7.2.1).
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(ssl)
    }

    /// Takes bytes from the socket.
    func receive(_ bytes: UnsafeRawBufferPointer) {
        if firstBytes.count < 64 { firstBytes.append(contentsOf: bytes.prefix(64 - firstBytes.count)) }
        var offset = 0
        while offset < bytes.count {
            let chunk = Int32(clamping: bytes.count - offset)
            let written = BIO_write(incoming, bytes.baseAddress?.advanced(by: offset), chunk)
            guard written > 0 else { return }
            offset += Int(written)
        }
    }

    /// The socket has ended: from now on an empty BIO is the end, so a truncation is told from a close_notify.
    func receivedEOF() {
        traversal_bio_set_eof_return(incoming, 0)
    }

    /// Goes on with the handshake.
    ///
    /// - Returns: whether it is complete.
    /// - Throws: `TransportError` at stage `tls`.
    func handshake() throws(TransportError) -> Bool {
        if isHandshakeComplete { return true }
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            isHandshakeComplete = true
            try accept()
            return true
        }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return false
        case SSL_ERROR_ZERO_RETURN: throw TransportError(stage: .tls, code: .tlsEOF, evidence: .none)
        default: throw failure()
        }
    }

    /// Decrypts into `buffer`.
    ///
    /// - Throws: `TransportError` at stage `tls`; an alert that refuses the client's certificate comes here under
    ///   TLS 1.3, after the handshake.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(TransportError) -> ReadResult {
        ERR_clear_error()
        let result = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        if result > 0 { return .bytes(Int(result)) }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .needsMore
        case SSL_ERROR_ZERO_RETURN: return .closed
        default: throw failure()
        }
    }

    /// Encrypts all of `bytes`.
    ///
    /// - Throws: `TransportError` at stage `tls`.
    func write(_ bytes: UnsafeRawBufferPointer) throws(TransportError) {
        var offset = 0
        while offset < bytes.count {
            ERR_clear_error()
            let chunk = Int32(clamping: bytes.count - offset)
            let written = SSL_write(ssl, bytes.baseAddress?.advanced(by: offset), chunk)
            // A memory BIO takes everything, so anything else is a failure.
            guard written > 0 else { throw failure() }
            offset += Int(written)
        }
    }

    func write(_ bytes: [UInt8]) throws(TransportError) {
        let result = bytes.withUnsafeBytes { buffer in
            Result { () throws(TransportError) in try write(buffer) }
        }
        try result.get()
    }

    /// Appends what has to go to the socket.
    func drain(into wire: inout [UInt8]) {
        var data: UnsafePointer<CChar>?
        let count = Int(traversal_bio_mem_data(outgoing, &data))
        guard count > 0, let data else { return }
        wire.append(contentsOf: UnsafeRawBufferPointer(start: data, count: count))
        traversal_bio_reset(outgoing)
    }

    /// Queues a close_notify.
    func close() {
        guard isHandshakeComplete else { return }
        ERR_clear_error()
        SSL_shutdown(ssl)
    }

    /// `TLSv1.3 TLS_AES_256_GCM_SHA384, resumed, ALPN mqtt`
    var summary: String {
        let version = String(cString: SSL_get_version(ssl))
        let cipher = SSL_CIPHER_get_name(SSL_get_current_cipher(ssl)).map { String(cString: $0) } ?? "?"
        let resumed = SSL_session_reused(ssl) == 1 ? ", resumed" : ""
        let selected = selectedProtocol.map { ", ALPN \(TransportError.Evidence.printable($0))" } ?? ""
        return "\(version) \(cipher)\(resumed)\(selected)"
    }

    private var selectedProtocol: String? {
        var data: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &data, &count)
        guard let data, count > 0 else { return nil }
        return String(decoding: UnsafeBufferPointer(start: data, count: Int(count)), as: UTF8.self)
    }

    private func prepare(for target: TLSTarget) throws(TransportError) {
        try set(serverName: target.serverName)
        try offer(target.applicationProtocols, isRequired: target.requiresApplicationProtocol)
        if let session = context.takeSession(for: target), SSL_set_session(ssl, session.pointer) == 1 {
            offeredSession = session
        }
    }

    /// The last word on a handshake that is complete: nothing of the layer above has been sent so far.
    private func accept() throws(TransportError) {
        guard let target else { return }
        let selected = selectedProtocol
        if target.requiresApplicationProtocol,
            !target.applicationProtocols.contains(where: { $0 == selected })
        {
            throw notSelected(selected == nil ? "none" : "a protocol that wasn't offered", of: target)
        }
        keepSessions(of: target)
    }

    private func notSelected(_ answer: String, of target: TLSTarget) -> TransportError {
        let offered = target.applicationProtocols.joined(separator: ", ")
        return TransportError(
            stage: .tls, code: .tlsALPNNotSelected,
            evidence: .text("the server selected \(answer), where \(offered) was offered by ALPN"))
    }

    private func keepSessions(of target: TLSTarget) {
        let isResumed = SSL_session_reused(ssl) == 1
        guard context.verification.isFull,
            let end = isResumed ? offeredSession?.verifiedUntil : verificationEnd(of: ssl)
        else { return }
        let keeper = TLSSessionKeeper(context: context, target: target, verifiedUntil: end)
        record.keeper = keeper
        // Under TLS 1.3 they come by themselves, later.
        if SSL_version(ssl) < TLS1_3_VERSION, let session = SSL_get1_session(ssl) { keeper.keep(session) }
    }

    private func set(serverName: String) throws(TransportError) {
        let name: String
        do {
            name = try ProfileValidation.serverName(serverName)
        } catch {
            // A profile's parts can be changed after it was checked.
            throw TransportError(
                stage: .local, code: .clientInvalidArgument, evidence: .text("the server name: \(error)"))
        }
        let parameters = SSL_get0_param(ssl)
        if let literal = SocketAddress(literal: name, port: 0) {
            // Addresses are verified against the certificate's IP entries and never sent as SNI. OpenSSL knows
            // only the usual form: no zone, and not 127.1.
            let withoutZone = String(literal.host.prefix { $0 != "%" })
            guard X509_VERIFY_PARAM_set1_ip_asc(parameters, withoutZone) == 1 else {
                throw Self.outOfResources()
            }
        } else {
            X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
            guard X509_VERIFY_PARAM_set1_host(parameters, name, name.utf8.count) == 1,
                traversal_ssl_set_server_name(ssl, name) == 1
            else { throw Self.outOfResources() }
        }
    }

    private func offer(_ protocols: [String], isRequired: Bool) throws(TransportError) {
        if protocols.isEmpty {
            guard isRequired else { return }
            throw TransportError(
                stage: .local, code: .clientInvalidArgument,
                evidence: .text("an ALPN protocol is required, and none is offered"))
        }
        var list: [UInt8] = []
        for name in protocols {
            guard let length = UInt8(exactly: name.utf8.count), length > 0 else {
                throw TransportError(
                    stage: .local, code: .clientInvalidArgument,
                    evidence: .text("an ALPN protocol name has 1 to 255 bytes"))
            }
            list.append(length)
            list.append(contentsOf: name.utf8)
        }
        guard let length = UInt32(exactly: list.count), SSL_set_alpn_protos(ssl, list, length) == 0 else {
            throw Self.outOfResources()
        }
    }

    private static func outOfResources() -> TransportError {
        TransportError(stage: .local, code: .clientResources, evidence: .openSSL(OpenSSLError.takeAll()))
    }
}

extension TLSStage {
    /// The first error of OpenSSL's queue, as this project's vocabulary has it.
    private func failure() -> TransportError {
        var function: UnsafePointer<CChar>?
        let error = ERR_get_error_all(nil, nil, &function, nil, nil)
        // OpenSSL itself looks only for an answer that wasn't among the offers.
        let isOfALPN = function.map { strcmp($0, "tls_parse_stoc_alpn") == 0 } == true
        // Alerts that the peer sent come as reason 1000 + number (SSL_AD_REASON_OFFSET).
        let reason = Int32(truncatingIfNeeded: error & 0x7F_FFFF)
        ERR_clear_error()
        if reason > 1000, let alert = UInt8(exactly: reason - 1000) {
            return TransportError(stage: .tls, code: code(forAlert: alert), evidence: .alert(alert))
        }
        if let problem = record.problem, reason == SSL_R_CERTIFICATE_VERIFY_FAILED {
            return TransportError(
                stage: .tls, code: problem.failureCode(record.verification), evidence: .certificate(problem))
        }
        // 0x14…0x17 are the record types of TLS (RFC 8446, section 5.1).
        if !isHandshakeComplete, let first = firstBytes.first, !(0x14...0x17).contains(first) {
            return TransportError(stage: .tls, code: .tlsPlaintextReply, evidence: .firstBytes(firstBytes))
        }
        if error == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING {
            return TransportError(stage: .tls, code: .tlsEOF, evidence: .none)
        }
        if isOfALPN, reason == SSL_R_BAD_EXTENSION, let target {
            return notSelected("a protocol that wasn't offered", of: target)
        }
        let isVersion = reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_WRONG_SSL_VERSION
        return TransportError(
            stage: .tls, code: isVersion ? .tlsVersion : .tlsProtocol,
            evidence: .openSSL(OpenSSLError.text(error)))
    }

    private func code(forAlert alert: UInt8) -> FailureCode {
        switch alert {
        case 116: .tlsClientCertRequired
        case 70: .tlsVersion
        case 120: .tlsALPNNotSelected
        // TLS 1.2 has no alert of its own for a missing certificate: servers send handshake_failure (40),
        // bad_certificate (42) or certificate_unknown (46) after having asked for one.
        case 40 where record.serverAskedForCertificate, 42 where record.serverAskedForCertificate,
            46 where record.serverAskedForCertificate:
            .tlsClientCertRequired
        default: .tlsAlert
        }
    }
}
