internal import Glibc
internal import MQTTCore
package import MQTTTransport
package import MQTTTraversal

/// Carries a plan out through the client's own stages: nothing is tried here that a program would do differently.
package struct ProbeRunner: Sendable {
    private let plan: ProbePlan
    private let resolver: Resolver

    /// - Parameter resolver: looks up all names.
    package init(_ plan: ProbePlan, resolver: Resolver = .system) {
        self.plan = plan
        self.resolver = resolver
    }

    /// Tries all ways, in parallel unless the plan says otherwise, each up to CONNACK and a clean DISCONNECT.
    ///
    /// Takes at most the sum of an attempt's stage deadlines, and 2 s for the goodbye; the sum of all attempts'
    /// where they follow one another. Cancelling the task ends it at once with what is known.
    package func run() async -> ProbeReport {
        let startedAt = Self.timestamp()
        var attempts: [Int: ProbeReport.Attempt] = [:]
        if plan.isSequential {
            for (index, attempt) in plan.attempts.enumerated() { attempts[index] = await run(attempt) }
        } else {
            await withTaskGroup(of: (Int, ProbeReport.Attempt).self) { group in
                for (index, attempt) in plan.attempts.enumerated() {
                    group.addTask { (index, await run(attempt)) }
                }
                for await (index, attempt) in group { attempts[index] = attempt }
            }
        }
        return ProbeReport(
            host: plan.host, mqtt: plan.version == .v5 ? "5.0" : "3.1.1", startedAt: startedAt,
            timeoutMilliseconds: plan.timeout.milliseconds,
            attempts: plan.attempts.indices.compactMap { attempts[$0] })
    }

    /// Measures the recommended way; the report stays as it is where there is none.
    ///
    /// - Parameter progress: hears what is being measured, in a few words.
    package func measure(
        _ options: MeasurementOptions, after report: ProbeReport,
        progress: @Sendable (String) -> Void = { _ in }
    ) async -> ProbeReport {
        guard !options.isEmpty, let best = report.diagnosis.recommendation,
            let attempt = plan.attempts.first(where: { $0.profile.description == best.url })
        else { return report }
        let way = MeasuredWay(
            attempt: best.route.rawValue, profile: attempt.profile, version: plan.version,
            clientID: plan.isSequential ? attempt.clientID : nil, timeout: plan.timeout, resolver: resolver)
        var report = report
        report.measurements = await MeasurementRunner(way).run(options, progress: progress)
        return report
    }

    /// What is wrong with the CA file, if anything: no way can be tried with a bad one.
    package func trustProblem() -> MQTTError? {
        for tls in plan.attempts.compactMap(\.profile.tls) {
            do throws(TransportError) {
                _ = try TLSContext(client: tls)
            } catch {
                // Without a trust store the plaintext way can still be tried.
                if error.code == .tlsBadCredentials { return MQTTError(error) }
            }
        }
        return nil
    }

    private func run(_ attempt: ProbeAttempt) async -> ProbeReport.Attempt {
        if attempt.skipReason != nil { return StageRecord().attempt(attempt, .skipped) }
        let record = Lock(StageRecord())
        // Nothing of a probe is to stay behind on the broker: no will, no session.
        var configuration = ClientConfiguration(
            version: .init(plan.version), clientID: attempt.clientID, cleanStart: true, sessionExpiry: .zero,
            reconnect: .never,
            log: { _, event in
                switch event {
                case .stage(let observation, _): record.withLock { $0.observations.append(observation) }
                case .credentialsInPlaintext, .triesVersion, .triesServer, .routeMemoryProblem,
                    .sessionStoreDamaged, .storedMessageDiscarded,
                    .proxyEnvironmentProblem,
                    .idleLimitLearned, .networkChanged,
                    .unmatchedMessage, .lateResponse, .replyFailed:
                    break
                }
            })
        configuration.resolver = resolver
        let client = MQTTClient(profile: attempt.profile, configuration: configuration)
        let limit = plan.timeout * Route(attempt.profile).stages.count
        let end = await Self.connect(client, within: limit)
        await client.disconnect()
        return record.withLock { $0 }.attempt(attempt, end)
    }

    /// How an attempt ended.
    package enum End: Sendable {
        case connected
        case failed(MQTTError)
        /// A name with many addresses: each has its deadline, and together they took too long.
        case overdue(Duration)
        case skipped
        case cancelled
    }

    private static func connect(_ client: MQTTClient, within limit: Duration) async -> End {
        if Task.isCancelled { return .cancelled }
        return await withTaskGroup(of: End.self) { group in
            group.addTask {
                do {
                    try await client.connect()
                    return .connected
                } catch let error as MQTTError {
                    return .failed(error)
                } catch {
                    return .cancelled
                }
            }
            group.addTask {
                do { try await Task.sleep(for: limit, clock: .continuous) } catch { return .cancelled }
                return .overdue(limit)
            }
            guard let first = await group.next() else { return .cancelled }
            group.cancelAll()
            guard case .overdue = first, let second = await group.next() else { return first }
            // Unless it has ended in the same moment, giving it up has cancelled it.
            if case .cancelled = second { return first }
            return second
        }
    }

    private static func timestamp() -> String {
        var now = time(nil)
        var parts = tm()
        gmtime_r(&now, &parts)
        func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(1900 + parts.tm_year)-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday))T"
            + "\(padded(parts.tm_hour)):\(padded(parts.tm_min)):\(padded(parts.tm_sec))Z"
    }
}

/// What the client said of one attempt; a report's part is a pure function of it.
package struct StageRecord: Sendable {
    package var observations: [StageObservation]

    package init(_ observations: [StageObservation] = []) { self.observations = observations }

    package func attempt(
        _ attempt: ProbeAttempt, _ end: ProbeRunner.End
    ) -> ProbeReport.Attempt {
        let stages = Route(attempt.profile).stages
        let outcome: ProbeReport.Outcome
        var failure: ProbeReport.Failure?
        /// The stage that had begun and not ended, where there is one.
        let open = stages.first { stage in !lastHop.contains { $0.stage == stage } }
        switch end {
        case .connected: outcome = .ok
        case .skipped: outcome = .skipped
        case .cancelled: outcome = .unfinished
        case .failed(let error):
            outcome = .failed
            failure = ProbeReport.Failure(error)
        case .overdue(let limit):
            outcome = .failed
            let stage = open ?? .mqttConnect
            failure = ProbeReport.Failure(
                MQTTError(
                    TransportError(
                        stage: stage, code: stage.timeoutCode, hop: attempt.profile.host,
                        evidence: .deadline(limit))))
        }
        let redirects = observations.compactMap(\.redirectTarget)
        let started = observations.first?.started
        let ended = observations.last?.ended
        return ProbeReport.Attempt(
            route: attempt.route, url: attempt.profile.description, port: attempt.profile.port,
            proxy: attempt.profile.proxy?.description, isEncrypted: attempt.profile.isEncrypted,
            outcome: outcome, skipReason: attempt.skipReason,
            milliseconds: started.flatMap { started in ended.map { started.duration(to: $0).milliseconds } },
            redirects: redirects.isEmpty ? nil : redirects,
            stages: stages.map { stage(_: $0, failure?.stage, isOpen: $0 == open, outcome) },
            failure: failure)
    }

    /// What came after the last redirect; all where there was none.
    private var lastHop: ArraySlice<StageObservation> {
        let last = observations.lastIndex { $0.redirectTarget != nil }
        return last.map { observations[($0 + 1)...] } ?? observations[...]
    }

    private func stage(
        _ stage: ConnectionStage, _ failed: ConnectionStage?, isOpen: Bool, _ outcome: ProbeReport.Outcome
    ) -> ProbeReport.Stage {
        let seen = lastHop.last { $0.stage == stage }
        let milliseconds = seen?.duration.milliseconds
        if stage == failed {
            return ProbeReport.Stage(stage, .failed, milliseconds: milliseconds, detail: seen?.detail)
        }
        switch seen?.outcome {
        case .passed?:
            return ProbeReport.Stage(stage, .passed, milliseconds: milliseconds, detail: seen?.detail)
        case .failed?:
            // A late answer to an earlier stage, such as a TLS alert about our certificate, which under TLS 1.3
            // comes after the handshake: the failure is that stage's, and this one had no chance.
            return ProbeReport.Stage(stage, .notRun)
        case .redirected?, nil:
            return ProbeReport.Stage(stage, isOpen && outcome == .unfinished ? .unfinished : .notRun)
        }
    }
}

extension StageObservation {
    /// The URL that a redirect led to.
    fileprivate var redirectTarget: String? {
        guard case .redirected(let url) = outcome else { return nil }
        return url
    }
}

extension Duration {
    /// To a tenth.
    var milliseconds: Double {
        let (seconds, attoseconds) = components
        return (Double(seconds) * 10_000 + Double(attoseconds) / 1e14).rounded() / 10
    }
}
