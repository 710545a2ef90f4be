import Glibc
import MQTTTransport

/// Makes listeners of parts, each inner one at a port of its own that the outer one leads to. On the loop only.
final class PartBuilder {
    let loop: EventLoop
    private let brokerPort: UInt16
    private let certificates: NetworkCertificates
    private var contexts: [HostilePart.TLSEnd: TLSContext] = [:]
    private var listeners: [BrokerListener] = []
    private var peers: [ScriptedPeer] = []
    private var splices: [ObjectIdentifier: Splice] = [:]

    init(loop: EventLoop, brokerPort: UInt16, certificates: NetworkCertificates) {
        self.loop = loop
        self.brokerPort = brokerPort
        self.certificates = certificates
    }

    /// - Returns: the port that stands for each.
    func listen(_ ports: NetworkPorts, at host: String) throws(TransportError) -> ListeningPorts {
        var listening: [UInt16: UInt16] = [:]
        for (port, part) in ports.parts { listening[port] = try listen(part, at: host) }
        return ListeningPorts(ports: listening, others: try listen(ports.others, at: host))
    }

    /// - Returns: the port at which the part is.
    func listen(_ part: HostilePart, at host: String = "127.0.0.1") throws(TransportError) -> UInt16 {
        switch part {
        case .dropped: return try blocked(at: host, by: .dropping)
        case .refused: return try blocked(at: host, by: .refusing)
        case .script(let steps):
            let peer = try ScriptedPeer(on: loop, address: host, scripts: [steps])
            peers.append(peer)
            return peer.port
        case .broker: return try spliced(at: host) { [brokerPort] in StraightOn(port: brokerPort) }
        case .tls(let end, let inside):
            let port = try inner(inside)
            return try spliced(at: host, tls: context(end)) { StraightOn(port: port) }
        case .webSocket(let inside):
            let port = try inner(inside)
            return try spliced(at: host, isWebSocket: true) { StraightOn(port: port) }
        case .hello(let rules, let otherwise):
            let elsewhere = try inner(otherwise)
            var ports: [(HostilePart.HelloRule.Condition, UInt16)] = []
            for rule in rules { ports.append((rule.condition, try inner(rule.part))) }
            return try spliced(at: host) { HelloDecider(rules: ports, otherwise: elsewhere) }
        case .hindered(let hindrance, let inside):
            let port = try inner(inside)
            return try spliced(at: host, hindrance: hindrance) { StraightOn(port: port) }
        }
    }

    /// - Returns: the port of the proxy.
    func listen(
        _ conduct: HostileProxy.Conduct, targets: @escaping ProxyTargets
    ) throws(TransportError) -> UInt16? {
        func connect(_ rule: ConnectDecider.Rule) throws(TransportError) -> UInt16 {
            try spliced(at: "127.0.0.1") { ConnectDecider(rule, targets) }
        }
        switch conduct {
        case .http(let ports): return try connect(.open(ports: ports))
        case .login(let challenges): return try connect(.login(challenges))
        case .answers(let answer): return try connect(.answers(answer))
        case .socks: return try spliced(at: "127.0.0.1") { SOCKSDecider(targets) }
        case .socksMethod(let method):
            return try spliced(at: "127.0.0.1") { SOCKSDecider(method: method, targets) }
        case .socksReply(let reply):
            return try spliced(at: "127.0.0.1") { SOCKSDecider(reply: reply, targets) }
        case .part(let part): return try listen(part)
        case .unresolvable: return nil
        }
    }

    func stop() {
        for listener in listeners { listener.close() }
        for peer in peers { peer.stop() }
        for splice in splices.values { splice.abort() }
        listeners = []
        peers = []
    }

    private func inner(_ part: HostilePart) throws(TransportError) -> UInt16 {
        if case .broker = part { return brokerPort }
        return try listen(part)
    }

    private func context(_ end: HostilePart.TLSEnd) throws(TransportError) -> TLSContext {
        if let context = contexts[end] { return context }
        let context = try certificates.context(end)
        contexts[end] = context
        return context
    }

    private func blocked(
        at host: String, by means: LoopbackBroker.Blocking
    ) throws(TransportError) -> UInt16 {
        let listener = try listener(at: host) { descriptor, _ in close(descriptor) }
        try listener.block(by: means)
        return listener.address.port
    }

    private func listener(
        at host: String, accepted: @escaping (Int32, String) -> Void
    ) throws(TransportError) -> BrokerListener {
        guard let address = SocketAddress(literal: host, port: 0) else {
            throw TransportError(
                stage: .local, code: .clientInvalidArgument, evidence: .text("\(host) is no address"))
        }
        let listener = try BrokerListener(loop: loop, address: address, accepted: accepted)
        listener.start()
        listeners.append(listener)
        return listener
    }

    private func spliced(
        at host: String, tls: TLSContext? = nil, isWebSocket: Bool = false,
        hindrance: HostilePart.Hindrance? = nil,
        _ decider: @escaping () -> any SpliceDecider
    ) throws(TransportError) -> UInt16 {
        try listener(at: host) { [unowned self] descriptor, peer in
            let role = ByteStream.Role.server(webSocket: isWebSocket, path: isWebSocket ? "/mqtt" : nil)
            guard
                let stream = try? ByteStream(
                    loop: loop, descriptor: descriptor, peer: peer, role: role, tlsContext: tls)
            else {
                close(descriptor)
                return
            }
            let splice = Splice(client: stream, decider: decider(), hindrance: hindrance) { [weak self] in
                self?.splices[ObjectIdentifier($0)] = nil
            }
            splices[ObjectIdentifier(splice)] = splice
            splice.start()
        }.address.port
    }
}

/// Which port of the loopback interface stands for which of the network's.
struct ListeningPorts: Sendable {
    var ports: [UInt16: UInt16]
    var others: UInt16

    subscript(port: UInt16) -> UInt16 { ports[port] ?? others }
}
