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
        /// Payloads of what the consumer may take.
        var bytes = 0
        var withheldBytes = 0
        var dropped = 0
        /// Handed out or still here, and not acknowledged by hand yet.
        var unacknowledged: [IncomingToken: QoS] = [:]
        /// More than one only where the sequence is misused; they then compete for the messages.
        var consumers: [UnsafeContinuation<Void, Never>] = []
        var isEnded = false
        var error: MQTTError?

        var count: Int { front.count - head + back.count }
        var withheldCount: Int { withheld.count - withheldHead }
    }

    let capacity: Int
    /// Payload bytes above which the buffer is as full as by `capacity`; one message fits whatever its size.
    let byteCapacity: Int
    let policy: OverflowPolicy
    private let state = Lock(State())
    /// Called, off the lock, when the consumer has made room for withheld messages.
    private let roomMade: @Sendable (MessageBuffer) -> Void
    /// Where messages are acknowledged by hand: called for each.
    private let acknowledged: (@Sendable (IncomingToken) -> Void)?

    init(
        capacity: Int, byteCapacity: Int = .max, policy: OverflowPolicy,
        acknowledged: (@Sendable (IncomingToken) -> Void)? = nil,
        roomMade: @escaping @Sendable (MessageBuffer) -> Void
    ) {
        self.capacity = max(1, capacity)
        self.byteCapacity = max(1, byteCapacity)
        self.policy = policy
        self.acknowledged = acknowledged
        self.roomMade = roomMade
    }

    // MARK: The loop's side

    /// Adds messages in order.
    ///
    /// - Parameter accepted: called for each token whose message is now in the buffer or was dropped by policy.
    /// - Returns: bytes of payload held here, withheld messages included, and how many messages were dropped for these.
    func add(
        _ messages: [Incoming], accepted: (IncomingToken) -> Void
    ) -> (heldBytes: Int, dropped: Int) {
        let (tokens, consumers, bytes, dropped) = state.withLock { state in
            let droppedBefore = state.dropped
            var tokens: [IncomingToken] = []
            for incoming in messages where !state.isEnded || incoming.token != nil {
                if add(incoming, to: &state), let token = incoming.token { tokens.append(token) }
            }
            return (
                tokens, state.takeConsumersIfReadable(), state.bytes + state.withheldBytes,
                state.dropped - droppedBefore
            )
        }
        for token in tokens { accepted(token) }
        for consumer in consumers { consumer.resume() }
        return (bytes, dropped)
    }

    /// - Returns: whether the message may be acknowledged.
    private func add(_ incoming: Incoming, to state: inout State) -> Bool {
        if state.isEnded { return true }
        if acknowledged != nil, let token = incoming.token {
            // The server's window bounds these, and the byte limit.
            state.unacknowledged[token] = incoming.message.qos
            var message = incoming.message
            message.pendingAcknowledgement.token = token
            state.append(message)
            return false
        }
        // Behind withheld messages only withheld ones, or order would be lost.
        if hasRoom(for: incoming.message, in: state), state.withheldCount == 0 {
            state.append(incoming.message)
            return true
        }
        switch policy {
        case .withholdAcknowledgements where incoming.token != nil:
            state.withheld.append(incoming)
            state.withheldBytes += incoming.message.payload.count
            return false
        case .withholdAcknowledgements, .dropOldest:
            // An acknowledged message comes never again: it makes room only where the policy says so, and one that
            // is to be acknowledged by hand never does.
            while state.withheldCount == 0, let oldest = state.first,
                (policy == .dropOldest && oldest.pendingAcknowledgement.token == nil)
                    || oldest.qos == .atMostOnce,
                !hasRoom(for: incoming.message, in: state)
            {
                state.removeFirst()
                state.dropped += 1
            }
            if state.withheldCount == 0, hasRoom(for: incoming.message, in: state) {
                state.append(incoming.message)
            } else {
                state.dropped += 1
            }
            return true
        case .dropNewest:
            state.dropped += 1
            return true
        }
    }

    private func hasRoom(for message: Message, in state: State) -> Bool {
        state.count == 0
            || (state.count < capacity && state.bytes + message.payload.count <= byteCapacity)
    }

    /// Moves withheld messages into the room that the consumer has made.
    func admitWithheld(accepted: (IncomingToken) -> Void) {
        let (tokens, consumers) = state.withLock { state in
            var tokens: [IncomingToken] = []
            while state.withheldCount > 0 {
                let incoming = state.withheld[state.withheldHead]
                guard state.isEnded || hasRoom(for: incoming.message, in: state) else { break }
                state.withheldHead += 1
                state.withheldBytes -= incoming.message.payload.count
                if !state.isEnded { state.append(incoming.message) }
                if let token = incoming.token { tokens.append(token) }
            }
            if state.withheldCount == 0 {
                state.withheld = []
                state.withheldHead = 0
            }
            return (tokens, state.takeConsumersIfReadable())
        }
        for token in tokens { accepted(token) }
        for consumer in consumers { consumer.resume() }
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
                    state.withheldBytes -= incoming.message.payload.count
                }
            }
            state.withheld = kept
            state.withheldHead = 0
            if state.unacknowledged.isEmpty { return }
            state.unacknowledged = state.unacknowledged.filter { $0.value == .exactlyOnce }
            state.removeUntaken { $0.pendingAcknowledgement.token != nil && $0.qos == .atLeastOnce }
        }
    }

    /// Nobody can take them any more: what would have been acknowledged by hand holds up nothing.
    func releaseUntaken(accepted: (IncomingToken) -> Void) {
        let tokens = state.withLock { state in
            let tokens = state.untaken.compactMap { $0.pendingAcknowledgement.token }
            for token in tokens { state.unacknowledged[token] = nil }
            state.removeUntaken { $0.pendingAcknowledgement.token != nil }
            return tokens
        }
        for token in tokens { accepted(token) }
    }

    /// Nothing more will come: the consumer gets what is there, then the end.
    func end(_ error: MQTTError?) {
        state.withLock { state in
            if state.isEnded { return }
            state.isEnded = true
            state.error = error
        }
        wakeConsumers()
    }

    // MARK: The consumer's side

    var droppedCount: Int { state.withLock { $0.dropped } }

    func take() -> Taken {
        let (taken, hasRoom) = state.withLock { state -> (Taken, Bool) in
            if var message = state.removeFirst() {
                if acknowledged != nil { message.pendingAcknowledgement.buffer = self }
                let isHalfEmpty = state.count <= capacity / 2 && state.bytes <= byteCapacity / 2
                return (.message(message), state.withheldCount > 0 && isHalfEmpty)
            }
            return (state.isEnded ? .ended(state.error) : .empty, false)
        }
        if hasRoom { roomMade(self) }
        return taken
    }

    /// By hand, and once for each message.
    func acknowledge(_ token: IncomingToken) {
        let isOwed = state.withLock { $0.unacknowledged.removeValue(forKey: token) != nil }
        if isOwed { acknowledged?(token) }
    }

    func isAcknowledged(_ token: IncomingToken) -> Bool {
        state.withLock { $0.unacknowledged[token] == nil }
    }

    func wait(_ continuation: UnsafeContinuation<Void, Never>) {
        let mustResume = state.withLock { state in
            if state.count > 0 || state.isEnded { return true }
            state.consumers.append(continuation)
            return false
        }
        if mustResume { continuation.resume() }
    }

    /// Who finds nothing waits again.
    func wakeConsumers() {
        let consumers = state.withLock { state in
            defer { state.consumers = [] }
            return state.consumers
        }
        for consumer in consumers { consumer.resume() }
    }
}

extension MessageBuffer.State {
    fileprivate mutating func append(_ message: Message) {
        back.append(message)
        bytes += message.payload.count
    }

    fileprivate var untaken: [Message] { front[head...] + back }

    fileprivate mutating func removeUntaken(where condition: (Message) -> Bool) {
        let kept = untaken.filter { !condition($0) }
        front = kept
        head = 0
        back = []
        bytes = kept.reduce(0) { $0 + $1.payload.count }
    }

    fileprivate var first: Message? { head < front.count ? front[head] : back.first }

    fileprivate mutating func takeConsumersIfReadable() -> [UnsafeContinuation<Void, Never>] {
        if count == 0 || consumers.isEmpty { return [] }
        defer { consumers = [] }
        return consumers
    }

    @discardableResult
    fileprivate mutating func removeFirst() -> Message? {
        if head == front.count {
            front.removeAll(keepingCapacity: front.capacity <= 4096)
            head = 0
            swap(&front, &back)
            if front.isEmpty { return nil }
        }
        let message = front[head]
        // Nothing that has left is held until the rest of its batch has left too.
        front[head].payload = []
        head += 1
        bytes -= message.payload.count
        return message
    }
}
