/// Makes one occasion of many reports that the network has changed, or that the machine has slept.
///
/// A change comes as a burst: link, addresses, routes. What is done about it waits for its end, and isn't done again
/// soon, so that an interface that flaps makes no storm.
package struct NetworkChanges: Sendable {
    private var due: Instant?
    private var last: Instant?
    private var asleep: Duration?

    /// From the first report of a burst on.
    package static let settling = Duration.milliseconds(250)
    /// Between two occasions.
    package static let pause = Duration.seconds(5)
    /// Clocks are read one after the other, and differ a little.
    private static let shortestSleep = Duration.seconds(1)

    package init() {}

    package var nextDeadline: Instant? { due }

    package mutating func networkChanged(now: Instant) {
        if due == nil { due = earliest(now + Self.settling) }
    }

    /// - Parameter asleep: how long the machine has slept since it was started.
    package mutating func clocksRead(asleep: Duration, now: Instant) {
        defer { self.asleep = asleep }
        if let before = self.asleep, asleep - before > Self.shortestSleep { due = earliest(now) }
    }

    /// - Returns: whether it is time to look whether the connection lives, or to try again.
    package mutating func deadlineReached(now: Instant) -> Bool {
        guard let due, now >= due else { return false }
        self.due = nil
        last = now
        return true
    }

    private func earliest(_ time: Instant) -> Instant {
        last.map { max(time, $0 + Self.pause) } ?? time
    }
}
