import Glibc
package import MQTTTransport

/// A simulated network that stands. It is gone after `stop()`.
package final class RunningNetwork: Sendable {
    package let network: HostileNetwork
    /// What the network says to names.
    package let resolver: Resolver
    /// What an honest name server elsewhere says.
    package let controlResolver: Resolver
    package let proxyEnvironment: ProxyEnvironment
    /// The PEM file of the authorities that are trusted here.
    package let authorityFile: String
    private let broker: LoopbackBroker
    private let builder: LoopBound<PartBuilder>
    private let certificates: NetworkCertificates
    private let isStopped: Lock<Bool>

    fileprivate static let hijackAddress = "127.0.1.1"

    fileprivate init(
        _ network: HostileNetwork, _ places: Places, _ broker: LoopbackBroker,
        _ builder: LoopBound<PartBuilder>,
        _ certificates: NetworkCertificates
    ) {
        let isStopped = Lock(false)
        self.network = network
        self.broker = broker
        self.builder = builder
        self.certificates = certificates
        self.isStopped = isStopped
        authorityFile = certificates.trustFile(network.trust)
        let url = network.proxy?.url
        proxyEnvironment = ProxyEnvironment(url.map { ["https_proxy": $0, "http_proxy": $0] } ?? [:])
        controlResolver = Resolver { host, port in places.honestAnswer(host, port) }
        let names = network.names
        resolver = Resolver { host, port in
            guard host.lowercased() == HostileNetwork.broker else { return places.honestAnswer(host, port) }
            switch names {
            case .known: return places.honestAnswer(host, port)
            case .failing(let code): return Self.failure(code, host)
            case .unanswered:
                // The client gives up before; its thread stays no longer than the network.
                for _ in 0..<3000 where !isStopped.withLock({ $0 }) { usleep(10_000) }
                return Self.failure(.dnsTimeout, host)
            case .hijacked: return places.hijackedAnswer(port) ?? Self.failure(.dnsNXDomain, host)
            }
        }
    }

    /// Whether an address is one that a public name can't have. Here all are addresses of loopback: those of
    /// 127.0.0.0/24 and ::1 stand for public ones.
    package static func isBogon(_ address: SocketAddress) -> Bool {
        !(address.host.hasPrefix("127.0.0.") || address.host == "::1")
    }

    package func stop() async {
        isStopped.withLock { $0 = true }
        await withCheckedContinuation { continuation in
            builder.execute {
                $0.stop()
                continuation.resume()
            }
        }
        builder.loop.stopAndJoin()
        await broker.stop()
    }

    fileprivate static func failure(_ code: FailureCode, _ host: String) -> Resolver.Answer {
        .failure(TransportError(stage: .resolve, code: code, hop: host, evidence: .none))
    }

    /// Where everything is.
    fileprivate struct Places: Sendable {
        var ipv4: ListeningPorts?
        var ipv6: ListeningPorts?
        var elsewhere: ListeningPorts
        var proxy: UInt16?
        var hijack: ListeningPorts?

        func honestAnswer(_ host: String, _ port: UInt16) -> Resolver.Answer {
            switch host.lowercased() {
            case HostileNetwork.broker:
                let addresses = [ipv6.map { ("::1", $0[port]) }, ipv4.map { ("127.0.0.1", $0[port]) }]
                return .success(addresses.compactMap { $0.flatMap { SocketAddress(literal: $0, port: $1) } })
            case HostileNetwork.proxy:
                guard let proxy, let address = SocketAddress(literal: "127.0.0.1", port: proxy) else {
                    return RunningNetwork.failure(.dnsNXDomain, host)
                }
                return .success([address])
            default:
                let address = SocketAddress(literal: "127.0.0.1", port: elsewhere[port])
                return .success([address].compactMap { $0 })
            }
        }

        func hijackedAnswer(_ port: UInt16) -> Resolver.Answer? {
            hijack.flatMap { SocketAddress(literal: hijackAddress, port: $0[port]) }.map { .success([$0]) }
        }
    }
}

extension HostileNetwork {
    /// Builds it.
    ///
    /// - Parameter certificates: made afresh where nil.
    /// - Throws: `CertificateError`; `TransportError` where a port can't be had, as on a machine without IPv6.
    package func start(certificates: NetworkCertificates? = nil) async throws -> RunningNetwork {
        let certificates = try certificates ?? NetworkCertificates()
        let broker = try await LoopbackBroker.start(
            configuration, listeners: [.init(.tcp)], certificates: certificates.certificates)
        await broker.redirectConnects(to: redirection)
        do {
            let loop = try EventLoop()
            let builder = LoopBound(
                PartBuilder(loop: loop, brokerPort: broker.ports[.tcp] ?? 0, certificates: certificates),
                on: loop)
            let made: Result<RunningNetwork.Places, any Error> = await withCheckedContinuation {
                continuation in
                builder.execute { [self] builder in
                    continuation.resume(returning: Result { try places(builder) })
                }
            }
            do {
                return RunningNetwork(self, try made.get(), broker, builder, certificates)
            } catch {
                builder.execute { $0.stop() }
                loop.stopAndJoin()
                throw error
            }
        } catch {
            await broker.stop()
            throw error
        }
    }

    private func places(_ builder: PartBuilder) throws(TransportError) -> RunningNetwork.Places {
        var places = RunningNetwork.Places(elsewhere: try builder.listen(elsewhere, at: "127.0.0.1"))
        if let ipv4 { places.ipv4 = try builder.listen(ipv4, at: "127.0.0.1") }
        if let ipv6 { places.ipv6 = try builder.listen(ipv6, at: "::1") }
        if case .hijacked(let ports) = names {
            places.hijack = try builder.listen(ports, at: RunningNetwork.hijackAddress)
        }
        if let proxy {
            let behind = try builder.listen(proxy.behind, at: "127.0.0.1")
            let elsewhere = places.elsewhere
            places.proxy = try builder.listen(proxy.conduct) { host, port in
                host.lowercased() == Self.broker ? behind[port] : elsewhere[port]
            }
        }
        return places
    }
}
