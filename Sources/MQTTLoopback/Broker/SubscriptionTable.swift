import MQTTCore

/// All subscriptions of all sessions, found by Topic Name.
struct SubscriptionTable {
    /// One session's subscription to one Topic Filter.
    struct Subscriber {
        let session: Int
        var options: SubscriptionOptions
        var identifier: UInt32?
    }

    /// A ShareName and who shares it (section 4.8.2).
    struct ShareGroup {
        let name: ExactString
        var members: [Subscriber]
        /// Whose turn it is, modulo the number of members.
        var next = 0
    }

    /// Who subscribed to one Topic Filter, alone or sharing.
    struct Entry {
        var subscribers: [Subscriber] = []
        var groups: [ShareGroup] = []

        var isEmpty: Bool { subscribers.isEmpty && groups.isEmpty }
    }

    private(set) var entries: [Entry] = []
    /// By Topic Filter without the ShareName.
    private var positions: [ExactString: Int] = [:]
    private var free: [Int] = []
    private var trie = FilterTrie()

    /// Adds the subscription, or replaces the session's former one with the same filter. Returns whether
    /// it is new.
    mutating func subscribe(_ subscriber: Subscriber, to filter: TopicFilter) -> Bool {
        let position = position(for: filter)
        guard let shareName = filter.shareName.map(ExactString.init) else {
            return Self.put(subscriber, into: &entries[position].subscribers)
        }
        if let group = entries[position].groups.firstIndex(where: { $0.name == shareName }) {
            return Self.put(subscriber, into: &entries[position].groups[group].members)
        }
        entries[position].groups.append(ShareGroup(name: shareName, members: [subscriber]))
        return true
    }

    mutating func unsubscribe(session: Int, from filter: TopicFilter) {
        guard let position = positions[ExactString(filter.matched)] else { return }
        if let shareName = filter.shareName.map(ExactString.init) {
            guard let group = entries[position].groups.firstIndex(where: { $0.name == shareName }) else {
                return
            }
            entries[position].groups[group].members.removeAll { $0.session == session }
            if entries[position].groups[group].members.isEmpty {
                entries[position].groups.remove(at: group)
            }
        } else {
            entries[position].subscribers.removeAll { $0.session == session }
        }
        guard entries[position].isEmpty else { return }
        trie.remove(position, for: filter)
        positions[ExactString(filter.matched)] = nil
        free.append(position)
    }

    /// Appends the positions of the entries whose filter matches.
    func match(_ topicName: String, into found: inout [Int]) {
        trie.forEachMatch(topicName) { found.append($0) }
    }

    /// After the member at `index` has had its turn, the next one is that after it.
    mutating func setTurn(entry: Int, group: Int, taken index: Int) {
        entries[entry].groups[group].next = index + 1
    }

    private static func put(_ subscriber: Subscriber, into list: inout [Subscriber]) -> Bool {
        if let index = list.firstIndex(where: { $0.session == subscriber.session }) {
            list[index] = subscriber
            return false
        }
        list.append(subscriber)
        return true
    }

    private mutating func position(for filter: TopicFilter) -> Int {
        let key = ExactString(filter.matched)
        if let position = positions[key] { return position }
        let position: Int
        if let freed = free.popLast() {
            position = freed
        } else {
            position = entries.count
            entries.append(Entry())
        }
        positions[key] = position
        trie.insert(position, for: filter)
        return position
    }
}

/// A string that differs from others when its bytes do: Swift compares by canonical equivalence, which
/// plays no part in MQTT [MQTT-4.7.3-4].
struct ExactString: Hashable {
    let string: String

    init(_ string: String) { self.string = string }

    static func == (left: ExactString, right: ExactString) -> Bool {
        left.string.utf8.elementsEqual(right.string.utf8)
    }

    func hash(into hasher: inout Hasher) {
        var string = string
        string.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension TopicFilter {
    var hasWildcard: Bool { matched.utf8.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") } }
}
