/// The bounded buffer between the loop and one consumer.
///
/// The loop adds a batch for each read of the socket; the consumer drains what is there without suspending.
final class MessageBuffer: Sendable {
    /// A message on its way in, with the token by which it is acknowledged (QoS 1 and 2).
    struct Incoming {
        let message: Message
        let token: IncomingToken?
    }

    enum Taken {
        case message(Message)
        case empty
        case ended(MQTTError?)
    }

    fileprivate struct State {
        /// What the consumer takes from next; drained from `head`.
        var front: [Message] = []
        var head = 0
        /// What the loop adds to.
        var back: [Message] = []
        /// QoS 1 and 2 messages beyond the capacity, not yet acknowledged.
        var withheld: [Incoming] = []
        var withheldHead = 0
        var bytes = 0
        var dropped = 0
        var consumer: UnsafeContinuation<Void, Never>?
        var isEnded = false
        var error: MQTTError?

        var count: Int { front.count - head + back.count }
        var withheldCount: Int { withheld.count - withheldHead }
    }

    let capacity: Int
    let policy: OverflowPolicy
    private let state = Lock(State())
    /// Called, off the lock, when the consumer has made room for withheld messages.
    private let roomMade: @Sendable (MessageBuffer) -> Void

    init(capacity: Int, policy: OverflowPolicy, roomMade: @escaping @Sendable (MessageBuffer) -> Void) {
        self.capacity = max(1, capacity)
        self.policy = policy
        self.roomMade = roomMade
    }

    // MARK: The loop's side

    /// Adds messages in order.
    ///
    /// - Parameter accepted: called for each token whose message is now in the buffer or was dropped by policy.
    /// - Returns: bytes of payload held here, withheld messages included.
    func add(_ messages: [Incoming], accepted: (IncomingToken) -> Void) -> Int {
        let (tokens, consumer, bytes) = state.withLock { state in
            var tokens: [IncomingToken] = []
            for incoming in messages where !state.isEnded || incoming.token != nil {
                if add(incoming, to: &state), let token = incoming.token { tokens.append(token) }
            }
            let consumer = state.count > 0 ? state.consumer : nil
            if consumer != nil { state.consumer = nil }
            return (tokens, consumer, state.bytes)
        }
        for token in tokens { accepted(token) }
        consumer?.resume()
        return bytes
    }

    /// - Returns: whether the message may be acknowledged.
    private func add(_ incoming: Incoming, to state: inout State) -> Bool {
        if state.isEnded { return true }
        let isFull = state.count >= capacity
        // Behind withheld messages only withheld ones, or order would be lost.
        if !isFull, state.withheldCount == 0 {
            state.append(incoming.message)
            return true
        }
        switch policy {
        case .withholdAcknowledgements where incoming.token != nil:
            state.withheld.append(incoming)
            state.bytes += incoming.message.payload.count
            return false
        case .withholdAcknowledgements:
            state.dropped += 1
            // A QoS 0 message makes room for its like only: what has been acknowledged must not be lost.
            guard state.withheldCount == 0, state.first?.qos == .atMostOnce else { return true }
            state.removeFirst()
            state.append(incoming.message)
            return true
        case .dropOldest:
            state.dropped += 1
            state.removeFirst()
            state.append(incoming.message)
            return true
        case .dropNewest:
            state.dropped += 1
            return true
        }
    }

    /// Moves withheld messages into the room that the consumer has made.
    func admitWithheld(accepted: (IncomingToken) -> Void) {
        let (tokens, consumer) = state.withLock { state in
            var tokens: [IncomingToken] = []
            while state.withheldCount > 0, state.count < capacity || state.isEnded {
                let incoming = state.withheld[state.withheldHead]
                state.withheldHead += 1
                state.bytes -= incoming.message.payload.count
                if !state.isEnded { state.append(incoming.message) }
                if let token = incoming.token { tokens.append(token) }
            }
            if state.withheldCount == 0 {
                state.withheld = []
                state.withheldHead = 0
            }
            let consumer = state.count > 0 ? state.consumer : nil
            if consumer != nil { state.consumer = nil }
            return (tokens, consumer)
        }
        for token in tokens { accepted(token) }
        consumer?.resume()
    }

    /// The connection is gone: QoS 1 messages that weren't acknowledged come again. QoS 2 messages don't, since
    /// the session knows them.
    func connectionEnded() {
        state.withLock { state in
            var kept: [Incoming] = []
            for incoming in state.withheld[state.withheldHead...] {
                if incoming.message.qos == .exactlyOnce {
                    kept.append(incoming)
                } else {
                    state.bytes -= incoming.message.payload.count
                }
            }
            state.withheld = kept
            state.withheldHead = 0
        }
    }

    /// Nothing more will come: the consumer gets what is there, then the end.
    func end(_ error: MQTTError?) {
        let consumer = state.withLock { state in
            if state.isEnded { return nil as UnsafeContinuation<Void, Never>? }
            state.isEnded = true
            state.error = error
            let consumer = state.consumer
            state.consumer = nil
            return consumer
        }
        consumer?.resume()
    }

    // MARK: The consumer's side

    var droppedCount: Int { state.withLock { $0.dropped } }

    func take() -> Taken {
        let (taken, hasRoom) = state.withLock { state -> (Taken, Bool) in
            if let message = state.removeFirst() {
                return (.message(message), state.withheldCount > 0 && state.count <= capacity / 2)
            }
            return (state.isEnded ? .ended(state.error) : .empty, false)
        }
        if hasRoom { roomMade(self) }
        return taken
    }

    func wait(_ continuation: UnsafeContinuation<Void, Never>) {
        let mustResume = state.withLock { state in
            if state.count > 0 || state.isEnded || state.consumer != nil { return true }
            state.consumer = continuation
            return false
        }
        if mustResume { continuation.resume() }
    }

    func wakeConsumer() {
        let consumer = state.withLock { state in
            let consumer = state.consumer
            state.consumer = nil
            return consumer
        }
        consumer?.resume()
    }
}

extension MessageBuffer.State {
    fileprivate mutating func append(_ message: Message) {
        back.append(message)
        bytes += message.payload.count
    }

    fileprivate var first: Message? { head < front.count ? front[head] : back.first }

    @discardableResult
    fileprivate mutating func removeFirst() -> Message? {
        if head == front.count {
            front.removeAll(keepingCapacity: front.capacity <= 4096)
            head = 0
            swap(&front, &back)
            if front.isEmpty { return nil }
        }
        let message = front[head]
        head += 1
        bytes -= message.payload.count
        return message
    }
}
