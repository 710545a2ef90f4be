internal import CTraversalShims
internal import Glibc

/// A listening socket: hands accepted descriptors to its owner, on the loop.
package final class Listener: EventHandler {
    package let address: SocketAddress
    private let loop: EventLoop
    /// The listening socket; whoever closes the port for a while works on it.
    package let descriptor: Int32
    private let accepted: (Int32, String) -> Void
    private var isOpen = true

    /// Binds and listens; nothing is accepted before `start()`.
    ///
    /// - Parameters:
    ///   - address: port 0 lets the system choose; `self.address` tells.
    ///   - accepted: gets a descriptor, now its own, and the peer's address.
    /// - Throws: `TransportError` at stage `local`.
    package init(
        loop: EventLoop, address: SocketAddress, accepted: @escaping (Int32, String) -> Void
    ) throws(TransportError) {
        var (descriptor, bound) = try Self.bound(to: address)
        if address.port == 0 {
            // A port that the system chose is given up as soon as the socket stops listening; one that was
            // asked for isn't. So the chosen one is asked for.
            let chosen = descriptor
            defer { Socket.close(chosen) }
            (descriptor, bound) = try Self.bound(to: bound)
        }
        guard listen(descriptor, Self.backlog) == 0 else {
            let number = errno
            Socket.close(descriptor)
            throw Self.failure(address, number)
        }
        self.loop = loop
        self.descriptor = descriptor
        self.accepted = accepted
        self.address = bound
    }

    /// Never started, or its loop has ended.
    deinit {
        if isOpen { Socket.close(descriptor) }
    }

    /// Connections that may wait to be accepted.
    package static let backlog: Int32 = 1024

    private static func bound(to address: SocketAddress) throws(TransportError) -> (Int32, SocketAddress) {
        let descriptor: Int32
        switch Socket.make(address.domain) {
        case .success(let made): descriptor = made
        case .failure(let error): throw failure(address, error.number)
        }
        Socket.setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
        guard address.withSockaddr({ bind(descriptor, $0, $1) }) == 0,
            let bound = SocketAddress(boundTo: descriptor)
        else {
            let number = errno
            Socket.close(descriptor)
            throw failure(address, number)
        }
        return (descriptor, bound)
    }

    private static func failure(_ address: SocketAddress, _ number: Int32) -> TransportError {
        TransportError(
            stage: .local, code: .clientResources, hop: address.description, evidence: .errno(number))
    }

    package func start() {
        loop.register(descriptor, handler: self)
    }

    /// Stops listening; the port then refuses. Connections already accepted live on.
    package func close() {
        guard isOpen else { return }
        isOpen = false
        loop.unregister(descriptor)
        Socket.close(descriptor)
    }

    package func readable() {
        while isOpen {
            var storage = sockaddr_storage()
            var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let connection = withUnsafeMutableBytes(of: &storage) { bytes in
                traversal_accept(descriptor, bytes.baseAddress, &length)
            }
            guard connection >= 0 else { return acceptFailed(errno) }
            Socket.setOption(connection, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
            let peer = withUnsafeBytes(of: &storage) { SocketAddress($0)?.description }
            accepted(connection, peer ?? "?")
        }
    }

    package func writable() {}

    package func loopEnded() {
        close()
    }

    private func acceptFailed(_ number: Int32) {
        switch number {
        case EMFILE, ENFILE, ENOBUFS, ENOMEM:
            // The connection stays in the queue, so the descriptor stays readable: pause instead of spinning.
            loop.setInterest(descriptor, readable: false, writable: false)
            _ = loop.schedule(at: loop.now + .milliseconds(100)) { [weak self] in
                guard let self, self.isOpen else { return }
                self.loop.setInterest(self.descriptor, writable: false)
            }
        default:
            // EAGAIN: all are taken. ECONNABORTED and the like concern one connection that is already gone.
            return
        }
    }
}
