internal import MQTTTransport

/// A connection of a client, and the one to the broker that belongs to it. On the loop only.
final class RelayPair: ByteStreamDelegate {
    private enum State {
        case passing
        case stalled
        case blackholed
        case ended
    }

    private let core: RelayCore
    private let client: ByteStream
    private let route: Route
    private var plan: FaultPlan
    private var state = State.passing
    private var connector: Connector?
    private var broker: ByteStream?
    private var toBroker: RelayFlow
    private var toClient: RelayFlow
    private var faultTimer: EventLoop.TimerIdentifier?
    private var passed = 0
    private var clientHasEnded = false
    private var brokerHasEnded = false

    init(core: RelayCore, client: ByteStream, route: Route, plan: FaultPlan) {
        self.core = core
        self.client = client
        self.route = route
        self.plan = plan
        toBroker = RelayFlow(core.loop)
        toClient = RelayFlow(core.loop)
    }

    func start() {
        client.delegate = self
        client.start()
        let connector = Connector(
            loop: core.loop, route: route, observe: { _ in },
            completion: { [weak self] in self?.reached($0) })
        self.connector = connector
        connector.start()
        guard let (_, trigger) = plan.fault else { return }
        switch trigger {
        case .time(let delay): schedule(delay) { $0.strike() }
        case .bytes(let limit): if limit == 0 { strike() }
        }
    }

    /// The fault that was to come doesn't.
    func heal() {
        plan = .clean
        switch state {
        case .passing, .stalled:
            cancelTimer()
            resume()
        case .blackholed, .ended: break
        }
    }

    enum Ending { case inOrder, reset }

    func end(_ ending: Ending) {
        if case .ended = state { return }
        state = .ended
        cancelTimer()
        toBroker.stop()
        toClient.stop()
        connector?.cancel()
        connector = nil
        switch ending {
        case .inOrder:
            client.close()
            broker?.close()
        case .reset:
            client.abort(nil)
            broker?.abort(nil)
        }
        core.ended(self)
    }

    private func strike() {
        guard case .passing = state, let (fault, _) = plan.fault else { return }
        plan.fault = nil
        cancelTimer()
        switch fault {
        case .drop:
            core.counts.dropped += 1
            end(.inOrder)
        case .reset:
            core.counts.reset += 1
            end(.reset)
        case .stall(let time):
            core.counts.stalled += 1
            state = .stalled
            schedule(time) { $0.resume() }
        case .blackhole:
            core.counts.blackholed += 1
            state = .blackholed
            toBroker.stop()
            toClient.stop()
        }
    }

    private func resume() {
        state = .passing
        pump()
    }

    private func reached(_ result: Result<ByteStream, TransportError>) {
        connector = nil
        switch result {
        case .success(let stream):
            broker = stream
            stream.delegate = self
            pump()
        case .failure:
            brokerEnded()
        }
    }

    private func pump() {
        guard case .passing = state else { return }
        if let broker { toBroker.pump(into: broker) { [weak self] in self?.pump() } }
        toClient.pump(into: client) { [weak self] in self?.pump() }
        if brokerHasEnded, toClient.isEmpty { end(.inOrder) }
    }

    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
        switch state {
        case .blackholed, .ended: return
        case .passing, .stalled: break
        }
        if stream === client {
            toBroker.append(bytes, plan.shaping)
        } else {
            toClient.append(bytes, plan.shaping)
        }
        passed += bytes.count
        pump()
        if case (_, .bytes(let limit))? = plan.fault, passed >= limit { strike() }
    }

    func streamFlushed(_ stream: ByteStream) {}

    func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
        if stream === client { clientEnded() } else { brokerEnded() }
    }

    private func clientEnded() {
        clientHasEnded = true
        switch state {
        // Nobody is left who could hear an answer to what still waits.
        case .passing, .stalled: end(.inOrder)
        case .blackholed:
            endIfAlone()
            // mosquitto waits 90 s for a CONNECT, and over WebSocket for ever.
            schedule(.seconds(10)) { $0.end(.reset) }
        case .ended: break
        }
    }

    private func brokerEnded() {
        brokerHasEnded = true
        switch state {
        // What it has said before goes first.
        case .passing: pump()
        case .stalled, .ended: break
        case .blackholed: endIfAlone()
        }
    }

    /// In a black hole each side has to find out by itself.
    private func endIfAlone() {
        if clientHasEnded, brokerHasEnded || broker == nil { end(.reset) }
    }

    private func schedule(_ delay: Duration, _ work: @escaping (RelayPair) -> Void) {
        if case .ended = state { return }
        faultTimer = core.loop.schedule(at: core.loop.now + delay) { [weak self] in
            guard let self else { return }
            faultTimer = nil
            work(self)
        }
    }

    private func cancelTimer() {
        if let faultTimer { core.loop.cancel(faultTimer) }
        faultTimer = nil
    }
}

/// What travels in one direction.
struct RelayFlow {
    private let loop: EventLoop
    private var waiting: [(due: ContinuousClock.Instant, bytes: [UInt8])] = []
    private var timer: EventLoop.TimerIdentifier?

    init(_ loop: EventLoop) { self.loop = loop }

    var isEmpty: Bool { waiting.isEmpty }

    mutating func append(_ bytes: UnsafeRawBufferPointer, _ shaping: FaultPlan.Shaping) {
        switch shaping {
        case .none: waiting.append((loop.now, Array(bytes)))
        case .delay(let delay): waiting.append((loop.now + delay, Array(bytes)))
        case .slices(let largest, let pause):
            var due = max(loop.now, waiting.last?.due ?? loop.now)
            var rest = bytes[...]
            while !rest.isEmpty {
                due += pause
                waiting.append((due, Array(rest.prefix(largest))))
                rest = rest.dropFirst(largest)
            }
        }
    }

    /// Sends what is due; calls `again` when the next piece is.
    mutating func pump(into stream: ByteStream, _ again: @escaping () -> Void) {
        stop()
        let now = loop.now
        let count = waiting.firstIndex { $0.due > now } ?? waiting.count
        if count > 0 {
            var bytes = waiting[..<count].flatMap(\.bytes)
            waiting.removeFirst(count)
            var ends = [bytes.count]
            stream.send(&bytes, packetEnds: &ends)
        }
        if let next = waiting.first { timer = loop.schedule(at: next.due, again) }
    }

    mutating func stop() {
        if let timer { loop.cancel(timer) }
        timer = nil
    }
}
