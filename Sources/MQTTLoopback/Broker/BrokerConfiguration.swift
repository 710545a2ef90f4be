public import MQTTCore

/// How the loopback broker behaves. The defaults are those of a generous broker; the limits are there to
/// be lowered, so that a client's handling of them can be tried.
public struct BrokerConfiguration: Sendable, Hashable {
    /// A row of the table of users.
    public struct User: Sendable, Hashable {
        public var name: String
        public var password: [UInt8]
        /// Topic Filters under which the user may publish and subscribe; `nil` permits all.
        public var allowedTopics: [String]?

        public init(name: String, password: String, allowedTopics: [String]? = nil) {
            self.name = name
            self.password = Array(password.utf8)
            self.allowedTopics = allowedTopics
        }
    }

    public var users: [User] = []
    /// Whether a client without a user name is let in. One with a user name always needs its password.
    public var allowsAnonymous = true
    /// Whether users may prove their passwords by SCRAM-SHA-256 (5.0, section 4.12) instead of sending them.
    public var offersSCRAM = false
    /// Iterations of SCRAM, from 1; below 4096 clients should refuse.
    public var scramIterations = 4096

    /// Receive Maximum told to clients (5.0, section 3.2.2.3.3); 1 to 65,535.
    public var receiveMaximum: UInt16 = 65535
    /// Maximum Packet Size told to clients, in bytes (5.0, section 3.2.2.3.6), which also bounds what 3.1.1
    /// clients send; 1 to 268,435,460.
    public var maximumPacketSize: UInt32 = 16 * 1024 * 1024
    /// Maximum QoS (5.0, section 3.2.2.3.4); grants nothing above it to 3.1.1 clients either.
    public var maximumQoS: QoS = .exactlyOnce
    /// Retain Available (5.0, section 3.2.2.3.5).
    public var retainAvailable = true
    /// Topic Alias Maximum told to clients (5.0, section 3.2.2.3.8); 0 permits none.
    public var topicAliasMaximum: UInt16 = 64
    /// Wildcard Subscription Available (5.0, section 3.2.2.3.11).
    public var wildcardSubscriptionsAvailable = true
    /// Subscription Identifiers Available (5.0, section 3.2.2.3.12).
    public var subscriptionIdentifiersAvailable = true
    /// Shared Subscription Available (5.0, section 3.2.2.3.13).
    public var sharedSubscriptionsAvailable = true
    /// Server Keep Alive, in seconds, which 5.0 clients have to use in place of their own (section
    /// 3.2.2.3.14); 0 turns keep-alive off.
    public var serverKeepAlive: UInt16?
    /// Response Information for clients that ask for it (5.0, section 3.2.2.3.15); nil for none.
    public var responseInformation: String?
    /// The longest Session Expiry Interval granted, in seconds; 0xFFFFFFFF lets sessions live for ever.
    public var maximumSessionExpiry: UInt32 = 0xFFFF_FFFF

    /// How long a new connection may take to send CONNECT.
    public var connectTimeout: Duration = .seconds(10)
    public var maximumConnections = 10_000
    /// Sessions, connected or not.
    public var maximumSessions = 20_000
    public var maximumSubscriptionsPerSession = 1_000
    /// QoS 1 and 2 messages that wait for a client, beyond those in flight; newer ones are dropped.
    public var maximumQueuedMessages = 10_000
    /// Payload bytes of those; a message that finds the queue empty is taken whatever its size.
    public var maximumQueuedBytes = 64 * 1024 * 1024
    /// QoS 1 and 2 messages in flight to one client, below its own Receive Maximum; at least 1.
    public var maximumInFlight = 256
    public var maximumRetainedMessages = 10_000
    /// Bytes that wait to be written to one client. Above it QoS 0 messages are dropped and queued ones
    /// wait; at twice this number the connection is closed.
    public var maximumOutputBytes = 8 * 1024 * 1024

    public init() {}
}
