/// A valid Topic Name (section 4.7).
package struct TopicName: Sendable, Hashable {
    package let string: String

    /// Throws what is wrong with `string`.
    package init(_ string: String) throws(TopicError) {
        try TopicRules.checkCommon(string)
        guard !string.utf8.contains(where: { $0 == TopicRules.plus || $0 == TopicRules.hash }) else {
            throw .wildcardInTopicName
        }
        self.string = string
    }
}

/// A valid Topic Filter, shared or not (sections 4.7 and 4.8.2).
package struct TopicFilter: Sendable, Hashable {
    /// As it stands in SUBSCRIBE.
    package let string: String
    /// The group of a shared subscription, nil for any other.
    package let shareName: String?
    /// What is held against Topic Names: the part after the ShareName, or all.
    package let matched: String

    /// Throws what is wrong with `string`.
    package init(_ string: String) throws(TopicError) {
        try TopicRules.checkCommon(string)
        self.string = string
        if string.utf8.starts(with: TopicRules.sharePrefix.utf8) {
            (shareName, matched) = try Self.splitShared(string)
        } else {
            (shareName, matched) = (nil, string)
        }
        try Self.checkWildcards(matched)
    }

    /// Whether a message published to `topicName` matches (section 4.7).
    ///
    /// `topicName` is compared byte by byte, and is taken to be valid.
    package func matches(_ topicName: String) -> Bool {
        TopicRules.withUTF8(topicName) { topic in
            TopicRules.withUTF8(matched) { filter in TopicRules.matches(filter: filter, topic: topic) }
        }
    }

    package func matches(_ topicName: TopicName) -> Bool { matches(topicName.string) }

    /// The parts of `$share/{ShareName}/{filter}` (section 4.8.2).
    private static func splitShared(
        _ string: String
    ) throws(TopicError) -> (shareName: String?, matched: String) {
        let rest = string.utf8.dropFirst(TopicRules.sharePrefix.utf8.count)
        let end = rest.firstIndex(of: TopicRules.slash) ?? rest.endIndex
        let name = rest[..<end]
        guard !name.isEmpty else { throw .emptyShareName }
        guard !name.contains(where: { $0 == TopicRules.plus || $0 == TopicRules.hash }) else {
            throw .wildcardInShareName
        }
        let filter = rest[end...].dropFirst()
        guard !filter.isEmpty else { throw .missingSharedFilter }
        return (String(Substring(name)), String(Substring(filter)))
    }

    private static func checkWildcards(_ filter: String) throws(TopicError) {
        let levels = filter.utf8.split(separator: TopicRules.slash, omittingEmptySubsequences: false)
        for (index, level) in levels.enumerated() {
            if level.contains(TopicRules.hash) {
                guard level.count == 1 else { throw .multiLevelWildcardNotAlone }
                guard index == levels.count - 1 else { throw .multiLevelWildcardNotLast }
            }
            if level.contains(TopicRules.plus), level.count != 1 { throw .singleLevelWildcardNotAlone }
        }
    }
}

extension TopicFilter {
    /// Filters differ when their bytes do: Unicode's canonical equivalence, by which Swift compares
    /// strings, plays no part in MQTT [MQTT-4.7.3-4].
    package static func == (left: TopicFilter, right: TopicFilter) -> Bool {
        left.string.utf8.elementsEqual(right.string.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        TopicRules.withUTF8(string) { hasher.combine(bytes: $0) }
    }
}

extension TopicName {
    /// Names differ when their bytes do [MQTT-4.7.3-4].
    package static func == (left: TopicName, right: TopicName) -> Bool {
        left.string.utf8.elementsEqual(right.string.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        TopicRules.withUTF8(string) { hasher.combine(bytes: $0) }
    }
}

/// What names, filters and the trie have in common.
enum TopicRules {
    static let slash = UInt8(ascii: "/")
    static let plus = UInt8(ascii: "+")
    static let hash = UInt8(ascii: "#")
    static let dollar = UInt8(ascii: "$")
    static let sharePrefix = "$share/"

    static func checkCommon(_ string: String) throws(TopicError) {
        guard !string.isEmpty else { throw .empty }
        guard string.utf8.count <= WireFormat.maximumFieldLength else { throw .tooLong }
        guard !string.utf8.contains(0) else { throw .nullCharacter }
    }

    @inline(__always)
    static func withUTF8<Result>(_ string: String, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        if let result = string.utf8.withContiguousStorageIfAvailable({ body(UnsafeRawBufferPointer($0)) }) {
            return result
        }
        return Array(string.utf8).withUnsafeBytes(body)
    }

    /// The end of the level that starts at `start`.
    @inline(__always)
    static func levelEnd(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        var end = start
        while end < bytes.count, bytes[end] != slash { end += 1 }
        return end
    }

    /// One pass over both: no level is split off. `filter` is valid.
    static func matches(filter: UnsafeRawBufferPointer, topic: UnsafeRawBufferPointer) -> Bool {
        guard let firstOfFilter = filter.first, let firstOfTopic = topic.first else { return false }
        // [MQTT-4.7.2-1]
        if firstOfTopic == dollar, firstOfFilter == plus || firstOfFilter == hash { return false }
        var filterIndex = 0
        var topicIndex = 0
        while filterIndex < filter.count {
            switch filter[filterIndex] {
            case hash: return true
            case plus:
                topicIndex = levelEnd(topic, from: topicIndex)
                filterIndex += 1
            case let byte:
                guard topicIndex < topic.count else {
                    // `sport/#` also matches `sport`, the parent level (section 4.7.1.2).
                    return byte == slash && filterIndex + 2 == filter.count && filter[filterIndex + 1] == hash
                }
                guard topic[topicIndex] == byte else { return false }
                topicIndex += 1
                filterIndex += 1
            }
        }
        return topicIndex == topic.count
    }
}
