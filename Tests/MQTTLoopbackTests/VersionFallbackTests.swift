import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// `.automatic` against servers that know one version only. Each has a port of its own, so none is remembered.
@Suite(.timeLimit(.minutes(1))) struct VersionFallbackTests {
    private static let clientID: [UInt8] = Array("client-x".utf8)
    /// CONNECT up to its protocol level (3.1.2.2).
    private static let connect5: [ScriptedPeer.Step] = [
        .expectCount(2), .expect([0, 4, 0x4D, 0x51, 0x54, 0x54, 5]), .expectUntil(clientID),
    ]
    private static let connect3: [ScriptedPeer.Step] = [
        .expectCount(2), .expect([0, 4, 0x4D, 0x51, 0x54, 0x54, 4]), .expectUntil(clientID),
    ]
    private static let accepted3: ScriptedPeer.Step = .send([0x20, 2, 0, 0])
    private static let accepted5: ScriptedPeer.Step = .send([0x20, 3, 0, 0, 0])

    /// How servers show that they don't know 5.0.
    enum Refusal: CaseIterable, Sendable {
        case returnCodeOf311, reasonCodeOf5, hangsUp, resets

        var step: ScriptedPeer.Step {
            switch self {
            case .returnCodeOf311: .send([0x20, 2, 0, 1])
            case .reasonCodeOf5: .send([0x20, 3, 0, 0x84, 0])
            case .hangsUp: .close
            case .resets: .reset
            }
        }
    }

    private func run(
        _ scripts: [[ScriptedPeer.Step]], version: ClientConfiguration.Version = .automatic,
        _ body: (MQTTClient, ScriptedPeer) async throws -> Void
    ) async throws {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(on: loop, scripts: scripts)
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)),
            configuration: ClientConfiguration(version: version, clientID: "client-x", reconnect: .quick))
        do { try await body(client, peer) } catch { Issue.record(error) }
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }

    @Test(arguments: Refusal.allCases)
    func a_server_that_refuses_5_0_is_spoken_to_in_3_1_1_at_once(_ refusal: Refusal) async throws {
        let scripts = [Self.connect5 + [refusal.step], Self.connect3 + [Self.accepted3]]
        try await run(scripts) { client, peer in
            let outcome = try await client.connect()
            #expect(outcome.version == .v3_1_1)
            #expect(peer.connectionCount == 2)
            #expect(await peer.finished(connection: 0).mismatch == nil)
            #expect(await peer.finished(connection: 1).mismatch == nil)
        }
    }

    @Test func a_reconnect_speaks_the_version_that_was_accepted() async throws {
        let scripts = [
            Self.connect5 + [Refusal.hangsUp.step], Self.connect3 + [Self.accepted3, .close],
            Self.connect3 + [Self.accepted3],
        ]
        try await run(scripts) { client, peer in
            try await client.connect()
            let third = await peer.finished(connection: 2)
            #expect(third.mismatch == nil)
            #expect(third.isScriptDone)
        }
    }

    @Test func the_next_client_of_the_process_speaks_3_1_1_first() async throws {
        let scripts = [
            Self.connect5 + [Refusal.hangsUp.step], Self.connect3 + [Self.accepted3, .hold],
        ]
        try await run(scripts) { client, peer in
            try await client.connect()
            let next = MQTTClient(
                profile: client.profile, configuration: ClientConfiguration(clientID: "client-x"))
            #expect(try await next.connect().version == .v3_1_1)
            #expect(peer.connectionCount == 3)
            await next.disconnect()
        }
    }

    @Test func a_server_that_hangs_up_on_both_is_reported_as_that() async throws {
        try await run([Self.connect5 + [.close], Self.connect3 + [.close]]) { client, peer in
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .tcpClosed)
            #expect(error?.stage == .mqttConnect)
            #expect(peer.connectionCount == 2)
        }
    }

    @Test func another_refusal_is_no_reason_to_try_3_1_1() async throws {
        try await run([Self.connect5 + [.send([0x20, 3, 0, 0x86, 0]), .hold]]) { client, peer in
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .mqttRefused)
            #expect(peer.connectionCount == 1)
        }
    }

    @Test func a_pinned_version_is_not_given_up() async throws {
        try await run([Self.connect5 + [Refusal.reasonCodeOf5.step]], version: .v5) { client, peer in
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .mqttVersionUnsupported)
            #expect(peer.connectionCount == 1)
        }
    }

    /// Options that 3.1.1 doesn't have fail in words; what it has goes on.
    @Test func what_was_asked_for_before_the_fallback_is_carried_over() async throws {
        let scripts = [
            Self.connect5 + [Refusal.hangsUp.step],
            Self.connect3 + [
                Self.accepted3, .expect([0x82, 6, 0, 1, 0, 1, 0x74, 1]), .send([0x90, 3, 0, 1, 1]), .hold,
            ],
        ]
        try await run(scripts) { client, _ in
            async let connected = client.connect()
            // The attempt is under way once this event has come, so that the calls wait for its end.
            for await event in client.events {
                if case .connecting = event { break }
                if case .connected = event { break }
            }
            async let refused: Void = {
                let error = await #expect(throws: MQTTError.self) {
                    _ = try await client.subscribe(to: "u", options: SubscriptionOptions(noLocal: true))
                }
                #expect(error?.code == .clientInvalidArgument)
            }()
            let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce)
            #expect(subscription.grantedQoS == .atLeastOnce)
            await refused
            #expect(try await connected.version == .v3_1_1)
        }
    }

    @Test func a_request_says_that_it_needs_5_0() async throws {
        let scripts = [Self.connect5 + [Refusal.hangsUp.step], Self.connect3 + [Self.accepted3, .hold]]
        try await run(scripts) { client, _ in
            try await client.connect()
            let error = await #expect(throws: MQTTError.self) {
                _ = try await client.request("x", to: "t", timeout: .seconds(30))
            }
            #expect(error?.code == .clientInvalidArgument)
            #expect(error?.description.contains("5.0") == true)
        }
    }
}
