import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// A client whose server sends it to a broker.
@Suite(.timeLimit(.minutes(1))) struct ClientRedirectTests {
    /// `127.0.0.1` and, as another host, `localhost`.
    private static func start(
        encrypted: Bool = false, allowsAnonymous: Bool = true, to host: String = "127.0.0.1",
        _ body: (LoopbackBroker, ScriptedPeer, ConnectionProfile) async throws -> Void
    ) async throws {
        var configuration = BrokerConfiguration()
        configuration.users = [.init(name: "user", password: "secret")]
        configuration.allowsAnonymous = allowsAnonymous
        let kind = encrypted ? LoopbackBroker.Kind.webSocketSecure : .webSocket
        let broker = try await LoopbackBroker.start(configuration, listeners: [.init(kind)])
        let loop = try EventLoop()
        let identity = broker.files.server
        let port = try #require(broker.ports[kind])
        let head =
            "HTTP/1.1 307 Moved\r\nLocation: \(encrypted ? "https" : "http")://\(host):\(port)/mqtt\r\n\r\n"
        let peer = try ScriptedPeer(
            on: loop,
            tls: encrypted
                ? try TLSContext(
                    serverCertificateFile: identity.certificate, privateKeyFile: identity.key) : nil,
            scripts: [[.answerUpgrade(head), .expectEnd]])
        var profile = try ConnectionProfile(
            url: "\(encrypted ? "wss" : "ws")://user:secret@127.0.0.1:\(peer.port)/first")
        profile.tls?.trust = .file(broker.authorityFile)
        do { try await body(broker, peer, profile) } catch { Issue.record(error) }
        peer.stop()
        loop.stopAndJoin()
        await broker.stop()
    }

    @Test(arguments: [false, true])
    func it_connects_there_and_says_so(_ isEncrypted: Bool) async throws {
        try await Self.start(encrypted: isEncrypted, allowsAnonymous: false) { broker, peer, profile in
            let client = MQTTClient(profile: profile, configuration: .init(clientID: "c"))
            let events = client.events
            let outcome = try await client.connect()
            let kind = isEncrypted ? LoopbackBroker.Kind.webSocketSecure : .webSocket
            #expect(outcome.profile.port == broker.ports[kind])
            #expect(outcome.profile.description == broker.url(kind))
            // The same host has the same login.
            #expect(outcome.profile.userName == "user")
            #expect(client.profile == profile)
            for await event in events {
                guard case .connected(let said) = event else { continue }
                #expect(said == outcome)
                break
            }
            let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce)
            try await client.publish("x", to: "t", qos: .atLeastOnce)
            var messages = subscription.makeAsyncIterator()
            #expect(try await messages.next()?.text == "x")
            await client.disconnect()
            #expect(peer.connectionCount == 1)
        }
    }

    @Test func a_reconnect_starts_from_the_profile_again() async throws {
        try await Self.start { broker, peer, profile in
            let client = MQTTClient(
                profile: profile, configuration: .init(clientID: "c", reconnect: .quick))
            try await client.connect()
            var states = client.events.makeAsyncIterator()
            await broker.dropAll()
            while case .some(let event) = await states.next() {
                guard case .reconnecting = event else { continue }
                break
            }
            while case .some(let event) = await states.next() {
                guard case .connected(let outcome) = event else { continue }
                #expect(outcome.profile.port == broker.ports[.webSocket])
                break
            }
            #expect(peer.connectionCount == 2)
            await client.disconnect()
        }
    }

    @Test func another_host_gets_no_login() async throws {
        try await Self.start(allowsAnonymous: true, to: "localhost") { broker, peer, profile in
            var profile = profile
            profile.webSocket?.redirects = .hosts(["localhost"])
            // A wrong login would be refused, and none isn't.
            profile.password = Array("wrong".utf8)
            var configuration = ClientConfiguration(clientID: "c")
            configuration.connectProperties.authenticationMethod = "TOKEN"
            configuration.connectProperties.authenticationData = [1, 2, 3]
            let client = MQTTClient(profile: profile, configuration: configuration)
            let outcome = try await client.connect()
            #expect(outcome.profile.host == "localhost")
            #expect(outcome.profile.userName == nil && outcome.profile.password == nil)
            await client.disconnect()
        }
    }

    @Test func another_host_gets_the_login_where_the_profile_says_so() async throws {
        try await Self.start(allowsAnonymous: false, to: "localhost") { broker, peer, profile in
            var profile = profile
            profile.webSocket?.redirects = .hosts(["localhost"])
            let without = MQTTClient(profile: profile, configuration: .init(clientID: "c"))
            let error = await #expect(throws: MQTTError.self) { try await without.connect() }
            #expect(error?.code == .mqttRefused)
            profile.webSocket?.redirects = .hosts([.init("localhost", credentials: .sentThereToo)])
            let with = MQTTClient(profile: profile, configuration: .init(clientID: "c"))
            let outcome = try await with.connect()
            #expect(outcome.profile.userName == "user")
            await with.disconnect()
        }
    }

    @Test func an_unlisted_host_is_named_in_the_error() async throws {
        try await Self.start(to: "localhost") { broker, peer, profile in
            let client = MQTTClient(profile: profile, configuration: .init(clientID: "c"))
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .wsRedirected)
            #expect(
                error?.description.contains(
                    "not followed: it leads to another host, localhost, which the profile doesn't list")
                    == true)
            #expect(await broker.counters.connections == 0)
        }
    }
}
