internal import MQTTTransport
internal import MQTTTraversal

/// A client that publishes to a topic of its own, and gets from there what it has published.
final class SoakClient: Sendable {
    private struct State {
        var accounts = [Account(qos: .atLeastOnce), Account(qos: .exactlyOnce)]
        var isConnected = false
        var connections = 0
        var lastConnection = ContinuousClock.now
        var sessionsLost = 0
        var kills = 0
        /// Whether an attempt is announced since the connection was lost.
        var isBetweenAttempts = false
        var isEnding = false
        var hasEnded = false
        /// Numbers of QoS 2 that came twice.
        var repeated: [Int] = []
        /// The last events, which nobody reads unless something is violated.
        var history: [String] = []
        /// Those before the first violation.
        var account: [String]?

        var hasUnheardLoss: Bool { sessionsLost < kills }
    }

    let name: String
    let clientID: String
    private let client: MQTTClient
    private let topic: String
    private let options: SoakOptions
    private let findings: Findings
    private let state = Lock(State())

    init(number: Int, profile: ConnectionProfile, options: SoakOptions, findings: Findings) {
        // Neighbours have other transports, so that the versions are spread over these.
        let version: ProtocolVersion = number / SoakTransport.allCases.count % 2 == 0 ? .v5 : .v3_1_1
        var profile = profile
        profile.deadlines = StageDeadlines(
            resolve: options.deadline, tcp: options.deadline, proxy: options.deadline, tls: options.deadline,
            webSocket: options.deadline, mqttConnect: options.deadline)
        name = "client \(number) (\(profile), \(version))"
        clientID = "soak-\(number)"
        topic = "soak/\(number)"
        self.options = options
        self.findings = findings
        client = MQTTClient(
            profile: profile,
            configuration: ClientConfiguration(
                version: .init(version), clientID: clientID, cleanStart: false,
                keepAlive: options.keepAlive, pingTimeout: options.pingTimeout,
                reconnect: .jittered(base: .milliseconds(250), maximum: options.longestDelay)))
    }

    /// Returns when it is connected and subscribed; from then on it runs by itself.
    func start() async throws {
        let events = client.events
        Task { [weak self] in
            for await event in events { self?.note(event) }
        }
        try await client.connect()
        let messages = try await client.subscribe(to: topic, qos: .exactlyOnce)
        Task { [self] in
            do {
                for try await message in messages { receive(message) }
            } catch {
                if !state.withLock({ $0.isEnding }) {
                    violated("its messages end: \(error)")
                }
            }
            state.withLock { $0.hasEnded = true }
        }
    }

    /// Publishes one message at QoS 1 or 2.
    func publish(_ qos: QoS) {
        let index = Self.index(qos)
        let number = state.withLock { $0.accounts[index].publish() }
        do {
            let receipt = try client.enqueue(SoakPayload.make(qos, number), to: topic, qos: qos)
            Task { [self] in
                do {
                    _ = try await receipt.outcome
                    state.withLock { $0.accounts[index].acknowledge(number) }
                } catch {
                    let isExcused =
                        (error as? MQTTError)?.code == .mqttSessionLost
                        && state.withLock { $0.accounts[index].abandon(number) }
                    if isExcused { return }
                    violated("QoS \(qos.rawValue) number \(number) failed: \(error)")
                }
            }
        } catch {
            violated("enqueue: \(error)")
        }
    }

    /// The broker is about to lose its sessions.
    func beginEpoch() {
        state.withLock { state in
            state.kills += 1
            for index in state.accounts.indices { state.accounts[index].beginEpoch() }
        }
    }

    var accounts: [Account] { state.withLock { $0.accounts } }
    /// Whether the CONNACK that would have told it of a lost session has never come.
    var hasUnheardLoss: Bool { state.withLock { $0.hasUnheardLoss } }
    var isConnected: Bool { state.withLock { $0.isConnected } }
    var connections: Int { state.withLock { $0.connections } }
    var lastConnection: ContinuousClock.Instant { state.withLock { $0.lastConnection } }
    /// Whether all that it has published has been acknowledged and has come.
    var isSettled: Bool {
        state.withLock { state in
            state.isConnected
                && state.accounts.allSatisfy { $0.isSettled(hasUnheardLoss: state.hasUnheardLoss) }
        }
    }
    /// Whether its messages have come to their end.
    var hasEnded: Bool { state.withLock { $0.hasEnded } }

    func end() async {
        state.withLock { $0.isEnding = true }
        await client.disconnect()
    }

    /// Numbers of QoS 2 that came twice.
    var repeated: [Int] { state.withLock { $0.repeated } }

    /// What happened to it before something was wrong; nil as long as nothing is.
    var account: [String]? { state.withLock { $0.account } }

    func violated(_ text: String) {
        let now = "\(options.begin.duration(to: .now)) \(text)"
        state.withLock { $0.account = $0.account ?? $0.history + [now] }
        findings.violated("\(name): \(text)")
    }

    private func remember(_ event: ClientEvent) {
        let text: String
        switch event {
        case .connected(let outcome):
            text = "connected, session \(outcome.sessionPresent ? "present" : "not present")"
        case .interrupted(let error): text = "interrupted: \(error.code.rawValue)"
        case .reconnecting(let attempt, let delay, let error):
            text = "attempt \(attempt) in \(delay): \(error.code.rawValue)"
        case .sessionLost: text = "session lost"
        case .idle, .connecting, .suspended: text = "\(event)"
        case .disconnected(let error): text = "disconnected: \(error?.code.rawValue ?? "as asked")"
        }
        let entry = "\(options.begin.duration(to: .now)) \(text)"
        state.withLock { state in
            if state.history.count == 60 { state.history.removeFirst() }
            state.history.append(entry)
        }
    }

    private func note(_ event: ClientEvent) {
        remember(event)
        switch event {
        case .idle, .connecting, .suspended: break
        case .connected:
            state.withLock { state in
                state.isConnected = true
                state.connections += 1
                state.lastConnection = .now
            }
        case .interrupted(let error):
            state.withLock { state in
                state.isConnected = false
                state.isBetweenAttempts = false
            }
            findings.lost(error)
        case .reconnecting(_, let delay, let error):
            // The first one repeats why the connection was lost.
            let isFailure = state.withLock { state in
                defer { state.isBetweenAttempts = true }
                return state.isBetweenAttempts
            }
            if isFailure { findings.failed(error) }
            if delay > options.longestDelay || delay < .milliseconds(250) {
                violated("\(delay) until the next attempt")
            }
        case .sessionLost:
            let isExcused = state.withLock { state in
                state.sessionsLost += 1
                for index in state.accounts.indices { state.accounts[index].loseSession() }
                return state.sessionsLost <= state.kills
            }
            if !isExcused { violated("its session is lost, and the broker had it") }
        case .disconnected(let error):
            let isEnding = state.withLock { state in
                state.isConnected = false
                return state.isEnding
            }
            if !isEnding {
                violated("gave up: \(error.map { "\($0)" } ?? "without an error")")
            }
        }
    }

    private func receive(_ message: Message) {
        guard message.topic == topic, let (qos, number) = SoakPayload.read(message.payload),
            qos == message.qos
        else {
            violated("a message that nobody published, to \(message.topic)")
            return
        }
        let complaint = state.withLock { state in
            let complaint = state.accounts[Self.index(qos)].receive(number)
            if case .repeated? = complaint { state.repeated.append(number) }
            return complaint
        }
        if case .wrong(let text)? = complaint { violated("QoS \(qos.rawValue) \(text)") }
    }

    private static func index(_ qos: QoS) -> Int { qos == .exactlyOnce ? 1 : 0 }
}
