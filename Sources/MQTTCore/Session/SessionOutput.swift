package typealias Instant = ContinuousClock.Instant

/// Names an operation (publish, subscribe, unsubscribe) across the machine. The driver makes them.
///
/// Values given to `publish` should rise: a queued publish is then found by binary search.
package struct OperationToken: Hashable, Sendable, Codable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// Names a delivered QoS 1 or 2 message that `ClientSession.acknowledge` is still owed for.
package struct IncomingToken: Hashable, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// Names a change to be stored. Values rise, and storing one means that all before it are stored.
package struct PersistenceToken: Hashable, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// What a step of the machine produced. The driver hands the same value in again, emptied.
package struct SessionOutput: Sendable {
    /// Packets to send.
    package var bytes: [UInt8] = []
    /// Offsets in `bytes` just after each packet: a WebSocket message may be cut there.
    package var packetEnds: [Int] = []
    package var actions: [SessionAction] = []

    package init() {}

    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        packetEnds.removeAll(keepingCapacity: true)
        actions.removeAll(keepingCapacity: true)
    }
}

/// What the driver has to do, in order.
package enum SessionAction: Sendable, Hashable {
    /// CONNACK accepted the connection; what it granted is in `ClientSession.limits`.
    case established(Connack, resumed: Bool)
    /// CONNACK refused the connection; the session is untouched. A `close` follows.
    case refused(Connack)
    /// A message has arrived. With a token, `acknowledge` is called once it is safely in a buffer.
    case deliver(Publish, IncomingToken?)
    /// QoS 0: encoded. QoS 1: PUBACK. QoS 2: PUBCOMP, or a failing PUBREC.
    case published(OperationToken, ReasonCode, Properties)
    case subscribed(OperationToken, Suback)
    case unsubscribed(OperationToken, Unsuback)
    /// The application's handler has the word: `authenticationAnswered` or `authenticationFailed` comes next.
    case authenticate(AuthenticationToken, AuthenticationStep)
    /// The server has accepted a re-authentication.
    case reauthenticated(OperationToken)
    /// The answer to a SUBSCRIBE by which the machine itself restored subscriptions.
    case subscriptionsRestored([Subscribe.Subscription], Suback)
    /// The operation is over without a server's answer.
    case failed(OperationToken, SessionError)
    /// A message that nobody waits for, since an earlier process accepted it, can't be sent.
    case discarded(topicName: String, SessionError)
    /// The session that we held is gone, at the server or by Clean Session: messages may be missing.
    case sessionLost
    /// The message is in the store: whatever ends this process, it is sent (durable mode only).
    case stored(OperationToken)
    /// Store the change, then call `persisted` (durable mode only).
    case persist(PersistenceToken, SessionChange)
    /// The server sent DISCONNECT (5.0). A `close` follows.
    case serverDisconnected(Disconnect)
    /// Flush the bytes, then close the network connection; nil when we ended it ourselves.
    case close(SessionError?)
}

/// A change of what outlives a connection (section 4.1), for a durable store.
package enum SessionChange: Sendable, Hashable {
    /// A new session began: everything stored before belongs to none, except subscriptions and the queue.
    case began(ProtocolVersion)
    case ended
    /// The server holds a session that isn't ours: the next one starts clean [MQTT-3.2.2-4].
    case mustStartClean
    case clientIdentifierAssigned(String)
    /// A QoS 1 or 2 message was accepted, without a packet identifier. The stamp names it; stamps rise.
    case queued(Publish, stamp: UInt64)
    /// It was taken back or refused.
    case dequeued(stamp: UInt64)
    /// A queued message got its packet identifier; its PUBLISH waits for this.
    case outgoingStored(PacketIdentifier, stamp: UInt64)
    /// PUBREC arrived: only the identifier is needed now. Its PUBREL waits for this.
    case outgoingReleased(PacketIdentifier)
    case outgoingCompleted(PacketIdentifier)
    /// A QoS 2 message was taken; its PUBREC waits for this.
    case incomingStored(PacketIdentifier)
    /// PUBREL arrived; its PUBCOMP waits for this.
    case incomingReleased(PacketIdentifier)
    case subscribed(StoredSubscription)
    case unsubscribed(topicFilter: String)
}
