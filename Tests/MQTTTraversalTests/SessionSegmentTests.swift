import MQTTCore
import Testing

@testable import MQTTTraversal

/// The bytes of the session store: what is written is read, and what is damaged takes nothing else with it.
@Suite struct SessionSegmentTests {
    private static let message = Publish(
        topicName: "home/t", payload: Array(0...255), qos: .exactlyOnce, retain: true,
        properties: Properties([.contentType("text"), .userProperty(UserProperty(name: "a", value: "b"))]))

    private static let changes: [SessionChange] = [
        .clientIdentifierAssigned("assigned"), .began(.v3_1_1), .began(.v5), .mustStartClean, .ended,
        .queued(message, stamp: 1 << 40),
        .queued(Publish(topicName: "t", payload: [], qos: .atLeastOnce), stamp: 2),
        .dequeued(stamp: 2), .outgoingStored(65_535, stamp: 1 << 40), .outgoingReleased(65_535),
        .outgoingCompleted(65_535), .incomingStored(7), .incomingReleased(7),
        .subscribed(
            StoredSubscription(
                topicFilter: "home/+",
                options: SubscriptionOptions(
                    qos: .exactlyOnce, noLocal: true, retainAsPublished: true, retainHandling: .doNotSend),
                subscriptionIdentifier: 268_435_455, order: 9)),
        .subscribed(
            StoredSubscription(
                topicFilter: "#", options: SubscriptionOptions(qos: .atMostOnce), subscriptionIdentifier: nil,
                order: 10)),
        .unsubscribed(topicFilter: "home/+"),
    ]

    /// A file with `changes`, and where each of its records ends.
    private static func file() throws -> (bytes: [UInt8], ends: [Int]) {
        var bytes = SessionSegment.header(clientIdentifier: "c")
        var ends = [bytes.count]
        for change in changes {
            try SessionSegment.append(change, to: &bytes)
            ends.append(bytes.count)
        }
        return (bytes, ends)
    }

    @Test func what_is_written_is_read() throws {
        let segment = try SessionSegment(try Self.file().bytes)
        #expect(segment.clientIdentifier == "c" && segment.changes == Self.changes && segment.damage.isEmpty)
    }

    @Test func a_file_cut_at_any_byte_keeps_the_records_before() throws {
        let (bytes, ends) = try Self.file()
        for length in bytes.indices {
            guard length >= ends[0] else {
                #expect(throws: SessionSegment.HeaderProblem.self) {
                    try SessionSegment(Array(bytes[..<length]))
                }
                continue
            }
            let segment = try SessionSegment(Array(bytes[..<length]))
            let whole = ends.lastIndex { $0 <= length } ?? 0
            #expect(segment.changes == Array(Self.changes[..<whole]))
            let cut: [SessionSegment.Damage] =
                length == ends[whole] ? [] : [.tornTail(at: ends[whole], count: length - ends[whole])]
            #expect(segment.damage == cut)
        }
    }

    @Test func a_flipped_bit_costs_the_record_that_it_is_in() throws {
        let (bytes, ends) = try Self.file()
        for offset in bytes.indices {
            for bit in 0..<8 {
                var damaged = bytes
                damaged[offset] ^= 1 << bit
                guard offset >= ends[0] else {
                    #expect(throws: SessionSegment.HeaderProblem.self) { try SessionSegment(damaged) }
                    continue
                }
                let record = (ends.firstIndex { $0 > offset } ?? 0) - 1
                var left = Self.changes
                left.remove(at: record)
                let segment = try SessionSegment(damaged)
                let count = ends[record + 1] - ends[record]
                #expect(segment.changes == left)
                #expect(
                    segment.damage == [
                        record == Self.changes.count - 1
                            ? .tornTail(at: ends[record], count: count)
                            : .corrupt(at: ends[record], count: count)
                    ])
            }
        }
    }

    @Test func blocks_that_never_reached_the_disk_are_a_torn_tail() throws {
        let (bytes, _) = try Self.file()
        let segment = try SessionSegment(bytes + [UInt8](repeating: 0, count: 4096))
        #expect(segment.changes == Self.changes)
        #expect(segment.damage == [.tornTail(at: bytes.count, count: 4096)])
    }

    @Test func a_record_of_an_unknown_kind_is_passed_over() {
        for bytes: [UInt8] in [
            [], [0], [1], [1, 6], [2, 0], [14], [5, 0, 0], [7, 0, 1], [12], [13, 0xFF],
        ] {
            #expect(SessionRecord.change(in: bytes[...]) == nil)
        }
    }

    @Test func another_version_is_told_from_damage() {
        var bytes = SessionSegment.header(clientIdentifier: "")
        bytes[9] = 2
        #expect(throws: SessionSegment.HeaderProblem.otherVersion(2)) { try SessionSegment(bytes) }
    }

    @Test func a_message_that_no_packet_can_carry_leaves_no_bytes() {
        var bytes: [UInt8] = [1]
        let topic = String(repeating: "x", count: 65_536)
        #expect(throws: EncodeError.self) {
            try SessionSegment.append(
                .queued(Publish(topicName: topic, payload: [], qos: .atLeastOnce), stamp: 1), to: &bytes)
        }
        #expect(bytes == [1])
    }
}
