/// What a client does at this moment: ``MQTTClient/state``.
///
/// ``MQTTClient/events`` begins with the event of the present state, and tells of each state that is entered after
/// that; ``ClientEvent`` shows the diagram. Whoever has received an event reads a state that is no older.
public enum ClientState: Sendable, Hashable {
    /// Nothing has been asked for yet.
    case idle
    case connecting(Attempt)
    case connected(ConnectOutcome)
    case waiting(Wait)
    /// There is no connection by `suspend()`, until `resume()`.
    case suspended
    /// DISCONNECT is on its way out, by `disconnect()` or `suspend()`; no call can use the connection any more. Has no
    /// event of its own: `disconnected` or `suspended` follows within 2 s.
    case disconnecting(ConnectOutcome)
    /// The end: by `disconnect()` where nil, else for this reason. `connect()` begins anew.
    case ended(MQTTError?)

    /// An attempt under way.
    public struct Attempt: Sendable, Hashable {
        /// They count from 1 since the last connection.
        public var number: Int
        /// The furthest that any way to the broker has got in this attempt; nil before the first stage has passed.
        public var furthest: Progress?

        public init(number: Int, furthest: Progress? = nil) {
            self.number = number
            self.furthest = furthest
        }
    }

    /// How far a way has got.
    public struct Progress: Sendable, Hashable {
        public var way: ConnectionProfile
        /// The stage that it has passed last.
        public var passed: ConnectionStage

        public init(way: ConnectionProfile, passed: ConnectionStage) {
            self.way = way
            self.passed = passed
        }
    }

    /// Between two attempts.
    public struct Wait: Sendable, Hashable {
        /// When the next attempt begins, unless `connect()` or a change of the network calls it sooner.
        public var until: ContinuousClock.Instant
        /// The number of the next attempt, from 1 since the last connection.
        public var attempt: Int
        /// Why the last connection or attempt failed.
        public var reason: MQTTError

        public init(until: ContinuousClock.Instant, attempt: Int, reason: MQTTError) {
            self.until = until
            self.attempt = attempt
            self.reason = reason
        }
    }
}

extension ClientEvent {
    /// That this state has been entered, or is the present one.
    init(_ state: ClientState, now: ContinuousClock.Instant) {
        self =
            switch state {
            case .idle: .idle
            case .connecting(let attempt): .connecting(attempt: attempt.number)
            // The connection stands until its end is told.
            case .connected(let outcome), .disconnecting(let outcome): .connected(outcome)
            case .waiting(let wait):
                .reconnecting(
                    attempt: wait.attempt, delay: max(.zero, now.duration(to: wait.until)),
                    error: wait.reason)
            case .suspended: .suspended
            case .ended(let error): .disconnected(error)
            }
    }
}

extension ClientState.Attempt {
    /// A stage has ended on a way.
    mutating func observe(_ observation: StageObservation, on way: ConnectionProfile) {
        switch observation.outcome {
        case .failed, .redirected: return
        case .passed: break
        }
        if let furthest, furthest.passed.order >= observation.stage.order { return }
        furthest = ClientState.Progress(way: way, passed: observation.stage)
    }
}
