import MQTTExampleSupport
import MQTTTraversal

let command = ExampleCommand(
    name: "mqtt-sensor",
    summary: "A temperature sensor: publishes readings on PREFIX/sensors/NAME/temperature.",
    operand: "NAME",
    options: [.init("--interval", "SECONDS", "between two readings, 0.1 to 86400; 2 by default")],
    requiresPrefix: true)

let (options, topic, interval) = command.parseOrExit { options throws(UsageError) in
    let name = options.operand ?? ""
    try ExampleOptions.check(level: name, "NAME")
    guard let seconds = plainDecimal(options.values["--interval"] ?? "2"), (0.1...86400).contains(seconds)
    else {
        throw UsageError("--interval isn't a number of seconds from 0.1 to 86400")
    }
    return (options, "\(options.prefix ?? "")/sensors/\(name)", Duration.seconds(seconds))
}

await runToExit(command.name) {
    let signals = Signals.termination()
    let presence = Presence(topic: "\(topic)/status")
    let client = MQTTClient(
        profile: options.profile,
        configuration: ClientConfiguration(
            version: options.version,
            clientID: options.clientID ?? ExampleOptions.stableClientID("sensor", for: topic),
            will: presence.will))

    try await presence.hold(client, until: signals) { event in
        if let line = event.line { say(line) }
    } work: {
        var walk = TemperatureWalk(generator: SystemRandomNumberGenerator())
        while true {
            let reading = walk.next()
            // Waits while the connection is down, so that old readings don't pile up.
            try await client.publish(reading, to: "\(topic)/temperature", qos: .atLeastOnce)
            say("\(topic)/temperature \(reading)")
            try await Task.sleep(for: interval)
        }
    }
}
