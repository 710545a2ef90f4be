// From the wish to connect to a stream on which CONNECT is sent.

extension SessionDriver {
    /// The way down to the network.
    enum Link {
        case none
        /// What the attempt needs is being found out.
        case preparing(Task<Void, Never>, EventLoop.TimerIdentifier)
        /// The ways to the server are being tried.
        case ascending(RouteAscent)
        /// CONNECT has been sent; other ways may still be on theirs.
        case connecting(ByteStream, RouteAscent)
        case online(ByteStream)

        /// On which MQTT is spoken.
        var stream: ByteStream? {
            switch self {
            case .none, .preparing, .ascending: nil
            case .connecting(let stream, _), .online(let stream): stream
            }
        }

        /// Whose ways may still be taken.
        var ascent: RouteAscent? {
            switch self {
            case .none, .preparing, .online: nil
            case .ascending(let ascent), .connecting(_, let ascent): ascent
            }
        }
    }

    func startAttempt(_ number: Int) {
        attemptNumber = number
        events.enter(.connecting(ClientState.Attempt(number: number)), now: loop.now)
        approach()
    }

    /// Goes to the server at hand for the first time.
    func approach() {
        let server = servers.present
        let credentials = server.receivesCredentials && !server.hasOwnLogin ? configuration.credentials : nil
        guard credentials != nil || server.profile.ladder != nil else {
            return ascend(AttemptPreparation(ways: [server.profile]))
        }
        let attempt = ConnectionAttempt(
            number: attemptNumber, lastError: lastError, profile: server.profile)
        let deadline = server.profile.deadlines.preparation
        preparations += 1
        let bound = LoopBound(WeakDriver(driver: self), on: loop)
        let timer = loop.schedule(at: loop.now + deadline) { [weak self, preparations] in
            self?.prepared(
                preparations,
                .failure(
                    TransportError(
                        stage: .local, code: .clientHookTimeout,
                        evidence: .text("the program's credentials weren't there within \(deadline)"))))
        }
        // A deadline runs: ahead of work that has none.
        let task = Task(priority: .high) { [preparations, memory = configuration.routeMemory] in
            let result: Result<AttemptPreparation, TransportError>
            do throws(TransportError) {
                result = .success(
                    try await AttemptPreparation.make(attempt, memory: memory, credentials: credentials))
            } catch {
                result = .failure(error)
            }
            bound.execute { $0.driver?.prepared(preparations, result) }
        }
        link = .preparing(task, timer)
    }

    private func prepared(_ number: UInt64, _ result: Result<AttemptPreparation, TransportError>) {
        guard case .preparing(let task, let timer) = link, number == preparations else { return }
        task.cancel()
        loop.cancel(timer)
        link = .none
        if let problem = configuration.routeMemory.problem, servers.present.profile.ladder != nil {
            configuration.report(.warning, .routeMemoryProblem(problem))
        }
        switch result {
        case .success(let preparation):
            if let problem = preparation.environmentProblem {
                configuration.report(.warning, .proxyEnvironmentProblem(problem))
            }
            if let login = preparation.login, login == refusedLogin {
                // `lastError` is the server's refusal.
                perform(lifecycle.attemptFailed(.refusedByServer, now: loop.now, random: randomBits()))
            } else {
                ascend(preparation)
            }
        case .failure(let error): attemptFailed(error, ConnectionFailure(error))
        }
        scheduleTurnEnd()
    }

    private func ascend(_ preparation: AttemptPreparation) {
        var preparation = preparation
        preparation.ways = preparation.ways.map { $0.pinging(within: idleLimit.safeInterval) }
        let server = servers.present
        let ascent = RouteAscent(
            loop: loop, ways: preparation.ways, ladder: server.profile.ladder, end: preparation.end,
            refusals: refusals, contexts: tlsContexts, resolver: configuration.resolver,
            proxyLogin: configuration.proxyLogin,
            owner: RouteAscent.Owner(
                upgrade: upgradeHook(server),
                observe: { [weak self] in self?.observed($0, on: $1) },
                opened: { [weak self] in self?.opened($0, $1, $2) },
                ended: { [weak self] in self?.ascentEnded($0) }))
        preparation.end = ascent.end
        self.preparation = preparation
        link = .ascending(ascent)
        ascent.start()
    }

    private func observed(_ observation: StageObservation, on way: ConnectionProfile) {
        events.observe(observation, on: way)
        configuration.report(observation.outcome.level, .stage(observation, of: way))
    }

    /// Once more to the same server, first on the way that was taken, in what is left of the attempt's time.
    func ascendAgain() {
        var preparation = preparation
        if let taken = preparation.ways.firstIndex(of: takenWay) {
            preparation.ways.insert(preparation.ways.remove(at: taken), at: 0)
        }
        ascend(preparation)
    }

    private func upgradeHook(_ server: ServerTrail.Place) -> (ConnectionProfile) -> UpgradeRequest.Hook? {
        guard let hook = configuration.upgradeRequest, server.receivesCredentials else { return { _ in nil } }
        let (number, lastError) = (attemptNumber, lastError)
        return { way in
            { request in
                try await hook(
                    request, ConnectionAttempt(number: number, lastError: lastError, profile: way))
            }
        }
    }

    private func opened(_ stream: ByteStream, _ route: Route, _ way: ConnectionProfile) {
        guard let ascent = link.ascent else { return }
        let server = servers.present
        takenWay = way
        takenProfile = way.redirected(to: route)
        link = .connecting(stream, ascent)
        stream.delegate = self
        decoder = PacketDecoder(
            role: .client, version: negotiation.version,
            maximumPacketSize: configuration.maximumPacketSize)
        connectSent = loop.now
        firstAnswer = FirstAnswer()
        // What the last connection's end left behind mustn't go ahead of CONNECT [MQTT-3.1.0-1].
        output.bytes.removeAll(keepingCapacity: true)
        output.packetEnds.removeAll(keepingCapacity: true)
        let sendsLogin = route.receivesCredentials
        let sendsSecrets = sendsLogin && server.receivesCredentials
        let login = preparation.login ?? Credentials(userName: server.userName, password: server.password)
        if route.tls == nil, sendsLogin, login.password != nil {
            configuration.report(.warning, .credentialsInPlaintext(takenProfile))
        }
        session.open(
            at: "\(Redirect.comparable(route.host)):\(route.port)",
            userName: sendsLogin ? login.userName : nil, password: sendsLogin ? login.password : nil,
            authenticationMethod: sendsSecrets ? configuration.authentication?.method : nil,
            withholdsSecrets: !sendsSecrets, now: loop.now,
            connackTimeout: ascent.cut(way.deadlines.mqttConnect, now: loop.now), into: &output)
        scheduleTurnEnd()
    }

    private func ascentEnded(_ routes: [RouteAttempt]) {
        link = .none
        note(routes)
        remember { $0.failed(host: $1, on: $2) }
        let deadline = servers.present.profile.ladder?.deadline ?? .zero
        attemptFailed(
            routes.decisiveFailure(deadline: deadline),
            ConnectionFailure(routes, version: negotiation.version),
            routes)
        scheduleTurnEnd()
    }

    /// The server at hand has accepted CONNECT on `takenWay`.
    func ascentAccepted() -> [RouteAttempt] {
        guard case .connecting(let stream, let ascent) = link else { return [] }
        link = .online(stream)
        let routes = ascent.accepted()
        note(routes)
        remember { [takenWay] in $0.succeeded(takenWay, host: $1, on: $2) }
        return routes
    }

    /// Beside the loop, which mustn't wait for a disk; one after the other.
    private func remember(_ change: @escaping @Sendable (RouteMemory, String, NetworkFingerprint) -> Void) {
        guard let network = preparation.network else { return }
        let host = servers.present.profile.host
        remembering = Task(priority: .background) {
            [memory = configuration.routeMemory, earlier = remembering] in
            await earlier?.value
            change(memory, host, network)
        }
    }

    /// The account of an attempt. A login that a proxy has refused isn't tried there again, or the account may be locked.
    func note(_ routes: [RouteAttempt]) {
        board.count(routes)
        for route in routes {
            guard let proxy = route.profile.proxy, case .failed(let error) = route.outcome else { continue }
            if error.code == .proxyAuthFailed { refusals[proxy] = error }
        }
    }

    func attemptFailed(
        _ error: TransportError, _ kind: ConnectionFailure, _ routes: [RouteAttempt] = []
    ) {
        lastError = MQTTError(error, routes: routes)
        board.update { $0.attemptsFailed[error.code, default: 0] += 1 }
        if kind == .loginRefused { refusedLogin = preparation.login }
        perform(lifecycle.attemptFailed(kind, now: loop.now, random: randomBits()))
    }

    func randomBits() -> UInt64 {
        UInt64(loop.random.next()) << 32 | UInt64(loop.random.next())
    }
}

extension ConnectionProfile {
    /// With the Pings that it has, if any, at most so far apart.
    fileprivate func pinging(within interval: Duration?) -> ConnectionProfile {
        guard let interval, let pings = webSocket?.pings, pings.interval > interval else { return self }
        var profile = self
        profile.webSocket?.pings?.interval = interval
        return profile
    }
}

/// Code that hangs keeps no client alive.
struct WeakDriver {
    weak var driver: SessionDriver?
}

extension ConnectionFailure {
    /// What the failures of all ways say about trying again: as soon as one way may be better then, it is worth it.
    init(_ routes: [RouteAttempt], version: ProtocolVersion) {
        var kinds: [ConnectionFailure] = []
        for route in routes {
            switch route.outcome {
            case .failed(let error): kinds.append(ConnectionFailure(ended: error, version: version))
            case .unfinished: kinds.append(.transient)
            case .notTried, .connected: break
            }
        }
        if kinds.contains(.transient) {
            self = .transient
        } else if kinds.contains(.certificate) {
            self = .certificate
        } else {
            self = kinds.first ?? .transient
        }
    }

    /// Whether it would be the same on every way to the server.
    var isServersWord: Bool {
        switch self {
        case .refusedByServer, .loginRefused, .takenOver, .versionUnsupported: true
        case .transient, .certificate, .takeoverSuspected: false
        }
    }
}
