internal import Glibc
internal import MQTTTransport
internal import MQTTTraversal

/// One client's way to a broker, what it does there, and its way back.
final class Journey: Sendable {
    private let options: ClientOptions
    private let client: MQTTClient
    private let watch: Watch

    init(_ options: ClientOptions) {
        let watch = Watch()
        self.options = options
        self.watch = watch
        let configuration = ClientConfiguration(
            clientID: "traversal-\(getpid())", keepAlive: options.keepAlive, pingTimeout: options.pingTimeout,
            reconnect: .jittered(base: .milliseconds(100), maximum: .milliseconds(400)),
            log: { _, event in
                if case .stage(let stage, of: _) = event, stage.stage == .tcp, case .passed = stage.outcome {
                    // What follows is of addresses that were tried before.
                    watch.address = stage.detail.map { String($0.prefix { $0 != " " }) }
                }
            })
        client = MQTTClient(profile: options.profile, configuration: configuration)
    }

    func run() async -> TraversalReport {
        var report = TraversalReport()
        let events = client.events
        let listening = Task { [watch] in
            for await case .interrupted(let error) in events { watch.add(interruption: error.code.rawValue) }
        }
        let start = ContinuousClock.now
        do {
            let outcome: ConnectOutcome
            do {
                outcome = try await client.connect()
                report.milliseconds = (ContinuousClock.now - start).inMilliseconds
            } catch {
                report.milliseconds = (ContinuousClock.now - start).inMilliseconds
                throw error
            }
            report.route = Self.route(outcome.profile)
            report.routes = outcome.routes.map(\.description)
            let topic = "traversal/\(getpid())/\(UInt32.random(in: .min ... .max))"
            let messages = try await client.subscribe(to: topic, qos: .exactlyOnce)
            try await roundTrip(messages, topic)
            if let idle = options.idle {
                try await Task.sleep(for: idle)
                await connected()
                try await roundTrip(messages, topic)
            }
            await client.disconnect()
        } catch {
            let error = error as? MQTTError
            report.verdict = error?.code.rawValue ?? "client.failed"
            report.stage = error?.stage.rawValue
            report.hop = error?.hop
            report.error = error?.description
            if let error { report.routes = error.routes.map(\.description) }
        }
        listening.cancel()
        report.address = watch.address
        report.interruptions = watch.interruptions
        return report
    }

    /// Returns when a connection stands; where one has just been lost, that is the next.
    private func connected() async {
        for await case .connected in client.events { return }
    }

    /// All come, each once, and in the order of those of their QoS.
    private func roundTrip(_ messages: Subscription, _ topic: String) async throws {
        let count = options.messages
        let receiving = Task {
            var received: [Int] = []
            for try await message in messages {
                received.append(Int(try message.text) ?? -1)
                if received.count == count { break }
            }
            return received
        }
        let receipts = try (0..<count).map { number in
            try client.enqueue("\(number)", to: topic, qos: QoS(rawValue: UInt8(number % 3)) ?? .atMostOnce)
        }
        for receipt in receipts { _ = try await receipt.outcome }
        let received = try await receiving.value
        let areInOrder = (0..<3).allSatisfy { qos in
            received.filter { $0 % 3 == qos } == Array(stride(from: qos, to: count, by: 3))
        }
        guard areInOrder else {
            throw MQTTError(.mqttNoEcho, stage: .established, "other messages came than were published")
        }
    }

    private static func route(_ profile: ConnectionProfile) -> String {
        // That of WebSocket is always the same.
        let protocols = profile.webSocket == nil ? profile.tls?.applicationProtocols ?? [] : []
        return "\(profile)" + (protocols.isEmpty ? "" : " ALPN \(protocols.joined(separator: ","))")
            + (profile.proxy.map { " through \($0)" } ?? "")
    }
}

/// What happens while the client is busy.
private final class Watch: Sendable {
    private let state = Lock<(address: String?, interruptions: [String])>((nil, []))

    var address: String? {
        get { state.withLock { $0.address } }
        set { state.withLock { $0.address = newValue } }
    }

    var interruptions: [String] { state.withLock { $0.interruptions } }

    func add(interruption code: String) { state.withLock { $0.interruptions.append(code) } }
}

extension Duration {
    fileprivate var inMilliseconds: Double {
        Double(components.seconds) * 1000 + Double(components.attoseconds) / 1e15
    }
}
