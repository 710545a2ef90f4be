import Glibc
import MQTTTransport

/// A port of the broker's with its switch: open, refusing, or dropping. On the loop only.
final class BrokerListener {
    private enum State {
        case open
        case refusing
        /// The connections of our own that fill the queue.
        case dropping(fillers: [Int32])
    }

    private let loop: EventLoop
    private let listener: Listener
    private var state = State.open

    /// - Parameter accepted: gets a descriptor, now its own, and the peer's address.
    /// - Throws: `TransportError` where the port can't be had.
    init(
        loop: EventLoop, address: SocketAddress, accepted: @escaping (Int32, String) -> Void
    ) throws(TransportError) {
        self.loop = loop
        listener = try Listener(loop: loop, address: address, accepted: accepted)
    }

    var address: SocketAddress { listener.address }

    func start() { listener.start() }

    /// Ends listening for good.
    func close() {
        closeFillers()
        listener.close()
    }

    /// New connections fail from now on; those that stand live on.
    ///
    /// - Throws: `TransportError` at stage `local` if the queue can't be filled; the port then refuses.
    func block(by means: LoopbackBroker.Blocking) throws(TransportError) {
        if case .open = state {
            // Whoever came before is let in.
            listener.readable()
            loop.unregister(listener.descriptor)
        }
        refuse()
        switch means {
        case .refusing: break
        case .dropping: state = .dropping(fillers: try fillQueue())
        }
    }

    func unblock() {
        if case .open = state { return }
        // Empties the queue of what has filled it.
        refuse()
        state = .open
        listen(listener.descriptor, Listener.backlog)
        loop.register(listener.descriptor, handler: listener)
    }

    /// The socket stays bound, so nobody else gets the port, but no longer listens: the kernel refuses.
    private func refuse() {
        // Only a listening socket: one that doesn't listen would stay shut down when it listens again.
        if case .refusing = state { return }
        shutdown(listener.descriptor, Int32(SHUT_RD))
        closeFillers()
        state = .refusing
    }

    /// With a full queue of accepted connections Linux drops each further SYN without an answer, so a client
    /// waits until its own deadline.
    private func fillQueue() throws(TransportError) -> [Int32] {
        // A backlog of 0 leaves room for one.
        listen(listener.descriptor, 0)
        var fillers: [Int32] = []
        for _ in 0..<Self.attempts {
            guard let filler = connectFiller() else { continue }
            fillers.append(filler)
            if !isConnected(filler) { return fillers }
        }
        for filler in fillers { Glibc.close(filler) }
        shutdown(listener.descriptor, Int32(SHUT_RD))
        throw TransportError(
            stage: .local, code: .clientResources, hop: address.description,
            evidence: .text("the queue of the port can't be filled"))
    }

    /// More than the queue has room for.
    private static let attempts = 8
    /// In milliseconds; on loopback a handshake that succeeds takes microseconds.
    private static let patience: Int32 = 10

    private func connectFiller() -> Int32? {
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(address.family == .ipv4 ? AF_INET : AF_INET6, type, 0)
        guard descriptor >= 0 else { return nil }
        let result = address.withSockaddr { connect(descriptor, $0, $1) }
        guard result == 0 || errno == EINPROGRESS else {
            Glibc.close(descriptor)
            return nil
        }
        return descriptor
    }

    private func isConnected(_ descriptor: Int32) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&entry, 1, Self.patience) > 0
    }

    private func closeFillers() {
        guard case .dropping(let fillers) = state else { return }
        for filler in fillers { Glibc.close(filler) }
    }
}
