/// Which of a host's addresses are connected to and when: Happy Eyeballs (RFC 8305, sections 4 and 5). It decides; a
/// `TCPRace` carries it out.
///
/// The families take turns. The next address starts after 250 ms, or as soon as one has failed; each has its own
/// deadline, from its own start. The first to connect wins.
package struct AddressRace: Sendable {
    package enum Action: Sendable, Hashable {
        /// Begin to connect; the last of its list.
        case start(Int)
        /// Give up what was started.
        case cancel(Int)
        /// This connection is the host's. `detail` says which address it is, and what became of those before it.
        case won(Int, detail: String)
        /// All have failed, or what stands here would fail all of them; in the order of the addresses.
        case failed([TransportError])
    }

    /// RFC 8305, section 5: the Connection Attempt Delay that is recommended there.
    package static let attemptDelay = Duration.milliseconds(250)
    /// More aren't tried: whoever answers for a name mustn't keep us busy with it for ever. The last one starts
    /// after 3.75 s at the latest.
    package static let maximumCount = 16

    /// Those that are tried, in this order.
    package let addresses: [SocketAddress]
    private let deadline: Duration
    private var state = State.idle

    private enum State {
        case idle
        /// One for each address that was started. Where more are left, the next starts at `nextStart`.
        case racing([Attempt], nextStart: ContinuousClock.Instant)
        case over
    }

    fileprivate enum Attempt {
        case connecting(until: ContinuousClock.Instant)
        case failed(TransportError)
    }

    /// - Parameters:
    ///   - addresses: in the order of preference (RFC 6724).
    ///   - deadline: for each of them.
    package init(_ addresses: [SocketAddress], deadline: Duration) {
        self.addresses = Array(Self.interleaved(addresses).prefix(Self.maximumCount))
        self.deadline = deadline
    }

    /// A host's addresses on one line, in the order of the race.
    package static func summary(of addresses: [SocketAddress]) -> String {
        let all = interleaved(addresses)
        let hosts = all.prefix(maximumCount).map(\.host).joined(separator: ", ")
        return all.count > maximumCount ? "\(hosts), and \(all.count - maximumCount) more" : hosts
    }

    /// When `deadlineReached` has something to do at the latest.
    package var nextDeadline: ContinuousClock.Instant? {
        guard case .racing(let attempts, let nextStart) = state else { return nil }
        let ends = attempts.compactMap { if case .connecting(let until) = $0 { until } else { nil } }
        return (attempts.count < addresses.count ? ends + [nextStart] : ends).min()
    }

    package mutating func start(now: ContinuousClock.Instant) -> [Action] {
        guard case .idle = state else { return [] }
        return proceed(after: [], now: now)
    }

    package mutating func failed(
        _ index: Int, _ error: TransportError, now: ContinuousClock.Instant
    ) -> [Action] {
        guard var attempts = attempts(whileConnecting: index) else { return [] }
        attempts[index] = .failed(error)
        // What the profile asks of the socket this machine can't do, whatever the address.
        if error.code == .clientInvalidArgument { return end(attempts) + [.failed([error])] }
        return proceed(after: attempts, now: now)
    }

    package mutating func connected(_ index: Int) -> [Action] {
        guard let attempts = attempts(whileConnecting: index) else { return [] }
        let detail = detail(ofWinner: index, attempts)
        return end(attempts).filter { $0 != .cancel(index) } + [.won(index, detail: detail)]
    }

    /// May be called too early.
    package mutating func deadlineReached(now: ContinuousClock.Instant) -> [Action] {
        guard case .racing(var attempts, let nextStart) = state else { return [] }
        var actions: [Action] = []
        for (index, attempt) in attempts.enumerated() {
            guard case .connecting(let until) = attempt, now >= until else { continue }
            attempts[index] = .failed(
                TransportError(
                    stage: .tcp, code: .tcpTimeout, hop: addresses[index].description,
                    evidence: .deadline(deadline)))
            actions.append(.cancel(index))
        }
        guard !actions.isEmpty || now >= nextStart else { return [] }
        return actions + proceed(after: attempts, now: now)
    }

    // MARK: The course of it

    /// nil where that one isn't under way, or all is over.
    private func attempts(whileConnecting index: Int) -> [Attempt]? {
        guard case .racing(let attempts, _) = state, attempts.indices.contains(index),
            case .connecting = attempts[index]
        else { return nil }
        return attempts
    }

    /// Starts the next one, where there is one; ends where all have failed.
    private mutating func proceed(
        after attempts: [Attempt], now: ContinuousClock.Instant
    ) -> [Action] {
        if attempts.count < addresses.count {
            state = .racing(
                attempts + [.connecting(until: now + deadline)], nextStart: now + Self.attemptDelay)
            return [.start(attempts.count)]
        }
        let failures = attempts.compactMap(\.failure)
        if failures.count == addresses.count { return end(attempts) + [.failed(failures)] }
        // Nothing starts any more.
        state = .racing(attempts, nextStart: now + Self.attemptDelay)
        return []
    }

    /// Gives up what is still under way.
    private mutating func end(_ attempts: [Attempt]) -> [Action] {
        state = .over
        return attempts.indices.filter { attempts[$0].failure == nil }.map { .cancel($0) }
    }

    /// A preferred address that doesn't answer costs time at each connect, so it is worth a word.
    private func detail(ofWinner winner: Int, _ attempts: [Attempt]) -> String {
        let others = attempts.enumerated().compactMap { index, attempt -> String? in
            let address = addresses[index]
            switch attempt {
            case .failed(let error): return "\(address): \(error.evidence)"
            case .connecting: return index < winner ? "\(address): no answer yet" : nil
            }
        }
        let after = others.isEmpty ? "" : " (after \(others.joined(separator: "; ")))"
        return "\(addresses[winner])\(after)"
    }

    /// Without repetitions, and by family in turn, beginning with that of the first address (section 4, with a First
    /// Address Family Count of 1).
    private static func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
        var seen: Set<SocketAddress> = []
        let different = addresses.filter { seen.insert($0).inserted }
        let preferred = different.filter { $0.family == different[0].family }
        let others = different.filter { $0.family != different[0].family }
        var turns: [SocketAddress] = []
        for turn in 0..<max(preferred.count, others.count) {
            if turn < preferred.count { turns.append(preferred[turn]) }
            if turn < others.count { turns.append(others[turn]) }
        }
        return turns
    }
}

extension AddressRace.Attempt {
    fileprivate var failure: TransportError? {
        switch self {
        case .connecting: nil
        case .failed(let error): error
        }
    }
}
