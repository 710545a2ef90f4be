import MQTTExampleSupport
import MQTTLoopback
import MQTTTraversal

/// Two sensors, a fan and a dashboard find their way through a network that blocks 1883 and 8883.
///
/// A step counts only when the message that proves it has arrived.
@MainActor
final class Demo {
    private let broker: LoopbackBroker
    private let version: ProtocolVersion
    private let prefix: String
    private let dashboard: DashboardModel
    private var temperatures: Subscription?
    private var statuses: Subscription?
    private var commander: MQTTClient?
    private var fan = FanSwitch()
    /// The first client finds the way, the others know it.
    private let memory = RouteMemory()
    /// For as long as the demo runs.
    private var clients: [MQTTClient] = []

    init(_ broker: LoopbackBroker, version: ProtocolVersion) {
        self.broker = broker
        self.version = version
        prefix = ExampleOptions.randomPrefix()
        dashboard = DashboardModel(prefix: prefix)
    }

    /// - Throws: `StepFailed`.
    func run(until signals: AsyncStream<Int32>) async throws {
        let began = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.play() }
            group.addTask {
                for await _ in signals {
                    throw StepFailed(step: "the demo", reason: "interrupted by a signal")
                }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
        for client in clients { await client.disconnect() }
        say("\nAll of it happened, in \(decimal((.now - began) / .seconds(1))) s.")
    }

    private func play() async throws {
        say("A broker of this process, in a network that blocks two of its three ports:\n")
        try await step("1883 is refused") { try await self.expect(.tcpRefused, at: .tcp, playing: 1883) }
        try await step("8883 is silent") { try await self.expect(.tcpTimeout, at: .tls, playing: 8883) }
        try await step("the dashboard finds 8084") { try await self.openDashboard() }
        try await step("two sensors' readings arrive") { try await self.showReadings() }
        try await step("the fan receives ON") { try await self.switchFan() }
        try await step("a sensor drops and its offline arrives") { try await self.dropSensor() }
    }

    // MARK: The steps

    private func expect(_ code: FailureCode, at kind: LoopbackBroker.Kind, playing port: Int) async throws {
        do {
            try await makeClient("probe", broker.profile(kind)).connect()
        } catch let error as MQTTError where error.code == code {
            return say("\(port) → \(error)\n")
        }
        throw DemoError("a blocked port let us in")
    }

    private func openDashboard() async throws {
        let client = try makeClient("dashboard", automaticProfile())
        let outcome = try await client.connect()
        guard outcome.profile.port == broker.ports[.webSocketSecure] else {
            throw DemoError("the dashboard is connected by \(outcome.profile)")
        }
        dashboard.receive(.connected(outcome), now: .now)
        temperatures = try await client.subscribe(to: "\(prefix)/sensors/+/temperature", qos: .atLeastOnce)
        statuses = try await client.subscribe(to: "\(prefix)/sensors/+/status", qos: .atLeastOnce)
        commander = client
        say(
            "8084 → connected to \(outcome.profile) by an automatic profile, certificate verified, MQTT \(version == .v5 ? "5.0" : "3.1.1")"
        )
        for route in outcome.routes { say("    \(route)") }
        say("")
    }

    private func showReadings() async throws {
        try await startSensor("kitchen", reading: "22.8")
        try await startSensor("office", reading: "21.4")
        try await watch(temperatures) {
            $0.sensors.count == 2 && $0.sensors.allSatisfy { $0.temperature != nil }
        }
        try await watch(statuses) { $0.sensors.allSatisfy { $0.isOnline == true } }
        guard dashboard.sensors.map(\.name) == ["kitchen", "office"],
            dashboard.sensors.map(\.temperature) == [22.8, 21.4]
        else { throw DemoError("other readings arrived: \(dashboard.sensors)") }
        show("Two sensors report to the dashboard:")
    }

    private func switchFan() async throws {
        let client = try makeClient("fan", automaticProfile())
        try await client.connect()
        let orders = try await client.subscribe(to: "\(prefix)/fan/set", qos: .atLeastOnce)
        guard let payload = dashboard.toggleFan(), let commander else { throw DemoError("no connection") }
        try await commander.publish(payload, to: "\(prefix)/fan/set", qos: .atLeastOnce)
        dashboard.fanCommandAccepted(nobodyListens: false)
        for try await order in orders {
            say("The dashboard sends \(payload), and the fan's side says: \(fan.apply(order.payload))\n")
            break
        }
        guard fan.isOn else { throw DemoError("the fan is still off") }
    }

    private func dropSensor() async throws {
        guard await broker.dropConnections(clientID: "office", by: .reset) else {
            throw DemoError("the sensor wasn't connected")
        }
        try await watch(statuses) { $0.sensors.contains { $0.name == "office" && $0.isOnline == false } }
        show("The office sensor loses its network; the broker publishes its will:")
    }

    // MARK: What the steps need

    private func startSensor(_ name: String, reading: String) async throws {
        let topic = "\(prefix)/sensors/\(name)"
        let presence = Presence(topic: "\(topic)/status")
        let client = try makeClient(name, automaticProfile(), will: presence.will)
        try await client.connect()
        try await client.publish("online", to: presence.topic, qos: .atLeastOnce, retain: true)
        try await client.publish(reading, to: "\(topic)/temperature", qos: .atLeastOnce)
    }

    /// TLS first, then secure WebSocket, as in any network that isn't known beforehand.
    private func automaticProfile() throws -> ConnectionProfile {
        guard let tls = broker.ports[.tls], let webSocketSecure = broker.ports[.webSocketSecure] else {
            throw DemoError("the broker lacks a port")
        }
        var options = TLSOptions()
        // The authority that the broker has made for itself, and nobody else.
        options.trust = .file(broker.authorityFile)
        return try .automatic(
            host: "127.0.0.1", rungs: [.tls(port: tls), .webSocketSecure(port: webSocketSecure)],
            options: options)
    }

    private func makeClient(
        _ clientID: String, _ profile: ConnectionProfile, will: WillMessage? = nil
    ) throws -> MQTTClient {
        var profile = profile
        // Long enough for this machine, short enough for a demo.
        profile.deadlines.tcp = .seconds(1)
        let client = MQTTClient(
            profile: profile,
            // What drops stays away, so that there is something to see.
            configuration: ClientConfiguration(
                version: .init(version), clientID: clientID, will: will, reconnect: .never,
                routeMemory: memory))
        clients.append(client)
        return client
    }

    /// Feeds the dashboard until it shows what is expected.
    private func watch(
        _ subscription: Subscription?, until condition: (DashboardModel) -> Bool
    ) async throws {
        guard let subscription else { throw DemoError("there is no subscription") }
        for try await message in subscription {
            dashboard.receive(message)
            if condition(dashboard) { return }
        }
        throw DemoError("the messages ended")
    }

    private func show(_ title: String) {
        say(title)
        for line in DashboardScreen(isStyled: false, showsKeys: false).lines(dashboard, now: .now) {
            say(line.isEmpty ? "" : "    " + line)
        }
        say("")
    }

    private func step(_ name: String, _ body: @escaping @MainActor @Sendable () async throws -> Void)
        async throws
    {
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await body() }
                group.addTask {
                    try await Task.sleep(for: .seconds(3))
                    throw DemoError("not within 3 s")
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        } catch {
            throw StepFailed(step: name, reason: "\(error)")
        }
    }
}

struct StepFailed: Error, CustomStringConvertible {
    let step: String
    let reason: String

    var description: String { "FAILED: \(step): \(reason)" }
}

struct DemoError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
