/// One attempt along one route: resolve, TCP, proxy, TLS, WebSocket, each under its deadline and each observed. Where
/// the server redirects and the profile's policy allows it, the same again along the route to there.
///
/// Used once, on its loop. It calls `completion` exactly once, unless it is cancelled first.
package final class Connector {
    enum State {
        case idle
        /// The program is asked for its request, or contexts of TLS are being made.
        case preparing(Task<Void, Never>)
        case resolving
        /// The proxy has these addresses and wants to be told the server's.
        case resolvingServer(proxy: [SocketAddress])
        case connecting(TCPRace)
        case tunnelling(ProxyAttempt)
        case establishing(ByteStream, remainingStages: [ConnectionStage])
        case done
    }

    let loop: EventLoop
    /// The route that is being taken, or was.
    package internal(set) var route: Route
    var trail: RedirectTrail
    let contexts: TLSContextStore
    private let upgrade: UpgradeRequest.Hook?
    let proxyLogin: ProxyLoginHandler?
    private let resolver: Resolver
    private let observe: (StageObservation) -> Void
    private let completion: (Result<ByteStream, TransportError>) -> Void

    var state = State.idle
    /// The server's that are still to be tried, where the proxy wants to be told them.
    var serverAddresses: [SocketAddress] = []
    /// Where it is, or ended.
    package internal(set) var stage = ConnectionStage.resolve
    var stageStart: ContinuousClock.Instant
    private var timer: EventLoop.TimerIdentifier?
    /// Runs from the first redirect on: however many there are, together they may take as long as one route.
    private var redirectTimer: EventLoop.TimerIdentifier?

    /// - Parameters:
    ///   - contexts: made here where they aren't there yet.
    ///   - upgrade: asked first, where the route has a WebSocket; not again for redirects.
    ///   - proxyLogin: asked where the route's proxy wants a login.
    ///   - observe: hears of each stage once, passed or failed.
    package init(
        loop: EventLoop, route: Route, contexts: TLSContextStore = TLSContextStore(),
        upgrade: UpgradeRequest.Hook? = nil, proxyLogin: ProxyLoginHandler? = nil,
        resolver: Resolver = .system,
        observe: @escaping (StageObservation) -> Void,
        completion: @escaping (Result<ByteStream, TransportError>) -> Void
    ) {
        self.loop = loop
        self.route = route
        trail = RedirectTrail(from: route)
        self.contexts = contexts
        self.upgrade = upgrade
        self.proxyLogin = proxyLogin
        self.resolver = resolver
        self.observe = observe
        self.completion = completion
        stageStart = loop.now
    }

    package func start() {
        guard case .idle = state else { return }
        if let upgrade, let options = route.webSocket {
            ask(upgrade, UpgradeRequest(path: options.path, headers: options.headers))
        } else {
            prepare()
        }
    }

    func resolve() {
        state = .resolving
        serverAddresses = []
        begin(.resolve, deadline: route.deadlines.resolve) { connector in
            connector.resolveFailed(
                TransportError(
                    stage: .resolve, code: .dnsTimeout, hop: connector.lookedUp.host,
                    evidence: .deadline(connector.route.deadlines.resolve)))
        }
        lookUp()
    }

    private func lookUp() {
        let (host, port) = lookedUp
        if let literal = SocketAddress(literal: host, port: port) {
            resolved(.success([literal]))
            return
        }
        if host.contains(":"), let percent = host.firstIndex(of: "%") {
            let zone = host[host.index(after: percent)...]
            let text = "\(zone) is no interface of this machine, or an address of this kind has no zone"
            return resolveFailed(
                TransportError(
                    stage: .resolve, code: .clientInvalidArgument, hop: host, evidence: .text(text)))
        }
        let bound = LoopBound(self, on: loop)
        resolver.resolve(host, port: port) { answer in
            bound.execute { $0.resolved(answer) }
        }
    }

    /// Whose address is needed now.
    private var lookedUp: (host: String, port: UInt16) {
        if case .resolvingServer = state { return (route.host, route.port) }
        return route.firstHop
    }

    /// Ends the attempt without a word.
    package func cancel() {
        endTimers()
        switch state {
        case .idle, .resolving, .resolvingServer, .done: break
        case .preparing(let task): task.cancel()
        case .connecting(let race): race.cancel()
        case .tunnelling(let attempt): attempt.cancel()
        case .establishing(let stream, _):
            stream.delegate = nil
            stream.abort(nil)
        }
        state = .done
    }

    private func resolved(_ answer: Resolver.Answer) {
        switch (state, answer) {
        case (.resolving, .failure(let error)), (.resolvingServer, .failure(let error)):
            resolveFailed(error)
        case (.resolving, .success(let addresses)) where route.proxy?.needsAddress == true:
            state = .resolvingServer(proxy: addresses)
            lookUp()
        case (.resolving, .success(let addresses)): connect(toResolved: addresses)
        case (.resolvingServer(let proxy), .success(let addresses)):
            serverAddresses = addresses
            connect(toResolved: proxy)
        default: break
        }
    }

    private func resolveFailed(_ error: TransportError) {
        if case .resolving = state, route.proxy != nil { fail(error.atProxy) } else { fail(error) }
    }

    private func connect(toResolved addresses: [SocketAddress]) {
        pass(detail: AddressRace.summary(of: addresses))
        stage = .tcp
        stageStart = loop.now
        let usable: [SocketAddress]
        do throws(TransportError) {
            usable = try route.socket.usable(addresses, of: route.firstHop.host)
        } catch {
            return fail(error)
        }
        let race = AddressRace(usable, deadline: route.deadlines.tcp)
        let attempts = TCPRace(loop: loop, race: race, options: route.socket) { [weak self] outcome in
            switch (outcome, self) {
            case (.connected(let descriptor, let address, let detail), let self?):
                self.connected(descriptor, address, detail: detail)
            case (.failed(let failures), let self?): self.failTCP(failures)
            case (.connected(let descriptor, _, _), nil): Socket.close(descriptor)
            case (.failed, nil): break
            }
        }
        state = .connecting(attempts)
        attempts.start()
    }

    private func failTCP(_ failures: [TransportError]) {
        let error =
            failures.count == 1
            ? failures[0] : TransportError(addresses: failures, host: route.firstHop.host)
        fail(route.proxy == nil ? error : error.atProxy)
    }

    private func connected(_ descriptor: Int32, _ address: SocketAddress, detail: String) {
        pass(detail: detail)
        if let proxy = route.proxy { return tunnel(through: proxy, at: address, descriptor) }
        establish(descriptor, peer: address.description)
    }

    /// The layers that end at the server.
    func establish(_ descriptor: Int32, peer: String, tunnel: ProxyTunnel? = nil) {
        do throws(TransportError) {
            let stream = try ByteStream(
                loop: loop, descriptor: descriptor, peer: peer, role: .client(route),
                tlsContext: context(for: route.tls), tunnel: tunnel)
            stream.delegate = self
            let remaining = route.stages.filter { $0 == .tls || $0 == .webSocket }
            state = .establishing(stream, remainingStages: remaining)
            beginNextStage()
            stream.start()
            finishIfOpen()
        } catch {
            Socket.close(descriptor)
            // What is below has been observed already: what fails now is the preparation of the next layer.
            stage = error.stage
            stageStart = loop.now
            fail(error)
        }
    }

    private func beginNextStage() {
        guard case .establishing(let stream, let remaining) = state, let next = remaining.first else {
            return
        }
        let isTLS = next == .tls
        let deadline = isTLS ? route.deadlines.tls : route.deadlines.webSocket
        begin(next, deadline: deadline) { connector in
            connector.fail(
                isTLS
                    ? TransportError(
                        stage: .tls, code: .tlsTimeout, hop: stream.peer, evidence: .deadline(deadline))
                    : stream.webSocketTimeout(deadline))
        }
    }

    private func finishIfOpen() {
        guard case .establishing(let stream, _) = state, stream.isOpen else { return }
        endTimers()
        state = .done
        stream.delegate = nil
        completion(.success(stream))
    }

    // MARK: Redirects

    private func redirected(_ answer: TransportError.HTTPAnswer, from stream: ByteStream) {
        do throws(RedirectTrail.Refusal) {
            route = try trail.follow(status: answer.status, location: stream.refusalLocation)
        } catch {
            var answer = answer
            answer.notFollowed = TransportError.Evidence.printable(error.reason)
            return report(
                TransportError(stage: stage, code: .wsRedirected, hop: stream.peer, evidence: .http(answer)))
        }
        observe(
            StageObservation(
                stage: stage, outcome: .redirected(to: route.url), started: stageStart, ended: loop.now))
        if redirectTimer == nil { startRedirectTimer() }
        prepare()
    }

    private func startRedirectTimer() {
        let deadline = route.deadline
        redirectTimer = loop.schedule(at: loop.now + deadline) { [weak self] in
            guard let self else { return }
            self.redirectTimer = nil
            self.fail(
                TransportError(
                    stage: self.stage, code: self.stage.timeoutCode, hop: self.route.host,
                    evidence: .text("redirected, and not at the end after \(deadline)")))
        }
    }

    // MARK: Stages

    func begin(
        _ stage: ConnectionStage, deadline: Duration, _ expired: @escaping (Connector) -> Void
    ) {
        self.stage = stage
        stageStart = loop.now
        timer = loop.schedule(at: loop.now + deadline) { [weak self] in
            guard let self else { return }
            self.timer = nil
            expired(self)
        }
    }

    func endStage() {
        if let timer { loop.cancel(timer) }
        timer = nil
    }

    private func endTimers() {
        endStage()
        if let redirectTimer { loop.cancel(redirectTimer) }
        redirectTimer = nil
    }

    func pass(detail: String) {
        endStage()
        observe(
            StageObservation(
                stage: stage, outcome: .passed, started: stageStart, ended: loop.now, detail: detail))
    }

    func fail(_ error: TransportError) {
        if case .done = state { return }
        cancel()
        report(error)
    }

    private func report(_ error: TransportError) {
        endTimers()
        state = .done
        observe(StageObservation(stage: stage, outcome: .failed(error), started: stageStart, ended: loop.now))
        completion(.failure(error))
    }
}

extension Connector: ByteStreamDelegate {
    package func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {
        guard case .establishing(_, let remaining) = state else { return }
        pass(detail: detail)
        state = .establishing(stream, remainingStages: Array(remaining.dropFirst()))
        beginNextStage()
        finishIfOpen()
    }

    package func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {}

    package func streamFlushed(_ stream: ByteStream) {}

    package func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
        guard case .establishing = state else { return }
        endStage()
        // Not aborted: it may still be saying why.
        let error = error ?? TransportError(stage: stage, code: .tcpClosed, hop: stream.peer, evidence: .none)
        if error.code == .wsRedirected, case .http(let answer) = error.evidence {
            redirected(answer, from: stream)
        } else {
            report(error)
        }
    }
}

extension TransportError {
    /// The failure of a host that has several addresses.
    ///
    /// The first address is the one that the system prefers, so its failure names the whole; but one that no packet
    /// has left for says nothing of the host, such as ::1 on a machine without IPv6.
    package init(addresses failures: [TransportError], host: String) {
        let telling = failures.first { failure in
            switch failure.code {
            case .clientResources, .tcpNetUnreachable, .tcpFailed: false
            default: true
            }
        }
        self.init(
            stage: .tcp, code: (telling ?? failures.first)?.code ?? .tcpFailed, hop: host,
            evidence: .addresses(failures))
    }
}
