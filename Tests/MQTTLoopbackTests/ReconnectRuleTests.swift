import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Which ends of a connection are tried again, as a program sees it.
@Suite(.timeLimit(.minutes(1))) struct ReconnectRuleTests {
    private func run(
        _ scripts: [[ScriptedPeer.Step]], _ configuration: ClientConfiguration,
        _ body: (MQTTClient, ScriptedPeer) async throws -> Void
    ) async throws {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(on: loop, scripts: scripts)
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)), configuration: configuration)
        do { try await body(client, peer) } catch { Issue.record(error) }
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }

    /// CONNECT with this password, and the answer. DISCONNECT 0x87 is what a broker says when a token has expired.
    private func login(_ password: String, _ answer: [UInt8]...) -> [ScriptedPeer.Step] {
        [.expectUntil(Array(password.utf8))] + answer.map { .send($0) } + [.hold]
    }

    private static let accepted: [UInt8] = [0x20, 3, 0, 0, 0]
    private static let badLogin: [UInt8] = [0x20, 3, 0, 0x86, 0]
    private static let notAuthorized: [UInt8] = [0xE0, 2, 0x87, 0]

    private func configuration(_ tokens: [String]) -> ClientConfiguration {
        let left = Lock(tokens)
        return ClientConfiguration(
            version: .v5, clientID: "client-x", reconnect: .quick,
            credentials: { _ in
                let token = left.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
                return Credentials(userName: "u", password: token)
            })
    }

    @Test func a_refused_login_is_followed_by_others() async throws {
        let scripts = [
            login("token-1", Self.accepted, Self.notAuthorized), login("token-2", Self.badLogin),
            login("token-3", Self.accepted),
        ]
        try await run(scripts, configuration(["token-1", "token-2", "token-3"])) { client, peer in
            var events = client.events.makeAsyncIterator()
            try await client.connect()
            _ = await events.untilConnected()
            let (words, outcome) = await events.untilConnected()
            #expect(
                words == [
                    "interrupted mqtt.server_disconnected", "reconnecting 1", "connecting 1",
                    "reconnecting 2",
                    "connecting 2",
                ])
            #expect(outcome != nil)
            #expect(peer.connectionCount == 3)
        }
    }

    @Test func the_same_login_is_not_tried_twice_and_connect_tries_it() async throws {
        let scripts = [
            login("token-1", Self.accepted, Self.notAuthorized), login("token-1", Self.accepted),
        ]
        try await run(scripts, configuration(["token-1"])) { client, peer in
            var events = client.events.makeAsyncIterator()
            try await client.connect()
            _ = await events.untilConnected()
            let (words, _) = await events.untilConnected()
            #expect(words.last == "disconnected mqtt.server_disconnected")
            #expect(peer.connectionCount == 1)
            try await client.connect()
            #expect(peer.connectionCount == 2)
        }
    }

    @Test func two_closes_straight_after_CONNACK_are_told_as_a_takeover_that_is_inferred() async throws {
        let kick: [ScriptedPeer.Step] = [
            .expectUntil(Array("client-x".utf8)), .send([0x20, 2, 0, 0]), .close,
        ]
        let configuration = ClientConfiguration(
            version: .v3_1_1, clientID: "client-x", reconnect: .quick)
        try await run(
            [kick, kick, [.expectUntil(Array("client-x".utf8)), .send([0x20, 2, 0, 0]), .hold]], configuration
        ) { client, peer in
            var events = client.events.makeAsyncIterator()
            try await client.connect()
            var errors: [MQTTError] = []
            while errors.count < 2, let event = await events.next() {
                if case .reconnecting(_, _, let error) = event { errors.append(error) }
            }
            #expect(errors.map(\.code) == [.tcpClosed, .mqttTakenOver])
            #expect(errors.last?.description.contains("inferred") == true)
            // A hop may have done it: the client isn't lost.
            #expect(await events.untilConnected().outcome != nil)
            #expect(peer.connectionCount == 3)
        }
    }
}
