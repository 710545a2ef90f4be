import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// SplitMix64: the same moments on every run.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

extension ReconnectStrategy {
    /// Fast enough for a test.
    static let quick = ReconnectStrategy.jittered(base: .milliseconds(5), maximum: .milliseconds(20))
}

/// Calls that cross each other, the network's events and cancellations.
@Suite(.timeLimit(.minutes(1))) struct ClientRaceTests {
    @Test func connecting_and_disconnecting_at_any_moment_leaves_a_client_that_connects() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp), .init(.webSocket)])
        var random = SeededGenerator(state: 1)
        for kind in [LoopbackBroker.Kind.tcp, .webSocket] {
            let client = MQTTClient(
                profile: try broker.profile(kind), configuration: .init(clientID: "c", reconnect: .quick))
            for _ in 0..<300 {
                let first = Task { try await client.connect() }
                let second = Task { try await client.connect() }
                for _ in 0..<Int.random(in: 0..<40, using: &random) { await Task.yield() }
                if Bool.random(using: &random) { first.cancel() }
                async let one: Void = client.disconnect()
                async let two: Void = client.disconnect()
                _ = await (one, two, first.result, second.result)
            }
            // An attempt that is left over from above is joined, or was ended.
            try await client.connect()
            try await client.publish("still works", to: "t", qos: .exactlyOnce)
            await client.disconnect()
        }
        await broker.stop()
    }

    @Test func a_call_cancelled_at_any_moment_ends_and_disturbs_no_other() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp), configuration: .init(clientID: "c", reconnect: .quick))
        try await client.connect()
        let steady = try await client.subscribe(to: "steady/#", qos: .exactlyOnce)
        var random = SeededGenerator(state: 2)
        for round in 0..<1000 {
            let kind = Int.random(in: 0..<4, using: &random)
            let task = Task {
                switch kind {
                case 0: try await client.publish("x", to: "t", qos: .exactlyOnce)
                case 1: try await client.publish("x", to: "t", qos: .atLeastOnce)
                case 2: _ = try await client.subscribe(to: "steady/\(round % 5)", qos: .atLeastOnce)
                default:
                    let subscription = try await client.subscribe(to: "other", qos: .atMostOnce)
                    try await client.unsubscribe(subscription)
                }
            }
            for _ in 0..<Int.random(in: 0..<30, using: &random) { await Task.yield() }
            task.cancel()
            switch await task.result {
            case .success: break
            case .failure(let error): #expect(error is CancellationError)
            }
        }
        for number in 0..<10 {
            try await client.publish("\(number)", to: "steady/\(number % 5)", qos: .exactlyOnce)
        }
        var messages = steady.makeAsyncIterator()
        for number in 0..<10 { #expect(try await messages.next()?.text == "\(number)") }
        await client.disconnect()
        await broker.stop()
    }

    @Test(arguments: [LoopbackBroker.Drop.fin, .reset])
    func under_random_drops_each_publish_resolves_once_and_keeps_its_promise(
        _ means: LoopbackBroker.Drop
    ) async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let profile = try broker.profile(.tcp)
        let reader = MQTTClient(profile: profile, configuration: .init(clientID: "reader"))
        try await reader.connect()
        let inbox = try await reader.subscribe(to: "in/#", qos: .exactlyOnce)
        let client = MQTTClient(
            profile: profile, configuration: .init(clientID: "publisher", reconnect: .quick))
        try await client.connect()

        let publishers = 60
        let perPublisher = 30
        let resolved = Lock(0)
        let dropper = Task {
            var random = SeededGenerator(state: 3)
            while !Task.isCancelled {
                try? await Task.sleep(for: .milliseconds(Int.random(in: 1..<30, using: &random)))
                await broker.dropConnections(clientID: "publisher", by: means)
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for publisher in 0..<publishers {
                group.addTask {
                    let qos: QoS = [.atMostOnce, .atLeastOnce, .exactlyOnce][publisher % 3]
                    for number in 0..<perPublisher {
                        do {
                            try await client.publish("\(number)", to: "in/\(publisher)", qos: qos)
                        } catch  where qos == .atMostOnce {
                            // Nothing else is promised for QoS 0.
                        }
                        resolved.withLock { $0 += 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        dropper.cancel()
        await dropper.value
        #expect(resolved.withLock { $0 } == publishers * perPublisher)
        // Once is not enough where the last drop is still being mended: QoS 1 returns when it has arrived.
        try await client.publish("", to: "in/end", qos: .atLeastOnce)

        var received: [Int: [Int]] = [:]
        for try await message in inbox {
            if message.topic == "in/end" { break }
            let publisher = try #require(Int(message.topic.dropFirst(3)))
            received[publisher, default: []].append(try #require(Int(message.text)))
        }
        let all = Array(0..<perPublisher)
        for publisher in 0..<publishers {
            let numbers = received[publisher] ?? []
            switch publisher % 3 {
            case 0: #expect(numbers == Set(numbers).sorted(), "QoS 0: at most once, in order")
            case 1:
                var firsts: [Int] = []
                for number in numbers where !firsts.contains(number) { firsts.append(number) }
                #expect(firsts == all, "QoS 1: at least once, in order")
            default: #expect(numbers == all, "QoS 2: exactly once, in order")
            }
        }
        await client.disconnect()
        await reader.disconnect()
        await broker.stop()
    }

    @Test func a_QoS_0_message_leaves_ahead_of_the_disconnect_after_it() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp), .init(.webSocketSecure)])
        let reader = MQTTClient(profile: try broker.profile(.tcp))
        try await reader.connect()
        let inbox = try await reader.subscribe(to: "t")
        var messages = inbox.makeAsyncIterator()
        for kind in [LoopbackBroker.Kind.tcp, .webSocketSecure] {
            let sender = MQTTClient(profile: try broker.profile(kind))
            try await sender.connect()
            for number in 0..<50 { try await sender.publish("\(number)", to: "t") }
            await sender.disconnect()
            for number in 0..<50 { #expect(try await messages.next()?.text == "\(number)") }
        }
        await reader.disconnect()
        await broker.stop()
    }

    @Test func a_5_0_client_that_is_taken_over_ends_and_does_not_fight_back() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let profile = try broker.profile(.tcp)
        let first = MQTTClient(profile: profile, configuration: .init(clientID: "same", reconnect: .quick))
        try await first.connect()
        let subscription = try await first.subscribe(to: "t")
        let second = MQTTClient(profile: profile, configuration: .init(clientID: "same", reconnect: .quick))
        try await second.connect()
        var messages = subscription.makeAsyncIterator()
        let error = await #expect(throws: MQTTError.self) { _ = try await messages.next() }
        #expect(error?.code == .mqttTakenOver)
        try await second.publish("alone", to: "t", qos: .atLeastOnce)
        await second.disconnect()
        await broker.stop()
    }

    @Test func refused_credentials_at_a_reconnect_end_the_client_and_all_that_waits() async throws {
        let open = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try open.profile(.tcp), configuration: .init(clientID: "c", reconnect: .quick))
        try await client.connect()
        let subscription = try await client.subscribe(to: "t")
        let events = client.events
        await open.stop()
        let receipt = try client.enqueue("waits", to: "t", qos: .exactlyOnce)
        var configuration = BrokerConfiguration()
        configuration.allowsAnonymous = false
        let closed = try await LoopbackBroker.start(
            configuration, listeners: [.init(.tcp, port: try #require(open.ports[.tcp]))])
        var last: MQTTError?
        for await event in events {
            guard case .disconnected(let error) = event else { continue }
            last = error
            break
        }
        #expect(last?.code == .mqttRefused)
        var messages = subscription.makeAsyncIterator()
        #expect(await #expect(throws: MQTTError.self) { _ = try await messages.next() } == last)
        #expect(await #expect(throws: MQTTError.self) { try await receipt.outcome } == last)
        await closed.stop()
    }
}
