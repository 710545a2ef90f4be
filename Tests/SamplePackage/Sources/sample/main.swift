import MQTTTraversal

/// Ends the program with a failure, in words.
struct Unexpected: Error {
    let what: String
}

// Nobody listens on this machine's port 1, so this shows what a program sees when a broker isn't there.
let profile = try ConnectionProfile(url: "mqtt://127.0.0.1:1")
let client = MQTTClient(
    profile: profile,
    configuration: .init(
        clientID: "sample", keepAlive: .seconds(30),
        will: .init(topic: "sample/status", payload: "offline", qos: .atLeastOnce, retain: true)))

let events = client.events
let history = Task {
    var lines: [String] = []
    for await event in events {
        switch event {
        case .idle: lines.append("idle")
        case .connecting(let attempt): lines.append("connecting, attempt \(attempt)")
        case .connected(let outcome): lines.append("connected as \(outcome.clientID)")
        case .interrupted(let error): lines.append("interrupted: \(error.code.rawValue)")
        case .reconnecting(let attempt, let delay, _): lines.append("attempt \(attempt) in \(delay)")
        case .sessionLost: lines.append("the session is lost")
        case .suspended: lines.append("suspended")
        case .disconnected(let error):
            lines.append("disconnected: \(error?.code.rawValue ?? "as asked")")
            return lines
        }
    }
    return lines
}

/// A program's own code: says hello once, and gives the first answer back.
func greet(_ client: MQTTClient) async throws -> String? {
    try await client.connect()
    let answers = try await client.subscribe(to: "sample/answers/+", qos: .atLeastOnce)
    try await client.publish("hello", to: "sample/greetings", qos: .atLeastOnce)
    for try await answer in answers { return try answer.text }
    return nil
}

do {
    let answer = try await greet(client)
    throw Unexpected(what: "a broker on port 1 answered \(answer ?? "nothing")")
} catch let error as MQTTError {
    print("\(profile): \(error.code.rawValue) at \(error.stage)")
    print(error.advice)
    guard error.code == .tcpRefused, error.stage == .tcp else { throw error }
}

let lines = await history.value
print(lines.joined(separator: " -> "))
guard lines == ["idle", "connecting, attempt 1", "disconnected: tcp.refused"] else {
    throw Unexpected(what: "other events than these were to come")
}
