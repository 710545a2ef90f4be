/// Finds the subscriptions that a Topic Name matches, at a cost that depends on the name's levels and on
/// what matches, not on how many other filters there are.
///
/// A shared subscription stands under the part after its ShareName, since that is what names match
/// (section 4.8.2). A value may be inserted under several filters and several times under one.
///
/// Values are positions in the owner's table. Not generic: package-access generics aren't specialised in other
/// modules, which made a publish through the broker three to four times as slow.
package struct FilterTrie: Sendable {
    /// One level of filters that begin alike. Nodes live in one array and name each other by index.
    private struct Node: Sendable {
        /// This level's bytes; unused for the root and for `+`.
        var level: [UInt8]
        var parent: Int
        /// The deeper levels that are plain text, by the hash of their bytes.
        var children: [Int: [Int]] = [:]
        /// The deeper level `+`.
        var anyLevel: Int?
        /// Filters that end here.
        var values: [Int] = []
        /// Filters that end with `#` below here.
        var valuesBelow: [Int] = []

        var isEmpty: Bool {
            children.isEmpty && anyLevel == nil && values.isEmpty && valuesBelow.isEmpty
        }
    }

    private static var root: Int { 0 }

    private var nodes: [Node] = [Node(level: [], parent: 0)]
    private var freeNodes: [Int] = []

    /// How many values are in the trie.
    package private(set) var count = 0

    package init() {}

    /// How many levels, the root included, memory is held for.
    package var levelCount: Int { nodes.count }

    package var isEmpty: Bool { count == 0 }

    package mutating func insert(_ value: Int, for filter: TopicFilter) {
        var node = Self.root
        var isMultiLevel = false
        for level in filter.levels {
            if level.elementsEqual([TopicRules.hash]) {
                isMultiLevel = true
            } else {
                node = childCreating(level, of: node)
            }
        }
        if isMultiLevel { nodes[node].valuesBelow.append(value) } else { nodes[node].values.append(value) }
        count += 1
    }

    /// Takes one occurrence of `value` away from `filter`; false if there is none.
    @discardableResult
    package mutating func remove(_ value: Int, for filter: TopicFilter) -> Bool {
        var node = Self.root
        var isMultiLevel = false
        for level in filter.levels {
            if level.elementsEqual([TopicRules.hash]) {
                isMultiLevel = true
            } else {
                guard let child = child(level, of: node) else { return false }
                node = child
            }
        }
        let isRemoved =
            isMultiLevel
            ? nodes[node].valuesBelow.remove(oneOf: value) : nodes[node].values.remove(oneOf: value)
        if isRemoved {
            count -= 1
            prune(from: node)
        }
        return isRemoved
    }

    /// Calls `body` with the value of each filter that `topicName` matches: once for each insertion.
    package func forEachMatch(_ topicName: String, _ body: (Int) -> Void) {
        guard count > 0 else { return }
        TopicRules.withUTF8(topicName) { topic in
            guard let first = topic.first else { return }
            // Leading wildcards don't match names that begin with $ [MQTT-4.7.2-1].
            forEachMatch(topic, allowsLeadingWildcard: first != TopicRules.dollar, body)
        }
    }
}

extension FilterTrie {
    /// A loop, not a recursion: a peer chooses how many levels there are. The branch to come back to is
    /// put aside only where both the level's text and `+` go on, so most names need no allocation.
    private func forEachMatch(
        _ topic: UnsafeRawBufferPointer, allowsLeadingWildcard: Bool, _ body: (Int) -> Void
    ) {
        var pending: [(node: Int, start: Int)] = []
        var node = Self.root
        var start = 0
        while true {
            let allowsWildcard = node != Self.root || allowsLeadingWildcard
            if allowsWildcard {
                for value in nodes[node].valuesBelow { body(value) }
            }
            var next: Int?
            // One past the end says that the last level has been taken.
            if start > topic.count {
                for value in nodes[node].values { body(value) }
            } else {
                let end = TopicRules.levelEnd(topic, from: start)
                next =
                    nodes[node].children.isEmpty
                    ? nil : child(UnsafeRawBufferPointer(rebasing: topic[start..<end]), of: node)
                start = end + 1
                if allowsWildcard, let anyLevel = nodes[node].anyLevel {
                    if next != nil { pending.append((anyLevel, start)) } else { next = anyLevel }
                }
            }
            if let next {
                node = next
            } else if let branch = pending.popLast() {
                (node, start) = branch
            } else {
                return
            }
        }
    }

    private func child(_ level: UnsafeRawBufferPointer, of node: Int) -> Int? {
        guard let candidates = nodes[node].children[Self.hash(level)] else { return nil }
        return candidates.first { nodes[$0].level.elementsEqual(level) }
    }

    private func child(_ level: [UInt8], of node: Int) -> Int? {
        if level.elementsEqual([TopicRules.plus]) { return nodes[node].anyLevel }
        return level.withUnsafeBytes { child($0, of: node) }
    }

    private mutating func childCreating(_ level: [UInt8], of node: Int) -> Int {
        if let child = child(level, of: node) { return child }
        let child: Int
        if let free = freeNodes.popLast() {
            nodes[free] = Node(level: level, parent: node)
            child = free
        } else {
            nodes.append(Node(level: level, parent: node))
            child = nodes.count - 1
        }
        if level.elementsEqual([TopicRules.plus]) {
            nodes[node].anyLevel = child
        } else {
            nodes[node].children[level.withUnsafeBytes(Self.hash), default: []].append(child)
        }
        return child
    }

    /// Frees `start` and the nodes above it that lead nowhere any more.
    private mutating func prune(from start: Int) {
        var node = start
        while node != Self.root, nodes[node].isEmpty {
            let parent = nodes[node].parent
            if nodes[parent].anyLevel == node {
                nodes[parent].anyLevel = nil
            } else {
                let hash = nodes[node].level.withUnsafeBytes(Self.hash)
                nodes[parent].children[hash]?.removeAll { $0 == node }
                if nodes[parent].children[hash]?.isEmpty == true { nodes[parent].children[hash] = nil }
            }
            nodes[node] = Node(level: [], parent: Self.root)
            freeNodes.append(node)
            node = parent
        }
    }

    /// Seeded per process, so that peers can't choose levels that collide.
    private static func hash(_ level: UnsafeRawBufferPointer) -> Int {
        var hasher = Hasher()
        hasher.combine(bytes: level)
        return hasher.finalize()
    }
}

extension TopicFilter {
    /// The levels of what is matched; only the trie's changes need them apart.
    fileprivate var levels: [[UInt8]] {
        matched.utf8.split(separator: TopicRules.slash, omittingEmptySubsequences: false).map(Array.init)
    }
}

extension [Int] {
    fileprivate mutating func remove(oneOf value: Int) -> Bool {
        guard let index = firstIndex(of: value) else { return false }
        remove(at: index)
        return true
    }
}
