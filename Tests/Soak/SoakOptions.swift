internal import MQTTTraversal

/// The command line, and what follows from it.
struct SoakOptions: Sendable {
    /// Seconds from when all are connected to the end of the faults.
    var duration = 120
    var seed = UInt64.random(in: 0...UInt64(UInt32.max))
    var clients = 200

    let begin = ContinuousClock.now
    /// Seconds without faults at the beginning, after which resources are taken as the measure.
    let warmUp = 15
    let keepAlive = Duration.seconds(5)
    let pingTimeout = Duration.seconds(5)
    let longestDelay = Duration.seconds(2)
    let deadline = Duration.seconds(5)
    /// What a connection may take once it can be had: all clients, on a busy machine.
    let connecting = Duration.seconds(10)

    /// How long after the last fault a client may come back. At the worst its connection is in a black hole that it has
    /// yet to notice, or the broker's answer is.
    var backOffBound: Duration { max(keepAlive + pingTimeout, deadline) + longestDelay + connecting }

    /// - Parameter words: without the program's own name.
    /// - Throws: `SoakFailure`.
    init(_ words: [String]) throws {
        var rest = words[...]
        while let word = rest.popFirst() {
            guard let value = rest.popFirst().flatMap({ UInt64($0) }) else { throw Self.usage }
            switch word {
            case "--duration" where 60...86_400 ~= value: duration = Int(value)
            case "--clients" where 4...1000 ~= value: clients = Int(value)
            case "--seed": seed = value
            default: throw Self.usage
            }
        }
    }

    private static let usage = SoakFailure(
        "Usage: mqtt-soak [--duration SECONDS, 60 to 86400] [--seed NUMBER] [--clients COUNT, 4 to 1000]")
}

enum SoakTransport: Int, Sendable, CaseIterable {
    case tcp, tls, webSocket, webSocketSecure

    var isWebSocket: Bool { self == .webSocket || self == .webSocketSecure }
    var isEncrypted: Bool { self == .tls || self == .webSocketSecure }

    func profile(port: UInt16, trust: String) throws -> ConnectionProfile {
        let options = TLSOptions(trust: .file(trust))
        let (host, port) = ("127.0.0.1", Int(port))
        return switch self {
        case .tcp: try .tcp(host: host, port: port)
        case .tls: try .tls(host: host, port: port, options: options)
        case .webSocket: try .webSocket(host: host, port: port)
        case .webSocketSecure: try .webSocketSecure(host: host, port: port, options: options)
        }
    }
}
