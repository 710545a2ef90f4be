import Glibc
import MQTTCore
import MQTTTransport

/// The broker's loop: hands the core what arrives and writes what the core says. It decides nothing. On its
/// event loop only.
final class BrokerDriver {
    let loop: EventLoop
    let core: BrokerCore
    private var counted = LoopbackBroker.Counters()

    private let webSocketPath: String
    private let compressesWebSocket: Bool
    private let tlsContext: TLSContext
    private var listeners: [LoopbackBroker.Kind: BrokerListener] = [:]
    /// By the connection's slot in the core.
    private var peers: [BrokerPeer?] = []
    private var peerCount = 0
    /// Streams that have ended for the core and still send their last words.
    private var lingering: [ByteStream] = []
    private var whenEmpty: (() -> Void)?

    private var buffer: [UInt8] = []
    private var packetEnds: [Int] = []
    private var isTurnEndScheduled = false
    private var timer: DeadlineTimer

    /// Output stays with the core, which then knows that the client reads slowly, while more than this waits in
    /// the stream.
    private static let highWaterMark = 256 * 1024

    init(
        loop: EventLoop, configuration: BrokerConfiguration, webSocketPath: String, compressesWebSocket: Bool,
        tlsContext: TLSContext
    ) {
        self.loop = loop
        timer = DeadlineTimer(on: loop)
        self.webSocketPath = webSocketPath
        self.compressesWebSocket = compressesWebSocket
        self.tlsContext = tlsContext
        core = BrokerCore(configuration: configuration) { loop.random.bytes($0) }
    }

    var counters: LoopbackBroker.Counters {
        var counters = counted
        counters.droppedMessages = core.droppedMessages
        return counters
    }

    // MARK: Listening

    /// - Returns: the port.
    /// - Throws: `TransportError` where it can't be had.
    func listen(
        _ kind: LoopbackBroker.Kind, at address: SocketAddress, blocked: LoopbackBroker.Blocking?
    ) throws(TransportError) -> UInt16 {
        let listener = try BrokerListener(loop: loop, address: address) { [weak self] descriptor, peer in
            self?.accept(descriptor, peer, kind)
        }
        listeners[kind] = listener
        listener.start()
        if let blocked { try listener.block(by: blocked) }
        return listener.address.port
    }

    func block(_ kind: LoopbackBroker.Kind, by means: LoopbackBroker.Blocking) throws(TransportError) {
        try listeners[kind]?.block(by: means)
    }

    func unblock(_ kind: LoopbackBroker.Kind) {
        listeners[kind]?.unblock()
    }

    private func accept(_ descriptor: Int32, _ address: String, _ kind: LoopbackBroker.Kind) {
        let stream: ByteStream
        do {
            stream = try ByteStream(
                loop: loop, descriptor: descriptor, peer: address,
                role: .server(
                    webSocket: kind.isWebSocket, path: webSocketPath, compresses: compressesWebSocket),
                tlsContext: kind.isEncrypted ? tlsContext : nil)
        } catch {
            close(descriptor)
            return
        }
        counted.connections += 1
        // The time for CONNECT includes the handshakes below it.
        let id = core.open(now: loop.now)
        let peer = BrokerPeer(stream, id, isWebSocket: kind.isWebSocket, driver: self)
        while peers.count <= id.slot { peers.append(nil) }
        peers[id.slot] = peer
        peerCount += 1
        stream.delegate = peer
        stream.start()
        scheduleTurnEnd()
    }

    // MARK: What the peers report

    func received(_ packet: ControlPacket, from peer: BrokerPeer) {
        counted.countReceived(packet.type)
        core.receive(packet, from: peer.id, now: loop.now)
        scheduleTurnEnd()
    }

    func rejected(_ error: DecodeError, from peer: BrokerPeer) {
        core.reject(error, from: peer.id, now: loop.now)
        scheduleTurnEnd()
    }

    func flushed(_ peer: BrokerPeer) {
        takeOutput(of: peer)
        scheduleTurnEnd()
    }

    func closed(_ peer: BrokerPeer) {
        guard peers[peer.id.slot] === peer else { return }
        peers[peer.id.slot] = nil
        peerCount -= 1
        lingering.removeAll { $0.isReleased }
        if !peer.stream.isReleased { lingering.append(peer.stream) }
        core.close(peer.id, now: loop.now)
        scheduleTurnEnd()
    }

    // MARK: What the owner asks for

    func publish(_ publish: Publish) {
        core.publish(publish, now: loop.now)
        scheduleTurnEnd()
    }

    func disconnect(_ clientID: String, because reason: ReasonCode) {
        core.disconnect(clientIdentifier: clientID, because: reason, now: loop.now)
        scheduleTurnEnd()
    }

    func redirect(_ clientID: String, to redirection: LoopbackBroker.Redirection) {
        core.disconnect(
            clientIdentifier: clientID, because: redirection.reasonCode, redirection.properties, now: loop.now
        )
        scheduleTurnEnd()
    }

    /// - Parameter clientID: all connections where nil, those without CONNECT too.
    /// - Returns: how many there were.
    func dropConnections(clientID: String?, by means: LoopbackBroker.Drop) -> Int {
        let dropped: [BrokerPeer]
        if let clientID {
            dropped = core.connection(ofClient: clientID).flatMap { peers[$0.slot] }.map { [$0] } ?? []
        } else {
            dropped = peers.compactMap { $0 }
        }
        for peer in dropped { peer.stream.abort(nil, reset: means == .reset) }
        return dropped.count
    }

    /// Says goodbye to all, then calls `completion`: at the latest when each stream's closing time is over.
    func shutDown(_ completion: @escaping () -> Void) {
        for listener in listeners.values { listener.close() }
        listeners = [:]
        core.shutDown(now: loop.now)
        whenEmpty = completion
        scheduleTurnEnd()
    }

    /// Gives back everything at once.
    func abandon() {
        for listener in listeners.values { listener.close() }
        listeners = [:]
        for stream in peers.compactMap({ $0?.stream }) + lingering { stream.abort(nil) }
        lingering = []
        timer.cancel()
    }

    // MARK: Output

    private func scheduleTurnEnd() {
        if isTurnEndScheduled { return }
        isTurnEndScheduled = true
        loop.flushAtEndOfTurn { [self] in
            isTurnEndScheduled = false
            turnEnded()
        }
    }

    private func turnEnded() {
        while let id = core.nextOutput() {
            if let peer = peers[id.slot] { takeOutput(of: peer) }
        }
        timer.arm(for: core.nextDeadline) { [weak self] in self?.timerFired() }
        if peerCount == 0, let completion = whenEmpty {
            whenEmpty = nil
            abandon()
            completion()
        }
    }

    private func takeOutput(of peer: BrokerPeer) {
        // A closing connection has its own time limit, in the stream.
        peer.isHeldBack = peer.stream.pendingBytes > Self.highWaterMark && !core.isClosing(peer.id)
        if peer.isHeldBack { return }
        // Taken out, since sending may end the stream, which calls us.
        var bytes: [UInt8] = []
        var ends: [Int] = []
        swap(&bytes, &buffer)
        swap(&ends, &packetEnds)
        let after = core.takeOutput(of: peer.id, now: loop.now, into: &bytes)
        counted.countSent(bytes, packetEnds: &ends)
        peer.stream.send(&bytes, packetEnds: &ends)
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
        swap(&bytes, &buffer)
        swap(&ends, &packetEnds)
        if after == .close { peer.stream.close() }
    }

    private func timerFired() {
        timer.fired()
        core.advance(now: loop.now)
        scheduleTurnEnd()
    }
}
