/// What a client has counted since it was made: ``MQTTClient/metrics``.
///
/// Counted by the client's loop and published once for each of its turns, before those who wait are told: who has the
/// answer to a publish finds it counted. All numbers only grow, but for `queue`.
public struct ClientMetrics: Sendable, Hashable {
    public var received = Traffic()
    public var sent = Traffic()
    public var queue = Queue()

    /// Publishes that were refused by a full queue or gave way to newer ones (`client.queue_full`).
    public var publishesDropped: UInt64 = 0
    /// Publishes whose Message Expiry Interval passed before they were sent (`client.message_expired`).
    public var publishesExpired: UInt64 = 0
    /// Messages from the server that a subscription's overflow policy dropped, for each subscription.
    public var messagesDropped: UInt64 = 0
    /// Messages from the server that no subscription matched.
    public var messagesUnmatched: UInt64 = 0

    /// Connections that the server has accepted by CONNACK.
    public var connects: UInt64 = 0
    /// Those of them that came after a first one.
    public var reconnects: UInt64 { connects == 0 ? 0 : connects - 1 }
    /// Attempts that failed on all their ways, by the decisive failure.
    public var attemptsFailed: [FailureCode: UInt64] = [:]
    /// Connections that stood and were lost, by why.
    public var connectionsLost: [FailureCode: UInt64] = [:]
    /// How long there was a connection, from CONNACK to its end, the present one included.
    public var timeConnected: Duration { routes.values.reduce(.zero) { $0 + $1.timeConnected } }

    /// From CONNECT to the CONNACK that accepts it.
    public var connackTime = Latency()
    /// From PUBLISH to the server's first answer: PUBACK for QoS 1, PUBREC for QoS 2. Of messages that are sent
    /// together one is timed, so that its `count` is below that of the messages.
    public var publishRoundTrip = Latency()
    /// From PINGREQ to PINGRESP.
    public var pingRoundTrip = Latency()

    /// By the way's description, as in ``MQTTTransport/RouteAttempt``, such as `wss://broker.example:443/mqtt`.
    public var routes: [String: RouteMetrics] = [:]

    public init() {}

    /// What has passed in one direction.
    public struct Traffic: Sendable, Hashable {
        /// Bytes that the kernel took or gave, TLS and WebSocket included, on connections on which CONNECT was sent.
        public var bytes: UInt64 = 0
        /// MQTT Control Packets of all types.
        public var packets: UInt64 = 0
        /// PUBLISH packets, repetitions included, by their QoS.
        public var atMostOnce: UInt64 = 0
        public var atLeastOnce: UInt64 = 0
        public var exactlyOnce: UInt64 = 0
        /// Those of them with the DUP flag.
        public var duplicates: UInt64 = 0

        public init() {}

        /// PUBLISH packets of any QoS.
        public var messages: UInt64 { atMostOnce + atLeastOnce + exactlyOnce }
    }

    /// Publishes that are under way at this moment.
    public struct Queue: Sendable, Hashable {
        /// They wait to be sent.
        public var waiting = 0
        /// Their topics and payloads, in bytes.
        public var waitingBytes = 0
        /// QoS 1 and 2 messages that were sent, and that the server hasn't finished.
        public var inFlight = 0

        public init(waiting: Int = 0, waitingBytes: Int = 0, inFlight: Int = 0) {
            self.waiting = waiting
            self.waitingBytes = waitingBytes
            self.inFlight = inFlight
        }
    }
}

/// What a client has counted on one way to the broker.
public struct RouteMetrics: Sendable, Hashable {
    /// How often it was tried.
    public var attempts: UInt64 = 0
    /// How often CONNACK accepted a connection on it.
    public var connects: UInt64 = 0
    /// How long connections on it stood, the present one included.
    public var timeConnected = Duration.zero
    /// Bytes on the network while its connections stood.
    public var bytesReceived: UInt64 = 0
    public var bytesSent: UInt64 = 0

    public init() {}
}

/// The published metrics, written to by the loop and read anywhere.
final class MetricsBoard: Sendable {
    struct Content {
        var metrics = ClientMetrics()
        var connection: Connection?
    }

    /// The one that stands: added to its way's numbers at its end, and for each reader.
    struct Connection {
        let route: String
        let since: ContinuousClock.Instant
        var bytesReceived: UInt64 = 0
        var bytesSent: UInt64 = 0
    }

    /// Ways beyond these aren't told apart: redirects could lead anywhere.
    private static let routeLimit = 64

    private let content = Lock(Content())

    func snapshot() -> ClientMetrics {
        var copy = content.withLock { $0 }
        copy.connectionEnded(now: .now)
        return copy.metrics
    }

    func update(_ change: (inout ClientMetrics) -> Void) { content.withLock { change(&$0.metrics) } }

    func updateAll(_ change: (inout Content) -> Void) { content.withLock { change(&$0) } }

    func count(_ routes: [RouteAttempt]) {
        content.withLock { content in
            for attempt in routes {
                let isConnected: Bool
                switch attempt.outcome {
                case .notTried: continue
                case .unfinished, .failed: isConnected = false
                case .connected: isConnected = true
                }
                content.metrics.change(attempt.way) { route in
                    route.attempts += 1
                    if isConnected { route.connects += 1 }
                }
            }
        }
    }

    func connected(on route: String, after connackTime: Duration, now: ContinuousClock.Instant) {
        content.withLock { content in
            content.metrics.connects += 1
            content.metrics.connackTime.record(connackTime)
            content.connection = Connection(route: route, since: now)
        }
    }

    func connectionEnded(now: ContinuousClock.Instant) {
        content.withLock { $0.connectionEnded(now: now) }
    }

    fileprivate static func key(_ route: String, in routes: [String: RouteMetrics]) -> String {
        routes[route] != nil || routes.count < routeLimit ? route : "others"
    }
}

extension MetricsBoard.Content {
    fileprivate mutating func connectionEnded(now: ContinuousClock.Instant) {
        guard let connection else { return }
        self.connection = nil
        metrics.change(connection.route) { route in
            route.timeConnected += connection.since.duration(to: now)
            route.bytesReceived += connection.bytesReceived
            route.bytesSent += connection.bytesSent
        }
    }
}

extension ClientMetrics {
    fileprivate mutating func change(_ route: String, _ change: (inout RouteMetrics) -> Void) {
        change(&routes[MetricsBoard.key(route, in: routes), default: RouteMetrics()])
    }
}
