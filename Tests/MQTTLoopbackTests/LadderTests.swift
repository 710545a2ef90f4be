import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// A client with an automatic profile, in networks that let some of its ways through.
@Suite(.timeLimit(.minutes(1))) struct LadderTests {
    private static let stagger = Duration.milliseconds(100)
    /// Longer than a test may take: what follows, follows a failure.
    private static let never = Duration.seconds(600)
    private static let accepted: ScriptedPeer.Step = .send([0x20, 3, 0, 0, 0])

    /// TLS and secure WebSocket of a broker, as the two rungs of a ladder.
    private static func profile(
        _ broker: LoopbackBroker, rungs: [RouteLadder.Rung]? = nil
    ) throws -> ConnectionProfile {
        let both: [RouteLadder.Rung] = [
            .tls(port: try #require(broker.ports[.tls])),
            .webSocketSecure(port: try #require(broker.ports[.webSocketSecure])),
        ]
        var ladder = RouteLadder(rungs: rungs ?? both, stagger: stagger)
        ladder.tls.trust = .file(broker.authorityFile)
        return try .automatic(host: "127.0.0.1", ladder: ladder)
    }

    private static func configuration(_ memory: RouteMemory = RouteMemory()) -> ClientConfiguration {
        ClientConfiguration(version: .v5, clientID: "c", reconnect: .quick, routeMemory: memory)
    }

    private func withBroker(
        _ configuration: BrokerConfiguration = .init(),
        _ body: (LoopbackBroker, ConnectionProfile) async throws -> Void
    ) async throws {
        let broker = try await LoopbackBroker.start(configuration)
        do { try await body(broker, try Self.profile(broker)) } catch { Issue.record(error) }
        await broker.stop()
    }

    /// Plaintext peers as the rungs of a ladder that allows it.
    private func withPeers(
        _ scripts: [[ScriptedPeer.Step]], stagger: Duration = stagger,
        deadlines: StageDeadlines = StageDeadlines(),
        _ body: (MQTTClient, [ScriptedPeer]) async throws -> Void
    ) async throws {
        let loop = try EventLoop()
        let peers = try scripts.map { script throws in try ScriptedPeer(on: loop, scripts: [script]) }
        var profile = try ConnectionProfile.automatic(
            host: "127.0.0.1",
            ladder: RouteLadder(
                rungs: peers.map { .tcp(port: $0.port) }, stagger: stagger, allowsPlaintext: true))
        profile.deadlines = deadlines
        let client = MQTTClient(profile: profile, configuration: Self.configuration())
        do { try await body(client, peers) } catch { Issue.record(error) }
        await client.disconnect()
        for peer in peers { peer.stop() }
        loop.stopAndJoin()
    }

    @Test func the_best_way_is_taken_and_the_others_are_left_alone() async throws {
        try await withBroker { broker, profile in
            var profile = profile
            profile.ladder?.stagger = Self.never
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let outcome = try await client.connect()
            #expect(outcome.profile.port == broker.ports[.tls])
            #expect(outcome.routes.map(\.outcome) == [.connected, .notTried])
            try await client.publish("x", to: "t", qos: .atLeastOnce)
            await client.disconnect()
        }
    }

    @Test func a_port_that_drops_everything_costs_the_stagger() async throws {
        try await withBroker { broker, profile in
            try await broker.block(.tls, by: .dropping)
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let start = ContinuousClock.now
            let outcome = try await client.connect()
            let duration = start.duration(to: .now)
            #expect(duration >= Self.stagger)
            // Far from the 10 s that the silent port would have had.
            #expect(duration < .seconds(5))
            #expect(outcome.profile.port == broker.ports[.webSocketSecure])
            #expect(outcome.routes.map(\.outcome) == [.unfinished(.tcp), .connected])
            await client.disconnect()
        }
    }

    @Test func a_port_that_refuses_costs_nothing_and_stands_in_the_account() async throws {
        try await withBroker { broker, profile in
            try await broker.block(.tls, by: .refusing)
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let outcome = try await client.connect()
            #expect(outcome.profile.port == broker.ports[.webSocketSecure])
            guard case .failed(let error) = outcome.routes[0].outcome else {
                Issue.record("\(outcome.routes)")
                return
            }
            #expect(error.code == .tcpRefused)
            await client.disconnect()
        }
    }

    @Test func an_untrusted_certificate_fails_its_way_only_and_is_told() async throws {
        let other = try await LoopbackBroker.start(serverCertificate: .untrusted)
        try await withBroker { broker, _ in
            let profile = try Self.profile(
                broker,
                rungs: [
                    .tls(port: try #require(other.ports[.tls])), .tls(port: try #require(broker.ports[.tls])),
                ])
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let outcome = try await client.connect()
            #expect(outcome.profile.port == broker.ports[.tls])
            guard case .failed(let error) = outcome.routes[0].outcome else {
                Issue.record("\(outcome.routes)")
                return
            }
            #expect(error.code == .tlsUntrusted)
            await client.disconnect()
        }
        await other.stop()
    }

    @Test func where_all_ways_fail_the_error_tells_of_each() async throws {
        try await withBroker { broker, profile in
            try await broker.block(.tls, by: .refusing)
            try await broker.block(.webSocketSecure, by: .dropping)
            var profile = profile
            profile.deadlines.tcp = .milliseconds(300)
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            let outcomes = (error?.routes ?? []).map(\.outcome)
            let codes = outcomes.map { outcome in
                if case .failed(let error) = outcome { error.code } else { FailureCode?.none }
            }
            #expect(codes == [.tcpRefused, .tcpTimeout])
            #expect(error?.code == .tcpRefused)
            #expect(error?.description.contains("wss://127.0.0.1") == true)
        }
    }

    @Test func a_refusal_by_the_broker_ends_the_attempt() async throws {
        var broker = BrokerConfiguration()
        broker.users = [.init(name: "u", password: "right")]
        broker.allowsAnonymous = false
        try await withBroker(broker) { _, profile in
            var profile = profile
            profile.ladder?.stagger = Self.never
            var configuration = Self.configuration()
            configuration.userName = "u"
            configuration.password = Array("wrong".utf8)
            let client = MQTTClient(profile: profile, configuration: configuration)
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .mqttRefused)
            #expect(error?.reasonCode == .badUserNameOrPassword)
            #expect(error?.routes.last?.outcome == .notTried)
        }
    }

    @Test func the_total_deadline_ends_an_attempt_that_goes_nowhere() async throws {
        try await withBroker { broker, profile in
            try await broker.block(.tls, by: .dropping)
            try await broker.block(.webSocketSecure, by: .dropping)
            var profile = profile
            // Time enough for both to have begun on a busy machine.
            profile.ladder?.deadline = .seconds(3)
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let start = ContinuousClock.now
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(start.duration(to: .now) < profile.deadlines.tcp)
            #expect(error?.code == .tcpTimeout)
            #expect(error?.routes.map(\.outcome) == [.unfinished(.tcp), .unfinished(.tcp)])
        }
    }

    // MARK: CONNECT

    @Test func a_way_that_never_answers_connect_is_left_for_the_next() async throws {
        var deadlines = StageDeadlines()
        deadlines.mqttConnect = .milliseconds(300)
        let scripts: [[ScriptedPeer.Step]] = [[.hold], [.expectCount(2), Self.accepted, .hold]]
        try await withPeers(scripts, deadlines: deadlines) { client, peers in
            let outcome = try await client.connect()
            #expect(outcome.profile.port == peers[1].port)
            guard case .failed(let error) = outcome.routes[0].outcome else {
                Issue.record("\(outcome.routes)")
                return
            }
            #expect(error.code == .mqttConnackTimeout)
        }
    }

    @Test func a_way_that_ends_at_connect_is_followed_by_the_next_at_once() async throws {
        let scripts: [[ScriptedPeer.Step]] = [
            [.expectCount(2), .close],
            [.expectCount(2), .send(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)), .hold],
            [.expectCount(2), Self.accepted, .hold],
        ]
        try await withPeers(scripts, stagger: Self.never) { client, peers in
            let outcome = try await client.connect()
            #expect(outcome.profile.port == peers[2].port)
            let codes = outcome.routes.map { route in
                if case .failed(let error) = route.outcome { error.code } else { FailureCode?.none }
            }
            #expect(codes == [.tcpClosed, .mqttNotMQTT, nil])
        }
    }

    @Test func connect_is_sent_on_one_connection_at_a_time() async throws {
        // The second is open long before the first gives up on its CONNECT, and hears nothing until then.
        var deadlines = StageDeadlines()
        deadlines.mqttConnect = .milliseconds(500)
        let scripts: [[ScriptedPeer.Step]] = [[.hold], [.hold]]
        try await withPeers(scripts, deadlines: deadlines) { client, peers in
            async let failure = #expect(throws: MQTTError.self) { try await client.connect() }
            let second = await peers[1].record(when: { !$0.received.isEmpty })
            #expect(second.end == nil)
            let first = await peers[0].ended()
            #expect(first.received.first == 0x10)
            #expect(await failure?.code == .mqttConnackTimeout)
        }
    }

    @Test func a_busy_broker_is_asked_on_its_other_ways_too() async throws {
        let busy: ScriptedPeer.Step = .send([0x20, 3, 0, 0x89, 0])
        let scripts: [[ScriptedPeer.Step]] = [
            [.expectCount(2), busy, .expectEnd], [.expectCount(2), Self.accepted, .hold],
        ]
        try await withPeers(scripts, stagger: Self.never) { client, peers in
            let outcome = try await client.connect()
            #expect(outcome.profile.port == peers[1].port)
        }
    }

    @Test func giving_an_attempt_up_closes_all_its_connections() async throws {
        try await withPeers([[.hold], [.hold]]) { client, peers in
            let connecting = Task { try await client.connect() }
            while peers[1].connectionCount == 0 { await Task.yield() }
            connecting.cancel()
            await #expect(throws: CancellationError.self) { try await connecting.value }
            for peer in peers { _ = await peer.ended() }
        }
    }

    // MARK: Reconnects and memory

    @Test func a_reconnect_finds_another_way_when_the_first_is_blocked_meanwhile() async throws {
        try await withBroker { broker, profile in
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            var events = client.events.makeAsyncIterator()
            try await client.connect()
            #expect(await events.untilConnected().outcome?.profile.port == broker.ports[.tls])
            try await broker.block(.tls, by: .dropping)
            await broker.dropAll()
            #expect(await events.untilConnected().outcome?.profile.port == broker.ports[.webSocketSecure])
            await client.disconnect()
        }
    }

    @Test func the_way_that_got_through_is_tried_first_the_next_time() async throws {
        try await withBroker { broker, profile in
            var profile = profile
            profile.ladder?.stagger = Self.never
            let memory = RouteMemory()
            try await broker.block(.tls, by: .refusing)
            let first = MQTTClient(profile: profile, configuration: Self.configuration(memory))
            try await first.connect()
            await first.disconnect()
            await broker.unblock(.tls)
            // A program that ends after disconnect() has kept it.
            let ways = try profile.ways(environment: ProxyEnvironment([:])).0
            #expect(memory.ordered(ways, host: profile.host, on: .current()).first == ways[1])

            let second = MQTTClient(profile: profile, configuration: Self.configuration(memory))
            let outcome = try await second.connect()
            #expect(outcome.profile.port == broker.ports[.webSocketSecure])
            #expect(outcome.routes.map(\.outcome) == [.connected, .notTried])
            await second.disconnect()
        }
    }

    @Test func a_remembered_way_that_fails_is_followed_by_the_others() async throws {
        try await withBroker { broker, profile in
            let memory = RouteMemory()
            let ways = try profile.ways(environment: ProxyEnvironment([:])).0
            memory.succeeded(ways[1], host: profile.host, on: .current())
            try await broker.block(.webSocketSecure, by: .refusing)
            let client = MQTTClient(profile: profile, configuration: Self.configuration(memory))
            #expect(try await client.connect().profile.port == broker.ports[.tls])
            await client.disconnect()
        }
    }

    private static let connect5: [ScriptedPeer.Step] = [
        .expectCount(2), .expect([0, 4, 0x4D, 0x51, 0x54, 0x54, 5]),
    ]
    private static let connect3: [ScriptedPeer.Step] = [
        .expectCount(2), .expect([0, 4, 0x4D, 0x51, 0x54, 0x54, 4]),
    ]

    /// Two ways whose servers follow these scripts, one for each connection.
    private func withScripts(
        _ first: [[ScriptedPeer.Step]], _ second: [[ScriptedPeer.Step]],
        _ body: (ConnectOutcome, [ScriptedPeer]) async -> Void
    ) async throws {
        let loop = try EventLoop()
        let peers = [try ScriptedPeer(on: loop, scripts: first), try ScriptedPeer(on: loop, scripts: second)]
        var configuration = Self.configuration()
        configuration.version = .automatic
        let client = MQTTClient(
            profile: try .automatic(
                host: "127.0.0.1",
                ladder: RouteLadder(
                    rungs: peers.map { .tcp(port: $0.port) }, stagger: Self.never, allowsPlaintext: true)),
            configuration: configuration)
        do { await body(try await client.connect(), peers) } catch { Issue.record(error) }
        await client.disconnect()
        for peer in peers { peer.stop() }
        loop.stopAndJoin()
    }

    @Test func a_broker_that_refuses_5_0_is_spoken_to_in_3_1_1_on_the_same_way() async throws {
        let scripts = [
            Self.connect5 + [.send([0x20, 2, 0, 1]), .expectEnd],
            Self.connect3 + [.send([0x20, 2, 0, 0]), .hold],
        ]
        try await withScripts(scripts, [[.hold]]) { outcome, peers in
            #expect(outcome.version == .v3_1_1)
            #expect(outcome.profile.port == peers[0].port)
            #expect(peers[1].connectionCount == 0)
        }
    }

    @Test func a_hop_that_hangs_up_on_connect_costs_the_next_way_no_version() async throws {
        try await withScripts(
            [Self.connect5 + [.reset]], [Self.connect5 + [Self.accepted, .hold]]
        ) { outcome, peers in
            #expect(outcome.version == .v5)
            #expect(outcome.profile.port == peers[1].port)
            #expect(peers[0].connectionCount == 1)
        }
    }

    @Test func where_all_ways_hang_up_on_5_0_they_are_tried_in_3_1_1() async throws {
        try await withScripts(
            [Self.connect5 + [.close]],
            [Self.connect5 + [.close], Self.connect3 + [.send([0x20, 2, 0, 0]), .hold]]
        ) { outcome, peers in
            #expect(outcome.version == .v3_1_1)
            #expect(outcome.profile.port == peers[1].port)
            #expect(peers.map(\.connectionCount) == [1, 2])
        }
    }

    @Test func a_ladder_that_was_spoilt_later_fails_in_words() async throws {
        try await withBroker { _, profile in
            var profile = profile
            profile.ladder?.rungs.append(.tcp(port: 1))
            let client = MQTTClient(profile: profile, configuration: Self.configuration())
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .clientInvalidArgument)
            #expect(error?.stage == .local)
        }
    }

    /// The server hangs up on 5.0, and leaves 3.1.1 without an answer.
    @Test func the_deadline_of_an_attempt_holds_over_both_versions() async throws {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(
            on: loop, scripts: [[.expectCount(10), .pause(.milliseconds(3500)), .close], [.hold]])
        let profile = try ConnectionProfile.automatic(
            host: "127.0.0.1",
            ladder: RouteLadder(
                rungs: [.tcp(port: peer.port)], deadline: .seconds(4), allowsPlaintext: true))
        var configuration = Self.configuration()
        configuration.version = .automatic
        configuration.reconnect = .never
        let client = MQTTClient(profile: profile, configuration: configuration)
        let start = ContinuousClock.now
        await #expect(throws: MQTTError.self) { try await client.connect() }
        let duration = start.duration(to: .now)
        #expect(peer.connectionCount == 2)
        // Begun anew, it would be 7.5 s.
        #expect(duration >= .seconds(4) && duration < .seconds(7))
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }
}
