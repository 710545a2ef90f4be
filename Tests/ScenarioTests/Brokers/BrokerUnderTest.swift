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

    var isWebSocket: Bool {
        switch self {
        case .tcp, .tls: false
        case .webSocket, .webSocketSecure: true
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

/// One cell of the matrix: a broker, a way to it, a version of MQTT.
struct Scenario: Sendable, CustomTestStringConvertible {
    var kind: BrokerKind
    var transport: Transport
    var version: ProtocolVersion

    static let matrix = BrokerKind.underTest.flatMap { kind in
        Transport.allCases.flatMap { transport in
            kind.capabilities.versions.map {
                Scenario(kind: kind, transport: transport, version: $0)
            }
        }
    }
    /// Where the version plays no part.
    static let transports = matrix.filter(\.isNewest)
    static let encrypted = transports.filter { $0.transport.isEncrypted }
    static let webSockets = transports.filter { $0.transport.isWebSocket }
    /// For what costs much: the plainest way and the deepest.
    static let extremes = matrix.filter {
        $0.transport == .tcp || $0.transport == .webSocketSecure && $0.isNewest
    }

    private var isNewest: Bool { version == kind.capabilities.versions.last }

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
        let capabilities = kind.capabilities
        let isOpen = access == .open || access == .password && capabilities.wantsPassword
        let door = Door(transport: transport, access: isOpen ? .open : access)
        let port = try relay?.port ?? broker.port(door)
        var profile = try transport.profile(
            host: host, port: Int(port), TLSOptions(trust: .file(broker.certificates.authority)))
        profile.webSocket?.path = capabilities.webSocketPath
        if access == .open, capabilities.wantsPassword {
            profile.userName = Credentials.userName
            profile.password = Array(Credentials.password.utf8)
        }
        return profile
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

extension [Scenario] {
    /// Those whose broker can do what a scenario needs; says of the others why not.
    func able(
        _ needs: BrokerCapabilities.Need..., file: StaticString = #fileID, line: Int = #line
    ) -> [Scenario] {
        filter { scenario in
            let lacks = needs.compactMap { scenario.kind.capabilities.lacks[$0] }
            guard let lack = lacks.first(where: { $0.applies(scenario) }) else { return true }
            print(
                "SKIPPED at \(file):\(line): \(scenario.testDescription): \(scenario.kind.rawValue) \(lack.reason)"
            )
            return false
        }
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
