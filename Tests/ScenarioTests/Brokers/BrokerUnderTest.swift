import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// A broker that the scenarios run against; it listens on 127.0.0.1.
protocol BrokerUnderTest: Sendable {
    var certificates: TestCertificates.Files { get }
    func port(_ door: Door) throws -> UInt16
    /// Ends it without a word to its clients.
    func kill() async throws
    /// On the same ports, with nothing remembered.
    func restart() async throws
}

struct BrokerFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

enum Credentials {
    static let userName = "scenario"
    static let password = "correct horse"
}

enum Transport: String, Sendable, CaseIterable {
    case tcp
    case tls
    case webSocket
    case webSocketSecure

    var isEncrypted: Bool {
        switch self {
        case .tcp, .webSocket: false
        case .tls, .webSocketSecure: true
        }
    }
}

/// One of a broker's listeners.
struct Door: Sendable, Hashable {
    enum Access: Sendable, Hashable {
        case open
        /// Its certificate is for `localhost` and no address.
        case openByName
        case password
        case clientCertificate
    }

    var transport: Transport
    var access = Access.open

    static let open = Transport.allCases.map { Door(transport: $0) }
    static let all =
        open + Transport.allCases.map { Door(transport: $0, access: .password) }
        + [Transport.tls, .webSocketSecure].flatMap {
            [Door(transport: $0, access: .openByName), Door(transport: $0, access: .clientCertificate)]
        }
}

enum BrokerKind: String, Sendable, CaseIterable {
    case mosquitto
    case loopback

    var isAvailable: Bool {
        switch self {
        case .mosquitto: Mosquitto.executable != nil
        case .loopback: true
        }
    }

    /// mosquitto 2.0.11 sends as many messages as the whole Receive Maximum for each PUBACK, and so overruns any
    /// that is smaller than its queue.
    func honouredReceiveMaximum(_ wanted: UInt16) -> UInt16 {
        switch self {
        case .mosquitto: 65535
        case .loopback: wanted
        }
    }

    /// One for all scenarios that don't harm it.
    var shared: any BrokerUnderTest {
        get async throws {
            switch self {
            case .mosquitto: try await Mosquitto.shared
            case .loopback: try await Loopback.shared
            }
        }
    }

    /// One for scenarios that break no TLS connection while data is on its way.
    ///
    /// mosquitto 2.0.11 leaves OpenSSL's error of such an end in its queue ("application data after close notify")
    /// and takes it for one of the next connection that it reads from, which it closes: large transfers by others
    /// are hit.
    var peaceful: any BrokerUnderTest {
        get async throws {
            switch self {
            case .mosquitto: try await Mosquitto.peaceful
            case .loopback: try await Loopback.shared
            }
        }
    }

    /// One for one scenario.
    func launch(_ doors: [Door] = Door.open) async throws -> any BrokerUnderTest {
        switch self {
        // Without a TCP listener mosquitto 2.0 doesn't start.
        case .mosquitto: try await Mosquitto(doors: Array(Set(doors + [Door(transport: .tcp)])))
        case .loopback: try await Loopback(doors: doors)
        }
    }
}

/// One cell of the matrix: a broker, a way to it, a version of MQTT.
struct Scenario: Sendable, CustomTestStringConvertible {
    var kind: BrokerKind
    var transport: Transport
    var version: ProtocolVersion

    static let matrix = brokers.flatMap { kind in
        Transport.allCases.flatMap { transport in
            [ProtocolVersion.v3_1_1, .v5].map {
                Scenario(kind: kind, transport: transport, version: $0)
            }
        }
    }
    /// Where the version plays no part.
    static let transports = matrix.filter { $0.version == .v5 }
    static let encrypted = transports.filter { $0.transport.isEncrypted }
    /// For what costs much: the plainest way and the deepest.
    static let extremes = matrix.filter {
        $0.transport == .tcp || $0.transport == .webSocketSecure && $0.version == .v5
    }

    private static var brokers: [BrokerKind] { BrokerKind.allCases.filter(\.isAvailable) }

    var testDescription: String {
        "\(kind.rawValue), \(transport.rawValue), MQTT \(version == .v5 ? "5.0" : "3.1.1")"
    }

    /// The way to the shared broker.
    func profile(_ access: Door.Access = .open, host: String = "127.0.0.1") async throws -> ConnectionProfile
    {
        let broker = try await kind.shared
        return try profile(broker, access, host: host)
    }

    /// The way to a broker, or to what stands before it.
    func profile(
        _ broker: any BrokerUnderTest, _ access: Door.Access = .open, host: String = "127.0.0.1",
        through relay: Relay? = nil
    ) throws -> ConnectionProfile {
        let port = try relay?.port ?? broker.port(Door(transport: transport, access: access))
        return try transport.profile(
            host: host, port: Int(port), TLSOptions(trust: .file(broker.certificates.authority)))
    }

    /// A client of the shared broker.
    func client(_ configure: (inout ClientConfiguration) -> Void = { _ in }) async throws -> MQTTClient {
        client(try await profile(), configure)
    }

    func client(
        _ profile: ConnectionProfile, _ configure: (inout ClientConfiguration) -> Void = { _ in }
    ) -> MQTTClient {
        var configuration = ClientConfiguration(
            version: .init(version), clientID: Names.unique("client"),
            reconnect: .jittered(base: .milliseconds(100), maximum: .milliseconds(400)))
        configure(&configuration)
        return MQTTClient(profile: profile, configuration: configuration)
    }

    /// A client of the shared broker that has connected.
    func connected(_ configure: (inout ClientConfiguration) -> Void = { _ in }) async throws -> MQTTClient {
        let client = try await client(configure)
        try await client.connectInTime()
        return client
    }

    /// A client of another broker that has connected.
    func connected(to broker: any BrokerUnderTest) async throws -> MQTTClient {
        let client = client(try profile(broker))
        try await client.connectInTime()
        return client
    }
}

extension Transport {
    func profile(
        host: String = "127.0.0.1", port: Int, _ tls: TLSOptions = TLSOptions()
    ) throws -> ConnectionProfile {
        switch self {
        case .tcp: try .tcp(host: host, port: port)
        case .tls: try .tls(host: host, port: port, options: tls)
        case .webSocket: try .webSocket(host: host, port: port)
        case .webSocketSecure: try .webSocketSecure(host: host, port: port, options: tls)
        }
    }
}
