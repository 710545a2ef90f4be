/// Holds the client's state, and hands what happens to everybody who listens.
///
/// Written to on the client's loop only, read anywhere.
final class EventHub: Sendable {
    private struct Content {
        var state = ClientState.idle
        /// Told together with the next state, so that nobody who hears it finds an older one.
        var interruption: MQTTError?
        var listeners: [UInt64: AsyncStream<ClientEvent>.Continuation] = [:]
        var lastIdentifier: UInt64 = 0
    }

    /// Events come a few times a minute, so a lagging reader is stuck; the newest are what it needs then.
    private static let capacity = 256

    private let content = Lock(Content())

    var state: ClientState { content.withLock { $0.state } }

    func subscribe() -> ClientEvents {
        let (stream, continuation) = AsyncStream.makeStream(
            of: ClientEvent.self, bufferingPolicy: .bufferingNewest(Self.capacity))
        let identifier = content.withLock { content in
            content.lastIdentifier += 1
            content.listeners[content.lastIdentifier] = continuation
            continuation.yield(ClientEvent(content.state, now: .now))
            return content.lastIdentifier
        }
        continuation.onTermination = { [weak self] _ in
            self?.content.withLock { _ = $0.listeners.removeValue(forKey: identifier) }
        }
        return ClientEvents(stream: stream)
    }

    func enter(_ state: ClientState, now: ContinuousClock.Instant) {
        let (interruption, listeners) = content.withLock { content in
            content.state = state
            defer { content.interruption = nil }
            return (content.interruption, Array(content.listeners.values))
        }
        for listener in listeners {
            if let interruption { listener.yield(.interrupted(interruption)) }
            listener.yield(ClientEvent(state, now: now))
        }
    }

    /// The connection is gone; what follows from that is entered next.
    func interrupted(by error: MQTTError) { content.withLock { $0.interruption = error } }

    func sessionLost() {
        let listeners = content.withLock { Array($0.listeners.values) }
        for listener in listeners { listener.yield(.sessionLost) }
    }

    /// DISCONNECT goes out: no event, since the end that follows is one.
    func leaving(_ outcome: ConnectOutcome) {
        content.withLock { $0.state = .disconnecting(outcome) }
    }

    /// A stage of the attempt under way has ended.
    func observe(_ observation: StageObservation, on way: ConnectionProfile) {
        content.withLock { content in
            guard case .connecting(var attempt) = content.state else { return }
            attempt.observe(observation, on: way)
            content.state = .connecting(attempt)
        }
    }

    func finish() {
        let listeners = content.withLock { content in
            defer { content.listeners = [:] }
            return Array(content.listeners.values)
        }
        for listener in listeners { listener.finish() }
    }
}
