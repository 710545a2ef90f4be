/// How long connections may be idle on this network, learned from those that a hop has ended.
///
/// A single end tells nothing: brokers restart at all times. Two in a row after about the same idle time are a hop's
/// doing. What is learned only ever gets shorter, down to a floor.
package struct IdleLimit: Sendable {
    /// How an idle connection came to its end.
    package enum End: Sendable, Hashable {
        /// Somebody closed it at that moment: the limit is that time.
        case whileIdle
        /// It was found dead when we spoke: the limit is that time or any shorter one.
        case whenWeSpoke
    }

    /// The longest time without traffic that is known to be safe, or thought so; nil while nothing was learned.
    package private(set) var safeInterval: Duration?
    private var suspicion: Suspicion?

    private struct Suspicion {
        let end: End
        let idleTime: Duration
    }

    /// No hop that we know of is as strict as this.
    package static let shortest = Duration.seconds(5)

    package init() {}

    /// A connection that had been accepted has ended, and no party to it has said why.
    ///
    /// - Parameter idleTime: since anything was sent or received; before our last words, where they got no answer.
    /// - Returns: whether this has taught us a shorter interval.
    package mutating func connectionEnded(_ end: End, idleTime: Duration) -> Bool {
        guard idleTime >= Self.shortest else {
            suspicion = nil
            return false
        }
        let confirmed = suspicion.map { $0.end == end && Self.areClose($0.idleTime, idleTime) } ?? false
        guard confirmed else {
            suspicion = Suspicion(end: end, idleTime: idleTime)
            return false
        }
        suspicion = nil
        let interval: Duration =
            switch end {
            case .whileIdle: idleTime / 4 * 3
            case .whenWeSpoke: idleTime / 2
            }
        let bounded = max(Self.shortest, interval)
        if let safeInterval, safeInterval <= bounded { return false }
        safeInterval = bounded
        return true
    }

    /// Timers of a hop are checked now and then, not to the moment.
    private static func areClose(_ one: Duration, _ other: Duration) -> Bool {
        max(one, other) - min(one, other) <= max(.seconds(2), max(one, other) / 10)
    }
}
