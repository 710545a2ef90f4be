/// Pings at an interval (RFC 6455 §5.5.2), each with a deadline for its Pong, without a clock.
///
/// A Ping leaves at the interval whatever the traffic, since a hop may count each direction by itself. One is
/// under way at a time; the next is due an interval after the last one left.
public struct PingSchedule: Sendable {
    /// The caller's clock; a schedule reads none.
    public typealias Instant = ContinuousClock.Instant

    /// What is to be done at a deadline.
    public enum Due: Sendable, Hashable {
        case nothing
        /// Send a Ping with this payload.
        case ping(payload: [UInt8])
        /// A Ping left, and nothing at all came within the time-out: the connection is dead.
        case peerIsSilent
    }

    private enum State {
        case idle(next: Instant)
        /// In our buffer still.
        case encoded(at: Instant)
        /// Left our buffer.
        case sent(at: Instant)
    }

    /// From one Ping to the next.
    public let interval: Duration
    /// From a Ping to the first sign of life after it.
    public let timeout: Duration
    private var state: State
    private var lastReceived: Instant
    private var lastProgress: Instant
    private var count: UInt32 = 0

    /// - Parameters:
    ///   - interval: above zero.
    ///   - timeout: above zero; counts from when the Ping has left our buffer.
    ///   - now: when the WebSocket opened.
    public init(interval: Duration, timeout: Duration, now: Instant) {
        self.interval = interval
        self.timeout = timeout
        state = .idle(next: now + interval)
        lastReceived = now
        lastProgress = now
    }

    /// When to call `deadlineReached(now:)`; it moves with each of the calls below.
    ///
    /// A Ping that can't even leave our buffer must not wait for ever: it gets one interval more.
    public var nextDeadline: Instant {
        switch state {
        case .idle(let next): next
        case .encoded(let time): max(time, lastReceived, lastProgress) + interval + timeout
        case .sent(let time): max(time, lastReceived) + timeout
        }
    }

    /// What is due now; `.nothing` where it was called too early.
    public mutating func deadlineReached(now: Instant) -> Due {
        guard now >= nextDeadline else { return .nothing }
        switch state {
        case .idle:
            count &+= 1
            state = .encoded(at: now)
            return .ping(payload: payload)
        case .encoded, .sent:
            return .peerIsSilent
        }
    }

    /// Anything received is life, a part of a frame too: a Pong may stand behind a large message.
    public mutating func received(now: Instant) { lastReceived = now }

    /// Some bytes have left our buffer, others wait.
    public mutating func progressed(now: Instant) { lastProgress = now }

    /// All that was encoded so far has left our buffer.
    public mutating func flushed(now: Instant) {
        lastProgress = now
        if case .encoded = state { state = .sent(at: now) }
    }

    /// A Pong came. An unsolicited one, or one for an earlier Ping, answers nothing (§5.5.3).
    public mutating func ponged(_ payload: [UInt8], now: Instant) {
        guard payload == self.payload else { return }
        switch state {
        case .idle: break
        case .encoded(let time), .sent(let time): state = .idle(next: max(time + interval, now))
        }
    }

    private var payload: [UInt8] {
        withUnsafeBytes(of: count.bigEndian) { Array($0) }
    }
}
