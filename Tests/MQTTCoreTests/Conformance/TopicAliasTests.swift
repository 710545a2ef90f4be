import MQTTConformance
import MQTTCore
import Testing

@Suite("Session: Topic Aliases of our own")
struct TopicAliasTests {
    private func aliasing(_ count: UInt16, server: UInt16?, limit: UInt32? = nil) -> SessionHarness {
        var properties: [Property] = server.map { [.topicAliasMaximum($0)] } ?? []
        if let limit { properties.append(.maximumPacketSize(limit)) }
        return SessionHarness(connected: .v5, connack: Properties(properties)) {
            $0.automaticTopicAliases = count
        }
    }

    /// Topic Name and Topic Alias of each PUBLISH that is sent.
    private func publish(_ harness: inout SessionHarness, _ topics: [String], qos: QoS = .atMostOnce)
        -> [Sent]
    {
        for topic in topics { harness.publish("", topic: topic, qos: qos) }
        return sent(&harness)
    }

    private func sent(_ harness: inout SessionHarness) -> [Sent] {
        harness.encode()
        let bytes = harness.take().bytes
        // A server's decoder wants CONNECT first; a client's reads PUBLISH as well.
        let packets = (try? TestDecoder(role: .client, version: .v5).packets(in: bytes)) ?? []
        return packets.compactMap {
            guard case .publish(let publish) = $0 else { return nil }
            return Sent(publish.topicName, publish.properties.topicAlias)
        }
    }

    struct Sent: Equatable {
        var topic: String
        var alias: UInt16?
        init(_ topic: String, _ alias: UInt16?) {
            self.topic = topic
            self.alias = alias
        }
    }

    @Test(.mqtt5("3.3.2-8"))
    func a_topic_gets_an_alias_from_1_up_and_is_named_once() {
        var harness = aliasing(10, server: 10)
        #expect(
            publish(&harness, ["home/a", "home/b", "home/a", "home/b", "home/a"]) == [
                Sent("home/a", 1), Sent("home/b", 2), Sent("", 1), Sent("", 2), Sent("", 1),
            ])
        #expect(throws: EncodeError.propertyValueOutOfRange(.topicAlias)) {
            var bytes: [UInt8] = []
            let zero = Publish(topicName: "t", payload: [], properties: Properties([.topicAlias(0)]))
            try zero.encode(for: .v5, into: &bytes)
        }
    }

    @Test(.mqtt5("3.2.2-17", "3.3.2-9"), arguments: [(2, 5), (5, 2)] as [(UInt16, UInt16)])
    func no_alias_is_above_the_servers_maximum(own: UInt16, server: UInt16) {
        var harness = aliasing(own, server: server)
        let topics = (0..<20).map { "home/\($0 % 4)" }
        let sent = publish(&harness, topics)
        #expect(sent.count == 20)
        #expect(Set(sent.compactMap(\.alias)) == [1, 2])
    }

    @Test(.mqtt5("3.2.2-18"), arguments: [nil, 0] as [UInt16?])
    func without_a_servers_maximum_there_is_none(server: UInt16?) {
        var harness = aliasing(10, server: server)
        #expect(publish(&harness, ["home/a", "home/a"]) == [Sent("home/a", nil), Sent("home/a", nil)])
    }

    @Test func they_are_off_unless_asked_for() {
        var harness = SessionHarness(connected: .v5, connack: Properties([.topicAliasMaximum(10)]))
        #expect(publish(&harness, ["home/a", "home/a"]) == [Sent("home/a", nil), Sent("home/a", nil)])
        #expect(SessionConfiguration(clientIdentifier: "c").automaticTopicAliases == 0)
    }

    @Test func the_topic_unused_for_longest_gives_way() {
        var harness = aliasing(2, server: 2)
        #expect(
            publish(&harness, ["home/a", "home/b", "home/a", "home/c", "home/a", "home/b", "home/c"]) == [
                Sent("home/a", 1), Sent("home/b", 2), Sent("", 1), Sent("home/c", 2), Sent("", 1),
                Sent("home/b", 2), Sent("home/c", 1),
            ])
    }

    @Test(.mqtt5("3.3.2-7"))
    func they_are_forgotten_with_the_connection_and_resent_messages_have_their_topic() {
        var harness = aliasing(10, server: 10)
        #expect(
            publish(&harness, ["home/a", "home/a"], qos: .atLeastOnce) == [Sent("home/a", 1), Sent("", 1)])
        harness.reconnect(sessionPresent: true, connack: Properties([.topicAliasMaximum(10)]))
        #expect(
            publish(&harness, ["home/b", "home/a", "home/b"], qos: .atLeastOnce) == [
                Sent("home/a", nil), Sent("home/a", nil), Sent("home/b", 1), Sent("home/a", 2), Sent("", 1),
            ])
        harness.reconnect(sessionPresent: true)
        #expect(publish(&harness, ["home/b"]).allSatisfy { $0.alias == nil && !$0.topic.isEmpty })
    }

    @Test func a_stored_message_has_its_topic() {
        var configuration = SessionConfiguration(clientIdentifier: "c", automaticTopicAliases: 10)
        configuration.durability = .durable
        var harness = SessionHarness(configuration)
        harness.connect(connack: Properties([.topicAliasMaximum(10)]))
        _ = harness.take()
        for _ in 1...2 { harness.publish(topic: "home/a") }
        harness.encode()
        let stored = harness.take().actions.compactMap { action -> Publish? in
            guard case .persist(_, .queued(let publish, _)) = action else { return nil }
            return publish
        }
        #expect(stored.map(\.topicName) == ["home/a", "home/a"])
        #expect(stored.allSatisfy { $0.properties.isEmpty })
    }

    @Test func an_alias_that_makes_a_packet_too_large_is_left_out() {
        // 2 + 2 + 6 + 1 bytes without an alias, 3 more with one.
        var harness = aliasing(10, server: 10, limit: 12)
        #expect(publish(&harness, ["home/a", "home/a"]) == [Sent("home/a", nil), Sent("home/a", nil)])
        harness = aliasing(10, server: 10, limit: 14)
        #expect(publish(&harness, ["home/a", "home/a"]) == [Sent("home/a", 1), Sent("", 1)])
        // With the alias known, what was too large by its name fits.
        harness.publish("12345", topic: "home/a", qos: .atMostOnce)
        #expect(sent(&harness) == [Sent("", 1)])
    }

    @Test func a_message_that_is_not_sent_sets_no_alias() {
        var harness = aliasing(10, server: 10, limit: 20)
        harness.publish(String(repeating: "x", count: 50), topic: "home/a", qos: .atMostOnce)
        harness.publish("", topic: "home/a", qos: .atMostOnce)
        #expect(sent(&harness) == [Sent("home/a", 1)])
    }

    @Test func topics_that_differ_by_bytes_only_have_aliases_of_their_own() {
        var harness = aliasing(10, server: 10)
        let sent = publish(&harness, ["caf\u{E9}", "cafe\u{301}"])
        #expect(sent.map(\.alias) == [1, 2])
        #expect(sent.map { $0.topic.utf8.count } == [5, 6])
    }

    @Test func a_name_no_longer_than_an_alias_stays() {
        var harness = aliasing(10, server: 10)
        #expect(publish(&harness, ["abc", "abcd", "abc"]).map(\.alias) == [nil, 1, nil])
    }

    @Test(arguments: 1...20)
    func a_server_resolves_what_was_meant(seed: UInt64) {
        var random = SplitMix64(state: seed)
        let count = UInt16(random.next() % 8 + 1)
        var harness = aliasing(count, server: UInt16(random.next() % 8 + 1))
        let topics = (0..<300).map { _ in "home/\(random.next() % 12)" }
        var names: [UInt16: String] = [:]
        var resolved: [String] = []
        for sent in publish(&harness, topics) {
            if let alias = sent.alias, !sent.topic.isEmpty { names[alias] = sent.topic }
            resolved.append(sent.topic.isEmpty ? sent.alias.flatMap { names[$0] } ?? "unknown" : sent.topic)
        }
        #expect(resolved == topics)
    }
}
