import MQTTConformance
import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// A client whose server sends it to another one (5.0, section 4.11).
@Suite(.timeLimit(.minutes(1))) struct ServerRedirectionTests {
    /// Two brokers, both at 127.0.0.1, where the second counts as another host by the name of `localhost`.
    private static func start(
        _ kind: LoopbackBroker.Kind = .tcp, second: BrokerConfiguration = .init(),
        requiresClientCertificate: Bool = false,
        _ body: (LoopbackBroker, LoopbackBroker, ConnectionProfile) async throws -> Void
    ) async throws {
        let certificates = try TestCertificates()
        let first = try await LoopbackBroker.start(listeners: [.init(kind)], certificates: certificates)
        let second = try await LoopbackBroker.start(
            second, listeners: [.init(.tcp), .init(.tls), .init(.webSocket), .init(.webSocketSecure)],
            certificates: certificates, requiresClientCertificate: requiresClientCertificate)
        do { try await body(first, second, first.profile(kind)) } catch { Issue.record(error) }
        await first.stop()
        await second.stop()
    }

    private static func configuration(
        _ redirection: ServerRedirection = .sameTransport(hosts: []), reconnect: ReconnectStrategy = .quick
    ) -> ClientConfiguration {
        ClientConfiguration(version: .v5, clientID: "c", reconnect: reconnect, redirection: redirection)
    }

    private static func reference(_ broker: LoopbackBroker, _ kind: LoopbackBroker.Kind = .tcp) throws
        -> String
    {
        "127.0.0.1:\(try #require(broker.ports[kind]))"
    }

    // MARK: CONNACK

    @Test(.mqtt5("detect-server-reference"))
    func connack_0x9C_leads_elsewhere_until_the_connection_ends() async throws {
        try await Self.start { first, second, profile in
            await first.redirectConnects(to: .init(try Self.reference(second)))
            let heard = Lock<[String]>([])
            var configuration = Self.configuration()
            configuration.log = { _, event in
                guard case .triesServer(let profile, let error) = event else { return }
                heard.withLock { $0.append("\(profile) \(error.code.rawValue)") }
            }
            let client = MQTTClient(profile: profile, configuration: configuration)
            var events = client.events.makeAsyncIterator()
            let outcome = try await client.connect()
            #expect(outcome.profile.port == second.ports[.tcp])
            #expect(client.profile == profile)
            #expect(heard.withLock { $0 } == ["\(second.url(.tcp)) mqtt.redirect"])
            let seen = await events.untilConnected()
            #expect(seen.words == ["idle", "connecting 1"])

            let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce)
            var messages = subscription.makeAsyncIterator()
            try await client.publish("x", to: "t", qos: .atLeastOnce)
            #expect(try await messages.next()?.text == "x")
            #expect(await second.connectedClients == ["c"])

            await first.redirectConnects(to: nil)
            await second.dropAll()
            let again = await events.untilConnected()
            #expect(again.outcome?.profile.port == first.ports[.tcp])
            try await client.publish("y", to: "t", qos: .atLeastOnce)
            #expect(try await messages.next()?.text == "y")
            #expect(await first.connectedClients == ["c"])
            await client.disconnect()
        }
    }

    @Test(.mqtt5("detect-server-reference"))
    func connack_0x9D_leads_elsewhere_for_good() async throws {
        try await Self.start { first, second, profile in
            await first.redirectConnects(to: .init(try Self.reference(second), isPermanent: true))
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            try await client.connect()
            var events = client.events.makeAsyncIterator()
            _ = await events.untilConnected()
            await first.redirectConnects(to: nil)
            await second.dropAll()
            #expect(await events.untilConnected().outcome?.profile.port == second.ports[.tcp])
            await client.disconnect()
            // Also for who connects again.
            #expect(try await client.connect().profile.port == second.ports[.tcp])
            await client.disconnect()
            #expect(await first.counters.connections == 1)
        }
    }

    @Test func a_refused_one_ends_the_attempt_and_says_why() async throws {
        try await Self.start { first, second, profile in
            let refused = "Server Reference: localhost:1; not followed: the client's policy is against it"
            let policies: [(ServerRedirection, String?)] = [
                (.report, "Server Reference: localhost:1"), (.follow { _ in nil }, refused),
                (.sameTransport(hosts: ["b.example"]), refused),
            ]
            await first.redirectConnects(to: .init("localhost:1"))
            for (policy, words) in policies {
                let client = MQTTClient(profile: profile, configuration: Self.configuration(policy))
                let error = await #expect(throws: MQTTError.self) { try await client.connect() }
                #expect(error?.code == .mqttRedirect)
                #expect(error?.stage == .mqttConnect)
                guard case .reasonCode(0x9C, _, let said)? = error?.evidence else {
                    Issue.record("not by its Reason Code")
                    return
                }
                #expect(said == words)
            }
        }
    }

    @Test func servers_that_name_each_other_are_tried_once() async throws {
        try await Self.start { first, second, profile in
            await first.redirectConnects(to: .init(try Self.reference(second)))
            await second.redirectConnects(to: .init(try Self.reference(first), isPermanent: true))
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .mqttRedirect)
            #expect(error?.description.contains("not followed: it leads back to \(profile)") == true)
            #expect(await first.counters.connections == 1)
            #expect(await second.counters.connections == 1)
        }
    }

    @Test func a_place_that_is_not_there_fails_as_itself() async throws {
        try await Self.start { first, second, profile in
            let gone = try Self.reference(second)
            await first.redirectConnects(to: .init(gone, isPermanent: true))
            try await second.block(.tcp, by: .refusing)
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .tcpRefused)
            #expect(error?.hop == gone)
            // It never accepted: the next attempt asks the first one again.
            await first.redirectConnects(to: nil)
            #expect(try await client.connect().profile.port == first.ports[.tcp])
            await client.disconnect()
        }
    }

    @Test func secure_websocket_never_leads_to_plaintext() async throws {
        try await Self.start(.webSocketSecure) { first, second, profile in
            await first.redirectConnects(to: .init(second.url(.webSocket)))
            let client = MQTTClient(
                profile: profile,
                configuration: Self.configuration(
                    .follow { $0.references[0].url.map { RedirectionTarget($0, credentials: .sentThereToo) } }
                ))
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .mqttRedirect)
            #expect(error?.description.contains("from encryption to plaintext") == true)
            #expect(await second.counters.connections == 0)
        }
    }

    @Test(arguments: [LoopbackBroker.Kind.tls, .webSocket, .webSocketSecure])
    func other_transports_keep_their_options(_ kind: LoopbackBroker.Kind) async throws {
        try await Self.start(kind) { first, second, profile in
            await first.redirectConnects(to: .init(try Self.reference(second, kind)))
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let outcome = try await client.connect()
            #expect(outcome.profile.description == second.url(kind))
            await client.disconnect()
        }
    }

    @Test func a_3_1_1_client_is_just_refused() async throws {
        try await Self.start { first, second, profile in
            await first.redirectConnects(to: .init(try Self.reference(second)))
            var configuration = Self.configuration()
            configuration.version = .v3_1_1
            let client = MQTTClient(profile: profile, configuration: configuration)
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .mqttRefused)
            #expect(await second.counters.connections == 0)
        }
    }

    // MARK: Credentials

    @Test func another_host_gets_the_login_only_where_the_policy_says_so() async throws {
        var secondConfiguration = BrokerConfiguration()
        secondConfiguration.users = [.init(name: "user", password: "secret")]
        secondConfiguration.allowsAnonymous = false
        try await Self.start(second: secondConfiguration) { first, second, profile in
            let port = try #require(second.ports[.tcp])
            await first.redirectConnects(to: .init("localhost:\(port)"))
            var profile = profile
            profile.userName = "user"
            profile.password = Array("secret".utf8)
            let without = MQTTClient(
                profile: profile, configuration: Self.configuration(.sameTransport(hosts: ["localhost"])))
            let error = await #expect(throws: MQTTError.self) { try await without.connect() }
            #expect(error?.code == .mqttRefused)
            #expect(error?.reasonCode == .notAuthorized)
            let with = MQTTClient(
                profile: profile,
                configuration: Self.configuration(
                    .sameTransport(hosts: [.init("localhost", credentials: .sentThereToo)])))
            #expect(try await with.connect().profile.userName == "user")
            await with.disconnect()
        }
    }

    @Test(arguments: [RedirectPolicy.Credentials.withheld, .sentThereToo])
    func so_does_the_client_certificate(_ credentials: RedirectPolicy.Credentials) async throws {
        try await Self.start(.tls, requiresClientCertificate: true) { first, second, profile in
            let port = try #require(second.ports[.tls])
            await first.redirectConnects(to: .init("localhost:\(port)"))
            var profile = profile
            profile.tls?.identity = .init(
                certificateFile: second.files.client.certificate, privateKeyFile: second.files.client.key)
            let client = MQTTClient(
                profile: profile,
                configuration: Self.configuration(
                    .sameTransport(hosts: [.init("localhost", credentials: credentials)])))
            switch credentials {
            case .withheld:
                let error = await #expect(throws: MQTTError.self) { try await client.connect() }
                #expect(error?.code == .tlsClientCertRequired)
            case .sentThereToo:
                #expect(try await client.connect().profile.host == "localhost")
                await client.disconnect()
            }
        }
    }

    @Test(arguments: [RedirectPolicy.Credentials.withheld, .sentThereToo])
    func so_does_authentication(_ credentials: RedirectPolicy.Credentials) async throws {
        let second = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let loop = try EventLoop()
        let reference = Array("localhost:\(try #require(second.ports[.tcp]))".utf8)
        let connack =
            [0x20, UInt8(6 + reference.count), 0, 0x9C, UInt8(3 + reference.count), 0x1C, 0]
            + [UInt8(reference.count)] + reference
        let peer = try ScriptedPeer(
            on: loop, scripts: [[.expectUntil(Array("TOKEN".utf8)), .send(connack), .expectEnd]])
        var configuration = Self.configuration(
            .sameTransport(hosts: [.init("localhost", credentials: credentials)]))
        configuration.connectProperties.authenticationMethod = "TOKEN"
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)), configuration: configuration)
        switch credentials {
        case .withheld:
            #expect(try await client.connect().profile.host == "localhost")
        case .sentThereToo:
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.reasonCode == .badAuthenticationMethod)
        }
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
        await second.stop()
    }

    // MARK: DISCONNECT

    @Test(.mqtt5("detect-server-reference"))
    func disconnect_0x9D_moves_the_session_at_once() async throws {
        let second = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let loop = try EventLoop()
        let peer = try ScriptedPeer(
            on: loop,
            scripts: [
                [
                    .expectUntil(Array("c".utf8)), .send([0x20, 3, 0, 0, 0]),
                    // SUBSCRIBE 1 to "t", QoS 1, Subscription Identifier 1; SUBACK
                    .expectUntil([0x82, 9, 0, 1, 2, 0x0B, 1, 0, 1, 0x74, 1]), .send([0x90, 4, 0, 1, 0, 1]),
                    // PUBLISH 2 "x", which is not acknowledged
                    .expect([0x32, 7, 0, 1, 0x74, 0, 2, 0, 0x78]),
                    .send(Self.disconnect(.serverMoved, try Self.reference(second))), .expectEnd,
                ]
            ])
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)),
            configuration: Self.configuration(reconnect: .never))
        try await client.connect()
        var events = client.events.makeAsyncIterator()
        _ = await events.untilConnected()
        let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce)
        // Returns with the other server's PUBACK.
        #expect(try await client.publish("x", to: "t", qos: .atLeastOnce).reasonCode == .success)
        var messages = subscription.makeAsyncIterator()
        #expect(try await messages.next()?.text == "x")
        let seen = await events.untilConnected()
        #expect(seen.words == ["interrupted mqtt.redirect", "connecting 1"])
        #expect(seen.outcome?.profile.port == second.ports[.tcp])
        #expect(peer.connectionCount == 1)
        #expect(await peer.ended().mismatch == nil)
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
        await second.stop()
    }

    @Test func a_session_that_the_first_server_has_kept_is_not_mistaken_for_the_present_one() async throws {
        try await Self.start { first, second, profile in
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            try await client.connect()
            var events = client.events.makeAsyncIterator()
            _ = await events.untilConnected()
            let old = try await client.subscribe(to: "old", qos: .atLeastOnce)
            await first.redirect(clientID: "c", to: .init(try Self.reference(second)))
            #expect(await events.untilConnected().outcome?.profile.port == second.ports[.tcp])
            let new = try await client.subscribe(to: "new", qos: .atLeastOnce)
            await second.dropAll()
            let back = await events.untilConnected()
            #expect(back.outcome?.profile.port == first.ports[.tcp])
            #expect(back.outcome?.sessionPresent == false)
            try await client.publish("1", to: "old", qos: .atLeastOnce)
            try await client.publish("2", to: "new", qos: .atLeastOnce)
            var oldMessages = old.makeAsyncIterator()
            var newMessages = new.makeAsyncIterator()
            #expect(try await oldMessages.next()?.text == "1")
            #expect(try await newMessages.next()?.text == "2")
            await client.disconnect()
        }
    }

    @Test(arguments: [nil, "::", "c.example:1"])
    func a_disconnect_that_is_not_followed_is_a_lost_connection(_ reference: String?) async throws {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(
            on: loop,
            scripts: [
                [
                    .expectUntil(Array("c".utf8)), .send([0x20, 3, 0, 0, 0]),
                    .send(Self.disconnect(.useAnotherServer, reference)), .expectEnd,
                ],
                [.expectUntil(Array("c".utf8)), .send([0x20, 3, 0, 0, 0]), .hold],
            ])
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)), configuration: Self.configuration())
        var events = client.events.makeAsyncIterator()
        try await client.connect()
        _ = await events.untilConnected()
        let seen = await events.untilConnected()
        #expect(seen.words == ["interrupted mqtt.redirect", "reconnecting 1", "connecting 1"])
        #expect(peer.connectionCount == 2)
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }

    @Test func servers_that_accept_and_send_away_are_tried_again_after_a_pause() async throws {
        let loop = try EventLoop()
        let accept: [ScriptedPeer.Step] = [.expectUntil(Array("c".utf8)), .send([0x20, 3, 0, 0, 0])]
        // Each sends the client to the other; to the second's port the first's comes by way of the policy.
        let send: [ScriptedPeer.Step] = [.send(Self.disconnect(.useAnotherServer, "127.0.0.1")), .expectEnd]
        let first = try ScriptedPeer(on: loop, scripts: [accept + send, accept + [.hold]])
        let second = try ScriptedPeer(on: loop, scripts: [accept + send])
        let ports = (Int(first.port), Int(second.port))
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: ports.0),
            configuration: Self.configuration(
                .follow { request in
                    let other = Int(request.profile.port) == ports.0 ? ports.1 : ports.0
                    return (try? .tcp(host: "127.0.0.1", port: other)).map { RedirectionTarget($0) }
                }))
        var events = client.events.makeAsyncIterator()
        try await client.connect()
        _ = await events.untilConnected()
        _ = await events.untilConnected()
        let seen = await events.untilConnected()
        #expect(seen.words == ["interrupted mqtt.redirect", "reconnecting 1", "connecting 1"])
        #expect(first.connectionCount == 2)
        #expect(second.connectionCount == 1)
        await client.disconnect()
        first.stop()
        second.stop()
        loop.stopAndJoin()
    }

    private static func disconnect(_ code: ReasonCode, _ reference: String?) -> [UInt8] {
        let text = Array((reference ?? "").utf8)
        let properties = reference == nil ? [] : [0x1C, 0, UInt8(text.count)] + text
        return [0xE0, UInt8(2 + properties.count), code.rawValue, UInt8(properties.count)] + properties
    }
}
