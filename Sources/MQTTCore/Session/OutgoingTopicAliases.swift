/// The Topic Aliases that this client has given out on one connection (5.0, section 3.3.2.3.4).
///
/// The topics used last have one. When all are given out, the one that was used the longest ago goes to the next
/// topic: a PUBLISH with both sets an alias anew.
struct OutgoingTopicAliases: Sendable {
    /// The greatest alias to give out; 0 for none.
    var maximum: UInt16 = 0
    private var aliases: [TopicName: UInt16] = [:]
    /// By alias, linked in the order of use. Index 0 stands for both ends: next to it is the alias used last,
    /// before it the one used the longest ago.
    private var slots = [Slot()]

    private struct Slot: Sendable {
        var topic: TopicName?
        var next: UInt16 = 0
        var previous: UInt16 = 0
    }

    /// An alias that a PUBLISH may carry.
    struct Candidate: Sendable {
        let topic: TopicName
        let alias: UInt16
        /// Whether the server knows it, so that the Topic Name can be left out.
        let isKnown: Bool
    }

    /// The alias takes three bytes: a shorter name goes better without.
    private static let shortestName = 4

    /// The alias for a topic; nothing changes before `use`. nil where none is given out.
    func candidate(for topicName: String) -> Candidate? {
        guard maximum > 0, topicName.utf8.count >= Self.shortestName, let topic = try? TopicName(topicName)
        else {
            return nil
        }
        if let alias = aliases[topic] { return Candidate(topic: topic, alias: alias, isKnown: true) }
        let alias = slots.count <= Int(maximum) ? UInt16(slots.count) : slots[0].previous
        return Candidate(topic: topic, alias: alias, isKnown: false)
    }

    /// The PUBLISH with this alias goes out.
    mutating func use(_ candidate: Candidate) {
        let alias = candidate.alias
        if Int(alias) == slots.count { slots.append(Slot()) } else { unlink(alias) }
        if !candidate.isKnown {
            if let former = slots[Int(alias)].topic { aliases[former] = nil }
            slots[Int(alias)].topic = candidate.topic
            aliases[candidate.topic] = alias
        }
        link(alias)
    }

    private mutating func link(_ alias: UInt16) {
        let first = slots[0].next
        slots[Int(alias)].next = first
        slots[Int(alias)].previous = 0
        slots[Int(first)].previous = alias
        slots[0].next = alias
    }

    private mutating func unlink(_ alias: UInt16) {
        let slot = slots[Int(alias)]
        slots[Int(slot.previous)].next = slot.next
        slots[Int(slot.next)].previous = slot.previous
    }
}
