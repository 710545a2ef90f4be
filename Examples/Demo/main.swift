import MQTTExampleSupport
import MQTTLoopback
import MQTTTraversal

let usage = """
    A hostile network on this machine: 1883 is refused, 8883 is silent, and secure WebSocket gets through.

    Usage: mqtt-demo [--v3]

      --v3    speak MQTT 3.1.1; 5.0 by default
      --help  print this help

    Needs no network and no broker: everything happens in this process. Exit code: 0 if all of it happened, 1 if
    not, with the step that failed, 64 for a mistake on the command line.
    """
let arguments = CommandLine.arguments.dropFirst()
if arguments.contains("--help") || arguments.contains("-h") { exit(printing: usage) }
if let unknown = arguments.first(where: { $0 != "--v3" }) {
    exit("mqtt-demo", misusedBy: UsageError("the argument \(unknown) is unknown"))
}

await runToExit("mqtt-demo") {
    let signals = Signals.termination()
    // Ports of the system's choice play the usual ones.
    let broker = try await LoopbackBroker.start(listeners: [
        .init(.tcp, blocked: .refusing), .init(.tls, blocked: .dropping), .init(.webSocketSecure),
    ])
    do {
        try await Demo(broker, version: arguments.isEmpty ? .v5 : .v3_1_1).run(until: signals)
        await broker.stop()
    } catch {
        await broker.stop()
        throw error
    }
}
