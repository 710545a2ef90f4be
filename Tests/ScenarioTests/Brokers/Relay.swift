import MQTTTransport

/// Stands between a client and a broker, and can cut, stop and resume what passes.
final class Relay: Sendable {
    enum Mode: Sendable {
        case forward
        /// Accepts, and lets nothing through until it forwards again.
        case stall
        /// Resets every new connection.
        case refuse
    }

    let port: UInt16
    private let core: LoopBound<RelayCore>

    /// - Parameter target: a port of 127.0.0.1.
    init(to target: UInt16, mode: Mode = .forward) throws {
        let loop = try PeerLoop.get()
        let core = RelayCore(
            loop: loop, route: Route(try .tcp(host: "127.0.0.1", port: Int(target))), mode: mode)
        guard let any = SocketAddress(literal: "127.0.0.1", port: 0) else {
            throw BrokerFailure("127.0.0.1 is no address")
        }
        let listener = try Listener(loop: loop, address: any) { core.accept($0, $1) }
        port = listener.address.port
        core.listener = listener
        self.core = LoopBound(core, on: loop)
        self.core.execute { $0.listener?.start() }
    }

    deinit { core.execute { $0.stop() } }

    /// Ends all connections without a word, on both sides, and goes on in another mode.
    func cut(_ mode: Mode = .forward) async {
        await run { core in
            core.mode = mode
            core.cut()
        }
    }

    /// - Returns: when it took effect, by the relay's own loop.
    @discardableResult
    func set(_ mode: Mode) async -> ContinuousClock.Instant {
        await run { $0.set(mode) }
    }

    @discardableResult
    private func run(_ body: @escaping @Sendable (RelayCore) -> Void) async -> ContinuousClock.Instant {
        await withCheckedContinuation { continuation in
            core.execute {
                body($0)
                continuation.resume(returning: .now)
            }
        }
    }
}

/// A loop for what plays the other side, so that it doesn't wait for the client's turns.
enum PeerLoop {
    private static let shared = Result { try EventLoop() }

    static func get() throws -> EventLoop { try shared.get() }
}

private final class RelayCore {
    let loop: EventLoop
    let route: Route
    var mode: Relay.Mode
    var listener: Listener?
    private var pairs: [RelayPair] = []

    init(loop: EventLoop, route: Route, mode: Relay.Mode) {
        self.loop = loop
        self.route = route
        self.mode = mode
    }

    func accept(_ descriptor: Int32, _ peer: String) {
        guard
            let stream = try? ByteStream(
                loop: loop, descriptor: descriptor, peer: peer, role: .server(webSocket: false),
                tlsContext: nil)
        else { return }
        if case .refuse = mode {
            stream.start()
            stream.abort(nil)
            return
        }
        let pair = RelayPair(client: stream, route: route) { [weak self] in self?.forget($0) }
        pairs.append(pair)
        pair.start(isStalled: mode == .stall)
    }

    func set(_ mode: Relay.Mode) {
        self.mode = mode
        for pair in pairs { pair.setStalled(mode == .stall) }
    }

    func cut() {
        let doomed = pairs
        pairs = []
        for pair in doomed { pair.end() }
    }

    func stop() {
        listener?.close()
        listener = nil
        cut()
    }

    private func forget(_ pair: RelayPair) {
        pairs.removeAll { $0 === pair }
    }
}

private final class RelayPair: ByteStreamDelegate {
    private let client: ByteStream
    private let route: Route
    private let ended: (RelayPair) -> Void
    private var connector: Connector?
    private var broker: ByteStream?
    private var toBroker: [UInt8] = []
    private var toClient: [UInt8] = []
    private var isStalled = false
    private var hasEnded = false
    /// The broker's end has come, and is still to be passed on.
    private var brokerHasEnded = false

    init(client: ByteStream, route: Route, ended: @escaping (RelayPair) -> Void) {
        self.client = client
        self.route = route
        self.ended = ended
    }

    func start(isStalled: Bool) {
        self.isStalled = isStalled
        client.delegate = self
        client.start()
        let connector = Connector(
            loop: client.loop, route: route, observe: { _ in },
            completion: { [weak self] in self?.reached($0) })
        self.connector = connector
        connector.start()
    }

    private func reached(_ result: Result<ByteStream, TransportError>) {
        connector = nil
        switch result {
        case .success(let stream):
            broker = stream
            stream.delegate = self
            pass()
        case .failure:
            end()
        }
    }

    func setStalled(_ isStalled: Bool) {
        self.isStalled = isStalled
        pass()
    }

    func end() {
        if hasEnded { return }
        hasEnded = true
        connector?.cancel()
        client.abort(nil)
        broker?.abort(nil)
        ended(self)
    }

    private func pass() {
        if isStalled { return }
        if let broker, !toBroker.isEmpty {
            var ends = [toBroker.count]
            broker.send(&toBroker, packetEnds: &ends)
        }
        if !toClient.isEmpty {
            var ends = [toClient.count]
            client.send(&toClient, packetEnds: &ends)
        }
        if brokerHasEnded { streamEnded(from: broker) }
    }

    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
        if stream === client {
            toBroker.append(contentsOf: bytes)
        } else {
            toClient.append(contentsOf: bytes)
        }
        pass()
    }

    func streamFlushed(_ stream: ByteStream) {}

    func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
        if stream !== client, isStalled {
            brokerHasEnded = true
        } else {
            streamEnded(from: stream)
        }
    }

    private func streamEnded(from stream: ByteStream?) {
        if hasEnded { return }
        hasEnded = true
        connector?.cancel()
        // In order, as the one side has ended in order; what is queued goes out first.
        if stream === client { broker?.close() } else { client.close() }
        ended(self)
    }
}
