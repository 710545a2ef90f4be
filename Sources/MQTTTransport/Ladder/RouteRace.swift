/// Decides when which of several ways is tried, and on which CONNECT is sent.
///
/// Every input answers with what to do now, in order. Inputs about a way that is out of the race (a late report of one
/// given up) are passed over. The first input is `start`.
package struct RouteRace: Sendable {
    package enum Action: Sendable, Hashable {
        case start(Int)
        /// Send CONNECT on this way's open stream.
        case connect(Int)
        /// No way is left, or no time: the attempt has failed.
        case end
    }

    package enum Standing: Sendable, Hashable {
        case notTried
        /// On its way to an open stream.
        case running
        /// Open, while CONNECT is on its way elsewhere.
        case open
        /// CONNECT has been sent, and CONNACK hasn't come.
        case connecting
        case failed
        /// CONNACK has accepted.
        case connected
    }

    package private(set) var standings: [Standing]
    private let stagger: Duration
    private let end: Instant?
    /// When the next way has its turn, whatever the others do.
    private var nextStart: Instant?
    private var isOver = false

    package typealias Instant = ContinuousClock.Instant

    /// - Parameters:
    ///   - count: at least 1, best first.
    ///   - end: when the attempt has failed in any case; CONNACK may then still be waited for where CONNECT has been
    ///     sent.
    package init(count: Int, stagger: Duration, end: Instant?) {
        standings = Array(repeating: .notTried, count: count)
        self.stagger = stagger
        self.end = end
    }

    package mutating func start(now: Instant) -> [Action] { startNext(now) }

    package var nextDeadline: Instant? {
        if isOver { return nil }
        guard let end else { return nextStart }
        // CONNACK has a deadline of its own.
        guard isConnecting else { return nextStart.map { min($0, end) } ?? end }
        return nextStart.flatMap { $0 < end ? $0 : nil }
    }

    package mutating func deadlineReached(now: Instant) -> [Action] {
        if isOver { return [] }
        if isOverdue(now) {
            // CONNECT outlives this, and nothing starts any more.
            nextStart = nil
            return isConnecting ? [] : finish()
        }
        guard let nextStart, now >= nextStart else { return [] }
        return startNext(now)
    }

    /// A way's stream is open.
    package mutating func opened(_ index: Int) -> [Action] {
        guard !isOver, standings[index] == .running else { return [] }
        if isConnecting {
            standings[index] = .open
            return []
        }
        standings[index] = .connecting
        return [.connect(index)]
    }

    /// A way has failed, before or after its stream was open, with CONNECT or without.
    package mutating func failed(_ index: Int, now: Instant) -> [Action] {
        guard !isOver else { return [] }
        let standing = standings[index]
        switch standing {
        case .running, .open, .connecting: standings[index] = .failed
        case .notTried, .failed, .connected: return []
        }
        if standing == .connecting {
            if isOverdue(now) { return finish() }
            if let next = standings.firstIndex(of: .open) {
                standings[next] = .connecting
                return [.connect(next)]
            }
        }
        if standing == .open { return [] }
        // One that gets in the way of nobody: the next needn't wait.
        let next = startNext(now)
        let isStillRacing = standings.contains { $0 == .running || $0 == .open || $0 == .connecting }
        return next.isEmpty && !isStillRacing ? finish() : next
    }

    /// CONNACK has accepted the connection on this way.
    package mutating func connected(_ index: Int) {
        standings[index] = .connected
        isOver = true
    }

    private var isConnecting: Bool { standings.contains(.connecting) }

    private func isOverdue(_ now: Instant) -> Bool { end.map { now >= $0 } ?? false }

    private mutating func startNext(_ now: Instant) -> [Action] {
        guard let index = standings.firstIndex(of: .notTried) else { return [] }
        standings[index] = .running
        nextStart = index + 1 < standings.count ? now + stagger : nil
        return [.start(index)]
    }

    private mutating func finish() -> [Action] {
        isOver = true
        return [.end]
    }
}
