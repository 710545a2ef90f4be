import MQTTCore
import Testing

@testable import MQTTTraversal

extension SubscriptionRouter {
    /// Stages a message with an empty payload.
    fileprivate mutating func matches(_ topic: String, token: UInt64? = nil) -> Bool {
        let publish =
            token == nil
            ? Publish(topicName: topic, payload: [])
            : Publish(topicName: topic, payload: [], qos: .atLeastOnce, packetIdentifier: 1)
        return stage(publish, token: token.map { IncomingToken(rawValue: $0) })
    }
}

/// Which subscription gets which message, and when a message may be acknowledged.
@Suite struct SubscriptionRouterTests {
    private func buffer(capacity: Int = 16) -> MessageBuffer {
        MessageBuffer(capacity: capacity, policy: .withholdAcknowledgements) { _ in }
    }

    private func topics(_ buffer: MessageBuffer) -> [String] {
        var topics: [String] = []
        while case .message(let message) = buffer.take() { topics.append(message.topic) }
        return topics
    }

    @Test func each_buffer_gets_the_messages_that_its_filter_matches() throws {
        var router = SubscriptionRouter()
        let (all, kitchen) = (buffer(), buffer())
        router.insert(all, for: try TopicFilter("home/+/temperature"))
        router.insert(kitchen, for: try TopicFilter("home/kitchen/#"))
        for topic in ["home/kitchen/temperature", "home/office/temperature", "home/kitchen/status"] {
            let isMatched = router.matches(topic)
            #expect(isMatched)
        }
        let isElsewhereMatched = router.matches("elsewhere")
        #expect(!isElsewhereMatched)
        _ = router.commit { _ in }
        #expect(topics(all) == ["home/kitchen/temperature", "home/office/temperature"])
        #expect(topics(kitchen) == ["home/kitchen/temperature", "home/kitchen/status"])
    }

    @Test func a_message_for_two_buffers_is_acknowledged_when_both_have_it() throws {
        var router = SubscriptionRouter()
        let (wide, narrow) = (buffer(), buffer(capacity: 1))
        router.insert(wide, for: try TopicFilter("#"))
        router.insert(narrow, for: try TopicFilter("a"))
        var accepted: [UInt64] = []
        let matched = [1, 2].map { router.matches("a", token: $0) }
        #expect(matched == [true, true])
        _ = router.commit { accepted.append($0.rawValue) }
        #expect(accepted == [1])
        #expect(topics(narrow) == ["a"])
        router.admitWithheld(of: narrow) { accepted.append($0.rawValue) }
        #expect(accepted == [1, 2])
    }

    @Test func a_buffer_that_is_removed_holds_up_no_acknowledgement() throws {
        var router = SubscriptionRouter()
        let (wide, narrow) = (buffer(), buffer(capacity: 1))
        router.insert(wide, for: try TopicFilter("#"))
        router.insert(narrow, for: try TopicFilter("a"))
        var accepted: [UInt64] = []
        let before = [1, 2].map { router.matches("a", token: $0) }
        _ = router.commit { accepted.append($0.rawValue) }
        #expect(accepted == [1], "narrow withholds 2")
        // Staged in the very turn in which the buffer goes.
        let staged = router.matches("a", token: 3)
        #expect(before + [staged] == [true, true, true])
        narrow.end(nil)
        _ = router.remove(narrow) { accepted.append($0.rawValue) }
        router.admitWithheld(of: narrow) { accepted.append($0.rawValue) }
        #expect(accepted == [1, 2], "3 waits for the other buffer still")
        _ = router.commit { accepted.append($0.rawValue) }
        #expect(accepted == [1, 2, 3])
        #expect(topics(wide) == ["a", "a", "a"])
    }

    @Test func topics_differ_by_their_bytes_not_by_canonical_equivalence() throws {
        var router = SubscriptionRouter()
        let composed = buffer()
        router.insert(composed, for: try TopicFilter("caf\u{E9}"))
        let matched = ["caf\u{E9}", "cafe\u{301}"].map { router.matches($0) }
        #expect(matched == [true, false])
    }

    @Test func removal_tells_whether_another_buffer_still_uses_the_filter() throws {
        var router = SubscriptionRouter()
        let (first, second) = (buffer(), buffer())
        router.insert(first, for: try TopicFilter("a"))
        router.insert(second, for: try TopicFilter("a"))
        let removals = [first, second, second].map { router.remove($0) { _ in }?.wasLast }
        #expect(removals == [false, true, nil])
        let isStillMatched = router.matches("a")
        #expect(!isStillMatched)
    }

    @Test func `a copy goes to those whose subscription it was sent for`() throws {
        var router = SubscriptionRouter()
        let (wide, narrow) = (buffer(), buffer())
        let filters = [try TopicFilter("a/#"), try TopicFilter("a/b")]
        for (buffer, filter) in zip([wide, narrow], filters) {
            router.insert(buffer, for: filter, identifier: router.identifier(for: [filter]))
        }
        // A copy for each, one for both, one of a server that has no identifiers, one for a subscription gone.
        for (identifiers, counts) in [
            ([1], [1, 0]), ([2], [0, 1]), ([1, 2], [1, 1]), ([], [1, 1]), ([7], [0, 0]),
        ] as [([UInt32], [Int])] {
            let publish = Publish(
                topicName: "a/b", payload: [],
                properties: Properties(identifiers.map { .subscriptionIdentifier($0) }))
            let isMatched = router.stage(publish, token: nil)
            #expect(isMatched == counts.contains(1))
            _ = router.commit { _ in }
            #expect([wide, narrow].map { topics($0).count } == counts)
        }
    }

    @Test func `who shares a filter gets what comes under its old identifier and under the new one`() throws {
        var router = SubscriptionRouter()
        let (other, first, second) = (buffer(), buffer(), buffer())
        let (wild, plain) = (try TopicFilter("#"), try TopicFilter("a"))
        router.insert(other, for: wild, identifier: router.identifier(for: [wild]))
        router.insert(first, for: plain, identifier: router.identifier(for: [plain]))
        let again = router.identifier(for: [plain])
        #expect(again == 2)
        // Together with another filter it gets a new one.
        let new = router.identifier(for: [plain, wild])
        #expect(new == 3)
        router.insert(second, for: plain, identifier: new)
        for identifier in [2, 3] as [UInt32] {
            let publish = Publish(
                topicName: "a", payload: [], properties: Properties([.subscriptionIdentifier(identifier)]))
            _ = router.stage(publish, token: nil)
            _ = router.commit { _ in }
            #expect([other, first, second].map { topics($0).count } == [0, 1, 1])
        }
    }
}
