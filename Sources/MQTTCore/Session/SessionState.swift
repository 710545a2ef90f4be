/// What outlives a network connection (section 4.1).
struct SessionState: Sendable {
    /// Whether there is a session that the server may hold too.
    var isActive = false
    /// Whether any CONNECT was accepted since this value was made: Clean Start was spent then.
    var hasBeenEstablished = false
    /// The server holds a session of which we know nothing: it has to go [MQTT-3.2.2-4].
    var mustStartClean = false
    /// CONNECTs since the last accepted one that got no CONNACK: the server may have made a session then that we know
    /// nothing of, in place of one that it had lost, and Session Present speaks of that one.
    var unansweredConnects = 0
    /// The servers that have accepted a connection of this session: more than one where they share it.
    var holders: Set<String> = []
    /// The servers that may still hold an earlier one, which ended when another server didn't know it: resumed
    /// there, its packet identifiers and subscriptions would be taken for those of this session.
    var staleHolders: Set<String> = []
    var assignedClientIdentifier: String?
    var identifiers = PacketIdentifiers()
    var outgoing = OutgoingPublishes()
    /// QoS 2 messages that were delivered and for which no PUBREL has come.
    var incoming: [PacketIdentifier: IncomingRecord] = [:]
    /// Deliveries of earlier connections that the driver still owes an acknowledgement for.
    var carriedOver: [IncomingToken: PacketIdentifier] = [:]
    /// By Topic Filter: what to subscribe to again when the server has lost the session.
    var subscriptions: [String: StoredSubscription] = [:]
    /// Those that a SUBSCRIBE of this session carried.
    var subscriptionIdentifiers: Set<UInt32> = []
    /// A session that we adopted may hold Subscription Identifiers that we know nothing of.
    var isAdopted = false

    struct IncomingRecord: Sendable {
        var token: IncomingToken
        /// What the driver answered, when it has.
        var answer: ReasonCode?
        /// The connection in whose Receive Maximum it counts.
        var connection: UInt64
        /// Whether the server may have lost it with its session, and given its identifier to another message.
        var isDoubtful = false
    }
}

/// A subscription that the server has granted.
package struct StoredSubscription: Sendable, Hashable, Codable {
    package var topicFilter: String
    package var options: SubscriptionOptions
    package var subscriptionIdentifier: UInt32?
    /// Rises with each SUBSCRIBE.
    package var order: UInt64

    package init(
        topicFilter: String, options: SubscriptionOptions, subscriptionIdentifier: UInt32?, order: UInt64
    ) {
        self.topicFilter = topicFilter
        self.options = options
        self.subscriptionIdentifier = subscriptionIdentifier
        self.order = order
    }
}
