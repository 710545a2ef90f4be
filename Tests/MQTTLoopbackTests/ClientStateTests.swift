import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

@Suite(.timeLimit(.minutes(1))) struct ClientStateTests {
    @Test func from_idle_through_an_outage_to_the_end() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(
                clientID: "c", reconnect: .jittered(base: .seconds(36000), maximum: .seconds(36000))))
        #expect(client.state == .idle)
        var events = client.events.makeAsyncIterator()
        let outcome = try await client.connect()
        #expect(client.state == .connected(outcome))
        _ = await events.untilConnected()

        let before = ContinuousClock.now
        await broker.dropAll()
        guard case .interrupted(let reason)? = await events.next() else {
            Issue.record("no interruption was told")
            return
        }
        // Whoever has heard of the loss doesn't find a connection.
        guard case .waiting(let wait) = client.state else {
            Issue.record("\(client.state)")
            return
        }
        #expect(wait.attempt == 1)
        #expect(wait.reason == reason)
        #expect(wait.until > before)
        guard case .reconnecting(1, let delay, reason)? = await events.next() else {
            Issue.record("no wait was told")
            return
        }
        #expect(wait.until - delay >= before && wait.until - delay <= .now)
        // Who comes later hears what is left of the wait.
        var late = client.events.makeAsyncIterator()
        guard case .reconnecting(1, let rest, reason)? = await late.next() else {
            Issue.record("the present state isn't told")
            return
        }
        #expect(rest <= delay)

        #expect(try await client.connect().clientID == "c")
        guard case .connected = client.state else {
            Issue.record("\(client.state)")
            return
        }
        await client.suspend()
        #expect(client.state == .suspended)
        await client.disconnect()
        #expect(client.state == .ended(nil))
        await broker.stop()
    }

    @Test func an_attempt_tells_how_far_it_has_got() async throws {
        let loop = try EventLoop()
        let silent: [ScriptedPeer.Step] = [.expectUntil(Array("client-x".utf8)), .hold]
        let peer = try ScriptedPeer(on: loop, scripts: [silent])
        let profile = try ConnectionProfile.tcp(host: "127.0.0.1", port: Int(peer.port))
        let passed = Watched<[ConnectionStage]>([])
        var configuration = ClientConfiguration(version: .v5, clientID: "client-x")
        configuration.log = { _, event in
            if case .stage(let observation, _) = event { passed.update { $0.append(observation.stage) } }
        }
        let client = MQTTClient(profile: profile, configuration: configuration)
        let connecting = Task { try await client.connect() }
        _ = await passed.first { $0.contains(.tcp) }
        #expect(
            client.state
                == .connecting(.init(number: 1, furthest: .init(way: profile, passed: .tcp))))
        connecting.cancel()
        _ = await connecting.result
        peer.stop()
        loop.stopAndJoin()
    }

    @Test func a_failed_connect_finds_its_own_error_in_the_state() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let profile = try broker.profile(.tcp)
        try await broker.block(.tcp, by: .refusing)
        let client = MQTTClient(profile: profile)
        let error = await #expect(throws: MQTTError.self) { try await client.connect() }
        #expect(client.state == .ended(error))
        #expect(error?.code == .tcpRefused)
        await broker.stop()
    }
}
