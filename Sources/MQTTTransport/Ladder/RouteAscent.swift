/// One attempt to connect over all the ways of a profile: carries out what `RouteRace` says.
///
/// Used once, on its loop. It says `opened` for one stream at a time, on which its owner sends CONNECT and tells by
/// `accepted` or `connectFailed` what came of it. It says `ended` once, unless it is cancelled or has been accepted
/// first.
package final class RouteAscent {
    /// What an owner decides, and hears.
    package struct Owner {
        /// Asked before the first stage of a way that has a WebSocket; nil for none.
        package var upgrade: (ConnectionProfile) -> UpgradeRequest.Hook?
        package var observe: (StageObservation, ConnectionProfile) -> Void
        /// CONNECT can be sent: the route that was taken, and the way that it belongs to.
        package var opened: (ByteStream, Route, ConnectionProfile) -> Void
        /// All ways have failed, or the time is up.
        package var ended: ([RouteAttempt]) -> Void

        package init(
            upgrade: @escaping (ConnectionProfile) -> UpgradeRequest.Hook?,
            observe: @escaping (StageObservation, ConnectionProfile) -> Void,
            opened: @escaping (ByteStream, Route, ConnectionProfile) -> Void,
            ended: @escaping ([RouteAttempt]) -> Void
        ) {
            self.upgrade = upgrade
            self.observe = observe
            self.opened = opened
            self.ended = ended
        }
    }

    private enum Leg {
        case notTried
        case running(Connector)
        case open(ByteStream, Route)
        /// Its stream is the owner's.
        case handedOver
        case ended(RouteAttempt.Outcome)
    }

    private let loop: EventLoop
    private let ways: [ConnectionProfile]
    private let refusals: [Proxy: TransportError]
    private let contexts: TLSContextStore
    private let resolver: Resolver
    private let proxyLogin: ProxyLoginHandler?
    private let owner: Owner
    private var legs: [Leg]
    private var race: RouteRace
    /// nil where only the stages' deadlines bound the attempt.
    package let end: ContinuousClock.Instant?
    private var timer: DeadlineTimer

    /// - Parameters:
    ///   - ways: each with a single route; at least one, best first.
    ///   - ladder: says when the next is tried; nil for a single way, which only its stages' deadlines bound.
    ///   - end: of the attempt that this one goes on with; nil where it is the first.
    ///   - refusals: proxies that aren't to be tried, and why: their ways fail at once.
    package init(
        loop: EventLoop, ways: [ConnectionProfile], ladder: RouteLadder?, end: ContinuousClock.Instant? = nil,
        refusals: [Proxy: TransportError] = [:], contexts: TLSContextStore, resolver: Resolver = .system,
        proxyLogin: ProxyLoginHandler? = nil, owner: Owner
    ) {
        self.loop = loop
        self.ways = ways
        self.refusals = refusals
        self.contexts = contexts
        self.resolver = resolver
        self.proxyLogin = proxyLogin
        self.owner = owner
        legs = ways.map { _ in .notTried }
        self.end = end ?? ladder.map { loop.now + $0.deadline }
        race = RouteRace(count: ways.count, stagger: ladder?.stagger ?? .zero, end: self.end)
        timer = DeadlineTimer(on: loop)
    }

    package func start() { perform(race.start(now: loop.now)) }

    /// The broker has accepted CONNECT; the other ways are given up.
    package func accepted() -> [RouteAttempt] {
        guard let index = connecting else { return account }
        race.connected(index)
        legs[index] = .ended(.connected)
        giveUp()
        return account
    }

    /// The stream that was handed over last is closed, before an answer by the broker or with one that the next way
    /// may change.
    package func connectFailed(_ error: TransportError) {
        guard let index = connecting else { return }
        legs[index] = .ended(.failed(error))
        perform(race.failed(index, now: loop.now))
    }

    /// Whether a way is left besides the one that CONNECT was sent on.
    package var hasOtherWays: Bool {
        legs.contains { leg in
            switch leg {
            case .notTried, .running, .open: true
            case .handedOver, .ended: false
            }
        }
    }

    /// Ends without a word.
    ///
    /// - Parameter error: of the way that CONNECT was sent on, for the account.
    @discardableResult
    package func cancel(_ error: TransportError? = nil) -> [RouteAttempt] {
        if let error, let index = connecting { legs[index] = .ended(.failed(error)) }
        giveUp()
        return account
    }

    /// As much of this time as the attempt may still take; above zero.
    package func cut(_ duration: Duration, now: ContinuousClock.Instant) -> Duration {
        guard let end else { return duration }
        return min(duration, max(now.duration(to: end), .milliseconds(1)))
    }

    /// What became of each way so far.
    package var account: [RouteAttempt] {
        zip(ways, legs).map { way, leg in
            let outcome: RouteAttempt.Outcome =
                switch leg {
                case .notTried: .notTried
                case .running(let connector): .unfinished(connector.stage)
                case .open, .handedOver: .unfinished(.mqttConnect)
                case .ended(let outcome): outcome
                }
            return RouteAttempt(profile: way, outcome: outcome)
        }
    }

    private var connecting: Int? {
        legs.firstIndex { if case .handedOver = $0 { true } else { false } }
    }

    private func perform(_ actions: [RouteRace.Action]) {
        for action in actions {
            switch action {
            case .start(let index): start(index)
            case .connect(let index): handOver(index)
            case .end:
                giveUp()
                owner.ended(account)
            }
        }
        timer.arm(for: race.nextDeadline) { [weak self] in
            guard let self else { return }
            self.timer.fired()
            self.perform(self.race.deadlineReached(now: self.loop.now))
        }
    }

    private func start(_ index: Int) {
        let way = ways[index]
        if let refusal = way.proxy.flatMap({ refusals[$0] }) {
            legs[index] = .ended(.failed(refusal))
            return perform(race.failed(index, now: loop.now))
        }
        let connector = Connector(
            loop: loop, route: Route(way), contexts: contexts, upgrade: owner.upgrade(way),
            proxyLogin: proxyLogin, resolver: resolver,
            observe: { [owner] in owner.observe($0, way) },
            completion: { [weak self] result in
                guard let self else {
                    if case .success(let stream) = result { stream.close() }
                    return
                }
                self.ended(index, result)
            })
        legs[index] = .running(connector)
        connector.start()
    }

    private func ended(_ index: Int, _ result: Result<ByteStream, TransportError>) {
        guard case .running(let connector) = legs[index] else { return }
        switch result {
        case .success(let stream):
            legs[index] = .open(stream, connector.route)
            stream.delegate = OpenLeg { [weak self] in self?.closed(index, $0) }
            perform(race.opened(index))
        case .failure(let error):
            legs[index] = .ended(.failed(error))
            perform(race.failed(index, now: loop.now))
        }
    }

    /// The peer has given up on a stream that waits for its turn.
    private func closed(_ index: Int, _ error: TransportError) {
        guard case .open = legs[index] else { return }
        legs[index] = .ended(.failed(error))
        perform(race.failed(index, now: loop.now))
    }

    private func handOver(_ index: Int) {
        guard case .open(let stream, let route) = legs[index] else { return }
        legs[index] = .handedOver
        stream.delegate = nil
        owner.opened(stream, route, ways[index])
    }

    private func giveUp() {
        timer.cancel()
        for (index, leg) in legs.enumerated() {
            switch leg {
            case .notTried, .handedOver, .ended: break
            case .running(let connector):
                legs[index] = .ended(.unfinished(connector.stage))
                connector.cancel()
            case .open(let stream, _):
                legs[index] = .ended(.unfinished(.mqttConnect))
                stream.delegate = nil
                stream.close()
            }
        }
    }
}

/// Listens to an open stream until CONNECT is sent on it.
private final class OpenLeg: ByteStreamDelegate {
    private let ended: (TransportError) -> Void

    init(ended: @escaping (TransportError) -> Void) { self.ended = ended }

    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

    /// A server that speaks before CONNECT speaks no MQTT.
    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
        stream.delegate = nil
        stream.abort(nil)
        ended(
            TransportError(
                stage: .mqttConnect, code: .mqttNotMQTT, hop: stream.peer,
                evidence: .firstBytes(Array(bytes.prefix(64)))))
    }

    func streamFlushed(_ stream: ByteStream) {}

    func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
        ended(
            error
                ?? TransportError(stage: .mqttConnect, code: .tcpClosed, hop: stream.peer, evidence: .none))
    }
}
