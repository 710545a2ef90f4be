import MQTTConformance
import MQTTCore
import Testing

@Suite("Session: reconnecting")
struct SessionReconnectTests {
    private let now = ContinuousClock.now

    @Test func delays_are_drawn_between_the_minimum_and_the_doubled_base() {
        let policy = ReconnectPolicy()
        for (failures, ceiling) in [(0, 2), (1, 4), (2, 8), (3, 16), (4, 32), (5, 60), (6, 60), (1000, 60)] {
            #expect(policy.delay(failures: failures, random: 0) == .milliseconds(250))
            let longest = policy.delay(failures: failures, random: .max)
            #expect(longest <= .seconds(ceiling) && longest > .seconds(ceiling) - .milliseconds(1))
            let middle = policy.delay(failures: failures, random: 1 << 63)
            #expect(middle == .milliseconds(250) + (.seconds(ceiling) - .milliseconds(250)) / 2)
        }
    }

    @Test func a_first_connection_that_fails_is_reported_at_once() {
        var lifecycle = ConnectionLifecycle()
        #expect(lifecycle.step { $0.connect() } == .startAttempt(1))
        let end = lifecycle.step { $0.attemptFailed(.transient, now: now, random: .max) }
        #expect(end == .end(.failed(.transient)))
        #expect(lifecycle.phase == .ended(.failed(.transient)))
        #expect(lifecycle.step { $0.connect() } == .startAttempt(1))
    }

    @Test func a_first_connection_is_retried_where_configured() {
        var lifecycle = ConnectionLifecycle(policy: ReconnectPolicy(retriesInitialConnect: true))
        _ = lifecycle.connect()
        let wait = lifecycle.step { $0.attemptFailed(.transient, now: now, random: 0) }
        #expect(wait == .wait(until: now + .milliseconds(250), attempt: 2))
        #expect(lifecycle.nextDeadline == now + .milliseconds(250))
        #expect(lifecycle.step { $0.deadlineReached(now: now) } == nil)
        let start = lifecycle.step { $0.deadlineReached(now: now + .milliseconds(250)) }
        #expect(start == .startAttempt(2))
    }

    @Test func only_a_stable_connection_starts_the_delays_anew() {
        var lifecycle = ConnectionLifecycle()
        var time = now
        _ = lifecycle.connect()
        var ceilings: [Int] = []
        for held: Duration in [.seconds(1), .seconds(29), .zero, .seconds(30), .zero] {
            lifecycle.attemptSucceeded(now: time)
            time += held
            guard case .wait(let until, 1) = lifecycle.connectionLost(.transient, now: time, random: .max)
            else {
                Issue.record("not waiting")
                return
            }
            ceilings.append(Int(((until - time) / .seconds(1)).rounded()))
            time = until
            #expect(lifecycle.step { $0.deadlineReached(now: time) } == .startAttempt(1))
        }
        #expect(ceilings == [2, 4, 8, 2, 4])
    }

    @Test(
        arguments: [.refusedByServer, .loginRefused, .takenOver, .versionUnsupported] as [ConnectionFailure])
    func what_a_retry_cannot_mend_ends(failure: ConnectionFailure) {
        var lifecycle = ConnectionLifecycle(policy: ReconnectPolicy(retriesInitialConnect: true))
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        let lost = lifecycle.step { $0.connectionLost(failure, now: now, random: 0) }
        #expect(lost == .end(.failed(failure)))
        _ = lifecycle.connect()
        let failed = lifecycle.step { $0.attemptFailed(failure, now: now, random: 0) }
        #expect(failed == .end(.failed(failure)))
    }

    @Test(arguments: [0, 1 << 63, UInt64.max])
    func certificates_are_tried_again_slowly_at_once(random: UInt64) {
        var lifecycle = ConnectionLifecycle()
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        guard case .wait(let until, _) = lifecycle.connectionLost(.certificate, now: now, random: random)
        else {
            Issue.record("not waiting")
            return
        }
        #expect(until - now >= .seconds(30) && until - now <= .seconds(60))
    }

    @Test(arguments: [0, UInt64.max])
    func a_refused_login_is_tried_again_slowly_where_there_may_be_another(random: UInt64) {
        var lifecycle = ConnectionLifecycle(asksForLogin: true)
        _ = lifecycle.connect()
        let first = lifecycle.step { $0.attemptFailed(.loginRefused, now: now, random: random) }
        #expect(first == .end(.failed(.loginRefused)))
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        _ = lifecycle.connectionLost(.loginRefused, now: now, random: random)
        guard case .waiting(let until, _) = lifecycle.phase else {
            Issue.record("not waiting")
            return
        }
        #expect(until - now >= .seconds(30) && until - now <= .seconds(60))
    }

    @Test func two_kicks_straight_after_CONNACK_make_a_takeover() {
        var suspicion = TakeoverSuspicion()
        let soon = Duration.milliseconds(999)
        #expect(!suspicion.step { $0.connectionEnded(after: soon, isClosedByPeer: true) })
        #expect(!suspicion.step { $0.connectionEnded(after: .seconds(1), isClosedByPeer: true) })
        #expect(!suspicion.step { $0.connectionEnded(after: soon, isClosedByPeer: true) })
        #expect(!suspicion.step { $0.connectionEnded(after: soon, isClosedByPeer: false) })
        #expect(!suspicion.step { $0.connectionEnded(after: soon, isClosedByPeer: true) })
        #expect(suspicion.step { $0.connectionEnded(after: soon, isClosedByPeer: true) })
    }

    @Test func never_means_never() {
        var lifecycle = ConnectionLifecycle(policy: .never)
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        let lost = lifecycle.step { $0.connectionLost(.transient, now: now, random: 0) }
        #expect(lost == .end(.failed(.transient)))
    }

    @Test func a_redirection_is_followed_at_once_and_forgives_no_failure() {
        var lifecycle = ConnectionLifecycle()
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        #expect(lifecycle.step { $0.connectionRedirected(now: now) } == .startRedirectedAttempt(1))
        #expect(lifecycle.phase == .connecting(attempt: 1))
        #expect(!lifecycle.isFirstAttempt)
        #expect(lifecycle.step { $0.connectionRedirected(now: now) } == nil)
        // It isn't the first failure that doubles the delay, but the one before it.
        lifecycle.attemptSucceeded(now: now)
        var ceilings: [Duration] = []
        for _ in 0..<2 {
            _ = lifecycle.connectionLost(.transient, now: now, random: .max)
            guard case .waiting(let until, 1) = lifecycle.phase else { break }
            ceilings.append(until - now)
            _ = lifecycle.connect()
            lifecycle.attemptSucceeded(now: now)
            _ = lifecycle.connectionRedirected(now: now)
            lifecycle.attemptSucceeded(now: now)
        }
        #expect(ceilings.map { Int(($0 / .seconds(1)).rounded()) } == [2, 4])
        #expect(lifecycle.step { $0.disconnect() } == .sendDisconnect)
        #expect(lifecycle.step { $0.connectionRedirected(now: now) } == .end(.disconnected))
    }

    @Test func never_reconnecting_still_follows_a_redirection() {
        var lifecycle = ConnectionLifecycle(policy: .never)
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        #expect(lifecycle.step { $0.connectionRedirected(now: now) } == .startRedirectedAttempt(1))
    }

    @Test func disconnecting_from_every_phase() {
        var lifecycle = ConnectionLifecycle()
        #expect(lifecycle.step { $0.disconnect() } == .end(.disconnected))
        _ = lifecycle.connect()
        #expect(lifecycle.step { $0.disconnect() } == .cancelAttempt)
        #expect(lifecycle.phase == .ended(.disconnected))
        #expect(lifecycle.step { $0.attemptFailed(.transient, now: now, random: 0) } == nil)
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        #expect(lifecycle.step { $0.disconnect() } == .sendDisconnect)
        #expect(lifecycle.step { $0.disconnect() } == nil)
        #expect(lifecycle.step { $0.connectionLost(.transient, now: now, random: 0) } == .end(.disconnected))
        #expect(lifecycle.step { $0.disconnected() } == nil)
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        _ = lifecycle.connectionLost(.transient, now: now, random: 0)
        #expect(lifecycle.step { $0.disconnect() } == .end(.disconnected))
        #expect(lifecycle.nextDeadline == nil)
    }

    @Test func suspending_from_every_phase() {
        var lifecycle = ConnectionLifecycle()
        #expect(lifecycle.step { $0.suspend() } == nil)
        _ = lifecycle.connect()
        #expect(lifecycle.step { $0.suspend() } == .suspendAttempt)
        #expect(lifecycle.phase == .suspended)
        #expect(lifecycle.step { $0.attemptFailed(.transient, now: now, random: 0) } == nil)
        #expect(lifecycle.step { $0.connect() } == .startAttempt(1))
        lifecycle.attemptSucceeded(now: now)
        #expect(lifecycle.step { $0.suspend() } == .sendSuspension)
        #expect(lifecycle.step { $0.suspend() } == nil)
        #expect(lifecycle.step { $0.disconnected() } == .rest)
        // As after any connection, a failure is tried again now.
        #expect(lifecycle.step { $0.connect() } == .startAttempt(1))
        _ = lifecycle.attemptFailed(.transient, now: now, random: 0)
        #expect(lifecycle.step { $0.suspend() } == .rest)
        #expect(lifecycle.nextDeadline == nil)
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        _ = lifecycle.suspend()
        // A connection that breaks meanwhile is as gone as one that is closed.
        #expect(lifecycle.step { $0.connectionLost(.transient, now: now, random: 0) } == .rest)
        #expect(lifecycle.step { $0.disconnect() } == .end(.disconnected))
        #expect(lifecycle.step { $0.suspend() } == nil)
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        _ = lifecycle.suspend()
        #expect(lifecycle.step { $0.disconnect() } == nil)
        #expect(lifecycle.step { $0.disconnected() } == .end(.disconnected))
    }

    @Test func connect_while_waiting_tries_at_once() {
        var lifecycle = ConnectionLifecycle()
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        _ = lifecycle.connectionLost(.transient, now: now, random: .max)
        #expect(lifecycle.step { $0.connect() } == .startAttempt(1))
        #expect(lifecycle.step { $0.connect() } == nil)
    }

    @Test(
        .mqtt311("3.1.2-2"), .mqtt5("3.1.2-2"),
        arguments: [
            (.v3_1_1, 1, .versionUnsupported), (.v3_1_1, 2, .refusedByServer), (.v3_1_1, 3, .transient),
            (.v3_1_1, 4, .loginRefused), (.v3_1_1, 5, .loginRefused),
            (.v5, 0x84, .versionUnsupported), (.v5, 0x85, .refusedByServer), (.v5, 0x86, .loginRefused),
            (.v5, 0x87, .loginRefused), (.v5, 0x88, .transient), (.v5, 0x89, .transient),
            (.v5, 0x8A, .refusedByServer), (.v5, 0x97, .transient), (.v5, 0x9F, .transient),
        ] as [(ProtocolVersion, UInt8, ConnectionFailure)])
    func refusals_by_connack(version: ProtocolVersion, code: UInt8, failure: ConnectionFailure) {
        let error = SessionError.refused(ReasonCode(rawValue: code))
        #expect(ConnectionFailure(error, version: version) == failure)
    }

    @Test(
        arguments: [
            (0x8E, .takenOver), (0x87, .loginRefused), (0x8B, .transient), (0x8D, .transient),
            (0x98, .transient),
        ] as [(UInt8, ConnectionFailure)])
    func disconnects_by_the_server(code: UInt8, failure: ConnectionFailure) {
        #expect(ConnectionFailure(disconnect: ReasonCode(rawValue: code)) == failure)
    }
}

extension ConnectionLifecycle {
    /// A step whose answer `#expect` can take.
    fileprivate mutating func step(
        _ body: (inout ConnectionLifecycle) -> Command?
    ) -> Command? { body(&self) }
}

extension TakeoverSuspicion {
    fileprivate mutating func step(_ body: (inout TakeoverSuspicion) -> Bool) -> Bool { body(&self) }
}
