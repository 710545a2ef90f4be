import MQTTCore

/// An Application Message on its way through the broker, shared by all who are to receive it.
final class BrokerMessage: Sendable {
    let topicName: String
    let payload: [UInt8]
    /// As published.
    let qos: QoS
    /// As published.
    let retain: Bool
    /// What is forwarded unaltered [MQTT-3.3.2-17], [MQTT-3.3.2-20]: no Topic Alias, no Subscription
    /// Identifier, no Message Expiry Interval.
    let properties: [Property]
    /// When Message Expiry Interval has passed (section 3.3.2.3.3).
    let expiresAt: ContinuousClock.Instant?

    /// - Parameter topicName: with a Topic Alias already replaced by what it stands for.
    init(
        topicName: String, payload: [UInt8], qos: QoS, retain: Bool, properties: Properties,
        now: ContinuousClock.Instant
    ) {
        self.topicName = topicName
        self.payload = payload
        self.qos = qos
        self.retain = retain
        var expiresAt: ContinuousClock.Instant?
        var forwarded: [Property] = []
        for property in properties.entries {
            switch property {
            case .messageExpiryInterval(let seconds): expiresAt = now + .seconds(Int64(seconds))
            case .topicAlias, .subscriptionIdentifier, .willDelayInterval: break
            default: forwarded.append(property)
            }
        }
        self.properties = forwarded
        self.expiresAt = expiresAt
    }

    func isExpired(at now: ContinuousClock.Instant) -> Bool {
        guard let expiresAt else { return false }
        return expiresAt <= now
    }

    /// The packet for one receiver.
    func publish(
        qos: QoS, retain: Bool, isDuplicate: Bool = false, packetIdentifier: PacketIdentifier? = nil,
        subscriptionIdentifiers: [UInt32] = [], now: ContinuousClock.Instant
    ) -> Publish {
        var entries = properties
        if let expiresAt {
            // What has passed meanwhile is subtracted [MQTT-3.3.2-6].
            let left = max(0, now.duration(to: expiresAt).components.seconds)
            entries.append(.messageExpiryInterval(UInt32(clamping: left)))
        }
        for identifier in subscriptionIdentifiers { entries.append(.subscriptionIdentifier(identifier)) }
        return Publish(
            topicName: topicName, payload: payload, qos: qos, retain: retain, isDuplicate: isDuplicate,
            packetIdentifier: packetIdentifier, properties: Properties(entries))
    }
}
