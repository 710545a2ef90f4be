import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// What the resolver says, through the whole client: names that aren't found for a while, and names with addresses
/// that don't work.
@Suite(.timeLimit(.minutes(1))) struct ResolvingTests {
    /// A resolver with an answer for each time that it is asked; the last one repeats.
    private struct Script: Sendable {
        private let answers: Watched<[Resolver.Answer]>
        let asked = Watched(0)

        init(_ answers: Resolver.Answer...) {
            self.answers = Watched(answers)
        }

        func answer(_ new: Resolver.Answer...) {
            answers.update { $0 = new }
        }

        var resolver: Resolver {
            Resolver { _, _ in
                asked.update { $0 += 1 }
                var answer = Resolver.Answer.success([])
                answers.update { answer = $0.count > 1 ? $0.removeFirst() : $0[0] }
                return answer
            }
        }
    }

    private static let unknown = Resolver.Answer.failure(
        TransportError(stage: .resolve, code: .dnsNXDomain, hop: "broker.example", evidence: .none))

    private static func found(_ addresses: (String, LoopbackBroker)...) throws -> Resolver.Answer {
        .success(
            try addresses.map { host, broker in
                let port = try #require(broker.ports[.tcp])
                return try #require(SocketAddress(literal: host, port: port))
            })
    }

    private static func client(
        _ script: Script, reconnect: ReconnectStrategy = .quick,
        log: (@Sendable (LogLevel, LogEvent) -> Void)? = nil
    ) throws -> MQTTClient {
        var configuration = ClientConfiguration(clientID: "c", reconnect: reconnect, log: log)
        configuration.resolver = script.resolver
        return MQTTClient(profile: try .tcp(host: "broker.example"), configuration: configuration)
    }

    /// Bug report 54: after NXDOMAIN a client never tried again, while it did after a refused connection.
    @Test func a_name_that_is_not_found_for_a_while_is_tried_again_like_any_failure() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let script = Script(try Self.found(("127.0.0.1", broker)))
        let client = try Self.client(script)
        try await client.connect()
        let events = client.events
        script.answer(Self.unknown, Self.unknown, Self.unknown, try Self.found(("127.0.0.1", broker)))
        #expect(await broker.dropAll() == 1)
        var failures: [FailureCode] = []
        var attempts: [Int] = []
        var isInterrupted = false
        watching: for await event in events {
            switch event {
            case .interrupted: isInterrupted = true
            case .reconnecting(let attempt, let delay, let error):
                attempts.append(attempt)
                failures.append(error.code)
                #expect(delay <= .milliseconds(20))
            case .connected where isInterrupted: break watching
            case .idle, .connecting, .connected, .sessionLost, .suspended: break
            case .disconnected(let error):
                Issue.record("gave up: \(String(describing: error))")
                break watching
            }
        }
        #expect(failures.dropFirst() == [.dnsNXDomain, .dnsNXDomain, .dnsNXDomain])
        #expect(attempts == [1, 2, 3, 4])
        #expect(script.asked.value == 5, "once for each attempt")
        await client.disconnect()
        await broker.stop()
    }

    /// Bug report 56: a client that had once failed to resolve never did again.
    @Test func each_attempt_asks_anew() async throws {
        let (first, second) = (
            try await LoopbackBroker.start(listeners: [.init(.tcp)]),
            try await LoopbackBroker.start(listeners: [.init(.tcp)])
        )
        let script = Script(Self.unknown)
        let client = try Self.client(script)
        let error = await #expect(throws: MQTTError.self) { try await client.connect() }
        #expect(error?.code == .dnsNXDomain)
        #expect(error?.stage == .resolve)
        script.answer(try Self.found(("127.0.0.1", first)))
        try await client.connect()
        #expect(await first.connectedClients == ["c"])

        // The name moves to another server while the connection stands.
        script.answer(try Self.found(("127.0.0.1", second)))
        let events = client.events
        await first.stop()
        var isInterrupted = false
        for await event in events {
            if case .interrupted = event { isInterrupted = true }
            if case .connected = event, isInterrupted { break }
        }
        #expect(await second.connectedClients == ["c"])
        #expect(script.asked.value == 3)
        await client.disconnect()
        await second.stop()
    }

    /// Bug report 52: the IPv4 address of a name was never tried where IPv6 didn't work.
    @Test(arguments: [LoopbackBroker.Blocking.dropping, .refusing])
    func a_broken_IPv6_does_not_keep_a_client_from_IPv4(_ means: LoopbackBroker.Blocking) async throws {
        let broken = try await LoopbackBroker.start(
            listeners: [.init(.tcp, blocked: means)], address: "::1")
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let script = Script(try Self.found(("::1", broken), ("127.0.0.1", broker)))
        let connecting = Watched<Duration?>(nil)
        let client = try Self.client(script, reconnect: .never) { _, event in
            if case .stage(let observation, _) = event, observation.stage == .tcp {
                connecting.update { $0 = observation.duration }
            }
        }
        let outcome = try await client.connect()
        #expect(outcome.routes.map(\.outcome) == [.connected])
        // By the loop's clock: the test's own task may have to wait for a thread.
        let duration = try #require(connecting.value)
        #expect(duration < AddressRace.attemptDelay * 4)
        #expect(await broker.connectedClients == ["c"])
        await client.disconnect()
        await broker.stop()
        await broken.stop()
    }
}
