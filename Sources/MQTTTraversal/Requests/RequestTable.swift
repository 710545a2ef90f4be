/// Requests that wait for their answers: by Correlation Data, with deadlines.
struct RequestTable {
    private struct Waiting {
        var correlation: [UInt8]
        var deadline: ContinuousClock.Instant
    }

    private var waiting: [OperationToken: Waiting] = [:]
    private var tokens: [[UInt8]: OperationToken] = [:]
    /// No deadline lies before it: a lower bound, so that answers, which are the rule, cost no search.
    private(set) var nextDeadline: ContinuousClock.Instant?

    func contains(_ token: OperationToken) -> Bool { waiting[token] != nil }

    mutating func insert(
        _ token: OperationToken, correlation: [UInt8], deadline: ContinuousClock.Instant
    ) {
        waiting[token] = Waiting(correlation: correlation, deadline: deadline)
        tokens[correlation] = token
        nextDeadline = min(nextDeadline ?? deadline, deadline)
    }

    /// - Returns: the request that this answers; nil for one that nobody waits for, or not any more.
    mutating func answer(_ correlation: [UInt8]) -> OperationToken? {
        guard let token = tokens[correlation] else { return nil }
        remove(token)
        return token
    }

    mutating func remove(_ token: OperationToken) {
        guard let removed = waiting.removeValue(forKey: token) else { return }
        tokens[removed.correlation] = nil
        if waiting.isEmpty { nextDeadline = nil }
    }

    /// Takes out those whose time is over.
    mutating func expire(now: ContinuousClock.Instant) -> [OperationToken] {
        guard let nextDeadline, nextDeadline <= now else { return [] }
        let expired = waiting.filter { $0.value.deadline <= now }.keys
        for token in expired { remove(token) }
        self.nextDeadline = waiting.values.lazy.map(\.deadline).min()
        return expired.sorted { $0.rawValue < $1.rawValue }
    }

    mutating func removeAll() { self = RequestTable() }
}
