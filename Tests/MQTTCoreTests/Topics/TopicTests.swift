import MQTTConformance
import MQTTCore
import Testing

@Suite struct TopicTests {
    @Test(arguments: ["a", "/", "//", "a b", "sport/tennis/player1", "$SYS/x", "\u{FEFF}", "Ä/ö", "$share"])
    func a_valid_topic_name_is_taken(_ name: String) throws {
        #expect(try TopicName(name).string == name)
    }

    @Test(
        .mqtt311("4.7.1-1", "4.7.3-1", "4.7.3-2", "4.7.3-3"),
        .mqtt5("4.7.0-1", "4.7.3-1", "4.7.3-2", "4.7.3-3"),
        arguments: [
            ("", TopicError.empty), ("a/+", .wildcardInTopicName), ("#", .wildcardInTopicName),
            ("a#b", .wildcardInTopicName), ("a\0b", .nullCharacter),
            (String(repeating: "a", count: 65_536), .tooLong),
            (String(repeating: "ä", count: 32_768), .tooLong),
        ])
    func an_invalid_topic_name_is_refused(_ name: String, _ error: TopicError) {
        #expect(throws: error) { try TopicName(name) }
    }

    @Test func a_topic_may_take_65535_bytes() throws {
        let name = String(repeating: "a", count: 65_535)
        #expect(try TopicName(name).string == name)
        #expect(try TopicFilter(name).matches(name))
    }

    /// The examples of sections 4.7.1.2, 4.7.1.3 and 4.8.2.
    @Test(arguments: [
        "#", "+", "/", "+/+", "/+", "sport/tennis/#", "+/tennis/#", "sport/+/player1", "sport/#", "$SYS/#",
        "$share/consumer/sport/+", "$share/g/#", "$share/g//", "$share/a$/b", "$share", "$sharex/a/b",
    ])
    func a_valid_topic_filter_is_taken(_ filter: String) throws {
        #expect(try TopicFilter(filter).string == filter)
    }

    @Test(
        .mqtt311("4.7.1-2", "4.7.1-3", "4.7.3-1", "4.7.3-2", "4.7.3-3"),
        .mqtt5("4.7.1-1", "4.7.1-2", "4.7.3-1", "4.7.3-2", "4.7.3-3", "4.8.2-1", "4.8.2-2"),
        arguments: [
            ("", TopicError.empty), ("sport/tennis#", .multiLevelWildcardNotAlone),
            ("sport/tennis/#/ranking", .multiLevelWildcardNotLast), ("sport+", .singleLevelWildcardNotAlone),
            ("+a/b", .singleLevelWildcardNotAlone), ("a/++", .singleLevelWildcardNotAlone),
            ("##", .multiLevelWildcardNotAlone), ("#/", .multiLevelWildcardNotLast),
            ("+#", .multiLevelWildcardNotAlone), ("a\0", .nullCharacter),
            (String(repeating: "/", count: 65_536), .tooLong), ("$share/", .emptyShareName),
            ("$share//a", .emptyShareName), ("$share/g", .missingSharedFilter),
            ("$share/g/", .missingSharedFilter), ("$share/+/a", .wildcardInShareName),
            ("$share/g#/a", .wildcardInShareName), ("$share/g/a#", .multiLevelWildcardNotAlone),
        ])
    func an_invalid_topic_filter_is_refused(_ filter: String, _ error: TopicError) {
        #expect(throws: error) { try TopicFilter(filter) }
    }

    @Test func a_shared_filter_has_its_parts() throws {
        let filter = try TopicFilter("$share/consumer1/sport/tennis/+")
        #expect(filter.shareName == "consumer1")
        #expect(filter.matched == "sport/tennis/+")
        #expect(try TopicFilter("a/b").shareName == nil)
    }

    /// Filters compare by bytes: U+00E9 and e with U+0301 are equal to Swift, not to MQTT [MQTT-4.7.3-4].
    @Test func names_are_not_normalised() throws {
        #expect(try TopicFilter("caf\u{E9}") != TopicFilter("cafe\u{301}"))
        #expect(try TopicName("caf\u{E9}") != TopicName("cafe\u{301}"))
        #expect(try Set([TopicFilter("caf\u{E9}"), TopicFilter("cafe\u{301}")]).count == 2)
        #expect(try !TopicFilter("caf\u{E9}").matches("cafe\u{301}"))
        #expect(try !TopicFilter("a\u{FEFF}").matches("a"))
    }

    static let matching: [(filter: String, topic: String, matches: Bool)] = [
        ("sport/tennis/player1/#", "sport/tennis/player1", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
        ("sport/tennis/player1/#", "sport/tennis/player10", false),
        ("sport/#", "sport", true), ("sport/#", "sport/", true), ("sport/#", "sports", false),
        ("sport/#", "spor", false), ("#", "a/b/c", true), ("#", "/", true),
        ("sport/tennis/+", "sport/tennis/player1", true), ("sport/tennis/+", "sport/tennis/player2", true),
        ("sport/tennis/+", "sport/tennis/player1/ranking", false), ("sport/+", "sport", false),
        ("sport/+", "sport/", true), ("+/+", "/finance", true), ("/+", "/finance", true),
        ("+", "/finance", false), ("+", "finance", true), ("+/tennis/#", "sport/tennis", true),
        ("+/tennis/#", "sport/tennis/x/y", true), ("+/#", "a", true), ("+/#", "a/b/c", true),
        ("sport/+/player1", "sport/tennis/player1", true), ("sport/+/player1", "sport//player1", true),
        ("sport/+/player1", "sport/player1", false), ("#", "$SYS/monitor", false),
        ("+/monitor/Clients", "$SYS/monitor/Clients", false), ("$SYS/#", "$SYS/monitor", true),
        ("$SYS/#", "$SYS", true), ("$SYS/monitor/+", "$SYS/monitor/Clients", true), ("a/#", "a/$SYS", true),
        ("a/+", "a/$SYS", true), ("ACCOUNTS", "Accounts", false), ("/a", "a", false), ("a", "a/", false),
        ("a/", "a", false), ("a/b", "a/b", true), ("a//b", "a//b", true), ("a//b", "a/b", false),
        ("+/+/+", "//", true), ("+/+", "//", false), ("a/b/c", "a/b", false), ("a/b", "a/b/c", false),
        ("a/b/#", "a", false), ("a/b/#", "a/b", true),
        ("$share/g/sport/#", "sport", true), ("$share/g/#", "$SYS/x", false),
        ("$share/g/+", "a", true), ("$share/g/a", "$share/g/a", false), ("$share/g/$SYS/#", "$SYS/x", true),
    ]

    @Test(
        .mqtt311("4.7.1-2", "4.7.1-3"), .mqtt5("4.7.1-1", "4.7.1-2"),
        arguments: matching.indices)
    func a_filter_matches_as_section_4_7_says(_ index: Int) throws {
        let (filter, topic, matches) = Self.matching[index]
        #expect(try TopicFilter(filter).matches(topic) == matches, "\(filter) and \(topic)")
        #expect(try TopicFilter(filter).matches(TopicName(topic)) == matches)
    }
}

@Suite struct FilterTrieTests {
    private func matches(_ trie: FilterTrie, _ topic: String) -> [Int] {
        var found: [Int] = []
        trie.forEachMatch(topic) { found.append($0) }
        return found.sorted()
    }

    @Test func the_trie_finds_what_the_filters_match() throws {
        var trie = FilterTrie()
        let filters = try Array(Set(TopicTests.matching.map(\.filter))).sorted().map { try TopicFilter($0) }
        for (index, filter) in filters.enumerated() { trie.insert(index, for: filter) }
        #expect(trie.count == filters.count)
        for topic in Set(TopicTests.matching.map(\.topic)) {
            let expected = filters.indices.filter { filters[$0].matches(topic) }
            #expect(matches(trie, topic) == expected, "\(topic)")
        }
    }

    @Test func a_removed_filter_matches_no_more_and_the_others_stay() throws {
        var trie = FilterTrie()
        let filters = try ["a/b", "a/b/#", "a/+", "a/b", "#", "+/b/c/d", "$share/g/a/b"].map {
            try TopicFilter($0)
        }
        for (index, filter) in filters.enumerated() { trie.insert(index, for: filter) }
        #expect(matches(trie, "a/b") == [0, 1, 2, 3, 4, 6])
        var expected = [0, 1, 2, 3, 4, 6]
        for (index, filter) in filters.enumerated() {
            var isRemoved = trie.remove(index, for: filter)
            #expect(isRemoved)
            isRemoved = trie.remove(index, for: filter)
            #expect(!isRemoved)
            expected.removeAll { $0 == index }
            #expect(matches(trie, "a/b") == expected)
        }
        #expect(trie.isEmpty)
        #expect(matches(trie, "a/b") == [])
    }

    @Test func a_value_inserted_twice_is_found_twice() throws {
        var trie = FilterTrie()
        let filter = try TopicFilter("a/#")
        trie.insert(1, for: filter)
        trie.insert(1, for: filter)
        #expect(matches(trie, "a") == [1, 1])
        trie.remove(1, for: filter)
        #expect(matches(trie, "a/b") == [1])
    }

    @Test func canonically_equivalent_filters_stay_apart() throws {
        var trie = FilterTrie()
        trie.insert(1, for: try TopicFilter("caf\u{E9}"))
        trie.insert(2, for: try TopicFilter("cafe\u{301}"))
        #expect(matches(trie, "caf\u{E9}") == [1])
        #expect(matches(trie, "cafe\u{301}") == [2])
    }

    @Test func a_removal_of_an_unknown_filter_changes_nothing() throws {
        var trie = FilterTrie()
        trie.insert(1, for: try TopicFilter("a/b"))
        var isRemoved = trie.remove(1, for: try TopicFilter("a"))
        #expect(!isRemoved)
        isRemoved = trie.remove(1, for: try TopicFilter("a/+"))
        #expect(!isRemoved)
        isRemoved = trie.remove(2, for: try TopicFilter("a/b"))
        #expect(!isRemoved)
        #expect(trie.count == 1)
    }

    @Test func tens_of_thousands_of_levels_are_no_danger() throws {
        var trie = FilterTrie()
        let deep = String(repeating: "/", count: 65_535)
        trie.insert(1, for: try TopicFilter(deep))
        trie.insert(2, for: try TopicFilter("+/#"))
        trie.insert(3, for: try TopicFilter(String(repeating: "+/", count: 32_767) + "+"))
        #expect(matches(trie, deep) == [1, 2])
        #expect(matches(trie, String(repeating: "a/", count: 32_767) + "a") == [2, 3])
        let isRemoved = trie.remove(1, for: try TopicFilter(deep))
        #expect(isRemoved)
        #expect(matches(trie, deep) == [2])
    }

    @Test func freed_levels_are_used_again() throws {
        var trie = FilterTrie()
        for round in 0..<50 {
            let filters = try (0..<20).map { try TopicFilter("r\(round)/\($0)/+/x") }
            for filter in filters { trie.insert(round, for: filter) }
            #expect(matches(trie, "r\(round)/7/y/x") == [round])
            for filter in filters { trie.remove(round, for: filter) }
        }
        #expect(trie.isEmpty)
        #expect(trie.levelCount <= 1 + 1 + 3 * 20)
    }
}
