/// What a publish came to.
public struct PublishOutcome: Sendable, Hashable {
    /// QoS 0: success, since nobody answers. QoS 1 and 2: the server's, such as `noMatchingSubscribers`.
    public var reasonCode: ReasonCode
    /// Reason String and User Properties of the acknowledgement (5.0).
    public var properties: Properties
}

/// What giving a subscription back came to.
public struct UnsubscribeOutcome: Sendable, Hashable {
    /// The server's, such as `noSubscriptionExisted`; success where another subscription still uses the filter, and
    /// under 3.1.1.
    public var reasonCode: ReasonCode
    /// Reason String and User Properties of UNSUBACK (5.0).
    public var properties: Properties
}

/// A publish under way: await its outcome now, later, or never.
public final class PublishReceipt: Sendable {
    private enum State {
        case pending([CheckedContinuation<PublishOutcome, any Error>])
        case done(Result<PublishOutcome, MQTTError>)
    }

    private enum Storing {
        /// Nothing keeps it.
        case never
        case pending([CheckedContinuation<Void, any Error>])
        case done(Result<Void, MQTTError>)
    }

    private let state = Lock(State.pending([]))
    private let storing: Lock<Storing>

    /// - Parameter isStored: whether a durable store keeps the message.
    init(isStored: Bool) {
        storing = Lock(isStored ? .pending([]) : .never)
    }

    /// Waits until the message is in the directory of `ClientConfiguration.sessionStore`, as safe as its `fsync` says:
    /// from then on it is sent, be it by a later process. Needs no connection.
    ///
    /// - Throws: `MQTTError`: `client.storage_failed`, or why the message was refused before; `client.invalid_argument`
    ///   for QoS 0 and where the session is kept in memory.
    public func stored() async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let done = storing.withLock { storing -> Result<Void, MQTTError>? in
                switch storing {
                case .never:
                    return .failure(MQTTError(.clientInvalidArgument, "no durable store keeps this message"))
                case .pending(let waiting):
                    storing = .pending(waiting + [continuation])
                    return nil
                case .done(let result): return result
                }
            }
            if let done { continuation.resume(with: done.mapError { $0 as any Error }) }
        }
    }

    func store() { resolveStoring(.success(())) }

    private func resolveStoring(_ result: Result<Void, MQTTError>) {
        let waiting = storing.withLock { storing in
            guard case .pending(let waiting) = storing else {
                return [CheckedContinuation<Void, any Error>]()
            }
            storing = .done(result)
            return waiting
        }
        for continuation in waiting { continuation.resume(with: result.mapError { $0 as any Error }) }
    }

    /// Waits for PUBACK (QoS 1), PUBCOMP (QoS 2), or until the message is on its way (QoS 0).
    ///
    /// Survives reconnects. Cancelling the task that waits doesn't cancel the publish.
    ///
    /// - Throws: `MQTTError`.
    public var outcome: PublishOutcome {
        get async throws {
            try await withCheckedThrowingContinuation { continuation in
                let done = state.withLock { state -> Result<PublishOutcome, MQTTError>? in
                    switch state {
                    case .pending(let waiting):
                        state = .pending(waiting + [continuation])
                        return nil
                    case .done(let result):
                        return result
                    }
                }
                if let done { continuation.resume(with: done.mapError { $0 as any Error }) }
            }
        }
    }

    func resolve(_ result: Result<PublishOutcome, MQTTError>) {
        resolveStoring(result.map { _ in })
        let waiting = state.withLock { state in
            defer { state = .done(result) }
            switch state {
            case .pending(let waiting): return waiting
            case .done: return []
            }
        }
        for continuation in waiting { continuation.resume(with: result.mapError { $0 as any Error }) }
    }
}
