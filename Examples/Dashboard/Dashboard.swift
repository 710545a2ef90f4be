import MQTTExampleSupport
import MQTTTraversal

/// Carries what the broker and the user say to the model, and the model to the display.
@MainActor
final class Dashboard {
    private let model: DashboardModel
    private let presence: Presence
    private let client: MQTTClient
    private let display = Display()
    /// Draws the seconds of an outage.
    private var clock: Task<Void, Never>?

    init(_ options: ExampleOptions, clientID: String) {
        let prefix = options.prefix ?? ExampleOptions.randomPrefix()
        model = DashboardModel(prefix: prefix)
        presence = Presence(topic: "\(prefix)/apps/\(clientID)/status")
        client = MQTTClient(
            profile: options.profile,
            configuration: ClientConfiguration(
                version: options.version, clientID: clientID,
                // A fan command that is on its way when the connection breaks ends with the session.
                sessionExpiry: .zero, will: presence.will, lostSession: .fail))
    }

    func run() async throws {
        let signals = Signals.termination()
        display.open()
        defer { display.close() }
        display.show(model)
        try await presence.hold(client, until: signals) { [self] event in
            await receive(event)
        } work: { [self] in
            try await watch()
        }
    }

    /// Until the user quits.
    private func watch() async throws {
        let sensors = "\(model.prefix)/sensors"
        let temperatures = try await client.subscribe(to: "\(sensors)/+/temperature", qos: .atLeastOnce)
        let statuses = try await client.subscribe(to: "\(sensors)/+/status", qos: .atLeastOnce)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.follow(temperatures) }
            group.addTask { try await self.follow(statuses) }
            group.addTask { await self.obeyKeys() }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private func follow(_ subscription: Subscription) async throws {
        for try await message in subscription {
            model.receive(message)
            display.show(model)
        }
    }

    /// Until `q`.
    private func obeyKeys() async {
        for await input in display.inputs {
            switch input {
            case .key("q"): return
            case .key("f"): toggleFan()
            case .key: break
            case .redraw: display.show(model)
            }
        }
    }

    private func receive(_ event: ClientEvent) {
        model.receive(event, now: .now)
        display.show(model)
        if model.outage == nil {
            clock?.cancel()
            clock = nil
        } else if clock == nil {
            clock = Task { [weak self] in
                while (try? await Task.sleep(for: .seconds(1))) != nil, let self { display.tick(model) }
            }
        }
    }

    private func toggleFan() {
        guard let payload = model.toggleFan() else { return }
        display.show(model)
        Task {
            do {
                var properties = Properties()
                // Nor shall the broker keep it for a fan that is away (5.0).
                properties.messageExpiryInterval = 5
                let outcome = try await client.publish(
                    payload, to: "\(model.prefix)/fan/set", qos: .atLeastOnce, properties: properties,
                    // It would be a surprise later.
                    whileConnected: true)
                model.fanCommandAccepted(nobodyListens: outcome.reasonCode == .noMatchingSubscribers)
            } catch {
                model.fanCommandFailed("\(error)")
            }
            display.show(model)
        }
    }
}
