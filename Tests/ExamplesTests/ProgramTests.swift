import Foundation
import MQTTLoopback
import MQTTTraversal
import Testing

/// The built programs, against the loopback broker.
@Suite(.timeLimit(.minutes(1))) struct ProgramTests {
    @Test(arguments: [[], ["--v3"]])
    func the_demo_shows_all_of_it_within_ten_seconds(_ arguments: [String]) async throws {
        let began = ContinuousClock.now
        let demo = try RunningProgram("mqtt-demo", arguments)
        let output = await demo.rest.joined(separator: "\n")
        #expect(await demo.exitCode == 0)
        #expect(ContinuousClock.now - began < .seconds(10))
        #expect(output.contains("1883 → tcp.refused"))
        #expect(output.contains("8883 → tcp.timeout"))
        #expect(output.contains("8084 → connected to wss://"))
        #expect(output.contains("kitchen    22.8 °C  online"))
        #expect(output.contains("the fan is ON"))
        #expect(output.contains("office     21.4 °C  offline"))
    }

    @Test(arguments: LoopbackBroker.Kind.allCases, [[], ["--v3"]])
    func sensor_fan_and_dashboard_work_with_only_the_url_changed(
        _ kind: LoopbackBroker.Kind, _ version: [String]
    ) async throws {
        try await withBroker { broker in
            let shared = [broker.url(kind), "--prefix", "p", "--ca", broker.authorityFile] + version
            let observer = MQTTClient(profile: try broker.profile(.tcp))
            try await observer.connect()
            let statuses = try await observer.subscribe(to: "p/+/+/status", qos: .atLeastOnce)
            let fanStatuses = try await observer.subscribe(to: "p/fan/status", qos: .atLeastOnce)

            let dashboard = try RunningProgram("mqtt-dashboard", shared + ["--client-id", "screen"])
            #expect(try await next(statuses) == "p/apps/screen/status online")
            let fan = try RunningProgram("mqtt-fan", shared)
            #expect(await fan.says("listening on p/fan/set; the fan is OFF"))
            #expect(try await next(fanStatuses) == "p/fan/status online")
            let sensor = try RunningProgram("mqtt-sensor", ["kitchen"] + shared + ["--interval", "0.1"])
            #expect(try await next(statuses) == "p/sensors/kitchen/status online")

            #expect(await dashboard.says("°C  online"))
            try await observer.publish("on", to: "p/fan/set", qos: .atLeastOnce)
            #expect(await fan.says("ignored \"on\""))
            try await observer.publish("ON", to: "p/fan/set", qos: .atLeastOnce)
            #expect(await fan.says("the fan is ON"))

            sensor.send(SIGINT)
            #expect(try await next(statuses) == "p/sensors/kitchen/status offline")
            #expect(await dashboard.says("°C  offline"))
            fan.send(SIGTERM)
            #expect(try await next(fanStatuses) == "p/fan/status offline")
            dashboard.send(SIGTERM)
            #expect(try await next(statuses) == "p/apps/screen/status offline")
            for program in [sensor, fan, dashboard] { #expect(await program.exitCode == 0) }
            await observer.disconnect()
        }
    }

    @Test func the_dashboard_shows_an_outage_and_its_end() async throws {
        try await withBroker { broker in
            let dashboard = try RunningProgram("mqtt-dashboard", [broker.url(.tcp), "--prefix", "p"])
            #expect(await dashboard.says("Connection  connected to mqtt://"))
            try await broker.block(.tcp, by: .refusing)
            await broker.dropAll()
            #expect(await dashboard.says("Connection  lost for 0 s, attempt 1 in "))
            #expect(await dashboard.says("Cause       tcp.refused at tcp (127.0.0.1:"))
            #expect(await dashboard.says("Advice      "))
            await broker.unblock(.tcp)
            #expect(await dashboard.says("Connection  connected to mqtt://"))
            dashboard.send(SIGTERM)
            #expect(await dashboard.exitCode == 0)
        }
    }

    @Test func a_sensor_that_is_killed_is_offline_by_its_will() async throws {
        try await withBroker { broker in
            try await MQTTClient.withConnection(profile: try broker.profile(.tcp)) { observer in
                let statuses = try await observer.subscribe(to: "p/sensors/+/status", qos: .atLeastOnce)
                let sensor = try RunningProgram("mqtt-sensor", ["hall", broker.url(.tcp), "--prefix", "p"])
                #expect(try await next(statuses) == "p/sensors/hall/status online")
                sensor.send(SIGKILL)
                #expect(try await next(statuses) == "p/sensors/hall/status offline")
            }
        }
    }

    @Test func after_a_lost_connection_a_sensor_says_online_again() async throws {
        try await withBroker { broker in
            try await MQTTClient.withConnection(profile: try broker.profile(.tcp)) { observer in
                let statuses = try await observer.subscribe(to: "p/sensors/+/status", qos: .atLeastOnce)
                let sensor = try RunningProgram(
                    "mqtt-sensor",
                    ["hall", broker.url(.tls), "--prefix", "p", "--client-id", "me"]
                        + ["--ca", broker.authorityFile])
                #expect(try await next(statuses) == "p/sensors/hall/status online")
                #expect(await broker.dropConnections(clientID: "me"))
                #expect(try await next(statuses) == "p/sensors/hall/status offline")
                #expect(await sensor.says("connection lost: "))
                #expect(try await next(statuses) == "p/sensors/hall/status online")
                #expect(await sensor.says("connected to mqtts://127.0.0.1"))
            }
        }
    }

    @Test func the_status_is_retained_at_qos_1() async throws {
        try await withBroker { broker in
            let sensor = try RunningProgram(
                "mqtt-sensor", ["hall", broker.url(.tcp), "--prefix", "p", "--interval", "60"])
            #expect(await sensor.says("p/sensors/hall/temperature"))
            sensor.send(SIGTERM)
            #expect(await sensor.exitCode == 0)
            try await MQTTClient.withConnection(profile: try broker.profile(.tcp)) { observer in
                let late = try await observer.subscribe(to: "p/#", qos: .exactlyOnce)
                var messages = late.makeAsyncIterator()
                let status = try #require(try await messages.next())
                #expect(status.topic == "p/sensors/hall/status")
                #expect(try status.text == "offline")
                #expect(status.qos == .atLeastOnce)
                #expect(status.retain)
            }
        }
    }

    @Test(arguments: ["mqtt-sensor", "mqtt-fan", "mqtt-dashboard", "mqtt-demo"])
    func help_is_no_mistake_and_an_unknown_option_is(_ name: String) async throws {
        let help = try RunningProgram(name, ["--help"])
        #expect(await help.rest.joined().contains("Usage: \(name)"))
        #expect(await help.exitCode == 0)
        let mistake = try RunningProgram(name, ["--colour", "red"])
        #expect(await mistake.rest.joined().contains("--colour is unknown"))
        #expect(await mistake.exitCode == 64)
    }

    @Test(arguments: ["mqtt-sensor", "mqtt-fan", "mqtt-dashboard"])
    func a_first_connection_that_fails_is_explained(_ name: String) async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp, blocked: .refusing)])
        let operand = name == "mqtt-sensor" ? ["hall"] : []
        let program = try RunningProgram(name, operand + [broker.url(.tcp), "--prefix", "p"])
        let output = await program.rest
        #expect(try #require(output.last).hasPrefix("\(name): tcp.refused at tcp"))
        #expect(await program.exitCode == 1)
        await broker.stop()
    }

    @Test func the_password_comes_from_the_environment() async throws {
        var configuration = BrokerConfiguration()
        configuration.allowsAnonymous = false
        configuration.users = [.init(name: "ann", password: "secret")]
        try await withBroker(configuration) { broker in
            let arguments = [
                broker.url(.tls), "--ca", broker.authorityFile, "--prefix", "p", "--username", "ann",
            ]
            let good = try RunningProgram("mqtt-fan", arguments, environment: ["MQTT_PASSWORD": "secret"])
            #expect(await good.says("listening on p/fan/set"))
            good.send(SIGTERM)
            #expect(await good.exitCode == 0)
            let bad = try RunningProgram("mqtt-fan", arguments, environment: ["MQTT_PASSWORD": "guess"])
            let output = await bad.rest.joined()
            #expect(output.contains("mqtt.refused"))
            #expect(!output.contains("guess"))
            #expect(await bad.exitCode == 1)
        }
    }

    private func withBroker(
        _ configuration: BrokerConfiguration = BrokerConfiguration(),
        _ body: (LoopbackBroker) async throws -> Void
    ) async throws {
        let broker = try await LoopbackBroker.start(configuration)
        do { try await body(broker) } catch {
            await broker.stop()
            throw error
        }
        await broker.stop()
    }

    private func next(_ subscription: Subscription) async throws -> String {
        var messages = subscription.makeAsyncIterator()
        let message = try #require(try await messages.next())
        return "\(message.topic) \(try message.text)"
    }
}
