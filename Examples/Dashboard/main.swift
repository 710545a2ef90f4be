import MQTTExampleSupport
import MQTTTraversal

let command = ExampleCommand(
    name: "mqtt-dashboard",
    summary: "A dashboard: shows the sensors under PREFIX/sensors, and toggles the fan on PREFIX/fan/set.",
    requiresPrefix: false)
let (options, clientID) = command.parseOrExit { options throws(UsageError) in
    let clientID = options.clientID ?? ExampleOptions.randomClientID("dashboard")
    // It names the topic of our own status.
    try ExampleOptions.check(level: clientID, "the client identifier")
    return (options, clientID)
}

let dashboard = Dashboard(options, clientID: clientID)
await runToExit(command.name) { try await dashboard.run() }
