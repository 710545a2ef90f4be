import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Enhanced authentication over real connections (5.0, section 4.12).
@Suite(.timeLimit(.minutes(1))) struct AuthenticationTests {
    private func broker(
        _ listeners: [LoopbackBroker.Listening] = [.init(.tcp)], iterations: Int = 4096
    ) async throws -> LoopbackBroker {
        var configuration = BrokerConfiguration()
        configuration.users = [.init(name: "sensor", password: "correct horse")]
        configuration.allowsAnonymous = false
        configuration.offersSCRAM = true
        configuration.scramIterations = iterations
        return try await LoopbackBroker.start(configuration, listeners: listeners)
    }

    private func client(
        _ profile: ConnectionProfile, _ handler: any AuthenticationHandler,
        reconnect: ReconnectStrategy = .never, deadline: Duration = .seconds(50)
    ) -> MQTTClient {
        var profile = profile
        profile.deadlines.mqttConnect = deadline
        return MQTTClient(
            profile: profile,
            configuration: .init(clientID: "client-x", authentication: handler, reconnect: reconnect))
    }

    private func failure(_ body: () async throws -> Void) async -> MQTTError? {
        do {
            try await body()
            Issue.record("nothing was thrown")
        } catch let error as MQTTError {
            return error
        } catch {
            Issue.record(error)
        }
        return nil
    }

    @Test(arguments: [LoopbackBroker.Kind.tcp, .webSocketSecure])
    func `SCRAM lets a client in, renews its login, and again after a lost connection`(
        kind: LoopbackBroker.Kind
    ) async throws {
        let broker = try await broker([.init(kind)])
        let scram = try SCRAM(userName: "sensor", password: "correct horse")
        let client = client(try broker.profile(kind), scram, reconnect: .quick)
        let outcome = try await client.connect()
        #expect(outcome.properties.authenticationMethod == "SCRAM-SHA-256")
        let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce)
        let events = client.events
        try await client.publish("one", to: "t", qos: .atLeastOnce)
        var messages = subscription.makeAsyncIterator()
        #expect(try await messages.next()?.text == "one")
        // The broker has the message's PUBACK when it has answered this, so that it doesn't send it again.
        try await client.reauthenticate(timeout: .seconds(50))
        await broker.dropConnections(clientID: "client-x")
        for await event in events {
            if case .interrupted = event { break }
        }
        try await client.publish("two", to: "t", qos: .atLeastOnce)
        try await client.reauthenticate(timeout: .seconds(50))
        #expect(try await messages.next()?.text == "two")
        await client.disconnect()
        await broker.stop()
    }

    @Test(arguments: [("sensor", "wrong"), ("nobody", "correct horse")])
    func `[MQTT-4.12.0-4] a wrong password or user is refused by the server`(
        userName: String, password: String
    ) async throws {
        let broker = try await broker()
        let client = client(try broker.profile(.tcp), try SCRAM(userName: userName, password: password))
        let error = await failure { try await client.connect() }
        #expect(error?.code == .mqttRefused)
        #expect(error?.reasonCode == .notAuthorized)
        await broker.stop()
    }

    @Test func `[MQTT-4.12.0-1] a method that the server doesn't have is refused by name`() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = client(try broker.profile(.tcp), try SCRAM(userName: "u", password: "p"))
        let error = await failure { try await client.connect() }
        #expect(error?.reasonCode == .badAuthenticationMethod)
        await broker.stop()
    }

    @Test func `a server that asks for too few or too many iterations is left`() async throws {
        for (iterations, words) in [(1000, "1000 iterations"), (9000, "9000 iterations")] {
            let broker = try await broker(iterations: iterations)
            let client = client(
                try broker.profile(.tcp),
                try SCRAM(userName: "sensor", password: "correct horse", iterations: 4096...8192))
            let error = await failure { try await client.connect() }
            #expect(error?.code == .mqttAuthenticationFailed)
            #expect(error?.description.contains(words) == true)
            await broker.stop()
        }
    }

    @Test func `a handler needs MQTT 5_0`() async throws {
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1"),
            configuration: .init(
                version: .v3_1_1, authentication: try SCRAM(userName: "u", password: "p")))
        let error = await failure { try await client.connect() }
        #expect(error?.code == .clientInvalidArgument)
        #expect(error?.description.contains("5.0") == true)
    }

    @Test func `re-authentication needs a connection and a handler`() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(profile: try broker.profile(.tcp))
        #expect(
            await failure { try await client.reauthenticate(timeout: .seconds(50)) }?.code
                == .clientNotConnected)
        try await client.connect()
        #expect(
            await failure { try await client.reauthenticate(timeout: .seconds(50)) }?.code
                == .clientInvalidArgument)
        await client.disconnect()
        await broker.stop()
    }

    @Test func `[MQTT-4.12.1-2] a failed re-authentication ends the client with the server's reason`()
        async throws
    {
        let broker = try await broker()
        // Right at first, wrong when it is renewed.
        let handler = Rotating([
            try SCRAM(userName: "sensor", password: "correct horse"),
            try SCRAM(userName: "sensor", password: "wrong"),
        ])
        let client = client(try broker.profile(.tcp), handler, reconnect: .quick)
        try await client.connect()
        let events = client.events
        let error = await failure { try await client.reauthenticate(timeout: .seconds(50)) }
        #expect(error?.code == .mqttServerDisconnected)
        #expect(error?.reasonCode == .notAuthorized)
        for await event in events {
            guard case .disconnected(let reason) = event else { continue }
            #expect(reason?.reasonCode == .notAuthorized)
            break
        }
        await broker.stop()
    }

    @Test func `a handler that hangs meets the deadline, and its task is cancelled`() async throws {
        let broker = try await broker()
        let profile = try broker.profile(.tcp)
        let cancelled = Watched(0)
        let hanging = Handler {
            do { try await Task.sleep(for: .seconds(3600)) } catch { cancelled.update { $0 += 1 } }
            return nil
        }
        let connecting = client(profile, hanging, deadline: .milliseconds(200))
        let error = await failure { try await connecting.connect() }
        #expect(error?.code == .mqttAuthenticationTimeout)
        #expect(error?.description.contains("handler") == true)
        #expect(await cancelled.first { $0 > 0 } == 1)

        let scram = try SCRAM(userName: "sensor", password: "correct horse")
        let connected = client(profile, Rotating([scram, hanging, scram]))
        try await connected.connect()
        let late = await failure { try await connected.reauthenticate(timeout: .milliseconds(200)) }
        #expect(late?.code == .mqttAuthenticationTimeout)
        // Nothing was sent, so the connection stands.
        try await connected.publish("x", to: "t", qos: .atLeastOnce)
        try await connected.reauthenticate(timeout: .seconds(50))
        await connected.disconnect()
        await broker.stop()
    }

    @Test func `a handler that throws ends the attempt in its own words`() async throws {
        let broker = try await broker()
        let client = client(try broker.profile(.tcp), Handler { throw NoToken() })
        let error = await failure { try await client.connect() }
        #expect(error?.code == .mqttAuthenticationFailed)
        #expect(error?.description.contains("the token service is down") == true)
        await broker.stop()
    }

    @Test func `connecting can be given up while the handler works`() async throws {
        let broker = try await broker()
        let started = Watched(false)
        let client = client(
            try broker.profile(.tcp),
            Handler {
                started.update { $0 = true }
                try await Task.sleep(for: .seconds(3600))
                return nil
            })
        let connecting = Task { try await client.connect() }
        _ = await started.first { $0 }
        connecting.cancel()
        await #expect(throws: CancellationError.self) { try await connecting.value }
        await client.disconnect()
        await broker.stop()
    }

    // MARK: Servers that break the rules

    /// The example of RFC 7677, with another end.
    private func play(_ steps: [ScriptedPeer.Step]) async throws -> (MQTTError?, ScriptedPeer.Record) {
        let loop = try EventLoop()
        let script = [ScriptedPeer.Step.expectUntil(Array("client-x".utf8))] + steps + [.expectEnd]
        let peer = try ScriptedPeer(on: loop, scripts: [script])
        let configuration = ClientConfiguration(
            clientID: "client-x",
            authentication: try SCRAM(userName: "user", password: "pencil") { "rOprNGfwEbeRWgbNEkqO" },
            reconnect: .never)
        var profile = try ConnectionProfile.tcp(host: "127.0.0.1", port: Int(peer.port))
        profile.deadlines.mqttConnect = .seconds(50)
        let client = MQTTClient(profile: profile, configuration: configuration)
        let error = await failure { try await client.connect() }
        let record = await peer.ended()
        peer.stop()
        loop.stopAndJoin()
        return (error, record)
    }

    private func encoded(_ packet: ControlPacket) throws -> [UInt8] {
        var bytes: [UInt8] = []
        try packet.encode(for: .v5, into: &bytes)
        return bytes
    }

    private func properties(_ data: String, method: String = "SCRAM-SHA-256") -> Properties {
        Properties([.authenticationMethod(method), .authenticationData(Array(data.utf8))])
    }

    private func challenge(method: String = "SCRAM-SHA-256") throws -> [UInt8] {
        let data =
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        return try encoded(
            .auth(Auth(reasonCode: .continueAuthentication, properties: properties(data, method: method))))
    }

    @Test func `a server with a wrong signature is left before a message is handed out`() async throws {
        let accepted = Connack(
            sessionPresent: false,
            properties: properties("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="))
        let message = Publish(topicName: "t", payload: Array("trap".utf8))
        let (error, record) = try await play([
            .send(try challenge()), .expectUntil(Array("7AndVQ=".utf8)),
            .send(try encoded(.connack(accepted)) + encoded(.publish(message))),
        ])
        #expect(error?.code == .mqttServerNotAuthentic)
        #expect(error?.stage == .mqttConnect)
        #expect(error?.description.contains("signature is wrong") == true)
        #expect(record.received.suffix(3) == [0xE0, 1, 0x80])
    }

    @Test func `[MQTT-4.12.0-5] a server that changes the method is left by DISCONNECT 0x82`() async throws {
        let (error, record) = try await play([.send(try challenge(method: "SCRAM-SHA-1"))])
        #expect(error?.code == .mqttProtocolError)
        #expect(record.received.suffix(3) == [0xE0, 1, 0x82])
    }

    @Test func `[MQTT-4.12.0-6] AUTH that nobody asked for is answered by DISCONNECT 0x82`() async throws {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(
            on: loop,
            scripts: [
                [
                    .expectUntil(Array("client-x".utf8)), .send([0x20, 3, 0, 0, 0]), .send(try challenge()),
                    .expectEnd,
                ]
            ])
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)),
            configuration: .init(clientID: "client-x", reconnect: .never))
        try await client.connect()
        #expect(await peer.ended().received.suffix(3) == [0xE0, 1, 0x82])
        peer.stop()
        loop.stopAndJoin()
    }

    // MARK: The broker's side

    @Test func `[MQTT-3.1.2-30] the loopback broker ends who sends anything else within the exchange`() {
        var configuration = BrokerConfiguration()
        configuration.users = [.init(name: "sensor", password: "p")]
        configuration.offersSCRAM = true
        let client = BrokerTable(configuration).connecting(
            Connect(clientIdentifier: "a", properties: properties("n,,n=sensor,r=abc")))
        guard case .auth(let auth)? = client.taken().first else {
            Issue.record("no AUTH")
            return
        }
        #expect(auth.reasonCode == .continueAuthentication)
        client.send(.pingreq)
        #expect(client.taken().isEmpty)
        #expect(client.isClosed)
    }
}

/// One handler after the other; the last goes on.
private final class Rotating: AuthenticationHandler {
    let method = "SCRAM-SHA-256"
    private let handlers: Lock<[any AuthenticationHandler]>

    init(_ handlers: [any AuthenticationHandler]) { self.handlers = Lock(handlers) }

    func begin() async throws -> any AuthenticationExchange {
        let next = handlers.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
        return try await next.begin()
    }
}

/// What it does first, and no more.
private struct Handler: AuthenticationHandler, AuthenticationExchange {
    let method = "SCRAM-SHA-256"
    let body: @Sendable () async throws -> [UInt8]?

    init(_ body: @escaping @Sendable () async throws -> [UInt8]?) { self.body = body }

    func begin() -> any AuthenticationExchange { self }
    func start() async throws -> [UInt8]? { try await body() }
    func respond(to challenge: [UInt8]) -> [UInt8]? { nil }
    func finish(with data: [UInt8]?) {}
}

private struct NoToken: Error, CustomStringConvertible {
    let description = "the token service is down"
}
