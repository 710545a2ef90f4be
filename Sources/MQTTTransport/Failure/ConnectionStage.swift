/// The steps by which a route reaches its broker, in order; which of them a route takes depends on its
/// transport.
public enum ConnectionStage: String, Sendable, Hashable, Codable, CaseIterable {
    /// Before any network activity: the profile, the trust store, the process's own resources.
    case local
    case resolve
    case tcp
    case proxy
    case tls
    case webSocket
    case mqttConnect
    /// After CONNACK.
    case established
}

extension ConnectionStage {
    /// The name of an attempt that ran out of time in this stage.
    package var timeoutCode: FailureCode {
        switch self {
        case .resolve: .dnsTimeout
        case .local: .clientHookTimeout
        case .tcp: .tcpTimeout
        case .proxy: .proxyTimeout
        case .tls: .tlsTimeout
        case .webSocket: .tcpSilent
        case .mqttConnect, .established: .mqttConnackTimeout
        }
    }
}

/// How long each stage may take before it fails.
public struct StageDeadlines: Sendable, Hashable {
    /// For each call of the program's own code that an attempt waits for, such as a provider of credentials.
    public var preparation: Duration
    public var resolve: Duration
    /// For each address, from its own start. Addresses start 250 ms apart or sooner, 16 of a host at most, so that
    /// the stage may take 3.75 s longer than this.
    public var tcp: Duration
    /// From the connection to a proxy to its open tunnel; with TLS to the proxy, where there is one.
    public var proxy: Duration
    public var tls: Duration
    public var webSocket: Duration
    /// From CONNECT to CONNACK.
    public var mqttConnect: Duration

    /// - Parameters: all above zero; 10 s each by default, since a stage that takes longer on a network
    ///   of today is stuck behind something.
    public init(
        preparation: Duration = .seconds(10), resolve: Duration = .seconds(10), tcp: Duration = .seconds(10),
        proxy: Duration = .seconds(10),
        tls: Duration = .seconds(10), webSocket: Duration = .seconds(10),
        mqttConnect: Duration = .seconds(10)
    ) {
        self.preparation = preparation
        self.resolve = resolve
        self.tcp = tcp
        self.proxy = proxy
        self.tls = tls
        self.webSocket = webSocket
        self.mqttConnect = mqttConnect
    }
}

/// What became of one stage of one attempt.
public struct StageObservation: Sendable {
    public enum Outcome: Sendable {
        case passed
        case failed(TransportError)
        /// The server has sent us to this URL, printed without what its query holds, and the attempt goes on there with
        /// its first stage.
        case redirected(to: String)
    }

    public let stage: ConnectionStage
    public let outcome: Outcome
    public let started: ContinuousClock.Instant
    public let ended: ContinuousClock.Instant
    /// What was found out on the way: the address, the TLS version, the subprotocol.
    public let detail: String?

    package init(
        stage: ConnectionStage, outcome: Outcome, started: ContinuousClock.Instant,
        ended: ContinuousClock.Instant, detail: String? = nil
    ) {
        self.stage = stage
        self.outcome = outcome
        self.started = started
        self.ended = ended
        self.detail = detail
    }

    public var duration: Duration { started.duration(to: ended) }
}
