import MQTTTransport
import Testing

/// Which way is tried when, by the clock of the test.
@Suite struct RouteRaceTests {
    private static let zero = ContinuousClock.now
    private static func at(_ milliseconds: Int) -> ContinuousClock.Instant {
        zero + .milliseconds(milliseconds)
    }

    private static func race(_ count: Int) -> RouteRace {
        RouteRace(count: count, stagger: .milliseconds(500), end: at(30_000))
    }

    @Test func the_next_way_starts_after_the_stagger_while_the_first_still_runs() {
        var race = Self.race(3)
        #expect(race.start(now: Self.at(0)) == [.start(0)])
        #expect(race.nextDeadline == Self.at(500))
        #expect(race.deadlineReached(now: Self.at(499)).isEmpty)
        #expect(race.deadlineReached(now: Self.at(500)) == [.start(1)])
        #expect(race.nextDeadline == Self.at(1000))
        #expect(race.deadlineReached(now: Self.at(1001)) == [.start(2)])
        #expect(race.nextDeadline == Self.at(30_000))
    }

    @Test func a_failure_starts_the_next_way_at_once_and_the_stagger_anew() {
        var race = Self.race(3)
        _ = race.start(now: Self.at(0))
        #expect(race.failed(0, now: Self.at(10)) == [.start(1)])
        #expect(race.nextDeadline == Self.at(510))
        #expect(race.standings == [.failed, .running, .notTried])
    }

    @Test func the_first_open_way_gets_connect_and_the_others_wait_for_their_turn() {
        var race = Self.race(3)
        _ = race.start(now: Self.at(0))
        _ = race.deadlineReached(now: Self.at(500))
        _ = race.deadlineReached(now: Self.at(1000))
        #expect(race.opened(2) == [.connect(2)])
        #expect(race.opened(1).isEmpty)
        #expect(race.opened(0).isEmpty)
        #expect(race.standings == [.open, .open, .connecting])
        // The best of those that wait.
        #expect(race.failed(2, now: Self.at(1200)) == [.connect(0)])
        #expect(race.failed(0, now: Self.at(1300)) == [.connect(1)])
        #expect(race.failed(1, now: Self.at(1400)) == [.end])
    }

    @Test func a_way_that_fails_at_connect_with_none_open_is_followed_by_the_next() {
        var race = Self.race(2)
        _ = race.start(now: Self.at(0))
        #expect(race.opened(0) == [.connect(0)])
        #expect(race.failed(0, now: Self.at(100)) == [.start(1)])
        #expect(race.opened(1) == [.connect(1)])
        race.connected(1)
        #expect(race.standings == [.failed, .connected])
        #expect(race.nextDeadline == nil)
        #expect(race.deadlineReached(now: Self.at(60_000)).isEmpty)
        #expect(race.failed(1, now: Self.at(200)).isEmpty)
    }

    @Test func a_way_that_closes_while_it_waits_starts_nothing() {
        var race = Self.race(3)
        _ = race.start(now: Self.at(0))
        _ = race.deadlineReached(now: Self.at(500))
        _ = race.opened(0)
        _ = race.opened(1)
        #expect(race.failed(1, now: Self.at(600)).isEmpty)
        #expect(race.failed(0, now: Self.at(700)) == [.start(2)])
    }

    @Test func the_end_comes_when_the_last_way_has_failed() {
        var race = Self.race(2)
        _ = race.start(now: Self.at(0))
        _ = race.failed(0, now: Self.at(1))
        #expect(race.failed(1, now: Self.at(2)) == [.end])
        #expect(race.opened(1).isEmpty)
        #expect(race.failed(1, now: Self.at(3)).isEmpty)
    }

    @Test func the_total_deadline_ends_what_still_runs() {
        var race = Self.race(1)
        _ = race.start(now: Self.at(0))
        #expect(race.nextDeadline == Self.at(30_000))
        #expect(race.deadlineReached(now: Self.at(30_000)) == [.end])
        #expect(race.nextDeadline == nil)
    }

    @Test func connect_outlives_the_total_deadline_and_nothing_starts_after_it() {
        var race = Self.race(3)
        _ = race.start(now: Self.at(0))
        _ = race.opened(0)
        #expect(race.nextDeadline == Self.at(500))
        #expect(race.deadlineReached(now: Self.at(31_000)).isEmpty)
        #expect(race.nextDeadline == nil, "or the timer would fire again and again")
        #expect(race.failed(0, now: Self.at(32_000)) == [.end])
    }

    @Test func a_single_way_without_a_ladder_has_no_deadline_of_its_own() {
        var race = RouteRace(count: 1, stagger: .zero, end: nil)
        #expect(race.start(now: Self.at(0)) == [.start(0)])
        #expect(race.nextDeadline == nil)
        #expect(race.failed(0, now: Self.at(1)) == [.end])
    }

    /// Whatever order the events of three ways come in: CONNECT is never on two of them, every way starts at most
    /// once, and the end is said once and last.
    @Test func any_order_of_events_keeps_connect_on_one_way() {
        struct Generator { var state: UInt64 }
        var generator = Generator(state: 88)
        func random(_ bound: Int) -> Int {
            generator.state = generator.state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(generator.state >> 33) % bound
        }
        var violations: [String] = []
        for _ in 0..<20_000 {
            var race = Self.race(3)
            var log = race.start(now: Self.at(0))
            var time = 0
            for _ in 0..<30 {
                time += random(2_000)
                switch random(4) {
                case 0: log += race.deadlineReached(now: Self.at(time))
                case 1: log += race.opened(random(3))
                case 2: log += race.failed(random(3), now: Self.at(time))
                default:
                    if let index = race.standings.firstIndex(of: .connecting), random(4) == 0 {
                        race.connected(index)
                    }
                }
                if race.standings.count(where: { $0 == .connecting }) > 1 { violations.append("\(log)") }
            }
            for index in 0..<3
            where log.count(where: { $0 == .start(index) }) > 1
                || log.count(where: { $0 == .connect(index) }) > 1
            {
                violations.append("\(log)")
            }
            if let end = log.firstIndex(of: .end), end != log.count - 1 { violations.append("\(log)") }
        }
        // Not at each step: an expectation costs more than the step.
        #expect(violations.isEmpty)
    }
}
