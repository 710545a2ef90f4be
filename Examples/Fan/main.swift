import MQTTExampleSupport
import MQTTTraversal

let command = ExampleCommand(
    name: "mqtt-fan",
    summary: "A fan: does what PREFIX/fan/set says, ON or OFF.",
    requiresPrefix: true)
let options = command.parseOrExit { options throws(UsageError) in options }

await runToExit(command.name) {
    let signals = Signals.termination()
    let topic = "\(options.prefix ?? "")/fan"
    let presence = Presence(topic: "\(topic)/status")
    let client = MQTTClient(
        profile: options.profile,
        configuration: ClientConfiguration(
            version: options.version,
            clientID: options.clientID ?? ExampleOptions.stableClientID("fan", for: topic),
            // Commands are for now: the broker keeps none while we are away.
            sessionExpiry: .zero, will: presence.will))

    try await presence.hold(client, until: signals) { event in
        if let line = event.line { say(line) }
    } work: {
        var fan = FanSwitch()
        let commands = try await client.subscribe(to: "\(topic)/set", qos: .atLeastOnce)
        say("listening on \(topic)/set; the fan is OFF")
        for try await command in commands { say(fan.apply(command.payload)) }
    }
}
