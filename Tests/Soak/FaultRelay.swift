internal import MQTTTransport

/// Stands between the clients and the broker; each client has a port of its own, so that its faults follow from the
/// seed whatever the others do.
final class FaultRelay: Sendable {
    /// What has been done so far, by kind; `connections` counts all.
    struct Counts: Sendable {
        var connections = 0
        var sliced = 0
        var delayed = 0
        var dropped = 0
        var reset = 0
        var stalled = 0
        var blackholed = 0
        /// Those that are there now.
        var open = 0
    }

    /// A port for each client.
    let ports: [UInt16]
    private let core: LoopBound<RelayCore>

    /// - Parameters:
    ///   - targets: where on 127.0.0.1 to go, for each client.
    ///   - seed: what all faults follow from.
    init(to targets: [UInt16], seed: UInt64) throws {
        let loop = try EventLoop()
        let core = RelayCore(loop: loop, seed: seed)
        ports = try targets.enumerated().map { try core.listen(client: $0, to: $1) }
        self.core = LoopBound(core, on: loop)
        self.core.execute { $0.start() }
    }

    /// From now on there are faults on new connections, and those that stand are cut once so that there are new ones.
    func beginFaults() { core.execute { $0.beginFaults() } }

    /// No more faults. Stalled connections go on; those in a black hole stay there, as nobody tells their ends.
    func endFaults() { core.execute { $0.endFaults() } }

    var counts: Counts {
        get async {
            await withCheckedContinuation { continuation in
                core.execute { continuation.resume(returning: $0.counts) }
            }
        }
    }
}

/// On the loop only.
final class RelayCore {
    let loop: EventLoop
    var counts = FaultRelay.Counts()
    private let seed: UInt64
    private var listeners: [Listener] = []
    private var connectionsOf: [Int: Int] = [:]
    private var pairs: [ObjectIdentifier: RelayPair] = [:]
    private var hasFaults = false

    init(loop: EventLoop, seed: UInt64) {
        self.loop = loop
        self.seed = seed
    }

    func listen(client: Int, to target: UInt16) throws -> UInt16 {
        guard let address = SocketAddress(literal: "127.0.0.1", port: 0) else { preconditionFailure() }
        let route = Route(try .tcp(host: "127.0.0.1", port: Int(target)))
        let listener = try Listener(loop: loop, address: address) { [unowned self] descriptor, peer in
            accept(descriptor, peer, client, route)
        }
        listeners.append(listener)
        return listener.address.port
    }

    func start() {
        for listener in listeners { listener.start() }
    }

    func beginFaults() {
        hasFaults = true
        for (number, pair) in pairs.values.enumerated() {
            // Not all at once: that is what a restart of the broker does.
            _ = loop.schedule(at: loop.now + .milliseconds(number * 50)) { [weak pair] in pair?.end(.reset) }
        }
    }

    func endFaults() {
        hasFaults = false
        for pair in pairs.values { pair.heal() }
    }

    func ended(_ pair: RelayPair) {
        pairs[ObjectIdentifier(pair)] = nil
        counts.open -= 1
    }

    private func accept(_ descriptor: Int32, _ peer: String, _ client: Int, _ route: Route) {
        let role = ByteStream.Role.server(webSocket: false)
        // It fails only where TLS does.
        guard
            let stream = try? ByteStream(
                loop: loop, descriptor: descriptor, peer: peer, role: role, tlsContext: nil)
        else { return }
        let number = connectionsOf[client, default: 0]
        connectionsOf[client] = number + 1
        let plan = hasFaults ? FaultPlan(seed: seed, client: client, connection: number) : .clean
        counts.connections += 1
        counts.open += 1
        switch plan.shaping {
        case .none: break
        case .slices: counts.sliced += 1
        case .delay: counts.delayed += 1
        }
        let pair = RelayPair(core: self, client: stream, route: route, plan: plan)
        pairs[ObjectIdentifier(pair)] = pair
        pair.start()
    }
}
