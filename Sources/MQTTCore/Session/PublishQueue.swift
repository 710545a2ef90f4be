/// How many messages may wait to be sent, and what happens to more: while there is no connection, and while there
/// is one that takes no more for now. Messages that have been sent and not acknowledged don't count.
public struct PublishQueue: Sendable, Hashable {
    /// How many messages may wait; 100,000 by default.
    public var maximumCount: Int
    /// How many bytes of payloads and Topic Names may wait; 256 MiB by default. A larger message is taken where
    /// nothing else waits.
    public var maximumBytes: Int
    /// What happens to a message for which there is no room.
    public var overflow: Overflow
    /// Whether QoS 0 messages are kept while there is no connection. By default they fail.
    public var keepsAtMostOnce: Bool

    /// Whoever loses a message is told, with `client.queue_full`.
    public enum Overflow: Sendable, Hashable {
        /// The call waits in its turn. What nobody waits for (`enqueue`) fails.
        case wait
        /// The new message fails: the oldest are kept.
        case fail
        /// The messages that have waited longest make room: the newest are kept.
        case dropOldest
    }

    public init(
        maximumCount: Int = 100_000, maximumBytes: Int = 256 << 20, overflow: Overflow = .fail,
        keepsAtMostOnce: Bool = false
    ) {
        self.maximumCount = maximumCount
        self.maximumBytes = maximumBytes
        self.overflow = overflow
        self.keepsAtMostOnce = keepsAtMostOnce
    }
}

/// On what terms a message waits to be sent.
package struct PublishTerms: Sendable, Hashable {
    /// Whether it is given up rather than sent on a later connection.
    package var whileConnected: Bool
    package var admission: Admission

    package enum Admission: Sendable, Hashable {
        /// It has been accepted already, within a bound of its own.
        case accepted
        /// Its caller is suspended, and can go on being so.
        case canWait
        case cannotWait
    }

    package init(whileConnected: Bool = false, admission: Admission = .cannotWait) {
        self.whileConnected = whileConnected
        self.admission = admission
    }
}

/// How long a message may wait to be sent.
struct MessageLife: Sendable {
    /// When it expires, in milliseconds of the session's own time; 0 for never. A plain number, for the reason given
    /// at `ClientSession.phase`.
    var expiry: Int64 = 0
    var endsWithConnection = false

    func hasExpired(at time: Int64) -> Bool { expiry != 0 && time >= expiry }
}

/// Counts milliseconds from the first time it is asked, beginning with 1.
struct MessageClock: Sendable {
    private var start: Instant?

    mutating func milliseconds(at now: Instant) -> Int64 {
        let start = start ?? now
        self.start = start
        return max(0, Int64((now - start) / .milliseconds(1))) + 1
    }

    func instant(of milliseconds: Int64) -> Instant? {
        start.map { $0 + .milliseconds(milliseconds - 1) }
    }
}
