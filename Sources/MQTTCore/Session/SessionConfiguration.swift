/// What a client session is told once, before its first connection.
package struct SessionConfiguration: Sendable, Hashable {
    package var version: ProtocolVersion
    /// Empty lets the server choose: 5.0 servers tell the result, which is used from then on (3.2.2.3.7).
    package var clientIdentifier: String
    /// Clean Start of the first CONNECT in 5.0, Clean Session of every CONNECT in 3.1.1.
    package var cleanStart: Bool
    /// Seconds, 0 to switch it off. The server's own value replaces it (5.0).
    package var keepAlive: UInt16
    package var will: Will?
    /// Seconds that the server keeps the session after a lost connection; 0xFFFFFFFF for ever (5.0).
    package var sessionExpiryInterval: UInt32
    /// Seconds that the server keeps the session after our own DISCONNECT (5.0).
    ///
    /// Without effect while `sessionExpiryInterval` is 0, since it can't be raised then (3.14.2.2.2).
    package var sessionExpiryAfterDisconnect: UInt32
    /// How many QoS 1 and 2 messages the server may have unacknowledged, 1 to 65,535 (5.0).
    package var receiveMaximum: UInt16
    /// The largest packet that the server may send, in bytes (5.0).
    package var maximumPacketSize: UInt32?
    /// The highest Topic Alias that the server may use, 0 for none (5.0).
    package var topicAliasMaximum: UInt16
    /// How many Topic Aliases this client gives to the topics that it publishes to, 0 for none (5.0).
    ///
    /// At most the server's Topic Alias Maximum; the topics used last have one.
    package var automaticTopicAliases: UInt16
    /// Whether a QoS 1 or 2 message that finds all 65,535 packet identifiers in use fails at once. Otherwise it
    /// waits for one.
    package var failsWithoutPacketIdentifier: Bool
    package var durability: Durability
    /// How long after a PINGREQ left our buffer something must arrive.
    package var pingResponseTimeout: Duration
    /// Further properties of CONNECT, such as User Properties (5.0).
    package var connectProperties: Properties
    /// Whether subscriptions are made again when the server has lost the session.
    package var restoresSubscriptions: Bool
    package var onSessionLost: LostSessionPolicy
    package var queue: PublishQueue
    /// Whether a Session Present of 1 is accepted although this client holds no session.
    ///
    /// 5.0 asks the client to close then [MQTT-3.2.2-4], and 3.1.1 leaves it the choice. A client that
    /// starts afresh and wants the messages its predecessor left at the server needs `true`.
    package var adoptsServerSession: Bool

    package enum Durability: Sendable, Hashable {
        case inMemory
        /// Changes are reported by `SessionAction.persist`, and packets that depend on them wait.
        case durable
    }

    /// What becomes of unacknowledged QoS 1 and 2 messages when the session is gone.
    package enum LostSessionPolicy: Sendable, Hashable {
        /// They are published again as new messages: new identifiers, DUP 0. May duplicate.
        case requeue
        /// Their operations fail with `SessionError.sessionLost`.
        case fail
    }

    package init(
        version: ProtocolVersion = .v5, clientIdentifier: String, cleanStart: Bool = true,
        keepAlive: UInt16 = 30, will: Will? = nil, sessionExpiryInterval: UInt32 = 3600,
        sessionExpiryAfterDisconnect: UInt32 = 0, receiveMaximum: UInt16 = 65535,
        maximumPacketSize: UInt32? = nil, topicAliasMaximum: UInt16 = 0,
        automaticTopicAliases: UInt16 = 0, failsWithoutPacketIdentifier: Bool = false,
        durability: Durability = .inMemory, pingResponseTimeout: Duration = .seconds(10),
        connectProperties: Properties = Properties(), restoresSubscriptions: Bool = true,
        onSessionLost: LostSessionPolicy = .requeue, queue: PublishQueue = PublishQueue(),
        adoptsServerSession: Bool = false
    ) {
        self.version = version
        self.clientIdentifier = clientIdentifier
        self.cleanStart = cleanStart
        self.keepAlive = keepAlive
        self.will = will
        self.sessionExpiryInterval = sessionExpiryInterval
        self.sessionExpiryAfterDisconnect = sessionExpiryAfterDisconnect
        self.receiveMaximum = receiveMaximum
        self.maximumPacketSize = maximumPacketSize
        self.topicAliasMaximum = topicAliasMaximum
        self.automaticTopicAliases = automaticTopicAliases
        self.failsWithoutPacketIdentifier = failsWithoutPacketIdentifier
        self.durability = durability
        self.pingResponseTimeout = pingResponseTimeout
        self.connectProperties = connectProperties
        self.restoresSubscriptions = restoresSubscriptions
        self.onSessionLost = onSessionLost
        self.queue = queue
        self.adoptsServerSession = adoptsServerSession
    }
}
