import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// The program's own code, asked before each attempt.
@Suite(.timeLimit(.minutes(1))) struct HookTests {
    private struct NoToken: Error, CustomStringConvertible {
        let description = "the token service is down"
    }

    private func withBroker(
        _ body: (LoopbackBroker) async throws -> Void
    ) async throws {
        var configuration = BrokerConfiguration()
        configuration.users = [.init(name: "u", password: "token-2")]
        configuration.allowsAnonymous = false
        let broker = try await LoopbackBroker.start(configuration, listeners: [.init(.tcp)])
        do { try await body(broker) } catch { Issue.record(error) }
        await broker.stop()
    }

    @Test func credentials_are_asked_for_before_every_attempt() async throws {
        try await withBroker { broker in
            let asked = Lock<[ConnectionAttempt]>([])
            let profile = try broker.profile(.tcp)
            let configuration = ClientConfiguration(
                version: .v5, clientID: "c", userName: "passed over", password: Array("x".utf8),
                reconnect: .quick,
                credentials: { attempt in
                    asked.withLock { $0.append(attempt) }
                    return Credentials(userName: "u", password: "token-2")
                })
            let client = MQTTClient(profile: profile, configuration: configuration)
            var events = client.events.makeAsyncIterator()
            try await client.connect()
            _ = await events.untilConnected()
            await broker.dropAll()
            _ = await events.untilConnected()
            let attempts = asked.withLock { $0 }
            #expect(attempts.map(\.number) == [1, 1])
            #expect(attempts.map { $0.lastError?.code } == [nil, .tcpReset])
            #expect(attempts.map(\.profile) == [profile, profile])
            await client.disconnect()
        }
    }

    @Test func credentials_that_the_broker_refuses_can_be_others_at_the_next_connect() async throws {
        try await withBroker { broker in
            let number = Lock(0)
            let configuration = ClientConfiguration(
                version: .v5, clientID: "c",
                credentials: { attempt in
                    let token = number.withLock { number in
                        number += 1
                        return "token-\(number)"
                    }
                    if let error = attempt.lastError { #expect(error.reasonCode == .badUserNameOrPassword) }
                    return Credentials(userName: "u", password: token)
                })
            let client = MQTTClient(profile: try broker.profile(.tcp), configuration: configuration)
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .mqttRefused)
            try await client.connect()
            await client.disconnect()
        }
    }

    @Test func a_provider_that_throws_fails_the_attempt_and_is_asked_again() async throws {
        try await withBroker { broker in
            let isDown = Lock(true)
            let configuration = ClientConfiguration(
                version: .v5, clientID: "c",
                reconnect: .quick,
                credentials: { _ in
                    if isDown.withLock({ $0 }) { throw NoToken() }
                    return Credentials(userName: "u", password: "token-2")
                })
            let client = MQTTClient(profile: try broker.profile(.tcp), configuration: configuration)
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .clientHookFailed)
            #expect(error?.evidence == .text("the program's credentials: the token service is down"))

            isDown.withLock { $0 = false }
            var events = client.events.makeAsyncIterator()
            try await client.connect()
            _ = await events.untilConnected()
            isDown.withLock { $0 = true }
            await broker.dropAll()
            while let event = await events.next() {
                if case .reconnecting(_, _, let error) = event, error.code == .clientHookFailed { break }
            }
            isDown.withLock { $0 = false }
            #expect(await events.untilConnected().outcome != nil)
            await client.disconnect()
        }
    }

    @Test func a_provider_that_hangs_meets_its_deadline_and_keeps_no_client_alive() async throws {
        try await withBroker { broker in
            var profile = try broker.profile(.tcp)
            profile.deadlines.preparation = .milliseconds(100)
            let wasCancelled = Watched(false)
            let configuration = ClientConfiguration(
                version: .v5, clientID: "c",
                credentials: { _ in
                    await withTaskCancellationHandler {
                        // Longer than the test may take.
                        try? await Task.sleep(for: .seconds(600))
                    } onCancel: {
                        wasCancelled.update { $0 = true }
                    }
                    return Credentials(userName: "u", password: "token-2")
                })
            let client = MQTTClient(profile: profile, configuration: configuration)
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .clientHookTimeout)
            #expect(error?.stage == .local)
            #expect(await wasCancelled.first { $0 })
            #expect(await broker.connectedClients.isEmpty)
        }
    }

    @Test func disconnect_gives_up_on_a_provider_that_hangs() async throws {
        try await withBroker { broker in
            let asked = Watched(false)
            let configuration = ClientConfiguration(
                version: .v5, clientID: "c",
                credentials: { _ in
                    asked.update { $0 = true }
                    try await Task.sleep(for: .seconds(600))
                    return Credentials(userName: nil)
                })
            let client = MQTTClient(profile: try broker.profile(.tcp), configuration: configuration)
            async let connecting = #expect(throws: MQTTError.self) { try await client.connect() }
            _ = await asked.first { $0 }
            await client.disconnect()
            #expect(await connecting?.code == .clientDisconnected)
        }
    }

    // MARK: The request of the WebSocket

    private func withWebSocketPeer(
        _ scripts: [[ScriptedPeer.Step]], deadlines: StageDeadlines = StageDeadlines(),
        _ hook: @escaping @Sendable (UpgradeRequest, ConnectionAttempt) async throws -> UpgradeRequest,
        _ body: (MQTTClient, ScriptedPeer) async throws -> Void
    ) async throws {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(on: loop, scripts: scripts)
        var profile = try ConnectionProfile.webSocket(host: "127.0.0.1", port: Int(peer.port))
        profile.webSocket?.headers = [.init(name: "X-Always", value: "1")]
        profile.deadlines = deadlines
        let client = MQTTClient(
            profile: profile,
            configuration: ClientConfiguration(
                version: .v5, clientID: "c", reconnect: .quick, upgradeRequest: hook))
        do { try await body(client, peer) } catch { Issue.record(error) }
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }

    private static let connack: [UInt8] = [0x82, 5, 0x20, 3, 0, 0, 0]

    @Test func a_signed_url_is_made_anew_for_every_attempt() async throws {
        let number = Lock(0)
        let scripts: [[ScriptedPeer.Step]] = [
            [.upgradeWebSocket, .expectCount(2), .send(Self.connack), .reset],
            [.upgradeWebSocket, .expectCount(2), .send(Self.connack), .hold],
        ]
        try await withWebSocketPeer(
            scripts,
            { request, attempt in
                #expect(request.path == "/mqtt")
                #expect(attempt.profile.webSocket != nil)
                let signature = number.withLock { number in
                    number += 1
                    return number
                }
                return UpgradeRequest(
                    path: "/mqtt?signature=\(signature)",
                    headers: request.headers + [.init(name: "X-Token", value: "t\(signature)")])
            },
            { client, peer in
                var events = client.events.makeAsyncIterator()
                let outcome = try await client.connect()
                #expect(outcome.profile.webSocket?.path == "/mqtt?signature=1")
                // What can be read in a log doesn't tell it.
                #expect("\(outcome)".contains("signature=1") == false)
                _ = await events.untilConnected()
                _ = await events.untilConnected()
                for index in 0..<2 {
                    let record = await peer.record(index) { $0.received.count > 200 }
                    let request = String(decoding: record.received.prefix { $0 != 0x82 }, as: UTF8.self)
                    #expect(request.hasPrefix("GET /mqtt?signature=\(index + 1) HTTP/1.1\r\n"))
                    #expect(request.contains("X-Always: 1\r\nX-Token: t\(index + 1)\r\n"))
                }
            })
    }

    @Test(arguments: ["no-slash", "/with space", "/fragment#x"])
    func a_request_that_cannot_be_sent_fails_the_attempt(_ path: String) async throws {
        try await withWebSocketPeer(
            [[.hold]],
            { _, _ in UpgradeRequest(path: path) },
            { client, peer in
                let error = await #expect(throws: MQTTError.self) { try await client.connect() }
                #expect(error?.code == .clientHookFailed)
                #expect(peer.connectionCount == 0)
            })
    }

    @Test func a_request_that_hangs_meets_its_deadline() async throws {
        var deadlines = StageDeadlines()
        deadlines.preparation = .milliseconds(100)
        try await withWebSocketPeer(
            [[.hold]], deadlines: deadlines,
            { request, _ in
                try await Task.sleep(for: .seconds(600))
                return request
            },
            { client, peer in
                let error = await #expect(throws: MQTTError.self) { try await client.connect() }
                #expect(error?.code == .clientHookTimeout)
                #expect(peer.connectionCount == 0)
            })
    }
}
