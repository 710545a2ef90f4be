import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

@Suite(.timeLimit(.minutes(1))) struct TLSReconnectTests {
    /// The stage observations tell: first whole, then resumed, whole again after the broker has lost its keys.
    @Test(arguments: [LoopbackBroker.Kind.tls, .webSocketSecure])
    func a_client_that_connects_again_resumes_TLS(_ kind: LoopbackBroker.Kind) async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(kind)], requiresClientCertificate: true)
        var profile = try broker.profile(kind)
        profile.tls?.identity = .init(
            certificateFile: broker.files.client.certificate, privateKeyFile: broker.files.client.key)
        let handshakes = Watched<[Bool]>([])
        let client = MQTTClient(
            profile: profile,
            configuration: .init(
                clientID: "c", reconnect: .quick,
                log: { _, event in
                    guard case .stage(let observation, _) = event, observation.stage == .tls,
                        let detail = observation.detail
                    else { return }
                    handshakes.update { $0.append(detail.contains(", resumed")) }
                }))
        try await client.connect()
        #expect(await broker.dropConnections(clientID: "c"))
        #expect(await handshakes.first { $0.count == 2 } == [false, true])
        try await client.publish("x", to: "t", qos: .atLeastOnce)
        await client.disconnect()
        try await client.connect()
        #expect(handshakes.value == [false, true, true])
        await client.disconnect()
        let port = try #require(broker.ports[kind])
        await broker.stop()
        let restarted = try await LoopbackBroker.start(
            listeners: [.init(kind, port: port)], certificates: broker.certificates,
            requiresClientCertificate: true)
        for _ in 0..<2 {
            try await client.connect()
            await client.disconnect()
        }
        #expect(handshakes.value == [false, true, true, false, true])
        await restarted.stop()
    }
}
