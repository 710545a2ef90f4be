import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// MQTT over permessage-deflate, both ends ours.
@Suite(.timeLimit(.minutes(1))) struct CompressionTests {
    @Test(
        arguments: [LoopbackBroker.Kind.webSocket, .webSocketSecure],
        [
            WebSocketOptions.Compression(), .init(threshold: 0, contextTakeover: false),
            .init(threshold: 1, windowBits: 9),
        ])
    func messages_of_all_sizes_arrive_as_they_were(
        _ kind: LoopbackBroker.Kind, _ compression: WebSocketOptions.Compression
    ) async throws {
        let broker = try await LoopbackBroker.start(compressesWebSocket: true)
        var profile = try broker.profile(kind)
        profile.webSocket?.compression = compression
        let details = Watched<[String]>([])
        let client = MQTTClient(
            profile: profile,
            configuration: ClientConfiguration { _, event in
                if case .stage(let observation, _) = event, observation.stage == .webSocket {
                    details.update { $0.append(observation.detail ?? "") }
                }
            })
        try await client.connect()
        #expect(details.value == ["subprotocol mqtt, compressed"])
        let subscription = try await client.subscribe(to: "t", qos: .exactlyOnce)
        var messages = subscription.makeAsyncIterator()
        for size in [0, 1, 255, 256, 300, 70_000, 1_000_000] {
            let text = String(repeating: "{\"temperature\": 21.5}", count: size / 21 + 1)
            try await client.publish(text, to: "t", qos: .atLeastOnce)
            #expect(try await messages.next()?.text == text)
        }
        await client.disconnect()
        await broker.stop()
    }
}
