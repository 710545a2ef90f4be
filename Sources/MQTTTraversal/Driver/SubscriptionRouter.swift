internal import Glibc

/// Which buffers a message goes to. On the loop only.
struct SubscriptionRouter {
    /// A class, since messages are staged in place: looking a value up and putting it back cost more than the
    /// message itself.
    private final class Slot {
        let filter: TopicFilter
        let buffer: MessageBuffer
        /// This turn's messages, in order.
        var staged: [MessageBuffer.Incoming] = []
        /// The Subscription Identifiers under which the server has been asked for this filter.
        var identifiers: [UInt32] = []
        /// The connection on which it was asked for, as `SubscriptionRouter` counts them.
        let connection: Int

        init(filter: TopicFilter, buffer: MessageBuffer, connection: Int) {
            self.filter = filter
            self.buffer = buffer
            self.connection = connection
        }
    }

    private struct Share {
        var left: Int
        let qos: QoS
    }

    private var trie = FilterTrie()
    private var slots: [Int: Slot] = [:]
    private var lastSlot = 0
    private var connection = 0
    private var lastIdentifier: UInt32 = 0
    private var dirty: [Slot] = []
    /// Messages that go to several buffers, with the number of those that haven't taken it yet.
    private var shares: [IncomingToken: Share] = [:]
    /// Topics repeat: the matches of the last one.
    private var lastTopic: String?
    private var lastMatches: [Slot] = []

    var buffers: [MessageBuffer] { slots.values.map(\.buffer) }

    func buffers(for topicFilter: String) -> [MessageBuffer] {
        slots.values.filter { $0.filter.string.utf8.elementsEqual(topicFilter.utf8) }.map(\.buffer)
    }

    /// The Subscription Identifier for a SUBSCRIBE: the one that a single filter has already, or a new one;
    /// nil when all are used up (section 3.8.2.1.2).
    mutating func identifier(for filters: [TopicFilter]) -> UInt32? {
        if filters.count == 1, let filter = filters.first,
            let known = slots.values.first(where: { $0.filter == filter })?.identifiers.last
        {
            return known
        }
        guard lastIdentifier < Self.largestIdentifier else { return nil }
        lastIdentifier += 1
        return lastIdentifier
    }

    private static let largestIdentifier: UInt32 = 268_435_455

    mutating func insert(_ buffer: MessageBuffer, for filter: TopicFilter, identifier: UInt32? = nil) {
        lastSlot += 1
        let slot = Slot(filter: filter, buffer: buffer, connection: connection)
        // The server has one subscription for a filter, whose identifier the latest SUBSCRIBE sets: those who
        // share it get what comes under the old ones and under the new one.
        for other in slots.values where other.filter == filter {
            if let identifier, !other.identifiers.contains(identifier) {
                other.identifiers.append(identifier)
            }
            slot.identifiers = other.identifiers
        }
        if let identifier, !slot.identifiers.contains(identifier) { slot.identifiers.append(identifier) }
        slots[lastSlot] = slot
        trie.insert(lastSlot, for: filter)
        lastTopic = nil
    }

    /// - Parameter accepted: called for each token that waited for this buffer alone.
    /// - Returns: the buffer's Topic Filter, and whether no other buffer uses it; nil if it isn't here.
    mutating func remove(
        _ buffer: MessageBuffer, accepted: (IncomingToken) -> Void
    ) -> (filter: TopicFilter, wasLast: Bool)? {
        guard let (identifier, slot) = slots.first(where: { $0.value.buffer === buffer }) else { return nil }
        slots[identifier] = nil
        trie.remove(identifier, for: slot.filter)
        lastTopic = nil
        let staged = slot.staged
        slot.staged = []
        for token in staged.lazy.compactMap(\.token) where takeShare(token) { accepted(token) }
        return (slot.filter, !slots.values.contains { $0.filter == slot.filter })
    }

    mutating func removeAll() {
        self = SubscriptionRouter()
    }

    /// Puts a message down for the buffers that it matches; they get it at `commit`.
    ///
    /// - Parameter isRestored: whether a Topic Filter was asked for again on this connection.
    /// - Returns: whether there is one.
    mutating func stage(
        _ publish: Publish, token: IncomingToken?, isRestored: (String) -> Bool = { _ in false }
    ) -> Bool {
        if !isLastTopic(publish.topicName) {
            lastMatches.removeAll(keepingCapacity: true)
            trie.forEachMatch(publish.topicName) { identifier in
                if let slot = slots[identifier] { lastMatches.append(slot) }
            }
            lastTopic = publish.topicName
        }
        let matches = lastMatches.count > 1 ? chosen(by: publish.properties) : lastMatches
        if matches.isEmpty { return false }
        if let token, matches.count > 1 {
            shares[token] = Share(left: matches.count, qos: publish.qos)
        }
        let incoming = MessageBuffer.Incoming(message: Message(publish), token: token)
        for slot in matches {
            if slot.staged.isEmpty { dirty.append(slot) }
            if publish.retain, slot.connection != connection, isRestored(slot.filter.string) {
                var message = incoming.message
                message.isRetainedRepetition = true
                slot.staged.append(MessageBuffer.Incoming(message: message, token: token))
            } else {
                slot.staged.append(incoming)
            }
        }
        return true
    }

    /// Of several matches, those for whose subscription the server has sent this copy: it may send one copy for
    /// each subscription, or one for all (section 3.3.4). Without identifiers there is no telling.
    private func chosen(by properties: Properties) -> [Slot] {
        if properties.isEmpty { return lastMatches }
        let identifiers = properties.subscriptionIdentifiers
        if identifiers.isEmpty { return lastMatches }
        return lastMatches.filter { slot in identifiers.contains { slot.identifiers.contains($0) } }
    }

    /// Hands each buffer its messages of this turn.
    ///
    /// - Parameter accepted: called for each token once all its buffers have the message.
    /// - Returns: the most bytes that any of the buffers holds, and how many messages they dropped.
    mutating func commit(accepted: (IncomingToken) -> Void) -> (heldBytes: Int, dropped: Int) {
        var most = 0
        var dropped = 0
        for slot in dirty where !slot.staged.isEmpty {
            let added = slot.buffer.add(slot.staged) { if takeShare($0) { accepted($0) } }
            most = max(most, added.heldBytes)
            dropped += added.dropped
            slot.staged.removeAll(keepingCapacity: slot.staged.capacity <= 4096)
        }
        dirty.removeAll(keepingCapacity: true)
        return (most, dropped)
    }

    /// Fills the room that a consumer has made.
    mutating func admitWithheld(of buffer: MessageBuffer, accepted: (IncomingToken) -> Void) {
        buffer.admitWithheld { if takeShare($0) { accepted($0) } }
    }

    /// The connection is gone, and with it the tokens of QoS 1 messages.
    mutating func connectionEnded() {
        connection += 1
        for slot in slots.values { slot.buffer.connectionEnded() }
        shares = shares.filter { $0.value.qos == .exactlyOnce }
    }

    /// Byte by byte: Swift's own equality is canonical equivalence, which plays no part in MQTT [MQTT-4.7.3-4].
    private func isLastTopic(_ topic: String) -> Bool {
        guard let lastTopic, topic.utf8.count == lastTopic.utf8.count else { return false }
        return topic.utf8.withContiguousStorageIfAvailable { bytes in
            lastTopic.utf8.withContiguousStorageIfAvailable { lastBytes in
                guard let start = bytes.baseAddress, let lastStart = lastBytes.baseAddress else {
                    return true
                }
                return memcmp(start, lastStart, bytes.count) == 0
            }
        } == true
    }

    /// - Returns: whether this was the last buffer that the message waited for.
    mutating func takeShare(_ token: IncomingToken) -> Bool {
        guard let left = shares[token]?.left else { return true }
        if left > 1 { shares[token]?.left = left - 1 } else { shares[token] = nil }
        return left <= 1
    }
}
