import Glibc
import MQTTTraversal

/// Publishes numbered messages from a session store until it is killed, and says which of them were accepted for good.
///
/// `durable-publisher PORT DIRECTORY FIRST COUNT` with COUNT 0 to send only what is there; `… LIMIT` besides lets no
/// file grow above so many bytes.
@main
struct Publisher {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 5, let first = Int(arguments[3]), let count = Int(arguments[4]) else {
            exit(64)
        }
        if arguments.count == 6, let limit = rlim_t(arguments[5]) {
            signal(SIGXFSZ, SIG_IGN)
            var bounds = rlimit(rlim_cur: limit, rlim_max: limit)
            setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &bounds)
        }
        let client = MQTTClient(
            profile: try ConnectionProfile(url: "mqtt://127.0.0.1:\(arguments[1])"),
            configuration: ClientConfiguration(
                version: .v5, clientID: "durable",
                reconnect: .jittered(base: .milliseconds(10), maximum: .milliseconds(20)),
                sessionStore: .directory(arguments[2])))
        do {
            try await client.connect()
            say("connected")
            for number in first..<(first + count) {
                // Even numbers by QoS 1, odd ones by QoS 2; several at a time wait for the disk.
                let receipt = try client.enqueue(
                    "\(number)", to: "durable/\(1 + number % 2)",
                    qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce)
                Task {
                    do {
                        try await receipt.stored()
                        say("\(number)")
                    } catch {
                        say("failed \(number) \(error)")
                    }
                }
                if number % 8 == 7 { try await receipt.stored() }
            }
            for await event in client.events { if case .disconnected = event { break } }
        } catch {
            say("ended \(error)")
        }
    }

    /// In one piece, whoever else speaks.
    private static func say(_ line: String) {
        let bytes = Array("\(line)\n".utf8)
        _ = write(1, bytes, bytes.count)
    }
}
