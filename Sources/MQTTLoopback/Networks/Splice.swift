import MQTTTransport

/// Where a connection that has come in goes.
enum SpliceDecision {
    case needsMore
    /// Says this and goes on reading.
    case say([UInt8])
    /// To this port of 127.0.0.1.
    ///
    /// - Parameters:
    ///   - first: what goes there first of what has come.
    ///   - opened: said to the client when it is there.
    ///   - failed: said where nothing listens; RST where empty.
    case connect(UInt16, first: [UInt8], opened: [UInt8] = [], failed: [UInt8] = [])
    /// Says this, and ends.
    case end([UInt8])
    /// Nothing, for ever.
    case silence
}

/// Reads the first bytes of a connection.
protocol SpliceDecider {
    /// - Parameter bytes: that no decision has taken yet; what is taken is removed.
    mutating func decide(_ bytes: inout [UInt8]) -> SpliceDecision
}

/// To one port, whatever comes.
struct StraightOn: SpliceDecider {
    let port: UInt16

    func decide(_ bytes: inout [UInt8]) -> SpliceDecision {
        defer { bytes = [] }
        return .connect(port, first: bytes)
    }
}

/// By the rules on the ClientHello.
struct HelloDecider: SpliceDecider {
    let rules: [(condition: HostilePart.HelloRule.Condition, port: UInt16)]
    let otherwise: UInt16

    func decide(_ bytes: inout [UInt8]) -> SpliceDecision {
        let port: UInt16
        switch ClientHello.read(bytes) {
        case .needsMore: return .needsMore
        case .other: port = otherwise
        case .hello(let hello): port = rules.first { hello.meets($0.condition) }?.port ?? otherwise
        }
        defer { bytes = [] }
        return .connect(port, first: bytes)
    }
}

extension ClientHello {
    fileprivate func meets(_ condition: HostilePart.HelloRule.Condition) -> Bool {
        switch condition {
        case .any: true
        case .serverName(let name): serverName == name
        case .applicationProtocol(let name): applicationProtocols.contains(name)
        }
    }
}

/// A client's connection, and the one that goes on from there. On the loop only.
final class Splice: ByteStreamDelegate {
    private enum State {
        case deciding
        case connecting(Connector, first: [UInt8], opened: [UInt8], failed: [UInt8])
        case passing(ByteStream)
        /// Whatever comes is thrown away.
        case mute
        case ended
    }

    private let client: ByteStream
    private var decider: any SpliceDecider
    private var flow: HinderedFlow
    private let ended: (Splice) -> Void
    private var state = State.deciding
    private var unread: [UInt8] = []
    private var timer: DeadlineTimer

    init(
        client: ByteStream, decider: any SpliceDecider, hindrance: HostilePart.Hindrance?,
        ended: @escaping (Splice) -> Void
    ) {
        self.client = client
        self.decider = decider
        flow = HinderedFlow(hindrance, now: client.loop.now)
        self.ended = ended
        timer = DeadlineTimer(on: client.loop)
    }

    func start() {
        client.delegate = self
        client.start()
        if client.isOpen { decide() }
    }

    /// Resets both sides.
    func abort() {
        if case .ended = state { return }
        let other = end()
        client.abort(nil)
        other?.abort(nil)
    }

    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {
        if client.isOpen, case .deciding = state { decide() }
    }

    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
        switch state {
        case .deciding:
            unread.append(contentsOf: bytes)
            decide()
        case .connecting: unread.append(contentsOf: bytes)
        case .passing: pass(Array(bytes), isFromClient: stream === client)
        case .mute, .ended: break
        }
    }

    func streamFlushed(_ stream: ByteStream) {}

    func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
        if case .ended = state { return }
        let isReset = error?.code == .tcpReset
        if stream === client {
            let other = end()
            if isReset { other?.abort(nil) } else { other?.close() }
        } else {
            act(flow.serverEnded(byReset: isReset, now: client.loop.now))
        }
    }

    private func decide() {
        while case .deciding = state {
            switch decider.decide(&unread) {
            case .needsMore: return
            case .say(let bytes): say(bytes, to: client)
            case .connect(let port, let first, let opened, let failed):
                connect(to: port, first, opened, failed)
            case .end(let bytes):
                say(bytes, to: client)
                _ = end()
                client.close()
            case .silence: state = .mute
            }
        }
    }

    private func connect(to port: UInt16, _ first: [UInt8], _ opened: [UInt8], _ failed: [UInt8]) {
        guard let profile = try? ConnectionProfile.tcp(host: "127.0.0.1", port: Int(port)) else {
            return abort()
        }
        let connector = Connector(
            loop: client.loop, route: Route(profile), observe: { _ in },
            completion: { [weak self] in self?.connected($0) })
        state = .connecting(connector, first: first, opened: opened, failed: failed)
        connector.start()
    }

    private func connected(_ result: Result<ByteStream, TransportError>) {
        guard case .connecting(_, let first, let opened, let failed) = state else { return }
        switch result {
        case .success(let server):
            state = .passing(server)
            server.delegate = self
            say(opened, to: client)
            pass(first, isFromClient: true)
            let waiting = unread
            unread = []
            pass(waiting, isFromClient: true)
        case .failure where failed.isEmpty: abort()
        case .failure:
            say(failed, to: client)
            _ = end()
            client.close()
        }
    }

    private func pass(_ bytes: [UInt8], isFromClient: Bool) {
        if bytes.isEmpty { return }
        act(flow.received(bytes, isFromClient: isFromClient, now: client.loop.now))
    }

    private func act(_ actions: [HinderedFlow.Action]) {
        for action in actions {
            guard case .passing(let server) = state else { return }
            switch action {
            case .toServer(let bytes): say(bytes, to: server)
            case .toClient(let bytes): say(bytes, to: client)
            case .close:
                _ = end()
                client.close()
                server.close()
            case .reset: abort()
            }
        }
        guard case .passing = state else { return }
        timer.arm(for: flow.nextDeadline) { [weak self] in
            guard let self else { return }
            self.timer.fired()
            self.act(self.flow.deadlineReached(now: self.client.loop.now))
        }
    }

    private func say(_ bytes: [UInt8], to stream: ByteStream) {
        if bytes.isEmpty { return }
        var bytes = bytes
        var ends = [bytes.count]
        stream.send(&bytes, packetEnds: &ends)
    }

    /// - Returns: the other side, still to be ended.
    private func end() -> ByteStream? {
        defer { ended(self) }
        timer.cancel()
        let last = state
        state = .ended
        switch last {
        case .connecting(let connector, _, _, _):
            connector.cancel()
            return nil
        case .passing(let server): return server
        case .deciding, .mute, .ended: return nil
        }
    }
}
