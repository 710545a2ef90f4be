internal import MQTTTraversal

/// The command line: where to connect, and what to do there.
struct ClientOptions: Sendable {
    var profile: ConnectionProfile
    var keepAlive = Duration.seconds(30)
    var pingTimeout: Duration?
    /// Messages of each round trip; their QoS go 0, 1, 2 and again.
    var messages = 3
    /// How long to do nothing between two round trips; none, and no second one, where nil.
    var idle: Duration?

    /// - Parameter words: without the program's own name.
    /// - Throws: `UsageError`.
    init(_ words: [String]) throws(UsageError) {
        var url: String?
        var values: [String: String] = [:]
        var rest = words[...]
        while let word = rest.popFirst() {
            guard word.hasPrefix("--") else {
                url = word
                continue
            }
            guard Self.names.contains(word) else { throw UsageError("unknown option \(word)\n\(Self.usage)") }
            guard let value = rest.popFirst() else { throw UsageError("\(word) needs a value") }
            values[word] = value
        }
        guard let url else { throw UsageError(Self.usage) }
        profile = try Self.checked { () throws(ProfileError) in try ConnectionProfile(url: url) }
        if let file = values["--ca"] { profile.tls?.trust = .file(file) }
        if let name = values["--alpn"] { profile.tls?.applicationProtocols = [name] }
        if let url = values["--proxy"] {
            var proxy = try Self.checked { () throws(ProfileError) in try Proxy(url: url) }
            if case .https(var options) = proxy.kind, let file = values["--proxy-ca"] {
                options.trust = .file(file)
                proxy.kind = .https(options)
            }
            profile.proxy = proxy
        }
        if let seconds = try Self.seconds("--deadline", values) {
            profile.deadlines = StageDeadlines(
                resolve: seconds, tcp: seconds, proxy: seconds, tls: seconds, webSocket: seconds,
                mqttConnect: seconds)
        }
        if let seconds = try Self.seconds("--websocket-ping", values) {
            profile.webSocket?.pings = WebSocketOptions.Pings(every: seconds)
        }
        keepAlive = try Self.seconds("--keep-alive", values) ?? keepAlive
        pingTimeout = try Self.seconds("--ping-timeout", values)
        idle = try Self.seconds("--idle", values)
        if let text = values["--messages"] {
            guard let count = Int(text), 1...100_000 ~= count else {
                throw UsageError("--messages takes 1 to 100000, not \(text)")
            }
            messages = count
        }
    }

    private static let names: Set = [
        "--ca", "--alpn", "--proxy", "--proxy-ca", "--deadline", "--websocket-ping",
        "--keep-alive", "--ping-timeout", "--idle", "--messages",
    ]

    private static let usage = """
        Usage: traversal-client URL [--ca FILE] [--alpn NAME] [--proxy URL] [--proxy-ca FILE] [--deadline SECONDS]
               [--websocket-ping SECONDS] [--keep-alive SECONDS] [--ping-timeout SECONDS]
               [--messages COUNT] [--idle SECONDS]
        """

    private static func checked<Value>(_ make: () throws(ProfileError) -> Value) throws(UsageError) -> Value {
        do throws(ProfileError) { return try make() } catch { throw UsageError(error.description) }
    }

    private static func seconds(
        _ name: String, _ values: [String: String]
    ) throws(UsageError) -> Duration? {
        guard let text = values[name] else { return nil }
        guard let seconds = Double(text), 0...600 ~= seconds else {
            throw UsageError("\(name) takes 0 to 600 seconds, not \(text)")
        }
        return .milliseconds(Int((seconds * 1000).rounded()))
    }
}

/// What is wrong with the command line; exit status 64.
struct UsageError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
