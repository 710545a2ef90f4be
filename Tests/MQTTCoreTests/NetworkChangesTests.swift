import MQTTCore
import Testing

@Suite("Session: a network that changes")
struct NetworkChangesTests {
    private let now = ContinuousClock.now

    @Test func a_burst_is_one_occasion_and_the_next_comes_later() {
        var changes = NetworkChanges()
        changes.networkChanged(now: now)
        changes.networkChanged(now: now + .milliseconds(200))
        #expect(changes.nextDeadline == now + .milliseconds(250))
        var happened = changes.deadlineReached(now: now + .milliseconds(249))
        #expect(!happened)
        happened = changes.deadlineReached(now: now + .milliseconds(250))
        #expect(happened)
        #expect(changes.nextDeadline == nil)
        changes.networkChanged(now: now + .seconds(1))
        #expect(changes.nextDeadline == now + .milliseconds(5250))
    }

    @Test func waking_from_sleep_is_one_at_once() {
        var changes = NetworkChanges()
        changes.clocksRead(asleep: .seconds(100), now: now)
        changes.clocksRead(asleep: .milliseconds(100_900), now: now)
        #expect(changes.nextDeadline == nil)
        changes.clocksRead(asleep: .seconds(160), now: now + .seconds(60))
        #expect(changes.nextDeadline == now + .seconds(60))
    }

    @Test(arguments: [0, 30] as [UInt16])
    func an_established_connection_is_pinged_and_dead_without_an_answer(keepAlive: UInt16) {
        var harness = SessionHarness(connected: .v5) { $0.keepAlive = keepAlive }
        harness.session.probe(within: .seconds(5), now: harness.now, into: &harness.output)
        harness.session.probe(within: .seconds(5), now: harness.now, into: &harness.output)
        #expect(harness.takePackets() == [hex("C0 00")])
        harness.flush()
        #expect(harness.session.nextDeadline == harness.now + .seconds(5))
        harness.receive(.pingresp)
        #expect(harness.session.nextDeadline == (keepAlive == 0 ? nil : harness.now + .seconds(30)))
        harness.session.probe(within: .seconds(5), now: harness.now, into: &harness.output)
        harness.flush()
        harness.advance(.seconds(5))
        harness.deadline()
        #expect(harness.actions() == [.close(.pingResponseTimeout)])
    }

    @Test func without_a_connection_nothing_is_sent() {
        var harness = SessionHarness(SessionConfiguration(clientIdentifier: "c"))
        harness.session.probe(within: .seconds(5), now: harness.now, into: &harness.output)
        #expect(harness.takePackets().isEmpty)
    }

    @Test func a_client_that_waits_tries_at_once_unless_it_waits_for_a_login() {
        var lifecycle = ConnectionLifecycle(asksForLogin: true)
        var command = lifecycle.networkChanged()
        #expect(command == nil)
        _ = lifecycle.connect()
        lifecycle.attemptSucceeded(now: now)
        command = lifecycle.networkChanged()
        #expect(command == nil)
        _ = lifecycle.connectionLost(.transient, now: now, random: .max)
        command = lifecycle.networkChanged()
        #expect(command == .startAttempt(1))
        _ = lifecycle.attemptFailed(.loginRefused, now: now, random: .max)
        command = lifecycle.networkChanged()
        #expect(command == nil)
    }
}
