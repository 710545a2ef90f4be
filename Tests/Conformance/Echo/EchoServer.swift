internal import Glibc
internal import MQTTTransport
internal import WebSocketCore

/// The server role: echoes to whoever connects, on 127.0.0.1.
enum EchoServer {
    /// Starts on a thread of its own, for as long as the process lives.
    ///
    /// - Returns: the port, chosen by the system.
    /// - Throws: `TransportError` where none can be had.
    static func start(tlsContext: TLSContext?, deflate: PerMessageDeflate.Options?) async throws -> UInt16 {
        let loop = try EventLoop()
        return try await withCheckedThrowingContinuation { continuation in
            loop.execute {
                continuation.resume(with: Result { try listen(on: loop, tlsContext, deflate) })
            }
        }
    }

    private static func listen(
        on loop: EventLoop, _ tlsContext: TLSContext?, _ deflate: PerMessageDeflate.Options?
    ) throws -> UInt16 {
        guard let loopback = SocketAddress(literal: "127.0.0.1", port: 0) else {
            preconditionFailure("an address in text form is one")
        }
        let listener = try Listener(loop: loop, address: loopback) { descriptor, peer in
            do throws(TransportError) {
                let stream = try ByteStream(
                    loop: loop, descriptor: descriptor, peer: peer, role: .server(webSocket: false),
                    tlsContext: tlsContext)
                let opening = EchoSession.Opening.server(OpeningHandshake.Server(), deflate: deflate)
                EchoSession(opening, purpose: .echo).take(over: stream)
                stream.start()
            } catch {
                close(descriptor)
            }
        }
        listener.start()
        return listener.address.port
    }
}
