/// What a client is, whatever the network: its identity, its session, its limits.
public struct ClientConfiguration: Sendable {
    public var version: Version
    /// Empty lets the server choose (3.1.3.1).
    public var clientID: String
    /// User name for CONNECT; the profile's is used where this is nil.
    public var userName: String?
    /// Password for CONNECT; the profile's is used where this is nil.
    public var password: [UInt8]?
    /// Asked for user name and password before every attempt, instead of those above: for tokens that expire. It has
    /// `StageDeadlines.preparation` to answer; what it throws fails the attempt with `client.hook_failed`, and the next
    /// one asks again. A server that this client was redirected to gets the answer only where it gets the client's
    /// credentials.
    public var credentials: (@Sendable (ConnectionAttempt) async throws -> Credentials)?
    /// Asked for path and headers of the WebSocket request before each way that has a WebSocket is tried, with those of
    /// the profile: for signed URLs. Deadline and failure are as those of `credentials`. Not asked for redirects, whose
    /// path is the server's.
    public var upgradeRequest: (@Sendable (UpgradeRequest, ConnectionAttempt) async throws -> UpgradeRequest)?
    /// Enhanced authentication (5.0, section 4.12), besides user name and password where these are set; nil for none.
    public var authentication: (any AuthenticationHandler)?
    /// Asked how to log in where the profile's proxy wants a login; nil, the default, for Kerberos and the proxy's own
    /// user name and password.
    public var proxyLogin: ProxyLoginHandler?
    /// Whether the first connect begins a new session. Under 5.0 reconnects resume it; under 3.1.1 this is
    /// Clean Session, and holds for every connection.
    public var cleanStart: Bool
    /// Whole seconds from 0 (off) to 65535. 30 s clears the idle limits of all networks that we know of. Where a longer
    /// one doesn't, PINGREQ is sent at shorter intervals after two connections have ended that way.
    public var keepAlive: Duration
    /// How long the answer to a PINGREQ may take. As long as `keepAlive`, within 1 s and 10 s, where nil.
    public var pingTimeout: Duration?
    /// How long the server keeps the session after a lost connection (5.0); 1 h by default.
    public var sessionExpiry: Duration
    /// How long the server keeps it after `disconnect()` (5.0); 0 by default.
    public var sessionExpiryAfterDisconnect: Duration
    /// Where unacknowledged messages and the rest of the session are kept. With a directory, a session that is found
    /// there is resumed, whatever `cleanStart` says, and `disconnect()` leaves it at the server for `sessionExpiry`.
    public var sessionStore: SessionStore
    public var will: WillMessage?
    public var reconnect: ReconnectStrategy
    /// Which way of an automatic profile got through last, so that it is tried first; shared by the clients of this
    /// process by default.
    public var routeMemory: RouteMemory
    /// Whether the client goes where a server sends it by 0x9C or 0x9D (5.0, section 4.11); by default it only says so.
    public var redirection: ServerRedirection
    /// What becomes of unacknowledged QoS 1 and 2 messages when the server has lost the session.
    public var lostSession: LostSession
    /// The largest packet that the server may send: 1 to 268,435,460 bytes; 16 MiB by default.
    public var maximumPacketSize: UInt32
    /// How many QoS 1 and 2 messages the server may send before they are acknowledged: 1 to 65535 (5.0).
    public var receiveMaximum: UInt16
    /// How many Topic Aliases this client gives to the topics that it publishes to, so that their names needn't be
    /// sent each time (5.0); 0, the default, for none. At most as many as the server takes; the topics used last
    /// have one.
    public var automaticTopicAliases: UInt16
    /// Whether a QoS 1 or 2 publish fails at once, with `client.queue_full`, when all 65,535 packet identifiers are
    /// in use. It waits for a free one by default.
    public var failsWithoutPacketIdentifier: Bool
    /// Messages that each subscription buffers; above that its overflow policy holds.
    public var subscriptionCapacity: Int
    /// Bytes of payload that a subscription may hold. Above half of it the buffer counts as full; above all of it,
    /// withheld messages included, the connection is ended with `client.queue_full`.
    public var subscriptionByteLimit: Int
    /// Whether a change of this machine's links, addresses or routes, or its waking from sleep, makes the client ping at
    /// once, or try again at once where it waits. On by default.
    public var watchesNetwork = true
    /// How many publishes may wait to be sent, and what happens to more.
    public var publishQueue: PublishQueue
    /// Where answers to `request` go, below it a random level of the client's own. The server's Response Information,
    /// where `connectProperties.requestResponseInformation` has brought one, comes first (5.0, section 4.10.1).
    public var responseTopicPrefix: String
    /// Properties of CONNECT, such as User Properties (5.0).
    public var connectProperties: Properties
    /// Hears of stages, attempts and warnings of ``logLevel`` or above as they happen; called on the client's loop, off
    /// any lock, so it must not block.
    public var log: (@Sendable (LogLevel, LogEvent) -> Void)?
    /// What is below isn't even put together; ``LogLevel/debug`` by default, so that all is heard.
    public var logLevel: LogLevel
    /// Asked at the beginning of each attempt.
    package var resolver = Resolver.system

    /// Which version of MQTT is spoken.
    public enum Version: Sendable, Hashable {
        /// 5.0 first; 3.1.1 at once where the server refuses it or hangs up on CONNECT without an answer. A server
        /// that took 3.1.1 only is remembered for an hour by all clients of the process.
        case automatic
        // swift-format-ignore: AlwaysUseLowerCamelCase
        case v5
        // swift-format-ignore: AlwaysUseLowerCamelCase
        case v3_1_1

        public init(_ version: ProtocolVersion) {
            self =
                switch version {
                case .v5: .v5
                case .v3_1_1: .v3_1_1
                }
        }
    }

    public enum LostSession: Sendable, Hashable {
        /// They are published again as new messages; they may then arrive twice. Those of QoS 2 that the server had
        /// confirmed by PUBREC fail with `mqtt.session_lost`.
        case publishAgain
        /// Their calls fail with `mqtt.session_lost`.
        case fail
    }

    public init(
        version: Version = .automatic, clientID: String = "", userName: String? = nil,
        password: [UInt8]? = nil,
        authentication: (any AuthenticationHandler)? = nil,
        cleanStart: Bool = true, keepAlive: Duration = .seconds(30), pingTimeout: Duration? = nil,
        sessionExpiry: Duration = .seconds(3600), sessionExpiryAfterDisconnect: Duration = .zero,
        will: WillMessage? = nil, reconnect: ReconnectStrategy = .automatic,
        routeMemory: RouteMemory = .shared,
        redirection: ServerRedirection = .report, lostSession: LostSession = .publishAgain,
        maximumPacketSize: UInt32 = 16 * 1024 * 1024,
        receiveMaximum: UInt16 = 65535, automaticTopicAliases: UInt16 = 0,
        failsWithoutPacketIdentifier: Bool = false, subscriptionCapacity: Int = 65536,
        subscriptionByteLimit: Int = 256 * 1024 * 1024, publishQueue: PublishQueue = PublishQueue(),
        responseTopicPrefix: String = "responses", connectProperties: Properties = Properties(),
        log: (@Sendable (LogLevel, LogEvent) -> Void)? = nil, logLevel: LogLevel = .debug,
        credentials: (@Sendable (ConnectionAttempt) async throws -> Credentials)? = nil,
        upgradeRequest: (@Sendable (UpgradeRequest, ConnectionAttempt) async throws -> UpgradeRequest)? = nil,
        proxyLogin: ProxyLoginHandler? = nil, sessionStore: SessionStore = .memory
    ) {
        self.version = version
        self.clientID = clientID
        self.userName = userName
        self.password = password
        self.credentials = credentials
        self.upgradeRequest = upgradeRequest
        self.authentication = authentication
        self.proxyLogin = proxyLogin
        self.cleanStart = cleanStart
        self.keepAlive = keepAlive
        self.pingTimeout = pingTimeout
        self.sessionExpiry = sessionExpiry
        self.sessionExpiryAfterDisconnect = sessionExpiryAfterDisconnect
        self.sessionStore = sessionStore
        self.will = will
        self.reconnect = reconnect
        self.routeMemory = routeMemory
        self.redirection = redirection
        self.lostSession = lostSession
        self.maximumPacketSize = maximumPacketSize
        self.receiveMaximum = receiveMaximum
        self.automaticTopicAliases = automaticTopicAliases
        self.failsWithoutPacketIdentifier = failsWithoutPacketIdentifier
        self.subscriptionCapacity = subscriptionCapacity
        self.subscriptionByteLimit = subscriptionByteLimit
        self.publishQueue = publishQueue
        self.responseTopicPrefix = responseTopicPrefix
        self.connectProperties = connectProperties
        self.log = log
        self.logLevel = logLevel
    }
}

/// What the server publishes for a client that goes without a DISCONNECT (3.1.2.5).
public struct WillMessage: Sendable, Hashable {
    public var topic: String
    public var payload: [UInt8]
    public var qos: QoS
    public var retain: Bool
    /// Will Delay Interval, Message Expiry Interval … (5.0, section 3.1.3.2).
    public var properties: Properties

    public init(
        topic: String, payload: [UInt8], qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties()
    ) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = properties
    }

    public init(
        topic: String, payload: some StringProtocol, qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties()
    ) {
        self.init(
            topic: topic, payload: Array(payload.utf8), qos: qos, retain: retain, properties: properties)
    }
}

/// Whether and when a lost connection is tried again.
public enum ReconnectStrategy: Sendable, Hashable {
    /// Full jitter from 2 s, doubling up to 60 s, afresh after 30 s of stability. The first `connect()` isn't
    /// repeated: it says what is wrong.
    case automatic
    /// As `automatic`, with bounds of your own, both above zero.
    case jittered(base: Duration, maximum: Duration)
    /// A lost connection ends the client. A redirection that is followed isn't a loss.
    case never
}

extension ClientConfiguration {
    /// - Throws: `MQTTError` (`client.invalid_argument`) for what can't be sent.
    func sessionConfiguration() throws(MQTTError) -> SessionConfiguration {
        guard let keepAliveSeconds = UInt16(exactly: keepAlive.components.seconds) else {
            throw MQTTError(.clientInvalidArgument, "keepAlive is outside 0…65535 s")
        }
        if keepAliveSeconds == 0, keepAlive > .zero {
            throw MQTTError(.clientInvalidArgument, "keepAlive is below 1 s; 0 switches it off")
        }
        if case .jittered(let base, let maximum) = reconnect, base <= .zero || maximum <= .zero {
            throw MQTTError(.clientInvalidArgument, "the delays of reconnect have to be above zero")
        }
        guard publishQueue.maximumCount > 0, publishQueue.maximumBytes >= 0 else {
            throw MQTTError(.clientInvalidArgument, "publishQueue takes no message")
        }
        guard receiveMaximum > 0 else { throw MQTTError(.clientInvalidArgument, "receiveMaximum is 0") }
        guard maximumPacketSize > 0 else { throw MQTTError(.clientInvalidArgument, "maximumPacketSize is 0") }
        if version == .v3_1_1, clientID.isEmpty, !cleanStart {
            throw MQTTError(.clientInvalidArgument, "in MQTT 3.1.1 a session that lasts needs a clientID")
        }
        try checkAuthentication()
        try checkSessionStore()
        do { _ = try TopicName(responseTopicPrefix) } catch {
            throw MQTTError(.clientInvalidArgument, "responseTopicPrefix: \(error)")
        }
        let will = try will.map { will throws(MQTTError) in
            do {
                return Will(
                    topicName: try TopicName(will.topic).string, payload: will.payload, qos: will.qos,
                    retain: will.retain, properties: will.properties)
            } catch {
                throw MQTTError(.clientInvalidArgument, "the will's topic: \(error)")
            }
        }
        return SessionConfiguration(
            version: version == .v3_1_1 ? .v3_1_1 : .v5, clientIdentifier: clientID, cleanStart: cleanStart,
            keepAlive: keepAliveSeconds, will: will, sessionExpiryInterval: Self.seconds(sessionExpiry),
            sessionExpiryAfterDisconnect: Self.seconds(
                isDurable ? max(sessionExpiry, sessionExpiryAfterDisconnect) : sessionExpiryAfterDisconnect),
            receiveMaximum: receiveMaximum, maximumPacketSize: maximumPacketSize,
            automaticTopicAliases: automaticTopicAliases,
            failsWithoutPacketIdentifier: failsWithoutPacketIdentifier,
            durability: isDurable ? .durable : .inMemory,
            pingResponseTimeout: pingTimeout
                ?? min(max(.seconds(Int(keepAliveSeconds)), .seconds(1)), .seconds(10)),
            connectProperties: connectProperties,
            onSessionLost: lostSession == .publishAgain ? .requeue : .fail, queue: publishQueue)
    }

    func versionNegotiation(for profile: ConnectionProfile, now: ContinuousClock.Instant)
        -> VersionNegotiation
    {
        switch version {
        // 3.1.1 has no such exchange.
        case .automatic where authentication != nil: VersionNegotiation(fixed: .v5)
        case .automatic: VersionNegotiation(first: VersionMemory.shared.version(for: profile, now: now))
        case .v5: VersionNegotiation(fixed: .v5)
        case .v3_1_1: VersionNegotiation(fixed: .v3_1_1)
        }
    }

    private func checkAuthentication() throws(MQTTError) {
        guard authentication != nil else { return }
        if version == .v3_1_1 {
            throw MQTTError(.clientInvalidArgument, "an authentication handler needs MQTT 5.0")
        }
        if connectProperties.authenticationMethod != nil {
            throw MQTTError(
                .clientInvalidArgument,
                "connectProperties name an Authentication Method besides the handler's")
        }
    }

    var isDurable: Bool {
        switch sessionStore {
        case .memory: false
        case .directory: true
        }
    }

    private func checkSessionStore() throws(MQTTError) {
        guard case .directory(let path, let fsync) = sessionStore else { return }
        if path.isEmpty || path.utf8.contains(0) {
            throw MQTTError(.clientInvalidArgument, "sessionStore names no directory")
        }
        if case .interval(let interval) = fsync, interval <= .zero {
            throw MQTTError(.clientInvalidArgument, "the interval of sessionStore has to be above zero")
        }
        if version == .v3_1_1, cleanStart {
            throw MQTTError(
                .clientInvalidArgument, "in MQTT 3.1.1 a stored session needs cleanStart to be false")
        }
        if clientID.utf8.count > 65_535 {
            throw MQTTError(.clientInvalidArgument, "clientID has more than 65,535 bytes")
        }
    }

    var reconnectPolicy: ReconnectPolicy {
        switch reconnect {
        case .automatic: ReconnectPolicy()
        case .jittered(let base, let maximum):
            ReconnectPolicy(
                baseDelay: base, maximumDelay: maximum, minimumDelay: min(.milliseconds(250), base))
        case .never: .never
        }
    }

    private static func seconds(_ duration: Duration) -> UInt32 {
        UInt32(clamping: duration.components.seconds)
    }

    /// - Parameter level: the event's own; the event is made only where somebody wants to hear of it.
    func report(_ level: LogLevel, _ event: @autoclosure () -> LogEvent) {
        guard let log, level >= logLevel else { return }
        let event = event()
        assert(event.level == level)
        log(level, event)
    }
}
