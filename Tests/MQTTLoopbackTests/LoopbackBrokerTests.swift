import Foundation
import MQTTLoopback
import MQTTTraversal
import Testing

/// One of the broker's transports spoken in one version.
struct Way: Sendable, CustomTestStringConvertible {
    let kind: LoopbackBroker.Kind
    let version: ProtocolVersion

    static let all = LoopbackBroker.Kind.allCases.flatMap { kind in
        [ProtocolVersion.v3_1_1, .v5].map { Way(kind: kind, version: $0) }
    }

    var testDescription: String { "\(kind) \(version)" }
}

@Suite struct LoopbackBrokerTests {
    @Test(arguments: Way.all)
    func a_message_goes_from_client_to_client(_ way: Way) async throws {
        let broker = try await LoopbackBroker.start()
        let profile = try broker.profile(way.kind)
        let receiver = MQTTClient(
            profile: profile, configuration: .init(version: .init(way.version), clientID: "receiver"))
        try await receiver.connect()
        let subscription = try await receiver.subscribe(to: "rooms/+/light", qos: .exactlyOnce)
        let sender = MQTTClient(
            profile: profile, configuration: .init(version: .init(way.version), clientID: "sender"))
        try await sender.connect()
        #expect(await broker.connectedClients == ["receiver", "sender"])

        let large = [UInt8](repeating: 0x5A, count: 300_000)
        try await sender.publish("on", to: "rooms/7/light", qos: .atMostOnce)
        try await sender.publish(large, to: "rooms/8/light", qos: .atLeastOnce)
        try await sender.publish("off", to: "rooms/9/light", qos: .exactlyOnce)
        var messages = subscription.makeAsyncIterator()
        #expect(try await messages.next()?.payload == Array("on".utf8))
        #expect(try await messages.next()?.payload == large)
        let last = try #require(try await messages.next())
        #expect(last.topic == "rooms/9/light")
        #expect(last.qos == .exactlyOnce)

        await sender.disconnect()
        await receiver.disconnect()
        await broker.stop()
        let counters = await broker.counters
        #expect(counters.connections == 2)
        #expect(counters.received(.connect) == 2)
        #expect(counters.sent(.connack) == 2)
        #expect(counters.received(.publish) == 3)
        #expect(counters.sent(.publish) == 3)
        #expect(counters.received(.disconnect) == 2)
        #expect(counters.droppedMessages == 0)
    }

    @Test func its_owner_publishes() async throws {
        let broker = try await LoopbackBroker.start()
        let client = MQTTClient(profile: try broker.profile(.webSocket))
        try await client.connect()
        let subscription = try await client.subscribe(to: "news")
        try await broker.publish("extra", to: "news")
        var messages = subscription.makeAsyncIterator()
        #expect(try await messages.next()?.text == "extra")
        await #expect(throws: TransportError.self) { try await broker.publish("", to: "news/#") }
        await client.disconnect()
        await broker.stop()
    }

    @Test(arguments: LoopbackBroker.Kind.allCases)
    func a_refusing_port_refuses_and_lets_in_again(_ kind: LoopbackBroker.Kind) async throws {
        let broker = try await LoopbackBroker.start()
        let profile = try broker.profile(kind)
        let early = MQTTClient(profile: profile, configuration: .init(clientID: "early"))
        try await early.connect()
        try await broker.block(kind, by: .refusing)
        #expect(await failure(profile) == .tcpRefused)
        // Who is in stays in.
        try await early.publish("still here", to: "a", qos: .atLeastOnce)
        await broker.unblock(kind)
        #expect(await failure(profile) == nil)
        await early.disconnect()
        await broker.stop()
    }

    @Test(arguments: LoopbackBroker.Kind.allCases)
    func a_dropping_port_gives_no_answer_and_lets_in_again(_ kind: LoopbackBroker.Kind) async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(kind, blocked: .dropping)])
        var profile = try broker.profile(kind)
        profile.deadlines.tcp = .milliseconds(300)
        #expect(await failure(profile) == .tcpTimeout)
        #expect(await failure(profile) == .tcpTimeout)
        await broker.unblock(kind)
        #expect(await failure(profile) == nil)
        try await broker.block(kind, by: .refusing)
        try await broker.block(kind, by: .dropping)
        try await broker.block(kind, by: .dropping)
        #expect(await failure(profile) == .tcpTimeout)
        await broker.stop()
        #expect(await broker.counters.connections == 1)
    }

    @Test(arguments: [LoopbackBroker.Drop.fin, .reset], LoopbackBroker.Kind.allCases)
    func a_dropped_connection_publishes_the_will(
        _ means: LoopbackBroker.Drop, _ kind: LoopbackBroker.Kind
    ) async throws {
        let broker = try await LoopbackBroker.start()
        let watcher = MQTTClient(
            profile: try broker.profile(.tcp), configuration: .init(clientID: "watcher"))
        try await watcher.connect()
        let wills = try await watcher.subscribe(to: "status/#")
        let doomed = MQTTClient(
            profile: try broker.profile(kind),
            configuration: .init(
                clientID: "doomed", will: .init(topic: "status/doomed", payload: "gone"),
                reconnect: .never))
        try await doomed.connect()
        #expect(await broker.dropConnections(clientID: "doomed", by: means))
        #expect(await !broker.dropConnections(clientID: "nobody"))
        var messages = wills.makeAsyncIterator()
        #expect(try await messages.next()?.text == "gone")
        for await event in doomed.events {
            guard case .disconnected(let error) = event else { continue }
            let codes: [FailureCode] = [.tcpReset, .tcpClosed, .tlsEOF, .wsClosed]
            #expect(codes.contains(try #require(error).code))
            break
        }
        #expect(await broker.connectedClients == ["watcher"])
        #expect(await broker.dropAll() == 1)
        await watcher.disconnect()
        await broker.stop()
    }

    @Test func a_broker_starts_again_on_the_same_ports() async throws {
        let first = try await LoopbackBroker.start()
        let profile = try first.profile(.tcp)
        let client = MQTTClient(
            profile: profile,
            configuration: .init(
                clientID: "c", reconnect: .jittered(base: .milliseconds(20), maximum: .milliseconds(50))))
        try await client.connect()
        let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce)
        await first.stop()
        let second = try await LoopbackBroker.start(
            listeners: first.ports.map { .init($0.key, port: $0.value) }, certificates: first.certificates)
        #expect(second.ports == first.ports)
        try await client.publish("after", to: "t", qos: .atLeastOnce)
        var messages = subscription.makeAsyncIterator()
        #expect(try await messages.next()?.text == "after")
        await client.disconnect()
        await second.stop()
    }

    @Test(arguments: [LoopbackBroker.Kind.webSocket, .webSocketSecure])
    func only_the_configured_path_speaks_WebSocket(_ kind: LoopbackBroker.Kind) async throws {
        let broker = try await LoopbackBroker.start(webSocketPath: "/broker/mqtt")
        var profile = try broker.profile(kind)
        #expect(await failure(profile) == nil)
        profile = try ConnectionProfile(url: broker.url(kind) + "?token=1")
        profile.tls?.trust = .pem(Array(broker.authorityPEM.utf8))
        #expect(await failure(profile) == nil)
        profile = try ConnectionProfile(url: broker.url(kind) + "t")
        profile.tls?.trust = .file(broker.authorityFile)
        #expect(await failure(profile) == .httpNotFound)
        await broker.stop()
    }

    @Test(arguments: [
        (LoopbackBroker.ServerCertificate.expired, FailureCode.tlsExpired), (.notYetValid, .tlsNotYetValid),
        (.wrongName, .tlsNameMismatch), (.untrusted, .tlsUntrusted),
    ])
    func it_shows_the_certificate_it_is_told_to(
        _ certificate: LoopbackBroker.ServerCertificate, _ code: FailureCode
    ) async throws {
        let broker = try await LoopbackBroker.start(serverCertificate: certificate)
        #expect(await failure(try broker.profile(.tls)) == code)
        await broker.stop()
    }

    @Test func it_can_demand_a_client_certificate() async throws {
        let broker = try await LoopbackBroker.start(requiresClientCertificate: true)
        var profile = try broker.profile(.webSocketSecure)
        #expect(await failure(profile) == .tlsClientCertRequired)
        profile.tls?.identity = .init(
            certificateFile: broker.files.client.certificate, privateKeyFile: broker.files.client.key)
        #expect(await failure(profile) == nil)
        await broker.stop()
    }

    @Test func a_port_in_use_is_an_error_that_leaves_nothing() async throws {
        let first = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let port = try #require(first.ports[.tcp])
        await #expect(throws: TransportError.self) {
            try await LoopbackBroker.start(listeners: [.init(.tls), .init(.tcp, port: port)])
        }
        await #expect(throws: TransportError.self) {
            try await LoopbackBroker.start(listeners: [.init(.tcp), .init(.tcp)])
        }
        await #expect(throws: TransportError.self) { try await LoopbackBroker.start(address: "localhost") }
        await first.stop()
    }

    @Test func a_hundred_clients_at_once() async throws {
        let broker = try await LoopbackBroker.start()
        let hub = MQTTClient(profile: try broker.profile(.tcp), configuration: .init(clientID: "hub"))
        try await hub.connect()
        let inbox = try await hub.subscribe(to: "in/+", qos: .atLeastOnce)
        let profiles = try LoopbackBroker.Kind.allCases.map { try broker.profile($0) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<100 {
                group.addTask {
                    let client = MQTTClient(
                        profile: profiles[number % 4], configuration: .init(clientID: "c\(number)"))
                    try await client.connect()
                    try await client.publish("\(number)", to: "in/\(number)", qos: .atLeastOnce)
                    await client.disconnect()
                }
            }
            try await group.waitForAll()
        }
        var seen: Set<String> = []
        for try await message in inbox {
            seen.insert(try message.text)
            if seen.count == 100 { break }
        }
        #expect(seen == Set((0..<100).map { "\($0)" }))
        await hub.disconnect()
        await broker.stop()
    }

    /// The code with which a connect fails; nil if it succeeds.
    private func failure(_ profile: ConnectionProfile) async -> FailureCode? {
        let client = MQTTClient(profile: profile)
        do {
            try await client.connect()
            await client.disconnect()
            return nil
        } catch {
            return (error as? MQTTError)?.code
        }
    }
}
