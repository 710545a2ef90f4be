import MQTTCore
import Testing

/// What ends of idle connections teach.
@Suite struct IdleLimitTests {
    private typealias End = (end: IdleLimit.End, seconds: Int)

    private static func learned(_ ends: [End]) -> [Duration?] {
        var limit = IdleLimit()
        return ends.map { end in
            _ = limit.connectionEnded(end.end, idleTime: .seconds(end.seconds))
            return limit.safeInterval
        }
    }

    @Test func one_end_teaches_nothing() {
        #expect(Self.learned([(.whileIdle, 60)]) == [nil])
        #expect(Self.learned([(.whenWeSpoke, 300)]) == [nil])
    }

    @Test func two_ends_at_the_same_idle_time_do_and_the_interval_stays_below_it() {
        #expect(Self.learned([(.whileIdle, 60), (.whileIdle, 60)]) == [nil, .seconds(45)])
        #expect(Self.learned([(.whileIdle, 60), (.whileIdle, 62)]) == [nil, .seconds(46.5)])
    }

    @Test func a_connection_found_dead_may_have_died_long_before() {
        #expect(Self.learned([(.whenWeSpoke, 300), (.whenWeSpoke, 300)]) == [nil, .seconds(150)])
        // Still dead: half of that, and so on.
        #expect(
            Self.learned([
                (.whenWeSpoke, 300), (.whenWeSpoke, 300), (.whenWeSpoke, 150), (.whenWeSpoke, 150),
            ]).last == .seconds(75))
    }

    @Test(
        arguments: [
            [(.whileIdle, 60), (.whileIdle, 240)], [(.whileIdle, 60), (.whenWeSpoke, 60)],
            [(.whileIdle, 60), (.whileIdle, 1), (.whileIdle, 60)], [(.whileIdle, 4), (.whileIdle, 4)],
        ] as [[(IdleLimit.End, Int)]])
    func ends_that_are_not_alike_teach_nothing(_ ends: [(IdleLimit.End, Int)]) {
        #expect(Self.learned(ends.map { ($0.0, $0.1) }).allSatisfy { $0 == nil })
    }

    @Test func the_interval_only_gets_shorter_and_never_below_the_floor() {
        #expect(
            Self.learned([(.whileIdle, 60), (.whileIdle, 60), (.whileIdle, 240), (.whileIdle, 240)]).last
                == .seconds(45))
        #expect(Self.learned([(.whenWeSpoke, 6), (.whenWeSpoke, 6)]).last == IdleLimit.shortest)
    }
}
