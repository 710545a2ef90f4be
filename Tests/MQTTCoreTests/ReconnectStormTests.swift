import MQTTCore
import Testing

/// Random failures under simulated time: whatever happens, a client neither storms a server nor forgets what its
/// program wants.
@Suite("Session: no storms")
struct ReconnectStormTests {
    private enum Happening: CaseIterable {
        case attemptSucceeds, attemptFails, connectionLost, deadlinePasses, disconnect, connect, suspend
    }

    /// Never more attempts within a minute than this, but for those that the program itself asks for: full jitter
    /// draws 1, 2, 4 … seconds on average.
    private static let attemptsPerMinute = 24

    @Test(arguments: 0..<200 as Range<UInt64>)
    func attempts_are_bounded_in_any_window_and_follow_the_intent(seed: UInt64) {
        var random = SplitMix64(state: seed)
        let policy = ReconnectPolicy(retriesInitialConnect: Bool.random(using: &random))
        var lifecycle = ConnectionLifecycle(policy: policy, asksForLogin: Bool.random(using: &random))
        var now = ContinuousClock.now
        var isWanted = false
        /// Of attempts that nobody asked for, when they began.
        var attempts: [ContinuousClock.Instant] = []
        for _ in 0..<2000 {
            let before = lifecycle.phase
            let isOdd = Int.random(in: 0..<10, using: &random) == 0
            let failure = isOdd ? ConnectionFailure.allCases.randomElement(using: &random)! : .transient
            let command: ConnectionLifecycle.Command?
            switch next(after: before, &random) {
            case .attemptSucceeds:
                now += .milliseconds(Int.random(in: 0...500, using: &random))
                lifecycle.attemptSucceeded(now: now)
                command = nil
            case .attemptFails:
                now += .milliseconds(Int.random(in: 0...500, using: &random))
                command = lifecycle.attemptFailed(failure, now: now, random: random.next())
            case .connectionLost:
                // Most break at once: the worst for a server.
                if Int.random(in: 0..<10, using: &random) == 0 { now += .seconds(40) }
                command = lifecycle.connectionLost(failure, now: now, random: random.next())
            case .deadlinePasses:
                if let deadline = lifecycle.nextDeadline { now = max(now, deadline) }
                command = lifecycle.deadlineReached(now: now)
                if case .startAttempt = command { attempts.append(now) }
            case .disconnect:
                isWanted = false
                command = lifecycle.disconnect()
            case .suspend: command = lifecycle.suspend()
            case .connect:
                if case .disconnecting = before {} else { isWanted = true }
                // A program that calls in a loop makes its own storm.
                if case .ended = before { now += .seconds(60) }
                command = lifecycle.connect()
                if case .ended = before { #expect(command == .startAttempt(1)) }
            }
            if case .wait(let until, _) = command {
                #expect(until - now >= policy.minimumDelay && until - now <= policy.maximumDelay)
                if failure == .certificate || failure == .loginRefused {
                    #expect(until - now >= policy.maximumDelay / 2)
                }
            }
            if case .end(.failed) = command { isWanted = false }
            switch lifecycle.phase {
            case .connecting, .connected, .waiting, .suspending, .suspended: #expect(isWanted)
            case .idle, .disconnecting, .ended: #expect(!isWanted)
            }
        }
        for (index, start) in attempts.enumerated() {
            let count = attempts[index...].prefix { $0 < start + .seconds(60) }.count
            #expect(count <= Self.attemptsPerMinute)
        }
        for (one, other) in zip(attempts, attempts.dropFirst()) {
            #expect(other - one >= policy.minimumDelay)
        }
    }

    /// Mostly what fits the phase, sometimes anything. The program says something every hundredth time.
    private func next(
        after phase: ConnectionLifecycle.Phase, _ random: inout SplitMix64
    ) -> Happening {
        switch Int.random(in: 0..<100, using: &random) {
        case 0: return [.connect, .disconnect, .suspend].randomElement(using: &random) ?? .connect
        case 1..<6:
            return [.attemptSucceeds, .attemptFails, .connectionLost].randomElement(using: &random)
                ?? .connect
        default: break
        }
        switch phase {
        case .idle, .suspended, .ended: return .connect
        case .connecting: return Bool.random(using: &random) ? .attemptSucceeds : .attemptFails
        case .connected, .disconnecting, .suspending: return .connectionLost
        case .waiting: return .deadlinePasses
        }
    }
}
