import CTraversalOpenSSL
import Foundation
import MQTTLoopback

/// A server of OpenSSL's own, on a blocking socket and a thread, for what our server role never does.
final class OpenSSLServer: @unchecked Sendable {
    let port: UInt16
    private let listening: Int32
    private let context: OpaquePointer

    struct Failure: Error {}

    /// One connection, on the server's thread.
    struct Connection {
        let ssl: OpaquePointer

        /// In one record up to 16 KiB.
        func send(_ bytes: [UInt8]) { SSL_write(ssl, bytes, Int32(bytes.count)) }

        /// So many bytes, or fewer at the end.
        func receive(_ count: Int) -> [UInt8] {
            var bytes: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while bytes.count < count {
                let read = SSL_read(ssl, &buffer, Int32(min(buffer.count, count - bytes.count)))
                guard read > 0 else { break }
                bytes.append(contentsOf: buffer.prefix(Int(read)))
            }
            return bytes
        }

        /// A NewSessionTicket (RFC 8446, section 4.6.1).
        func sendTicket() {
            SSL_new_session_ticket(ssl)
            SSL_do_handshake(ssl)
        }

        /// A KeyUpdate that asks for the other side's too (RFC 8446, section 4.6.3).
        func sendKeyUpdate() {
            SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED)
            SSL_do_handshake(ssl)
        }
    }

    /// - Parameters:
    ///   - prepare: sets up the context.
    ///   - serve: gets each connection whose handshake succeeded, one after another; its end is close_notify and FIN.
    init(
        prepare: (OpaquePointer) -> Void = { _ in }, serve: @escaping @Sendable (Connection) -> Void
    ) throws {
        let files = try Fixture.files().server
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw Failure() }
        SSL_CTX_use_certificate_chain_file(context, files.certificate)
        SSL_CTX_use_PrivateKey_file(context, files.key, SSL_FILETYPE_PEM)
        prepare(context)
        self.context = context
        listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = listening
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 8) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        guard isBound else { throw Failure() }
        Thread { [self] in run(serve) }.start()
    }

    deinit {
        close(listening)
        SSL_CTX_free(context)
    }

    func stop() { shutdown(listening, Int32(SHUT_RDWR)) }

    private func run(_ serve: (Connection) -> Void) {
        // OpenSSL writes without MSG_NOSIGNAL.
        var signals = sigset_t()
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        while true {
            let descriptor = accept(listening, nil, nil)
            guard descriptor >= 0 else { return }
            // No test waits for ever, should it fail.
            var patience = timeval(tv_sec: 20, tv_usec: 0)
            setsockopt(
                descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
            if let ssl = SSL_new(context) {
                SSL_set_fd(ssl, descriptor)
                if SSL_accept(ssl) == 1 {
                    serve(Connection(ssl: ssl))
                    SSL_shutdown(ssl)
                }
                SSL_free(ssl)
            }
            close(descriptor)
        }
    }
}
