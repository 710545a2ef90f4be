/// The messages that match one Topic Filter, in the order of their arrival, across reconnects.
///
/// For one consumer at a time. The buffer belongs to the subscription, not to an iterator: leave the loop, loop
/// again, and nothing is lost in between. The sequence ends when the client is disconnected or the subscription
/// is given back; it throws when the client has ended for a reason. Letting go of the last reference
/// unsubscribes.
public final class Subscription: AsyncSequence, Sendable {
    public typealias Element = Message
    public typealias Failure = MQTTError

    /// As it stands in SUBSCRIBE.
    public let topicFilter: String
    /// The QoS that the server granted.
    public let grantedQoS: QoS
    /// Reason String and User Properties of SUBACK (5.0).
    public let properties: Properties

    let buffer: MessageBuffer
    private let release: @Sendable (MessageBuffer) -> Void

    init(
        topicFilter: String, grantedQoS: QoS, properties: Properties = Properties(), buffer: MessageBuffer,
        release: @escaping @Sendable (MessageBuffer) -> Void
    ) {
        self.topicFilter = topicFilter
        self.grantedQoS = grantedQoS
        self.properties = properties
        self.buffer = buffer
        self.release = release
    }

    deinit { release(buffer) }

    /// How many QoS 0 messages (or, with a dropping policy, any) were dropped because nobody read fast enough.
    public var droppedCount: Int { buffer.droppedCount }

    public func makeAsyncIterator() -> Iterator { Iterator(buffer: buffer, subscription: self) }

    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let buffer: MessageBuffer
        // Keeps the subscription while somebody reads from it.
        fileprivate let subscription: Subscription

        public mutating func next() async throws(MQTTError) -> Message? {
            try await next(isolation: nil)
        }

        /// The next message; nil after the end, or when the task is cancelled.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(MQTTError) -> Message? {
            while true {
                switch buffer.take() {
                case .message(let message): return message
                case .ended(nil): return nil
                case .ended(let error?): throw error
                case .empty: break
                }
                if Task.isCancelled { return nil }
                let buffer = buffer
                await withTaskCancellationHandler {
                    await withUnsafeContinuation(isolation: actor) { continuation in
                        buffer.wait(continuation)
                        // A cancellation that came before the wait has found nobody to wake.
                        if Task.isCancelled { buffer.wakeConsumers() }
                    }
                } onCancel: {
                    buffer.wakeConsumers()
                }
            }
        }
    }
}

/// What becomes of messages when a subscription's buffer is full.
public enum OverflowPolicy: Sendable, Hashable {
    /// QoS 1 and 2: acknowledgements are held back, so that the server pauses at its window; since they keep the
    /// order of arrival, one subscription that nobody reads ends by holding up the others. QoS 0: the oldest
    /// is dropped, and counted; the new one where the oldest is of QoS 1 or 2.
    case withholdAcknowledgements
    /// The oldest message is dropped, and counted, whatever its QoS.
    case dropOldest
    /// The new message is dropped, and counted, whatever its QoS.
    case dropNewest
}

/// Who acknowledges the QoS 1 and 2 messages of a subscription.
public enum AcknowledgementMode: Sendable, Hashable {
    /// The client, when the message is in the subscription's buffer.
    case automatic
    /// The program, by ``Message/acknowledge()``, when it has done with the message.
    ///
    /// Until then the server keeps it: QoS 1 messages come again after a lost connection or a crash, QoS 2 messages
    /// are handed out once, and the acknowledgement is owed across connections. A message that is dropped without
    /// being acknowledged holds up the acknowledgements of all later messages of the client, also of other
    /// subscriptions [MQTT-4.6.0-2], and ends by using up the server's window. The overflow policy then holds for QoS 0
    /// only. Letting go of the subscription acknowledges what nobody has taken from it.
    case manual
}
