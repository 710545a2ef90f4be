/// What callers ask for, from any thread; the loop takes it in batches.
///
/// A short lock appends the operation; only the first of a batch wakes the loop.
final class ClientInbox: Sendable {
    enum Operation: Sendable {
        case connect(OperationToken, UnsafeContinuation<ConnectOutcome, any Error>)
        case publish(Publish, OperationToken, PublishCompletion, whileConnected: Bool)
        case request(Publish, timeout: Duration, OperationToken, UnsafeContinuation<Message, any Error>)
        /// The task that waits for this operation is cancelled.
        case cancel(OperationToken)
        case subscribe(SubscribeRequest)
        /// Without a continuation where the subscription was let go of.
        case unsubscribe(MessageBuffer, OperationToken, UnsafeContinuation<UnsubscribeOutcome, any Error>?)
        case roomMade(MessageBuffer)
        /// By hand, for one of the subscriptions that have the message.
        case acknowledge(IncomingToken)
        case reauthenticate(timeout: Duration, OperationToken, UnsafeContinuation<Void, any Error>)
        case networkChanged
        case suspend(CheckedContinuation<Void, Never>)
        /// What is under way may finish, then the connection ends.
        case drain(within: Duration, CheckedContinuation<DrainOutcome, Never>)
        case disconnect(CheckedContinuation<Void, Never>?)
    }

    enum PublishCompletion: Sendable {
        case continuation(UnsafeContinuation<PublishOutcome, any Error>)
        case receipt(PublishReceipt)
        /// QoS 0, accepted without waiting.
        case none
    }

    /// One SUBSCRIBE packet.
    struct SubscribeRequest: Sendable {
        struct Entry: Sendable {
            let filter: TopicFilter
            let options: SubscriptionOptions
            let buffer: MessageBuffer
        }

        let entries: [Entry]
        let properties: Properties
        let token: OperationToken
        let continuation: UnsafeContinuation<Suback, any Error>
    }

    /// What QoS 0 messages need to be accepted without asking the loop.
    struct Acceptance: Sendable {
        /// Bytes that wait in the session and in the stream.
        var backlog: Int
        /// The server's Maximum Packet Size.
        var maximumPacketSize: Int
        var retainAvailable: Bool
    }

    private struct State {
        var operations: [Operation] = []
        var bytes = 0
        var lastToken: UInt64 = 0
        /// nil while not connected.
        var acceptance: Acceptance?
        /// `drain` has been asked for: what would be accepted from now on is for the loop to refuse.
        var isDraining = false
    }

    /// Above this many bytes under way, QoS 0 publishes wait until there is room.
    static let highWaterMark = 1 << 20
    /// More than any fixed header, topic length and empty properties take.
    private static let packetOverhead = 16
    /// What Remaining Length can say (section 2.1.4), and a header.
    private static let largestPacket = 268_435_455

    /// What came of handing a message in.
    enum Reception {
        /// Taken; the loop has to be woken.
        case takenFirst
        /// Taken; somebody else wakes the loop.
        case taken
        case mustWait
    }

    private let state = Lock(State())

    /// Appends what `make` makes of a fresh token; tokens rise in the order of the operations.
    ///
    /// - Returns: whether it is the first of its batch, so that the loop has to be woken.
    func append(_ make: (OperationToken) -> Operation) -> Bool {
        state.withLock { state in
            state.lastToken += 1
            let operation = make(OperationToken(rawValue: state.lastToken))
            switch operation {
            case .publish(let publish, _, _, _), .request(let publish, _, _, _): state.bytes += publish.weight
            case .drain: state.isDraining = true
            default: break
            }
            state.operations.append(operation)
            return state.operations.count == 1
        }
    }

    /// For an operation of the client's own.
    func makeToken() -> OperationToken {
        state.withLock { state in
            state.lastToken += 1
            return OperationToken(rawValue: state.lastToken)
        }
    }

    /// Takes a QoS 0 message if it needs no waiting and no answer.
    func accept(_ publish: Publish) -> Reception {
        let weight = publish.weight
        return state.withLock { state in
            guard !state.isDraining, let acceptance = state.acceptance,
                acceptance.backlog + state.bytes < Self.highWaterMark,
                // Their size and their rules are the session's to check.
                publish.properties.isEmpty,
                publish.size + Self.packetOverhead <= min(acceptance.maximumPacketSize, Self.largestPacket),
                acceptance.retainAvailable || !publish.retain
            else { return .mustWait }
            state.lastToken += 1
            state.bytes += weight
            state.operations.append(
                .publish(publish, OperationToken(rawValue: state.lastToken), .none, whileConnected: false))
            return state.operations.count == 1 ? .takenFirst : .taken
        }
    }

    /// On the loop: everything that has come in. `operations` is handed in empty, for its memory.
    func drain(_ operations: inout [Operation]) {
        state.withLock { state in
            swap(&operations, &state.operations)
            // What was taken counts again from the next `setAcceptance` on.
            state.acceptance?.backlog += state.bytes
            state.bytes = 0
        }
    }

    func drainEnded() {
        state.withLock { $0.isDraining = false }
    }

    func setAcceptance(_ acceptance: Acceptance?) {
        state.withLock { $0.acceptance = acceptance }
    }
}

extension Publish {
    /// What a message costs in a queue besides its bytes, so that a flood of tiny ones is bounded too.
    static var bookkeepingSize: Int { 64 }

    /// What it weighs in a queue, in bytes.
    var weight: Int { size + Self.bookkeepingSize }

    fileprivate var size: Int { topicName.utf8.count + payload.count }
}
