import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Subscriptions, several at once and several that overlap (sections 3.8 to 3.11 and 3.3.4).
@Suite(.timeLimit(.minutes(1))) struct SubscribingTests {
    private func connected(
        _ broker: LoopbackBroker, _ identifier: String = "c", expiry: Duration = .seconds(60)
    ) async throws -> MQTTClient {
        let client = MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(clientID: identifier, sessionExpiry: expiry, reconnect: .quick))
        try await client.connect()
        return client
    }

    private func texts(_ subscription: Subscription, until mark: String) async throws -> [String] {
        var texts: [String] = []
        for try await message in subscription {
            let text = try message.text
            if text == mark { break }
            texts.append(text)
        }
        return texts
    }

    @Test func `one SUBSCRIBE for several filters has a result for each`() async throws {
        var configuration = BrokerConfiguration()
        configuration.sharedSubscriptionsAvailable = true
        configuration.maximumSubscriptionsPerSession = 2
        let broker = try await LoopbackBroker.start(configuration, listeners: [.init(.tcp)])
        let client = try await connected(broker)
        let results = try await client.subscribe(to: [
            SubscriptionWish("a/+", qos: .atLeastOnce), SubscriptionWish("b", qos: .atMostOnce),
            SubscriptionWish("c", qos: .exactlyOnce),
        ])
        #expect(results.count == 3)
        let first = try results[0].get()
        #expect(first.topicFilter == "a/+" && first.grantedQoS == .atLeastOnce)
        #expect(try results[1].get().grantedQoS == .atMostOnce)
        let refused = #expect(throws: MQTTError.self) { try results[2].get() }
        #expect(refused?.code == .mqttOperationRefused)
        #expect(refused?.reasonCode == .quotaExceeded)
        #expect(await broker.counters.received(.subscribe) == 1)
        try await client.publish("x", to: "a/1", qos: .atLeastOnce)
        var messages = first.makeAsyncIterator()
        #expect(try await messages.next()?.text == "x")
        await client.disconnect()
        await broker.stop()
    }

    @Test func `what can't be asked for is refused before anything is sent`() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = try await connected(broker)
        for wishes in [[], [SubscriptionWish("a"), SubscriptionWish("b/#/c")]] {
            let error = await #expect(throws: MQTTError.self) { try await client.subscribe(to: wishes) }
            #expect(error?.code == .clientInvalidArgument)
        }
        #expect(await broker.counters.received(.subscribe) == 0)
        await client.disconnect()
        await broker.stop()
    }

    @Test(arguments: [true, false])
    func `each of several overlapping sequences gets each message once, after a lost session too`(
        identifiers: Bool
    ) async throws {
        var configuration = BrokerConfiguration()
        configuration.subscriptionIdentifiersAvailable = identifiers
        let broker = try await LoopbackBroker.start(configuration, listeners: [.init(.tcp)])
        // With an expiry of 0 each reconnect restores the subscriptions.
        let client = try await connected(broker, expiry: .zero)
        let wide = try await client.subscribe(to: "a/#", qos: .atLeastOnce)
        let narrow = try await client.subscribe(to: "a/b", qos: .exactlyOnce)
        let same = try await client.subscribe(to: "a/b", qos: .exactlyOnce)
        try await client.publish("1", to: "a/b", qos: .atLeastOnce)
        let events = client.events
        await broker.dropConnections(clientID: "c")
        for await event in events {
            if case .sessionLost = event { break }
        }
        try await client.publish("2", to: "a/b", qos: .atLeastOnce)
        try await client.publish("end", to: "a/b", qos: .atLeastOnce)
        for subscription in [wide, narrow, same] {
            #expect(try await texts(subscription, until: "end") == ["1", "2"])
        }
        try await client.unsubscribe(same)
        try await client.publish("3", to: "a/b", qos: .atLeastOnce)
        try await client.unsubscribe(narrow)
        try await client.publish("4", to: "a/b", qos: .atLeastOnce)
        try await client.publish("end", to: "a/b", qos: .atLeastOnce)
        #expect(try await texts(wide, until: "end") == ["3", "4"])
        #expect(try await texts(narrow, until: "end") == ["3"])
        await client.disconnect()
        await broker.stop()
    }

    // MARK: What acknowledgements say

    private func encoded(_ packet: ControlPacket) throws -> [UInt8] {
        var bytes: [UInt8] = []
        try packet.encode(for: .v5, into: &bytes)
        return bytes
    }

    private func run(
        _ steps: [ScriptedPeer.Step], _ body: (MQTTClient) async throws -> Void
    ) async throws {
        let loop = try EventLoop()
        let script: [ScriptedPeer.Step] =
            [.expectUntil(Array("client-x".utf8)), .send([0x20, 3, 0, 0, 0])] + steps + [.expectEnd]
        let peer = try ScriptedPeer(on: loop, scripts: [script])
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)),
            configuration: .init(clientID: "client-x", reconnect: .quick))
        try await client.connect()
        do { try await body(client) } catch { Issue.record(error) }
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }

    private var words: Properties {
        var properties = Properties()
        properties.reasonString = "because"
        properties.userProperties = [UserProperty(name: "k", value: "v")]
        return properties
    }

    @Test func `Reason String and User Properties of every acknowledgement reach the caller`() async throws {
        // SUBSCRIBE to "t" and "u" with Subscription Identifier 1.
        let subscribe: [UInt8] = [0x82, 13, 0, 1, 2, 0x0B, 1, 0, 1, 0x74, 1, 0, 1, 0x75, 1]
        let suback = Suback(
            packetIdentifier: 1, reasonCodes: [.grantedQoS1, .notAuthorized], properties: words)
        let unsuback = Unsuback(
            packetIdentifier: 2, reasonCodes: [.noSubscriptionExisted], properties: words)
        let refusal = Unsuback(packetIdentifier: 2, reasonCodes: [.notAuthorized], properties: words)
        let puback = Acknowledgement(
            packetIdentifier: 3, reasonCode: .notAuthorized, properties: words)
        for (answer, isRefused) in [(unsuback, false), (refusal, true)] {
            try await run([
                .expect(subscribe), .send(try encoded(.suback(suback))), .expectCount(8),
                .send(try encoded(.unsuback(answer))), .expectCount(8), .send(try encoded(.puback(puback))),
            ]) { client in
                let results = try await client.subscribe(to: [
                    SubscriptionWish("t", qos: .atLeastOnce), SubscriptionWish("u", qos: .atLeastOnce),
                ])
                let granted = try results[0].get()
                #expect(granted.properties == words)
                let refused = #expect(throws: MQTTError.self) { try results[1].get() }
                #expect(refused?.properties == words)
                #expect(refused?.description.contains("because") == true)
                if isRefused {
                    let error = await #expect(throws: MQTTError.self) {
                        try await client.unsubscribe(granted)
                    }
                    #expect(error?.properties == words)
                } else {
                    let outcome = try await client.unsubscribe(granted)
                    #expect(outcome.reasonCode == .noSubscriptionExisted)
                    #expect(outcome.properties == words)
                }
                let publish = await #expect(throws: MQTTError.self) {
                    try await client.publish("", to: "t", qos: .atLeastOnce)
                }
                #expect(publish?.properties == words)
            }
        }
    }

    @Test func `a server's DISCONNECT that ends the client ends the calls that wait, with its reason`()
        async throws
    {
        let taken = Disconnect(reasonCode: .sessionTakenOver, properties: words)
        try await run([.expectUntil([0x74, 1]), .send(try encoded(.disconnect(taken)))]) { client in
            let receipt = try client.enqueue("x", to: "p", qos: .atLeastOnce)
            let error = await #expect(throws: MQTTError.self) {
                try await client.subscribe(to: "t", qos: .atLeastOnce)
            }
            #expect(error?.code == .mqttTakenOver)
            #expect(error?.reasonCode == .sessionTakenOver)
            #expect(error?.description.contains("because") == true)
            let published = await #expect(throws: MQTTError.self) { try await receipt.outcome }
            #expect(published?.reasonCode == .sessionTakenOver)
        }
    }
}
