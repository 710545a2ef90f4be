/// What a client goes through.
///
/// ```text
///            connect()                   CONNACK
///   idle ───────────────▶ connecting ───────────────▶ connected
///    ▲                      ▲     │ failure              │ interrupted(error)
///    │ disconnect()         │     ▼                      ▼
///   disconnected(nil)     reconnecting(attempt, delay) ◀─┘
///    ▲                            │ a failure that no repetition mends
///    └── disconnected(error) ◀────┘
/// ```
///
/// `suspend()` leads from each of them but `idle` and `disconnected` to `suspended`, and `resume()` from there to
/// `connecting`. The first attempt isn't repeated: where it fails, `connecting` is followed by `disconnected(error)`. A redirection
/// that is followed (`ServerRedirection`) leads from `interrupted` to `connecting` at once, without `reconnecting`; one
/// that comes instead of CONNACK's acceptance is a part of `connecting`.
public enum ClientEvent: Sendable {
    /// Nothing has been asked for yet.
    case idle
    /// An attempt has begun; they count from 1 since the last connection.
    case connecting(attempt: Int)
    case connected(ConnectOutcome)
    /// The connection is gone.
    case interrupted(MQTTError)
    /// The next attempt begins after `delay`; `error` is why the last one failed.
    case reconnecting(attempt: Int, delay: Duration, error: MQTTError)
    /// The server no longer has the session: messages may be missing. Subscriptions are made again.
    case sessionLost
    /// There is no connection by `suspend()`, until `resume()`.
    case suspended
    /// The end: by `disconnect()` where nil, else for this reason.
    case disconnected(MQTTError?)
}

/// What `connect()` reached.
public struct ConnectOutcome: Sendable, Hashable {
    /// The way that was taken: the client's profile, one of its ways, or, after redirects of the WebSocket or by the server, the one
    /// that they led to, without what was withheld from it.
    public var profile: ConnectionProfile
    /// What became of each way of the profile, best first, this one included: failures that were passed over stand here.
    public var routes: [RouteAttempt]
    /// The version of MQTT that is spoken.
    public var version: ProtocolVersion
    /// Session Present: the server had kept this client's session.
    public var sessionPresent: Bool
    /// The client identifier in use, which the server may have chosen.
    public var clientID: String
    public var limits: ServerLimits
    /// The properties of CONNACK (5.0).
    public var properties: Properties

    /// An outcome made by hand, for a program's own tests.
    public init(
        profile: ConnectionProfile, routes: [RouteAttempt] = [], version: ProtocolVersion = .v5,
        sessionPresent: Bool = false, clientID: String,
        limits: ServerLimits = ServerLimits(), properties: Properties = Properties()
    ) {
        self.profile = profile
        self.routes = routes
        self.version = version
        self.sessionPresent = sessionPresent
        self.clientID = clientID
        self.limits = limits
        self.properties = properties
    }
}

/// What the server grants (5.0, section 3.2.2.3); under 3.1.1 everything that the protocol has.
public struct ServerLimits: Sendable, Hashable {
    public var maximumQoS: QoS
    public var retainAvailable: Bool
    /// In bytes; nil for no limit of its own.
    public var maximumPacketSize: UInt32?
    /// QoS 1 and 2 messages that may be unacknowledged at once.
    public var receiveMaximum: UInt16
    /// How many Topic Aliases the server takes.
    public var topicAliasMaximum: UInt16
    public var wildcardSubscriptionsAvailable: Bool
    public var sharedSubscriptionsAvailable: Bool
    public var subscriptionIdentifiersAvailable: Bool
    /// The keep-alive that the server imposes; nil where it takes ours.
    public var keepAlive: Duration?
    /// How long the server keeps the session after a lost connection; nil where it takes ours.
    public var sessionExpiry: Duration?

    /// The limits of a server that names none.
    public init() { self.init(NegotiatedLimits()) }

    init(_ limits: NegotiatedLimits) {
        maximumQoS = limits.maximumQoS
        retainAvailable = limits.retainAvailable
        maximumPacketSize = limits.maximumPacketSize
        receiveMaximum = limits.receiveMaximum
        topicAliasMaximum = limits.topicAliasMaximum
        wildcardSubscriptionsAvailable = limits.wildcardSubscriptionsAvailable
        sharedSubscriptionsAvailable = limits.sharedSubscriptionsAvailable
        subscriptionIdentifiersAvailable = limits.subscriptionIdentifiersAvailable
        keepAlive = limits.serverKeepAlive.map { .seconds(Int($0)) }
        sessionExpiry = limits.sessionExpiryInterval.map { .seconds(Int($0)) }
    }
}

/// The events of a client from now on, the present state first. Bounded: a reader that lags loses the oldest.
public struct ClientEvents: AsyncSequence, Sendable {
    public typealias Element = ClientEvent
    public typealias Failure = Never

    let stream: AsyncStream<ClientEvent>

    public func makeAsyncIterator() -> AsyncStream<ClientEvent>.Iterator { stream.makeAsyncIterator() }
}
