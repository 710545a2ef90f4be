/// What the client intends with its connection: trying, holding, waiting to try again, ending.
///
/// Inputs are what happened; each answers with what to do now, if anything. Inputs that don't fit the
/// phase (a late report of an attempt given up) are passed over.
package struct ConnectionLifecycle: Sendable {
    package let policy: ReconnectPolicy
    /// Whether a refused login may be followed by another one, since the program is asked before each attempt.
    private let asksForLogin: Bool
    package private(set) var phase = Phase.idle
    /// Failures in a row, counted over short-lived connections too.
    private var failures = 0
    /// Whether what is waited for is something else than the network.
    private var waitsForLogin = false
    /// Whether this intent has had a connection.
    private var hasConnected = false

    package enum Phase: Sendable, Hashable {
        case idle
        /// Attempts count from 1 since the last connection.
        case connecting(attempt: Int)
        case connected(since: Instant)
        /// The next attempt starts at `until`.
        case waiting(until: Instant, attempt: Int)
        /// DISCONNECT is on its way out.
        case disconnecting
        /// So it is, and the session stays.
        case suspending
        /// No connection until `connect()`, and nothing has ended.
        case suspended
        case ended(EndReason)
    }

    package enum EndReason: Sendable, Hashable {
        case disconnected
        case failed(ConnectionFailure)
    }

    package enum Command: Sendable, Hashable {
        case startAttempt(Int)
        /// Where the server has sent us.
        case startRedirectedAttempt(Int)
        /// Give up the attempt under way; the end is reached already.
        case cancelAttempt
        case wait(until: Instant, attempt: Int)
        /// Send DISCONNECT and close, then report `disconnected`.
        case sendDisconnect
        case end(EndReason)
        /// Send DISCONNECT without ending the session, and close, then report `disconnected`.
        case sendSuspension
        /// Give up the attempt under way; the client is suspended already.
        case suspendAttempt
        /// The client is suspended now.
        case rest
    }

    package init(policy: ReconnectPolicy = ReconnectPolicy(), asksForLogin: Bool = false) {
        self.policy = policy
        self.asksForLogin = asksForLogin
    }

    /// Whether the first attempt since `connect()` is under way: nothing but its callers depends on it.
    package var isFirstAttempt: Bool {
        if case .connecting = phase { !hasConnected } else { false }
    }

    package var nextDeadline: Instant? {
        if case .waiting(let until, _) = phase { until } else { nil }
    }

    /// Begins, also again after an end. While waiting it tries at once.
    package mutating func connect() -> Command? {
        switch phase {
        case .idle, .ended:
            failures = 0
            hasConnected = false
            return start(attempt: 1)
        case .suspended:
            failures = 0
            return start(attempt: 1)
        case .waiting(_, let attempt): return start(attempt: attempt)
        case .connecting, .connected, .disconnecting, .suspending: return nil
        }
    }

    /// CONNACK accepted the connection.
    package mutating func attemptSucceeded(now: Instant) {
        guard case .connecting = phase else { return }
        hasConnected = true
        phase = .connected(since: now)
    }

    package mutating func attemptFailed(
        _ failure: ConnectionFailure, now: Instant, random: UInt64
    ) -> Command? {
        switch phase {
        case .connecting(let attempt):
            if !hasConnected, !policy.retriesInitialConnect { return end(.failed(failure)) }
            return retry(after: failure, attempt: attempt + 1, now: now, random: random)
        case .disconnecting: return end(.disconnected)
        case .idle, .connected, .waiting, .suspending, .suspended, .ended: return nil
        }
    }

    package mutating func connectionLost(
        _ failure: ConnectionFailure, now: Instant, random: UInt64
    ) -> Command? {
        switch phase {
        case .connected(let since):
            if now - since >= policy.stableAfter { failures = 0 }
            return retry(after: failure, attempt: 1, now: now, random: random)
        case .disconnecting: return end(.disconnected)
        case .suspending: return rest()
        case .idle, .connecting, .waiting, .suspended, .ended: return nil
        }
    }

    /// The server has ended the connection and named another one, where the client goes at once: no failure, and
    /// none that is forgiven (5.0, section 4.11).
    package mutating func connectionRedirected(now: Instant) -> Command? {
        switch phase {
        case .connected(let since):
            if now - since >= policy.stableAfter { failures = 0 }
            phase = .connecting(attempt: 1)
            return .startRedirectedAttempt(1)
        case .disconnecting: return end(.disconnected)
        case .suspending: return rest()
        case .idle, .connecting, .waiting, .suspended, .ended: return nil
        }
    }

    package mutating func disconnect() -> Command? {
        switch phase {
        case .connected:
            phase = .disconnecting
            return .sendDisconnect
        case .connecting:
            phase = .ended(.disconnected)
            return .cancelAttempt
        case .suspending:
            phase = .disconnecting
            return nil
        case .idle, .waiting, .suspended: return end(.disconnected)
        case .disconnecting, .ended: return nil
        }
    }

    /// Does without a connection until `connect()`; the session, subscriptions and what waits stay.
    package mutating func suspend() -> Command? {
        switch phase {
        case .connected:
            phase = .suspending
            return .sendSuspension
        case .connecting:
            phase = .suspended
            return .suspendAttempt
        case .waiting: return rest()
        case .idle, .disconnecting, .suspending, .suspended, .ended: return nil
        }
    }

    /// The connection has been closed after our DISCONNECT.
    package mutating func disconnected() -> Command? {
        switch phase {
        case .disconnecting: return end(.disconnected)
        case .suspending: return rest()
        case .idle, .connecting, .connected, .waiting, .suspended, .ended: return nil
        }
    }

    /// The client can't go on, whatever the connection does; it has been dropped.
    package mutating func fail() -> Command? {
        switch phase {
        case .connecting, .connected, .waiting, .suspending, .suspended: end(.failed(.refusedByServer))
        case .disconnecting: end(.disconnected)
        case .idle, .ended: nil
        }
    }

    package mutating func deadlineReached(now: Instant) -> Command? {
        guard case .waiting(let until, let attempt) = phase, now >= until else { return nil }
        return start(attempt: attempt)
    }

    /// What was out of reach may be within it now. The delays go on from where they are.
    package mutating func networkChanged() -> Command? {
        guard case .waiting(_, let attempt) = phase, !waitsForLogin else { return nil }
        return start(attempt: attempt)
    }

    private mutating func start(attempt: Int) -> Command {
        phase = .connecting(attempt: attempt)
        return .startAttempt(attempt)
    }

    private mutating func rest() -> Command {
        phase = .suspended
        return .rest
    }

    private mutating func end(_ reason: EndReason) -> Command {
        phase = .ended(reason)
        return .end(reason)
    }

    private mutating func retry(
        after failure: ConnectionFailure, attempt: Int, now: Instant, random: UInt64
    ) -> Command {
        guard policy.isEnabled else { return end(.failed(failure)) }
        let delay: Duration
        switch failure {
        case .transient: delay = policy.delay(failures: failures, random: random)
        case .certificate, .takeoverSuspected: delay = policy.slowDelay(random: random)
        case .loginRefused where asksForLogin: delay = policy.slowDelay(random: random)
        case .refusedByServer, .loginRefused, .takenOver, .versionUnsupported: return end(.failed(failure))
        }
        failures += 1
        waitsForLogin = failure == .loginRefused
        phase = .waiting(until: now + delay, attempt: attempt)
        return .wait(until: now + delay, attempt: attempt)
    }
}
