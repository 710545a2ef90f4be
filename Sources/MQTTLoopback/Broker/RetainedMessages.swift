import MQTTCore

/// The retained message of each Topic Name (section 3.3.1.3).
struct RetainedMessages {
    private var messages: [ExactString: BrokerMessage] = [:]
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    var count: Int { messages.count }

    /// Keeps the message in place of the topic's former one; an empty payload removes it
    /// [MQTT-3.3.1-6], [MQTT-3.3.1-7]. Returns whether there was room.
    mutating func store(_ message: BrokerMessage) -> Bool {
        let topicName = ExactString(message.topicName)
        if message.payload.isEmpty {
            messages[topicName] = nil
            return true
        }
        guard messages.count < limit || messages[topicName] != nil else { return false }
        messages[topicName] = message
        return true
    }

    /// The messages that match, without those that have expired.
    mutating func matching(_ filter: TopicFilter, now: ContinuousClock.Instant) -> [BrokerMessage] {
        if !filter.hasWildcard {
            let topicName = ExactString(filter.matched)
            guard let message = messages[topicName] else { return [] }
            guard message.isExpired(at: now) else { return [message] }
            messages[topicName] = nil
            return []
        }
        var found: [BrokerMessage] = []
        var expired: [ExactString] = []
        for (topicName, message) in messages {
            if message.isExpired(at: now) {
                expired.append(topicName)
            } else if filter.matches(topicName.string) {
                found.append(message)
            }
        }
        for topicName in expired { messages[topicName] = nil }
        // A dictionary's order changes from run to run; tests and demos want the same each time.
        return found.sorted { $0.topicName < $1.topicName }
    }
}
