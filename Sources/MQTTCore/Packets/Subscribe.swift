/// SUBSCRIBE (section 3.8).
package struct Subscribe: Sendable, Hashable {
    package var packetIdentifier: PacketIdentifier
    package var subscriptions: [Subscription]
    package var properties: Properties

    /// One Topic Filter with its Subscription Options (section 3.8.3.1).
    package struct Subscription: Sendable, Hashable {
        package var topicFilter: String
        package var options: SubscriptionOptions

        package init(topicFilter: String, options: SubscriptionOptions) {
            self.topicFilter = topicFilter
            self.options = options
        }
    }

    package init(
        packetIdentifier: PacketIdentifier, subscriptions: [Subscription],
        properties: Properties = Properties()
    ) {
        self.packetIdentifier = packetIdentifier
        self.subscriptions = subscriptions
        self.properties = properties
    }
}

/// Subscription Options (5.0, section 3.8.3.1). On 3.1.1 only `qos` exists.
public struct SubscriptionOptions: Sendable, Hashable, Codable {
    /// The highest QoS at which the server may send messages.
    public var qos: QoS
    /// The server doesn't send this client's own messages back to it.
    public var noLocal: Bool
    /// The RETAIN flag arrives as it was published.
    public var retainAsPublished: Bool
    public var retainHandling: RetainHandling

    /// Whether retained messages are sent when the subscription is made.
    public enum RetainHandling: UInt8, Sendable, Hashable, Codable {
        case sendAtSubscribe = 0
        case sendIfNewSubscription = 1
        case doNotSend = 2
    }

    public init(
        qos: QoS = .atLeastOnce, noLocal: Bool = false, retainAsPublished: Bool = false,
        retainHandling: RetainHandling = .sendAtSubscribe
    ) {
        self.qos = qos
        self.noLocal = noLocal
        self.retainAsPublished = retainAsPublished
        self.retainHandling = retainHandling
    }
}

/// SUBACK (section 3.9): one Reason Code for each Topic Filter, in order.
package struct Suback: Sendable, Hashable {
    package var packetIdentifier: PacketIdentifier
    package var reasonCodes: [ReasonCode]
    package var properties: Properties

    package init(
        packetIdentifier: PacketIdentifier, reasonCodes: [ReasonCode],
        properties: Properties = Properties()
    ) {
        self.packetIdentifier = packetIdentifier
        self.reasonCodes = reasonCodes
        self.properties = properties
    }
}

/// UNSUBSCRIBE (section 3.10).
package struct Unsubscribe: Sendable, Hashable {
    package var packetIdentifier: PacketIdentifier
    package var topicFilters: [String]
    package var properties: Properties

    package init(
        packetIdentifier: PacketIdentifier, topicFilters: [String], properties: Properties = Properties()
    ) {
        self.packetIdentifier = packetIdentifier
        self.topicFilters = topicFilters
        self.properties = properties
    }
}

/// UNSUBACK (section 3.11): on 3.1.1 it carries no Reason Codes.
package struct Unsuback: Sendable, Hashable {
    package var packetIdentifier: PacketIdentifier
    package var reasonCodes: [ReasonCode]
    package var properties: Properties

    package init(
        packetIdentifier: PacketIdentifier, reasonCodes: [ReasonCode] = [],
        properties: Properties = Properties()
    ) {
        self.packetIdentifier = packetIdentifier
        self.reasonCodes = reasonCodes
        self.properties = properties
    }
}
