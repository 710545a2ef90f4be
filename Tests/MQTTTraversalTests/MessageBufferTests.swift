import MQTTCore
import MQTTTransport
import Testing

@testable import MQTTTraversal

/// The buffer between the loop and one consumer: bounded, ordered, with a stated overflow policy.
@Suite struct MessageBufferTests {
    private func buffer(capacity: Int, policy: OverflowPolicy) -> MessageBuffer {
        MessageBuffer(capacity: capacity, policy: policy) { _ in }
    }

    private func incoming(_ text: String, qos: QoS, token: UInt64? = nil) -> MessageBuffer.Incoming {
        MessageBuffer.Incoming(
            message: Message(topic: "t", payload: Array(text.utf8), qos: qos),
            token: token.map { IncomingToken(rawValue: $0) })
    }

    /// Takes everything that is there.
    private func drain(_ buffer: MessageBuffer) -> [String] {
        var texts: [String] = []
        while case .message(let message) = buffer.take() {
            texts.append(String(decoding: message.payload, as: UTF8.self))
        }
        return texts
    }

    private func add(_ messages: [MessageBuffer.Incoming], to buffer: MessageBuffer) -> [UInt64] {
        var accepted: [UInt64] = []
        _ = buffer.add(messages) { accepted.append($0.rawValue) }
        return accepted
    }

    @Test(arguments: [OverflowPolicy.dropOldest, .dropNewest, .withholdAcknowledgements])
    func `messages that are acknowledged by hand are never dropped, and never accepted by the buffer`(
        policy: OverflowPolicy
    ) {
        let acknowledged = Lock<[UInt64]>([])
        let buffer = MessageBuffer(
            capacity: 1, policy: policy,
            acknowledged: { token in acknowledged.withLock { $0.append(token.rawValue) } },
            roomMade: { _ in })
        let incoming = (1...3).map { number in
            MessageBuffer.Incoming(
                message: Message(topic: "\(number)", payload: [], qos: .atLeastOnce),
                token: IncomingToken(rawValue: UInt64(number)))
        }
        let unacknowledged = MessageBuffer.Incoming(message: Message(topic: "0", payload: []), token: nil)
        var accepted = 0
        _ = buffer.add(incoming + [unacknowledged]) { _ in accepted += 1 }
        #expect(accepted == 0)
        #expect(buffer.droppedCount == 1)
        var taken: [Message] = []
        while case .message(let message) = buffer.take() { taken.append(message) }
        #expect(taken.map(\.topic) == ["1", "2", "3"])
        for message in [taken[1], taken[1], taken[0]] { message.acknowledge() }
        #expect(acknowledged.withLock { $0 } == [2, 1])
        buffer.connectionEnded()
        taken[2].acknowledge()
        #expect(acknowledged.withLock { $0 } == [2, 1])
    }

    @Test func messages_come_out_in_the_order_in_which_they_went_in() {
        let buffer = buffer(capacity: 10, policy: .withholdAcknowledgements)
        _ = add([incoming("a", qos: .atMostOnce), incoming("b", qos: .atMostOnce)], to: buffer)
        #expect(drain(buffer) == ["a", "b"])
        _ = add([incoming("c", qos: .atMostOnce)], to: buffer)
        #expect(drain(buffer) == ["c"])
    }

    @Test func qos_1_beyond_the_capacity_is_kept_but_not_acknowledged_until_there_is_room() {
        let buffer = buffer(capacity: 2, policy: .withholdAcknowledgements)
        let messages = (1...5).map { incoming("\($0)", qos: .atLeastOnce, token: UInt64($0)) }
        #expect(add(messages, to: buffer) == [1, 2])
        guard case .message(let first) = buffer.take() else {
            Issue.record("the buffer is empty")
            return
        }
        #expect(first.payload == Array("1".utf8))
        var admitted: [UInt64] = []
        buffer.admitWithheld { admitted.append($0.rawValue) }
        #expect(admitted == [3])
        #expect(drain(buffer) == ["2", "3"])
        buffer.admitWithheld { admitted.append($0.rawValue) }
        #expect(admitted == [3, 4, 5])
        #expect(drain(buffer) == ["4", "5"])
        #expect(buffer.droppedCount == 0)
    }

    @Test func room_is_announced_once_half_of_the_buffer_is_free() {
        let announced = Lock(0)
        let buffer = MessageBuffer(capacity: 4, policy: .withholdAcknowledgements) { _ in
            announced.withLock { $0 += 1 }
        }
        _ = add((1...5).map { incoming("\($0)", qos: .atLeastOnce, token: UInt64($0)) }, to: buffer)
        _ = buffer.take()
        #expect(announced.withLock { $0 } == 0)
        _ = buffer.take()
        #expect(announced.withLock { $0 } == 1)
    }

    @Test func qos_0_beyond_the_capacity_drops_the_oldest_and_counts_it() {
        let buffer = buffer(capacity: 2, policy: .withholdAcknowledgements)
        _ = add((1...5).map { incoming("\($0)", qos: .atMostOnce) }, to: buffer)
        #expect(buffer.droppedCount == 3)
        #expect(drain(buffer) == ["4", "5"])
    }

    @Test func qos_0_never_makes_room_by_dropping_an_acknowledged_message() {
        let buffer = buffer(capacity: 2, policy: .withholdAcknowledgements)
        _ = add([incoming("0", qos: .atMostOnce), incoming("1", qos: .atLeastOnce, token: 1)], to: buffer)
        _ = add([incoming("2", qos: .atMostOnce), incoming("3", qos: .atMostOnce)], to: buffer)
        #expect(drain(buffer) == ["1", "2"])
        #expect(buffer.droppedCount == 2)
    }

    @Test(arguments: [
        (OverflowPolicy.withholdAcknowledgements, ["3456", "78"]), (.dropOldest, ["3456", "78"]),
        (.dropNewest, ["12", "0000"]),
    ])
    func bytes_fill_a_buffer_as_messages_do(policy: OverflowPolicy, left: [String]) {
        let buffer = MessageBuffer(capacity: 100, byteCapacity: 6, policy: policy) { _ in }
        let held = buffer.add(["12", "0000", "3456", "78"].map { incoming($0, qos: .atMostOnce) }) { _ in }
            .heldBytes
        #expect(held == 6)
        #expect(drain(buffer) == left)
        _ = add([incoming("123456789", qos: .atMostOnce)], to: buffer)
        #expect(drain(buffer) == ["123456789"], "one message fits whatever its size")
    }

    @Test func qos_1_is_withheld_where_bytes_fill_the_buffer() {
        let buffer = MessageBuffer(
            capacity: 100, byteCapacity: 4, policy: .withholdAcknowledgements
        ) { _ in }
        let messages = (1...3).map { incoming("00\($0)", qos: .atLeastOnce, token: UInt64($0)) }
        #expect(add(messages, to: buffer) == [1])
        #expect(drain(buffer) == ["001"])
        var admitted: [UInt64] = []
        buffer.admitWithheld { admitted.append($0.rawValue) }
        #expect(admitted == [2])
    }

    @Test(.timeLimit(.minutes(1))) func two_consumers_share_the_messages_and_both_end() async throws {
        let buffer = buffer(capacity: 4, policy: .withholdAcknowledgements)
        let subscription = Subscription(topicFilter: "t", grantedQoS: .atMostOnce, buffer: buffer) { _ in }
        let readers = (0..<2).map { _ in
            Task { () -> Int in
                var count = 0
                for try await _ in subscription { count += 1 }
                return count
            }
        }
        for number in 0..<4 { _ = add([incoming("\(number)", qos: .atMostOnce)], to: buffer) }
        buffer.end(nil)
        #expect(try await readers[0].value + readers[1].value == 4)
    }

    @Test(arguments: [(OverflowPolicy.dropOldest, ["4", "5"]), (.dropNewest, ["1", "2"])])
    func a_dropping_policy_acknowledges_what_it_drops(policy: OverflowPolicy, left: [String]) {
        let buffer = buffer(capacity: 2, policy: policy)
        let messages = (1...5).map { incoming("\($0)", qos: .atLeastOnce, token: UInt64($0)) }
        #expect(add(messages, to: buffer) == [1, 2, 3, 4, 5])
        #expect(buffer.droppedCount == 3)
        #expect(drain(buffer) == left)
    }

    @Test func a_lost_connection_takes_withheld_qos_1_messages_with_it_and_leaves_qos_2() {
        let buffer = buffer(capacity: 1, policy: .withholdAcknowledgements)
        let messages = [
            incoming("a", qos: .atLeastOnce, token: 1), incoming("b", qos: .atLeastOnce, token: 2),
            incoming("c", qos: .exactlyOnce, token: 3),
        ]
        #expect(add(messages, to: buffer) == [1])
        buffer.connectionEnded()
        #expect(drain(buffer) == ["a"])
        var admitted: [UInt64] = []
        buffer.admitWithheld { admitted.append($0.rawValue) }
        #expect(admitted == [3])
        #expect(drain(buffer) == ["c"])
    }

    @Test func what_is_held_is_counted_in_bytes() {
        let buffer = buffer(capacity: 1, policy: .withholdAcknowledgements)
        let held = buffer.add(
            [incoming("12345", qos: .atLeastOnce, token: 1), incoming("678", qos: .atLeastOnce, token: 2)]
        ) { _ in }
        #expect(held.heldBytes == 8)
        _ = drain(buffer)
        #expect(buffer.add([], accepted: { _ in }).heldBytes == 3)
        buffer.connectionEnded()
        #expect(buffer.add([], accepted: { _ in }).heldBytes == 0)
    }

    @Test func after_the_end_comes_what_was_there_then_the_reason() {
        let buffer = buffer(capacity: 4, policy: .withholdAcknowledgements)
        _ = add([incoming("a", qos: .atMostOnce)], to: buffer)
        let reason = MQTTError(.mqttTakenOver, "another client")
        buffer.end(reason)
        #expect(drain(buffer) == ["a"])
        guard case .ended(let error) = buffer.take() else {
            Issue.record("the buffer hasn't ended")
            return
        }
        #expect(error == reason)
        #expect(
            add([incoming("b", qos: .atLeastOnce, token: 7)], to: buffer) == [7], "acknowledged, and dropped")
        #expect(drain(buffer) == [])
    }

    @Test(.timeLimit(.minutes(1))) func a_waiting_consumer_is_woken_by_a_message_an_end_and_a_cancellation()
        async throws
    {
        let buffer = buffer(capacity: 4, policy: .withholdAcknowledgements)
        let subscription = Subscription(topicFilter: "t", grantedQoS: .atMostOnce, buffer: buffer) { _ in }
        let reader = Task { () -> [String] in
            var texts: [String] = []
            for try await message in subscription { texts.append(try message.text) }
            return texts
        }
        _ = add([incoming("a", qos: .atMostOnce)], to: buffer)
        _ = add([incoming("b", qos: .atMostOnce)], to: buffer)
        buffer.end(nil)
        #expect(try await reader.value == ["a", "b"])

        let idle = Subscription(
            topicFilter: "t", grantedQoS: .atMostOnce, buffer: self.buffer(capacity: 1, policy: .dropNewest)
        ) { _ in }
        let waiting = Task { () -> Message? in
            for try await message in idle { return message }
            return nil
        }
        waiting.cancel()
        #expect(try await waiting.value == nil)
    }
}
