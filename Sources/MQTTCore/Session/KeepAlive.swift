/// Keep Alive (section 3.1.2.10) as deadlines, without a clock.
struct KeepAlive: Sendable {
    /// nil when keep-alive is off.
    let interval: Duration?
    let responseTimeout: Duration
    private(set) var lastSent: Instant
    private(set) var lastReceived: Instant
    private var lastProgress: Instant
    private var ping = Ping.none
    private var hasUnflushedBytes = false
    /// How long the answer to a PINGREQ out of turn may take.
    private var probeTimeout: Duration?
    /// How long nothing had passed when we first spoke since the last sign of life.
    private var idleBeforeSpeaking = Duration.zero

    private enum Ping {
        case none
        /// Encoded, and still in our buffer.
        case encoded(at: Instant)
        /// Left our buffer.
        case sent(at: Instant)
    }

    enum Due {
        case nothing
        case sendPing
        case peerIsDead
    }

    /// - Parameters:
    ///   - seconds: 0 switches it off.
    ///   - limit: what else the interval mustn't exceed; nil for nothing. A client may send PINGREQ at any time
    ///     (section 3.1.2.10).
    init(seconds: UInt16, limit: Duration? = nil, responseTimeout: Duration, now: Instant) {
        let agreed = Duration.seconds(Int(seconds))
        interval = seconds == 0 ? nil : limit.map { min($0, agreed) } ?? agreed
        self.responseTimeout = responseTimeout
        lastSent = now
        lastReceived = now
        lastProgress = now
    }

    var nextDeadline: Instant? {
        guard let interval else { return answerDue(.zero) }
        guard let answerDue = answerDue(interval) else { return pingDue(interval) }
        guard let pingDue = pingDue(interval) else { return answerDue }
        return min(pingDue, answerDue)
    }

    /// How long the connection has been idle, or had been when we spoke and it turned out dead.
    func idleTime(now: Instant) -> (IdleLimit.End, Duration) {
        let isAwaited =
            switch ping {
            case .none: false
            case .encoded, .sent: true
            }
        // What has no answer by then, such as a message of QoS 0, wasn't to have one.
        if isAwaited || lastSent > lastReceived && lastSent.duration(to: now) < IdleLimit.shortest {
            return (.whenWeSpoke, idleBeforeSpeaking)
        }
        return (.whileIdle, max(lastSent, lastReceived).duration(to: now))
    }

    mutating func encodedBytes() { hasUnflushedBytes = true }

    mutating func received(now: Instant) { lastReceived = now }

    mutating func progressed(now: Instant) { lastProgress = now }

    mutating func flushed(now: Instant) {
        lastProgress = now
        guard hasUnflushedBytes else { return }
        hasUnflushedBytes = false
        if lastSent <= lastReceived { idleBeforeSpeaking = lastReceived.duration(to: now) }
        lastSent = now
        if case .encoded = ping { ping = .sent(at: now) }
    }

    mutating func answered() {
        ping = .none
        probeTimeout = nil
    }

    /// Asks for a sign of life out of turn, also where keep-alive is off (section 3.1.2.10 allows it at any time).
    ///
    /// - Returns: whether PINGREQ is to be sent; false while one is under way.
    mutating func probe(within timeout: Duration, now: Instant) -> Bool {
        guard case .none = ping else { return false }
        ping = .encoded(at: now)
        hasUnflushedBytes = true
        probeTimeout = timeout
        return true
    }

    mutating func deadlineReached(now: Instant) -> Due {
        guard let interval else {
            guard let answerDue = answerDue(.zero), now >= answerDue else { return .nothing }
            return .peerIsDead
        }
        if let answerDue = answerDue(interval), now >= answerDue { return .peerIsDead }
        guard let pingDue = pingDue(interval), now >= pingDue else { return .nothing }
        if case .none = ping { ping = .encoded(at: now) }
        hasUnflushedBytes = true
        return .sendPing
    }

    /// The last received counts too, so that our own traffic can't hide a dead peer. While an answer is
    /// awaited, the server's clock for us runs on: only what we send counts then [MQTT-3.1.2-20].
    private func pingDue(_ interval: Duration) -> Instant? {
        switch ping {
        case .none: min(lastSent, lastReceived) + interval
        case .encoded: nil
        case .sent: hasUnflushedBytes ? nil : lastSent + interval
        }
    }

    private var answerTimeout: Duration { probeTimeout.map { min($0, responseTimeout) } ?? responseTimeout }

    /// Anything received is life, a part of a packet too: PINGRESP may stand behind a large PUBLISH.
    ///
    /// A PINGREQ that can't even leave our buffer must not wait for ever: it gets one interval more.
    private func answerDue(_ interval: Duration) -> Instant? {
        switch ping {
        case .none: nil
        case .encoded(let time): max(time, lastReceived, lastProgress) + interval + answerTimeout
        case .sent(let time): max(time, lastReceived) + answerTimeout
        }
    }
}
