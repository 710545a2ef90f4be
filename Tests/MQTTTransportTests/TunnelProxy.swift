import Glibc
import MQTTLoopback
import MQTTTransport

/// An HTTP proxy that answers every CONNECT with 200 and relays to one port of this machine.
final class TunnelProxy: Sendable {
    let port: UInt16
    private let listener: LoopBound<Listener>
    private let recorded = Watched<[String]>([])

    /// - Parameter tls: where the proxy itself speaks TLS.
    init(on loop: EventLoop, tls: TLSContext?, target: UInt16) throws {
        guard let address = SocketAddress(literal: "127.0.0.1", port: 0) else { fatalError("no loopback") }
        let recorded = recorded
        let listener = try Listener(loop: loop, address: address) { descriptor, peer in
            do {
                let stream = try ByteStream(
                    loop: loop, descriptor: descriptor, peer: peer, role: .server(webSocket: false),
                    tlsContext: tls)
                let end = ClientEnd(stream, target: target) { head in recorded.update { $0.append(head) } }
                stream.delegate = end
                stream.start()
            } catch {
                close(descriptor)
            }
        }
        port = listener.address.port
        self.listener = LoopBound(listener, on: loop)
        self.listener.execute { $0.start() }
    }

    /// The requests so far.
    var heads: [String] { recorded.value }

    func stop() { listener.execute { $0.close() } }

    /// The side of whoever wants the tunnel.
    private final class ClientEnd: ByteStreamDelegate {
        private let stream: ByteStream
        private let target: UInt16
        private let record: (String) -> Void
        private var head: [UInt8] = []
        private var connector: Connector?
        private var server: ByteStream?

        init(_ stream: ByteStream, target: UInt16, record: @escaping (String) -> Void) {
            self.stream = stream
            self.target = target
            self.record = record
        }

        func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

        func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
            if let server { return server.send([Array(bytes)]) }
            head.append(contentsOf: bytes)
            guard head.suffix(4).elementsEqual([13, 10, 13, 10]), connector == nil else { return }
            record(String(decoding: head, as: UTF8.self))
            guard let profile = try? ConnectionProfile.tcp(host: "127.0.0.1", port: Int(target)) else {
                return
            }
            let connector = Connector(
                loop: stream.loop, route: Route(profile), observe: { _ in },
                completion: { [unowned self] in connected($0) })
            self.connector = connector
            connector.start()
        }

        private func connected(_ result: Result<ByteStream, TransportError>) {
            guard case .success(let server) = result else { return stream.close() }
            self.server = server
            server.delegate = ServerEnd(client: stream)
            stream.send([Array("HTTP/1.1 200 Connection established\r\n\r\n".utf8)])
        }

        func streamFlushed(_ stream: ByteStream) {}

        func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
            server?.close()
            server = nil
        }
    }

    /// The side of the server, whose bytes go to the client.
    private final class ServerEnd: ByteStreamDelegate {
        private let client: ByteStream

        init(client: ByteStream) { self.client = client }

        func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

        func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
            client.send([Array(bytes)])
        }

        func streamFlushed(_ stream: ByteStream) {}

        func streamClosed(_ stream: ByteStream, _ error: TransportError?) { client.close() }
    }
}
