import Glibc
import MQTTLoopback
import MQTTTransport
import Testing

/// What carries MQTT, and what a server says to be ready for it.
enum Carrier: String, CaseIterable, Sendable {
    case tcp, tls, webSocket, webSocketSecure

    var isEncrypted: Bool { self == .tls || self == .webSocketSecure }
    var isWebSocket: Bool { self == .webSocket || self == .webSocketSecure }

    /// At a name that nobody here resolves, and whose certificate the server has.
    func profile(host: String = "localhost", port: Int = 4711) throws -> ConnectionProfile {
        switch self {
        case .tcp: try .tcp(host: host, port: port)
        case .tls: try .tls(host: host, port: port, options: Fixture.trust())
        case .webSocket: try .webSocket(host: host, port: port)
        case .webSocketSecure: try .webSocketSecure(host: host, port: port, options: Fixture.trust())
        }
    }

    var stages: [ConnectionStage] {
        [.resolve, .tcp, .proxy] + (isEncrypted ? [.tls] : []) + (isWebSocket ? [.webSocket] : [])
    }
}

@Suite("Connector, proxy stage", .timeLimit(.minutes(1)))
struct ConnectorProxyTests {
    private static let requestEnd = Array("\r\n\r\n".utf8)

    private static func proxy(
        _ peer: ScriptedPeer, _ kind: Proxy.Kind = .http, login: (String, String)? = nil
    ) throws -> Proxy {
        try Proxy(
            kind, host: "127.0.0.1", port: Int(peer.port), userName: login?.0,
            password: login.map { Array($0.1.utf8) })
    }

    /// Remembers what it is asked, and knows nothing.
    private static func recordingResolver(_ asked: Watched<[String]>) -> Resolver {
        Resolver { host, _ in
            asked.update { $0.append(host) }
            return .failure(
                TransportError(stage: .resolve, code: .dnsNXDomain, hop: host, evidence: .none))
        }
    }

    @Test func `a tunnel carries plain MQTT, and what came with the reply belongs to it`() async throws {
        try await Bench.run { bench in
            let request = "CONNECT broker.example:1883 HTTP/1.1\r\nHost: broker.example:1883\r\n\r\n"
            let peer = try bench.peer([
                .expect(Array(request.utf8)),
                .send(Array("HTTP/1.1 200 Connection established\r\n\r\nearly".utf8)),
                .expect([1, 2, 3]), .send([4, 5]), .hold,
            ])
            defer { peer.stop() }
            var profile = try ConnectionProfile.tcp(host: "broker.example")
            profile.proxy = try Self.proxy(peer)
            let asked = Watched<[String]>([])
            let client = try bench.client(profile, resolver: Self.recordingResolver(asked))
            #expect(await client.outcome() == nil)
            client.send([1, 2, 3])
            #expect(await client.received(7) == Array("early".utf8) + [4, 5])
            expectObservations(client, Carrier.tcp.stages, failure: nil)
            #expect(asked.value == [], "the proxy resolves the name")
        }
    }

    @Test func `a login is given when it is asked for, on the same connection`() async throws {
        try await Bench.run { bench in
            let challenge =
                "HTTP/1.1 407 Proxy Authentication Required\r\n"
                + "Proxy-Authenticate: Basic realm=\"p\"\r\nContent-Length: 4\r\n\r\nno!\n"
            let peer = try bench.peer([
                .expectUntil(Self.requestEnd), .send(Array(challenge.utf8)),
                .expect(
                    Array(
                        ("CONNECT [2001:db8::1]:1883 HTTP/1.1\r\nHost: [2001:db8::1]:1883\r\n"
                            + "Proxy-Authorization: Basic YWxpY2U6c2VjcmV0\r\n\r\n").utf8)),
                .send(Array("HTTP/1.1 200 OK\r\n\r\n".utf8)), .hold,
            ])
            defer { peer.stop() }
            var profile = try ConnectionProfile.tcp(host: "2001:db8::1")
            profile.proxy = try Self.proxy(peer, login: ("alice", "secret"))
            let client = try bench.client(profile)
            #expect(await client.outcome() == nil)
            expectObservations(client, Carrier.tcp.stages, failure: nil)
            #expect(peer.connectionCount == 1)
        }
    }

    @Test(arguments: ["HTTP/1.0 407 Login\r\n", "HTTP/1.1 407 Login\r\nConnection: close\r\n"])
    func `a login goes on a new connection where the proxy ends this one`(head: String) async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(
                [
                    .expectUntil(Self.requestEnd),
                    .send(Array((head + "Proxy-Authenticate: Basic realm=\"p\"\r\n\r\n").utf8)), .close,
                ],
                [
                    .expectUntil(Array("Basic YWxpY2U6c2VjcmV0\r\n\r\n".utf8)),
                    .send(Array("HTTP/1.0 200 Connection established\r\n\r\n".utf8)), .hold,
                ])
            defer { peer.stop() }
            var profile = try ConnectionProfile.tcp(host: "broker.example")
            profile.proxy = try Self.proxy(peer, login: ("alice", "secret"))
            let client = try bench.client(profile)
            #expect(await client.outcome() == nil)
            expectObservations(client, Carrier.tcp.stages, failure: nil)
            #expect(peer.connectionCount == 2)
        }
    }

    @Test func `a proxy that isn't there is told from a server that isn't`() async throws {
        try await Bench.run { bench in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            let port = try bindWithoutListening(descriptor)
            var profile = try ConnectionProfile.tcp(host: "broker.example")
            profile.proxy = try Proxy(.http, host: "proxy.example", port: port)
            let asked = Watched<[String]>([])
            let lost = try bench.client(profile, resolver: Self.recordingResolver(asked))
            let error = await lost.outcome()
            #expect(error?.code == .proxyUnresolvable)
            #expect(error?.hop == "proxy.example")
            #expect(asked.value == ["proxy.example"])
            expectObservations(lost, [.resolve], failure: .proxyUnresolvable)

            profile.proxy = try Proxy(.http, host: "127.0.0.1", port: port)
            let refused = try bench.client(profile)
            #expect(await refused.outcome()?.hop == "127.0.0.1:\(port)")
            expectObservations(refused, [.resolve, .tcp], failure: .proxyRefused)
        }
    }

    @Test func `a proxy that says nothing has its own deadline`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.hold])
            defer { peer.stop() }
            var profile = try ConnectionProfile.tcp(host: "broker.example")
            profile.proxy = try Self.proxy(peer)
            let client = try bench.client(
                profile, deadlines: StageDeadlines(proxy: .milliseconds(200)))
            let error = await client.outcome()
            #expect(error?.hop == "127.0.0.1:\(peer.port)")
            #expect(error?.evidence == .deadline(.milliseconds(200)))
            expectObservations(client, [.resolve, .tcp, .proxy], failure: .proxyTimeout)
        }
    }

    @Test func `an attempt can be cancelled inside the proxy's handshake`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.expectUntil(Self.requestEnd), .expectEnd])
            defer { peer.stop() }
            var profile = try ConnectionProfile.tcp(host: "broker.example")
            profile.proxy = try Self.proxy(peer)
            let client = try bench.client(profile)
            _ = await peer.record { !$0.received.isEmpty }
            client.cancel()
            #expect(await peer.ended().end != nil)
            #expect(client.state.completions.isEmpty)
        }
    }

    // MARK: Through a proxy that relays

    /// A server of that kind, which echoes three bytes.
    private static func server(_ carrier: Carrier, _ bench: Bench) throws -> ScriptedPeer {
        let greeting: [ScriptedPeer.Step] = carrier.isWebSocket ? [.upgradeWebSocket] : []
        return try ScriptedPeer(
            on: bench.peerLoop, tls: carrier.isEncrypted ? try Fixture.server() : nil,
            scripts: [
                greeting + [
                    .expectCount(3), .send(carrier.isWebSocket ? [0x82, 2, 4, 5] : [4, 5]), .expectEnd,
                ]
            ])
    }

    @Test(arguments: Carrier.allCases, [false, true])
    func `each transport passes the tunnel, also inside TLS to the proxy`(
        carrier: Carrier, isEncrypted: Bool
    ) async throws {
        try await Bench.run { bench in
            let server = try Self.server(carrier, bench)
            defer { server.stop() }
            let relay = try TunnelProxy(
                on: bench.peerLoop, tls: isEncrypted ? try Fixture.server() : nil, target: server.port)
            defer { relay.stop() }
            var profile = try carrier.profile(port: 4711)
            profile.proxy = try Proxy(
                isEncrypted ? .https(Fixture.trust()) : .http, host: "127.0.0.1", port: Int(relay.port))
            let asked = Watched<[String]>([])
            let client = try bench.client(profile, resolver: Self.recordingResolver(asked))
            #expect(await client.outcome() == nil)
            expectObservations(client, carrier.stages, failure: nil)
            #expect(relay.heads.first?.hasPrefix("CONNECT localhost:4711 HTTP/1.1\r\n") == true)
            client.send([1, 2, 3])
            #expect(await client.received(2) == [4, 5])
            #expect(asked.value == [], "the proxy resolves the name")
            client.withStream { $0.close() }
            #expect(await client.end() == nil)
            #expect(await server.ended().mismatch == nil)
        }
    }

    @Test(arguments: [false, true])
    func `a large flow passes TLS inside TLS`(isEncrypted: Bool) async throws {
        try await Bench.run { bench in
            let block = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            let server = try bench.peer(
                tls: isEncrypted ? try Fixture.server() : nil,
                [.expectCount(block.count), .send(block), .expectEnd])
            defer { server.stop() }
            let relay = try TunnelProxy(on: bench.peerLoop, tls: try Fixture.server(), target: server.port)
            defer { relay.stop() }
            var profile = try Carrier.tls.profile()
            if !isEncrypted { profile.transport = .tcp }
            profile.proxy = try Proxy(.https(Fixture.trust()), host: "127.0.0.1", port: Int(relay.port))
            let client = try bench.client(profile)
            #expect(await client.outcome() == nil)
            client.send(block)
            #expect(await client.received(block.count) == block)
        }
    }

    @Test func `the certificate of the proxy is verified by its own options`() async throws {
        try await Bench.run { bench in
            let relay = try TunnelProxy(on: bench.peerLoop, tls: try Fixture.server(), target: 1)
            defer { relay.stop() }
            var profile = try Carrier.tls.profile()
            let strange = TLSOptions(trust: .file(try Fixture.files().wrongAuthority))
            profile.proxy = try Proxy(.https(strange), host: "127.0.0.1", port: Int(relay.port))
            let client = try bench.client(profile)
            let error = await client.outcome()
            #expect(error?.hop == "127.0.0.1:\(relay.port)")
            expectObservations(client, [.resolve, .tcp, .proxy], failure: .tlsUntrusted)
        }
    }

    @Test func `a failure behind the tunnel names the server, and the proxy as the way`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .expectUntil(Self.requestEnd), .send(Array("HTTP/1.1 200 OK\r\n\r\nSSH-2.0".utf8)), .hold,
            ])
            defer { peer.stop() }
            var profile = try Carrier.tls.profile()
            profile.proxy = try Self.proxy(peer)
            let client = try bench.client(profile)
            #expect(await client.outcome()?.hop == "localhost:4711 through 127.0.0.1:\(peer.port)")
            expectObservations(client, [.resolve, .tcp, .proxy, .tls], failure: .tlsPlaintextReply)
        }
    }

    @Test(arguments: [FailureCode.tcpClosed, .tcpReset])
    func `an end instead of a reply is the proxy's`(code: FailureCode) async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .expectUntil(Self.requestEnd), code == .tcpClosed ? .close : .reset,
            ])
            defer { peer.stop() }
            var profile = try Carrier.tls.profile()
            profile.proxy = try Self.proxy(peer)
            let client = try bench.client(profile)
            #expect(await client.outcome()?.hop == "127.0.0.1:\(peer.port)")
            expectObservations(client, [.resolve, .tcp, .proxy], failure: code)
        }
    }

    @Test func `what was changed after its check is checked again`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.expectEnd])
            defer { peer.stop() }
            var profile = try Carrier.tcp.profile()
            profile.proxy = try Self.proxy(peer)
            profile.proxy?.userName = "a\r\nX: y"
            let login = try bench.client(profile)
            #expect(await login.outcome()?.code == .clientInvalidArgument)
            profile.proxy?.userName = nil
            profile.host = "a b"
            let target = try bench.client(profile)
            #expect(await target.outcome()?.code == .clientInvalidArgument)
            #expect(await peer.ended(connection: 1).received == [])
        }
    }

    // MARK: SOCKS

    @Test(arguments: [Proxy.NameResolution.local, .proxy])
    func `who resolves the name for SOCKS is a choice`(resolution: Proxy.NameResolution) async throws {
        try await Bench.run { bench in
            let name = Array("broker.example".utf8)
            let target: [UInt8] =
                resolution == .local ? [1, 192, 0, 2, 7] : [3, UInt8(name.count)] + name
            let peer = try bench.peer([
                .expect([5, 2, 0, 2]), .send([5, 2]), .expect([1, 1, 117, 1, 112]), .send([1, 0]),
                .expect([5, 1, 0] + target + [7, 91]),
                .sendSlices([[5, 0, 0], [1, 0, 0, 0, 0, 0], [0, 9]]), .hold,
            ])
            defer { peer.stop() }
            let asked = Watched<[String]>([])
            let resolver = Resolver { host, port in
                asked.update { $0.append(host) }
                return .success([SocketAddress(literal: "192.0.2.7", port: port)].compactMap { $0 })
            }
            var profile = try ConnectionProfile.tcp(host: "broker.example")
            profile.proxy = try Self.proxy(peer, .socks5(resolution), login: ("u", "p"))
            let client = try bench.client(profile, resolver: resolver)
            #expect(await client.outcome() == nil)
            #expect(await client.received(1) == [9])
            expectObservations(client, Carrier.tcp.stages, failure: nil)
            #expect(asked.value == (resolution == .local ? ["broker.example"] : []))
        }
    }

    @Test func `where the proxy can't reach an address, the server's next one is tried`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(
                [.expect([5, 1, 0]), .send([5, 0]), .expectCount(22), .send([5, 4]), .close],
                [
                    .expect([5, 1, 0]), .send([5, 0]), .expect([5, 1, 0, 1, 192, 0, 2, 7, 7, 91]),
                    .send([5, 5]), .close,
                ])
            defer { peer.stop() }
            let resolver = Resolver { _, port in
                .success(["2001:db8::7", "192.0.2.7"].compactMap { SocketAddress(literal: $0, port: port) })
            }
            var profile = try ConnectionProfile.tcp(host: "broker.example")
            profile.proxy = try Self.proxy(peer, .socks5(.local))
            let client = try bench.client(profile, resolver: resolver)
            #expect(await client.outcome()?.evidence == .text("reply 5: connection refused"))
            expectObservations(client, [.resolve, .tcp, .proxy], failure: .proxySOCKSReply)
            #expect(peer.connectionCount == 2)
        }
    }

    @Test func `a name that doesn't resolve here is the server's, not the proxy's`() async throws {
        try await Bench.run { bench in
            var profile = try ConnectionProfile.tcp(host: "broker.example")
            profile.proxy = try Proxy(.socks5(.local), host: "127.0.0.1", port: 1)
            let client = try bench.client(profile, resolver: Self.recordingResolver(Watched([])))
            #expect(await client.outcome()?.hop == "broker.example")
            expectObservations(client, [.resolve], failure: .dnsNXDomain)
        }
    }

    // MARK: Redirects

    @Test func `a redirect is followed through the same proxy`() async throws {
        try await Bench.run { bench in
            let tunnel: [ScriptedPeer.Step] = [
                .expectUntil(Self.requestEnd), .send(Array("HTTP/1.1 200 OK\r\n\r\n".utf8)),
            ]
            let moved = "HTTP/1.1 307 Moved\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
            let peer = try bench.peer(
                tunnel + [.expectUntil(Self.requestEnd), .send(Array(moved.utf8)), .close],
                tunnel + [.upgradeWebSocket, .hold])
            defer { peer.stop() }
            var profile = try Carrier.webSocket.profile()
            profile.proxy = try Self.proxy(peer)
            let client = try bench.client(profile)
            #expect(await client.outcome() == nil)
            let stages: [ConnectionStage] = [.resolve, .tcp, .proxy, .webSocket]
            #expect(client.state.observations.map(\.stage) == stages + stages)
            let second = await peer.record(1) { $0.isScriptDone || !$0.received.isEmpty }
            #expect(String(decoding: second.received, as: UTF8.self).hasPrefix("CONNECT localhost:4711 "))
        }
    }
}
