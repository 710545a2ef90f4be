import MQTTLoopback
import MQTTTransport

/// Loopback brokers with one set of certificates: one broker for each kind of access.
final class Loopback: BrokerUnderTest {
    private static let sharedInstance = Task { try await Loopback() }

    /// One for all scenarios that don't harm it.
    static var shared: Loopback {
        get async throws { try await sharedInstance.value }
    }

    private struct Part: Sendable {
        var broker: LoopbackBroker
        var configuration: BrokerConfiguration
        var access: Door.Access
        var transports: [Transport]
    }

    let certificates: TestCertificates.Files
    private let made: TestCertificates
    private let parts: Lock<[Part]>
    private let ports: [Door: UInt16]

    init(doors: [Door] = Door.all) async throws {
        made = try TestCertificates()
        var parts: [Part] = []
        var ports: [Door: UInt16] = [:]
        for access in Set(doors.map(\.access)) {
            let transports = doors.filter { $0.access == access }.map(\.transport)
            var configuration = BrokerConfiguration()
            // Above what the scenarios have under way at once.
            configuration.maximumQueuedMessages = 50_000
            configuration.maximumOutputBytes = 64 * 1024 * 1024
            if access == .password {
                configuration.users = [.init(name: Credentials.userName, password: Credentials.password)]
                configuration.allowsAnonymous = false
            }
            let broker = try await Self.start(
                configuration, made, access, transports.map { LoopbackBroker.Listening($0.loopback) })
            for transport in transports {
                ports[Door(transport: transport, access: access)] = broker.ports[transport.loopback]
            }
            parts.append(
                Part(broker: broker, configuration: configuration, access: access, transports: transports))
        }
        guard let first = parts.first else { throw BrokerFailure("a broker without doors") }
        certificates = first.broker.files
        self.parts = Lock(parts)
        self.ports = ports
    }

    func port(_ door: Door) throws -> UInt16 {
        guard let port = ports[door] else { throw BrokerFailure("this broker has no door \(door)") }
        return port
    }

    func kill() async throws {
        for part in parts.withLock({ $0 }) {
            for transport in part.transports {
                try await part.broker.block(transport.loopback, by: .refusing)
            }
            await part.broker.dropAll(by: .reset)
            await part.broker.stop()
        }
    }

    func restart() async throws {
        for (index, part) in parts.withLock({ $0 }).enumerated() {
            let listeners = part.transports.map { transport in
                LoopbackBroker.Listening(
                    transport.loopback, port: ports[Door(transport: transport, access: part.access)] ?? 0)
            }
            let broker = try await Self.start(part.configuration, made, part.access, listeners)
            parts.withLock { $0[index].broker = broker }
        }
    }

    private static func start(
        _ configuration: BrokerConfiguration, _ certificates: TestCertificates, _ access: Door.Access,
        _ listeners: [LoopbackBroker.Listening]
    ) async throws -> LoopbackBroker {
        try await LoopbackBroker.start(
            configuration, listeners: listeners, certificates: certificates,
            serverCertificate: access == .openByName ? .wrongName : .valid,
            requiresClientCertificate: access == .clientCertificate)
    }
}

extension Transport {
    fileprivate var loopback: LoopbackBroker.Kind {
        switch self {
        case .tcp: .tcp
        case .tls: .tls
        case .webSocket: .webSocket
        case .webSocketSecure: .webSocketSecure
        }
    }
}
