import Testing
import WebSocketCore

@Suite struct PingScheduleTests {
    private let start = ContinuousClock.now

    private func schedule() -> PingSchedule {
        PingSchedule(interval: .seconds(20), timeout: .seconds(5), now: start)
    }

    /// The schedule after its first Ping has left at 20 s, with that Ping's payload.
    private func afterFirstPing() throws -> (PingSchedule, [UInt8]) {
        var schedule = schedule()
        guard case .ping(let payload) = schedule.deadlineReached(now: start + .seconds(20)) else {
            throw Unexpected()
        }
        schedule.flushed(now: start + .seconds(20))
        return (schedule, payload)
    }

    private struct Unexpected: Error {}

    @Test func nothing_is_due_before_the_interval() {
        var schedule = schedule()
        #expect(schedule.nextDeadline == start + .seconds(20))
        #expect(schedule.deadlineReached(now: start + .milliseconds(19_999)) == .nothing)
    }

    @Test func traffic_does_not_put_the_Ping_off() {
        var schedule = schedule()
        schedule.received(now: start + .seconds(19))
        schedule.flushed(now: start + .seconds(19))
        #expect(schedule.nextDeadline == start + .seconds(20))
    }

    @Test func the_time_out_counts_from_when_the_Ping_has_left() {
        var schedule = schedule()
        _ = schedule.deadlineReached(now: start + .seconds(20))
        #expect(schedule.nextDeadline == start + .seconds(45))
        schedule.flushed(now: start + .seconds(23))
        #expect(schedule.nextDeadline == start + .seconds(28))
        #expect(schedule.deadlineReached(now: start + .milliseconds(27_999)) == .nothing)
        #expect(schedule.deadlineReached(now: start + .seconds(28)) == .peerIsSilent)
    }

    @Test func a_Pong_with_the_payload_of_the_Ping_makes_the_next_due_an_interval_later() throws {
        var (schedule, payload) = try afterFirstPing()
        schedule.ponged(payload, now: start + .seconds(21))
        #expect(schedule.nextDeadline == start + .seconds(40))
        let second = schedule.deadlineReached(now: start + .seconds(40))
        #expect(second != .ping(payload: payload))
        #expect(second != .nothing)
    }

    @Test func a_late_Pong_makes_the_next_Ping_due_at_once_not_in_the_past() throws {
        var (schedule, payload) = try afterFirstPing()
        schedule.received(now: start + .seconds(24))
        schedule.received(now: start + .seconds(60))
        schedule.ponged(payload, now: start + .seconds(60))
        #expect(schedule.nextDeadline == start + .seconds(60))
    }

    @Test(arguments: [[], [0xFF, 0xFF, 0xFF, 0xFF], [0, 0, 0, 0]] as [[UInt8]])
    func an_unsolicited_Pong_answers_nothing(_ payload: [UInt8]) throws {
        var (schedule, _) = try afterFirstPing()
        schedule.ponged(payload, now: start + .seconds(21))
        #expect(schedule.nextDeadline == start + .seconds(25))
    }

    @Test func a_large_message_ahead_of_the_Pong_counts_as_life() throws {
        var (schedule, _) = try afterFirstPing()
        schedule.received(now: start + .seconds(24))
        #expect(schedule.deadlineReached(now: start + .seconds(25)) == .nothing)
        #expect(schedule.deadlineReached(now: start + .seconds(29)) == .peerIsSilent)
    }

    @Test func a_Ping_that_cannot_leave_gets_one_interval_more_after_the_last_progress() {
        var schedule = schedule()
        _ = schedule.deadlineReached(now: start + .seconds(20))
        schedule.progressed(now: start + .seconds(30))
        #expect(schedule.deadlineReached(now: start + .milliseconds(54_999)) == .nothing)
        #expect(schedule.deadlineReached(now: start + .seconds(55)) == .peerIsSilent)
    }
}
