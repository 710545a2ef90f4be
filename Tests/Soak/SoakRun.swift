internal import MQTTLoopback
internal import MQTTTransport
internal import MQTTTraversal

/// One run: warm-up, faults, and the time after them in which everything has to come right.
final class SoakRun: Sendable {
    private struct Progress {
        var terminations = 0
        var kills = 0
        /// QoS 2 messages that the broker sent again against the rules.
        var repeatedByBroker = 0
        var warm = Resources.now
    }

    private let options: SoakOptions
    private let findings = Findings()
    private let broker: SoakBroker
    private let relay: FaultRelay
    private let clients: [SoakClient]
    private let progress = Lock(Progress())

    init(_ options: SoakOptions) async throws {
        self.options = options
        let broker = try await SoakBroker()
        let transports = (0..<options.clients).map {
            SoakTransport.allCases[$0 % SoakTransport.allCases.count]
        }
        let relay = try FaultRelay(to: transports.map(broker.port), seed: options.seed)
        self.broker = broker
        self.relay = relay
        clients = try transports.enumerated().map { [findings] number, transport in
            SoakClient(
                number: number,
                profile: try transport.profile(
                    port: relay.ports[number], trust: broker.certificates.authority),
                options: options, findings: findings)
        }
    }

    /// - Returns: whether all was as it has to be.
    func run() async throws -> Bool {
        let before = Resources.now
        try await withThrowingTaskGroup { group in
            for client in clients { group.addTask { try await client.start() } }
            try await group.waitForAll()
        }
        let start = ContinuousClock.now
        let publishing = Task { await publish(since: start) }
        let reporting = Task { await report(since: start) }
        try await Task.sleep(for: .seconds(options.warmUp))
        progress.withLock { $0.warm = Resources.now }

        relay.beginFaults()
        try await breakBroker(until: start + .seconds(options.duration))
        relay.endFaults()
        publishing.cancel()
        let healed = ContinuousClock.now
        // What waits for the last client to come back may come a little after it.
        await wait(upTo: options.backOffBound + options.connecting) { await self.isQuiet }
        let quiet = ContinuousClock.now
        reporting.cancel()
        checkAccounts(since: healed)
        checkRepetitions()
        let after = Resources.now
        checkGrowth(to: after)
        await checkEnd(against: before)
        await printTable(after, settled: quiet - healed)
        try await broker.remove()
        return findings.violations.isEmpty
    }

    /// A message of each client in each second, of QoS 1 and 2 in turn; the clients are spread over the second.
    private func publish(since start: ContinuousClock.Instant) async {
        let parts = 10
        for turn in 0... {
            let part = turn % parts
            for index in stride(from: part, to: clients.count, by: parts) {
                clients[index].publish((turn / parts + index) % 2 == 0 ? .atLeastOnce : .exactlyOnce)
            }
            do { try await Task.sleep(until: start + .milliseconds(100 * (turn + 1))) } catch { return }
        }
    }

    /// Ends the broker every 10 to 20 seconds, this way and that, and starts it again.
    private func breakBroker(until end: ContinuousClock.Instant) async throws {
        var random = SplitMix64(seed: options.seed)
        for turn in 0... {
            let next = ContinuousClock.now + .milliseconds(Int.random(in: 10_000...20_000, using: &random))
            // The last start leaves time for faults.
            guard next < end - .seconds(5) else { break }
            try await Task.sleep(until: next)
            let ending: SoakBroker.Ending = turn % 2 == 0 ? .terminated : .killed
            switch ending {
            case .terminated: progress.withLock { $0.terminations += 1 }
            case .killed:
                progress.withLock { $0.kills += 1 }
                for client in clients { client.beginEpoch() }
            }
            try await broker.end(ending)
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...3000, using: &random)))
            try await broker.start()
        }
        try await Task.sleep(until: end)
    }

    private var isQuiet: Bool {
        get async {
            let open = await relay.counts.open
            return open == clients.count && clients.allSatisfy(\.isSettled)
        }
    }

    private func checkAccounts(since healed: ContinuousClock.Instant) {
        for client in clients {
            if !client.isConnected { client.violated("isn't connected again") }
            let late = client.lastConnection - healed
            if late > options.backOffBound {
                client.violated("was back only after \(late)")
            }
            for account in client.accounts {
                for text in account.complaints(hasUnheardLoss: client.hasUnheardLoss) {
                    client.violated("QoS \(account.qos.rawValue) \(text)")
                }
            }
        }
    }

    private func checkRepetitions() {
        for client in clients {
            for number in client.repeated {
                if broker.hasSentAgainAfterRelease(to: client.clientID, bytes: SoakPayload.size(number)) {
                    progress.withLock { $0.repeatedByBroker += 1 }
                } else {
                    client.violated("QoS 2 number \(number) came twice")
                }
            }
        }
    }

    private func checkGrowth(to after: Resources) {
        let warm = progress.withLock { $0.warm }
        if after.descriptors > warm.descriptors + Bounds.descriptors {
            findings.violated("descriptors grew from \(warm.descriptors) to \(after.descriptors)")
        }
        if after.threads > warm.threads + Bounds.threads {
            findings.violated("threads grew from \(warm.threads) to \(after.threads)")
        }
        if after.memory > warm.memory + Bounds.memory {
            findings.violated("memory grew from \(warm.memory) KiB to \(after.memory) KiB")
        }
    }

    private func checkEnd(against before: Resources) async {
        await withTaskGroup { group in
            for client in clients { group.addTask { await client.end() } }
        }
        await wait(upTo: .seconds(10)) {
            let open = await self.relay.counts.open
            return open == 0 && self.clients.allSatisfy(\.hasEnded)
        }
        for client in clients where !client.hasEnded {
            client.violated("its messages never end")
        }
        // The streams' last words, such as the WebSocket's Close, take their time.
        await wait(upTo: .seconds(10)) {
            Resources.now.descriptors <= before.descriptors + Bounds.descriptors
        }
        let left = Resources.now.descriptors
        if left > before.descriptors + Bounds.descriptors {
            findings.violated(
                "\(left) descriptors are open after the end, \(before.descriptors) before the beginning")
        }
    }

    private func wait(upTo limit: Duration, _ condition: () async -> Bool) async {
        let deadline = ContinuousClock.now + limit
        while ContinuousClock.now < deadline, !(await condition()) {
            try? await Task.sleep(for: .milliseconds(100))
        }
    }
}

/// How much more there may be at the end than after the warm-up. README.md has the measurements.
private enum Bounds {
    /// Event loops, and what the resolver or the certificates have open for a moment.
    static let descriptors = 8
    /// The pools of Swift and Dispatch grow while a thread blocks.
    static let threads = 16
    /// In KiB: buffers and tables that have been larger under faults, and the allocator's gaps.
    static let memory = 32 * 1024
}

extension SoakRun {
    private var accounts: [Account] { clients.flatMap(\.accounts) }

    /// A line every 10 seconds.
    private func report(since start: ContinuousClock.Instant) async {
        for turn in 1... {
            do { try await Task.sleep(until: start + .seconds(10 * turn)) } catch { return }
            let accounts = accounts
            let resources = Resources.now
            let connected = clients.count { $0.isConnected }
            let connections = clients.reduce(0) { $0 + $1.connections }
            let restarts = progress.withLock { $0.terminations + $0.kills }
            say(
                "\(10 * turn) s: \(connected) connected, \(connections) connections, \(restarts) restarts,"
                    + " \(accounts.reduce(0) { $0 + $1.published }) published,"
                    + " \(accounts.reduce(0) { $0 + $1.pending }) pending,"
                    + " \(accounts.reduce(0) { $0 + $1.received }) received,"
                    + " \(resources.descriptors) descriptors, \(resources.threads) threads, \(resources.memory) KiB,"
                    + " \(findings.violations.count) violations")
        }
    }

    private func printTable(_ after: Resources, settled: Duration) async {
        let counts = await relay.counts
        let (terminations, kills, warm) = progress.withLock { ($0.terminations, $0.kills, $0.warm) }
        for qos in [QoS.atLeastOnce, .exactlyOnce] {
            let accounts = accounts.filter { $0.qos == qos }
            func sum(_ value: (Account) -> Int) -> Int { accounts.reduce(0) { $0 + value($1) } }
            row(
                "messages of QoS \(qos.rawValue)",
                "\(sum(\.published)) published, \(sum(\.acknowledged)) acknowledged, \(sum(\.received)) received,"
                    + " \(sum(\.repeated)) repetitions, \(sum(\.lostWithBroker)) lost and"
                    + " \(sum(\.abandoned)) abandoned with the broker")
        }
        row("connections", "\(clients.reduce(0) { $0 + $1.connections })")
        row("connections lost", Self.list(findings.losses))
        row("attempts failed", Self.list(findings.failures))
        row(
            "faults",
            "\(counts.dropped) dropped, \(counts.reset) reset, \(counts.stalled) stalled,"
                + " \(counts.blackholed) black holes; \(counts.sliced) connections in slices, \(counts.delayed) delayed"
        )
        row(
            "broker",
            "\(terminations) restarts with its sessions, \(kills) without; "
                + "\(progress.withLock { $0.repeatedByBroker }) of QoS 2 sent again after PUBREL")
        row("all settled", "\(settled) after the last fault; allowed: \(options.backOffBound)")
        row("descriptors", "\(warm.descriptors) warm, \(after.descriptors) at the end")
        row("threads", "\(warm.threads) warm, \(after.threads) at the end")
        row("memory", "\(warm.memory) KiB warm, \(after.memory) KiB at the end")
        row("seed", "\(options.seed)")
        row("violations", "\(findings.violations.count)")
        for client in clients {
            guard let account = client.account else { continue }
            say("What happened to \(client.name):")
            for line in account { say("  \(line)") }
        }
    }

    private func row(_ name: String, _ text: String) {
        say(name + String(repeating: " ", count: max(1, 20 - name.count)) + text)
    }

    private static func list(_ counts: [String: Int]) -> String {
        let sorted = counts.sorted { ($0.value, $1.key) > ($1.value, $0.key) }
        return sorted.isEmpty ? "none" : sorted.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
    }
}
