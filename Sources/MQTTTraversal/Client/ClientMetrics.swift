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
    /// From PUBLISH to the server's first answer: PUBACK for QoS 1, PUBREC for QoS 2. One at a
    /// time is timed, so that its `count` is below that of the messages where many are under way.
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
