import Glibc
import MQTTTransport

/// A name server on loopback, over UDP and TCP on one port, which answers by a closure. Its thread ends with `stop`.
final class StubNameServer: Sendable {
    let address: SocketAddress
    private let wake: Int32

    /// - Parameter answer: to a query, told whether it came over TCP; nil for none.
    init(_ answer: @escaping @Sendable (_ query: [UInt8], _ overTCP: Bool) -> [UInt8]?) throws {
        guard let any = SocketAddress(literal: "127.0.0.1", port: 0) else { preconditionFailure() }
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        let datagrams = socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0, any.withSockaddr({ bind(listener, $0, $1) }) == 0, listen(listener, 8) == 0,
            let address = SocketAddress(boundTo: listener),
            address.withSockaddr({ bind(datagrams, $0, $1) }) == 0
        else { throw StubError(errno) }
        self.address = address
        wake = ends[1]
        let stopped = ends[0]
        var thread = pthread_t()
        let work = Unmanaged.passRetained(
            Work { Self.serve(listener, datagrams, stopped, answer) })
        pthread_create(
            &thread, nil,
            { pointer in
                if let pointer { Unmanaged<Work>.fromOpaque(pointer).takeRetainedValue().body() }
                return nil
            }, work.toOpaque())
        pthread_detach(thread)
    }

    func stop() { close(wake) }

    struct StubError: Error {
        let number: Int32
        init(_ number: Int32) { self.number = number }
    }

    private final class Work: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    private static func serve(
        _ listener: Int32, _ datagrams: Int32, _ stopped: Int32,
        _ answer: (_ query: [UInt8], _ overTCP: Bool) -> [UInt8]?
    ) {
        defer { for descriptor in [listener, datagrams, stopped] { close(descriptor) } }
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            var entries = [listener, datagrams, stopped].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            guard poll(&entries, 3, -1) > 0 else { continue }
            if entries[2].revents != 0 { return }
            if entries[1].revents != 0 {
                var peer = sockaddr_in()
                var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                withUnsafeMutablePointer(to: &peer) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { peer in
                        let count = recvfrom(datagrams, &buffer, buffer.count, 0, peer, &length)
                        guard count > 0, let reply = answer(Array(buffer[..<count]), false) else { return }
                        _ = sendto(datagrams, reply, reply.count, 0, peer, length)
                    }
                }
            }
            if entries[0].revents != 0 { serveStream(accept(listener, nil, nil), answer) }
        }
    }

    /// Each answer in two pieces.
    private static func serveStream(
        _ descriptor: Int32, _ answer: (_ query: [UInt8], _ overTCP: Bool) -> [UInt8]?
    ) {
        defer { close(descriptor) }
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            received += buffer[..<count]
            while received.count >= 2 {
                let size = Int(received[0]) << 8 | Int(received[1])
                guard received.count >= size + 2 else { break }
                let reply = answer(Array(received[2..<(size + 2)]), true) ?? []
                received.removeFirst(size + 2)
                for piece in [[UInt8(reply.count >> 8)], [UInt8(truncatingIfNeeded: reply.count)] + reply] {
                    _ = send(descriptor, piece, piece.count, Int32(MSG_NOSIGNAL))
                }
            }
        }
    }
}
