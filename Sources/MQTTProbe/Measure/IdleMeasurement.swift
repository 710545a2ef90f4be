internal import MQTTTransport
internal import MQTTTraversal

/// Lets connections fall silent, and speaks to each after a time of its own.
struct IdleMeasurement {
    let way: MeasuredWay
    /// Connections at once; one where they would take each other over.
    private let width: Int
    /// Until a PINGREQ without an answer is taken for the end.
    private let patience: Duration

    init(_ way: MeasuredWay) {
        self.way = way
        width = way.clientID == nil ? 12 : 1
        // A second for the answer's way to here.
        patience = min(way.timeout, .seconds(5)) + .seconds(1)
    }

    private enum End: Sendable {
        case answered(after: Duration)
        case ended(after: Duration, isSeen: Bool, Measurements.Failure)
        /// It says nothing of silence: it couldn't be begun, or the probe was interrupted.
        case nothing
    }

    func run(within limit: Duration, _ progress: @Sendable (String) -> Void) async -> Measurements.Idle? {
        let start = ContinuousClock.now
        // One that is never silent: what ends it isn't silence. A client identifier of its own is what it needs.
        let control = width > 1 ? MeasuredConnection(way, keepAlive: .seconds(1)) : nil
        let isControlled = (try? await control?.connect()) != nil
        var search = IdleSearch(width: width, patience: patience)
        var failure: Measurements.Failure?
        var imposed: Duration?
        while !Task.isCancelled {
            var left = limit - start.duration(to: .now)
            if let imposed { left = min(left, imposed + patience) }
            let silences = search.round(within: left)
            if silences.isEmpty { break }
            progress("silent connections, \(silences.count) at once, for up to \(silences.last ?? .zero)")
            let ends = await run(silences) { imposed = $0 }
            if ends.allSatisfy({ if case .nothing = $0 { true } else { false } }) { break }
            for end in ends {
                switch end {
                case .answered(let silence): search.answered(after: silence)
                case .ended(let silence, let isSeen, let seen):
                    if search.died.map({ silence < $0 }) ?? true { failure = seen }
                    search.ended(after: silence, isSeen: isSeen)
                case .nothing: break
                }
            }
        }
        let controlEnd = await control?.end(within: .milliseconds(1))
        await control?.close()
        if search.survived == .zero, search.died == nil { return nil }
        return Measurements.Idle(
            survivedSeconds: search.survived.milliseconds / 1000,
            diedSeconds: search.died.map { $0.milliseconds / 1000 }, failure: failure,
            isControlAlive: control == nil ? nil : isControlled && controlEnd == nil,
            serverKeepAliveSeconds: imposed.map { $0.milliseconds / 1000 })
    }

    /// One end for each silence.
    private func run(
        _ silences: [Duration], imposed: (Duration) -> Void
    ) async -> [End] {
        await withTaskGroup(of: (End, Duration?).self) { group in
            for silence in silences { group.addTask { await self.run(silence) } }
            var ends: [End] = []
            for await (end, keepAlive) in group {
                if let keepAlive { imposed(keepAlive) }
                ends.append(end)
                // It was seen when it came: the longer silences would show the same.
                if case .ended(_, isSeen: true, _) = end { group.cancelAll() }
            }
            return ends
        }
    }

    private func run(_ silence: Duration) async -> (End, imposed: Duration?) {
        let connection = MeasuredConnection(way, keepAlive: .zero)
        defer { connection.abandon() }
        guard let outcome = try? await connection.connect() else { return (.nothing, nil) }
        let imposed = outcome.limits.keepAlive.flatMap { $0 > .zero ? $0 : nil }
        if let imposed, imposed <= silence { return (.nothing, imposed) }
        let start = ContinuousClock.now
        if let error = await connection.end(within: silence) {
            return (.ended(after: start.duration(to: .now), isSeen: true, Self.failure(error)), imposed)
        }
        if Task.isCancelled { return (.nothing, imposed) }
        let spoken = start.duration(to: .now)
        // PINGREQ now; without an answer the client ends the connection.
        connection.client.networkChanged()
        if let error = await connection.end(within: patience) {
            return (.ended(after: spoken, isSeen: false, Self.failure(error)), imposed)
        }
        return (Task.isCancelled ? .nothing : .answered(after: spoken), imposed)
    }

    /// What ended the connection, as the end of a silence; a server's own words stay what they are.
    private static func failure(_ error: MQTTError) -> Measurements.Failure {
        let code: FailureCode =
            switch error.code {
            case .tcpClosed, .tlsEOF: .idleKilledFIN
            case .tcpReset: .idleKilledRST
            default: error.code
            }
        return Measurements.Failure(code: code, evidence: error.evidence.description)
    }
}
