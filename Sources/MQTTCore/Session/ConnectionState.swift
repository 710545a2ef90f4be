/// What dies with a network connection: quotas, aliases, negotiated limits, keep-alive.
struct ConnectionState: Sendable {
    /// Counts connections.
    let number: UInt64
    /// As sent in CONNECT.
    let startedClean: Bool
    /// Whom it leads to; as `ClientSession.open` was told.
    let server: String
    var isEstablished = false
    /// Whether the server has sent a message, or an answer to one.
    var hasCarriedMessages = false
    /// Until when CONNACK has to come; of no meaning afterwards.
    var connackDeadline: Instant
    /// What the server was told at DISCONNECT to do with the session; nil when none was sent.
    var keepsSessionAfterDisconnect: Bool?
    /// nil where CONNECT named no Authentication Method.
    var authentication: Authentication?
    var limits = NegotiatedLimits()
    var keepAlive: KeepAlive
    /// Messages with an identifier that this connection has carried and the server not yet answered.
    /// A resent PUBREL counts too, since the server holds its message: stricter than section 4.9 asks.
    private(set) var inFlight = 0
    /// Those of them with QoS 2.
    private(set) var exactlyOnceInFlight = 0
    /// The next of the unacknowledged messages to send again, 0 for none.
    var resendNext: PacketIdentifier = 0
    var requests: [PacketIdentifier: PendingRequest] = [:]
    /// Topic Filters for which a SUBSCRIBE has been repeated on this connection, since the session had been lost.
    var restoredFilters: Set<String> = []
    /// QoS 1 and 2 messages of the server that await PUBACK or PUBREC, in order of arrival.
    var acknowledgements = FIFO<IncomingAcknowledgement>()
    /// For a delivery of an earlier connection, the queued answer to its repetition.
    var repetitions: [IncomingToken: UInt64] = [:]
    /// QoS 1 and 2 messages of the server that are not finished (section 4.9).
    var incomingInFlight = 0
    /// Topic names by Topic Alias; index 0 is unused.
    var incomingAliases: [String?] = []
    /// For the topics that this client publishes to.
    var outgoingAliases = OutgoingTopicAliases()
    /// Packets waiting for a store.
    var held = FIFO<HeldPacket>()

    /// - Parameter previous: whose tokens for deliveries are not given a second time.
    init(
        after previous: ConnectionState? = nil, startedClean: Bool = false, server: String = "",
        keepAlive: KeepAlive
    ) {
        number = previous.map { $0.number + 1 } ?? 0
        self.startedClean = startedClean
        self.server = server
        self.keepAlive = keepAlive
        connackDeadline = keepAlive.lastSent
        if let previous {
            acknowledgements = previous.acknowledgements
            acknowledgements.removeAll()
        }
    }

    /// This connection carries a message now.
    mutating func began(_ qos: QoS) {
        inFlight += 1
        if qos == .exactlyOnce { exactlyOnceInFlight += 1 }
    }

    /// A message that this connection has carried is done with.
    mutating func finished(_ qos: QoS) {
        inFlight -= 1
        if qos == .exactlyOnce { exactlyOnceInFlight -= 1 }
    }
}

struct IncomingAcknowledgement: Sendable {
    var identifier: PacketIdentifier
    var qos: QoS
    /// nil until the driver has answered.
    var answer: ReasonCode?
}

struct HeldPacket: Sendable {
    var token: UInt64
    var content: Content

    enum Content: Sendable {
        case publish(PacketIdentifier)
        case acknowledgement(ControlPacket)
    }
}

/// What CONNACK granted (5.0, section 3.2.2.3), with the defaults for what it left out and for 3.1.1.
package struct NegotiatedLimits: Sendable, Hashable {
    package var maximumQoS = QoS.exactlyOnce
    package var retainAvailable = true
    /// Bytes; nil for no limit.
    package var maximumPacketSize: UInt32?
    package var receiveMaximum: UInt16 = 65535
    package var topicAliasMaximum: UInt16 = 0
    package var wildcardSubscriptionsAvailable = true
    package var sharedSubscriptionsAvailable = true
    package var subscriptionIdentifiersAvailable = true
    /// Seconds, 0 for off; nil when the server accepts ours.
    package var serverKeepAlive: UInt16?
    package var assignedClientIdentifier: String?
    /// Seconds; nil when the server accepts ours.
    package var sessionExpiryInterval: UInt32?

    package init() {}

    init(_ properties: Properties) {
        for property in properties.entries {
            switch property {
            case .maximumQoS(let value): maximumQoS = value == 0 ? .atMostOnce : .atLeastOnce
            case .retainAvailable(let value): retainAvailable = value != 0
            case .maximumPacketSize(let value): maximumPacketSize = value
            case .receiveMaximum(let value): receiveMaximum = value
            case .topicAliasMaximum(let value): topicAliasMaximum = value
            case .wildcardSubscriptionAvailable(let value): wildcardSubscriptionsAvailable = value != 0
            case .sharedSubscriptionAvailable(let value): sharedSubscriptionsAvailable = value != 0
            case .subscriptionIdentifierAvailable(let value): subscriptionIdentifiersAvailable = value != 0
            case .serverKeepAlive(let value): serverKeepAlive = value
            case .assignedClientIdentifier(let value): assignedClientIdentifier = value
            case .sessionExpiryInterval(let value): sessionExpiryInterval = value
            case .payloadFormatIndicator, .messageExpiryInterval, .contentType, .responseTopic,
                .correlationData, .subscriptionIdentifier, .authenticationMethod, .authenticationData,
                .requestProblemInformation, .willDelayInterval, .requestResponseInformation,
                .responseInformation, .serverReference, .reasonString, .topicAlias, .userProperty:
                break
            }
        }
    }
}
