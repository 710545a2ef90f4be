import Glibc
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Floods in both directions: what is bounded stays bounded, and nothing else suffers.
@Suite(.serialized, .timeLimit(.minutes(1))) struct ClientFlowTests {
    @Test func a_QoS_0_flood_that_nobody_reads_is_dropped_and_counted_and_costs_no_connection() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        // Small limits: both the messages and the bytes of this flood are far above them.
        let client = MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(
                clientID: "c", reconnect: .never, subscriptionCapacity: 1000,
                subscriptionByteLimit: 1 << 20))
        try await client.connect()
        let unread = try await client.subscribe(to: "flood", qos: .atMostOnce)
        let other = try await client.subscribe(to: "other", qos: .atLeastOnce)
        let payload = [UInt8](repeating: 0x2A, count: 2000)
        for _ in 0..<20 {
            for _ in 0..<1000 { try await client.publish(payload, to: "flood") }
            // Back with the broker: what was sent before it has arrived.
            try await client.publish("mark", to: "other", qos: .atLeastOnce)
        }
        var marks = other.makeAsyncIterator()
        for _ in 0..<20 { #expect(try await marks.next()?.text == "mark") }
        // 1 MiB, of which half may be filled: 262 messages of 2000 bytes.
        let kept = (1 << 19) / 2000
        #expect(unread.droppedCount + kept <= 20_000)
        #expect(unread.droppedCount > 0)
        await client.disconnect()
        var left = 0
        for try await message in unread {
            #expect(message.payload.count == 2000)
            left += 1
        }
        #expect(left == kept)
        await broker.stop()
    }

    @Test func a_byte_limit_ends_the_connection_by_name_and_reading_mends_it() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(
                clientID: "c", reconnect: .quick, receiveMaximum: 1000, subscriptionByteLimit: 100_000))
        try await client.connect()
        let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce)
        let events = client.events
        let sender = MQTTClient(profile: try broker.profile(.tcp), configuration: .init(clientID: "s"))
        try await sender.connect()
        for number in 0..<200 {
            let payload = Array("\(number)".utf8) + [UInt8](repeating: 0x20, count: 1000)
            try await sender.publish(payload, to: "t", qos: .atLeastOnce)
        }
        var interruption: MQTTError?
        for await event in events {
            if case .interrupted(let error) = event {
                interruption = error
                break
            }
        }
        #expect(interruption?.code == .clientQueueFull)
        var seen: [Int] = []
        for try await message in subscription {
            let number = try #require(Int(message.text.prefix { $0 != " " }))
            if !seen.contains(number) { seen.append(number) }
            if seen.count == 200 { break }
        }
        #expect(seen == Array(0..<200))
        #expect(subscription.droppedCount == 0)
        await sender.disconnect()
        await client.disconnect()
        await broker.stop()
    }

    @Test func to_a_server_that_does_not_read_QoS_0_waits_and_the_queue_is_bounded() async throws {
        let server = try SilentServer()
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(server.port)),
            configuration: .init(
                version: .v3_1_1, clientID: "c", keepAlive: .zero,
                publishQueue: PublishQueue(maximumCount: 100)))
        try await client.connect()
        let payload = [UInt8](repeating: 0, count: 64 * 1024)
        let published = Lock(0)
        let flood = Task {
            while true {
                try await client.publish(payload, to: "t")
                published.withLock { $0 += 1 }
            }
        }
        // The kernel takes a few MiB, then everything waits, the flood's next message in the queue. On a busy machine the
        // flood may just not have had its turn.
        var last = -1
        while published.withLock({ $0 }) != last || client.metrics.queue.waiting == 0 {
            last = published.withLock { $0 }
            try await Task.sleep(for: .milliseconds(200))
        }
        #expect(last > 16)
        #expect(last < 32 << 20 / payload.count)
        let receipts = try (0..<200).map { _ in try client.enqueue("x", to: "t", qos: .atLeastOnce) }
        // The flood's own message waits in the queue too.
        let refused = await #expect(throws: MQTTError.self) { try await receipts[199].outcome }
        #expect(refused?.code == .clientQueueFull)
        await client.disconnect()
        let ended = await #expect(throws: MQTTError.self) { try await receipts[0].outcome }
        #expect(ended?.code == .clientDisconnected)
        let error = await #expect(throws: MQTTError.self) { try await flood.value }
        // Where the kernel took a little more, the flood's next message met the full queue.
        #expect([.clientDisconnected, .clientNotConnected, .clientQueueFull].contains(error?.code))
        server.close()
    }

    @Test func clients_that_are_let_go_of_in_any_state_leave_nothing() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp), .init(.webSocketSecure)])
        let profiles = [try broker.profile(.tcp), try broker.profile(.webSocketSecure)]
        let silent = try SilentServer(answers: false)
        let ports = Array(broker.ports.values) + [silent.port]
        var alive: [Weak] = []
        for round in 0..<210 {
            let sentinel = Sentinel()
            alive.append(Weak(value: sentinel))
            let profile =
                round % 7 == 1
                ? try ConnectionProfile.tcp(host: "127.0.0.1", port: Int(silent.port)) : profiles[round % 2]
            try await use(profile, round: round, sentinel)
        }
        // What closes does so in its own time: two seconds at most for a connection.
        let deadline = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < deadline {
            let open = ports.reduce(0) { $0 + connections(to: $1) }
            if open == 0, alive.allSatisfy({ $0.value == nil }) { break }
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(alive.filter { $0.value != nil }.count == 0)
        #expect(ports.map { connections(to: $0) } == [0, 0, 0])
        #expect(await broker.connectedClients.isEmpty)
        silent.close()
        await broker.stop()
    }

    /// One client's life, ended by letting go of it.
    private func use(_ profile: ConnectionProfile, round: Int, _ sentinel: Sentinel) async throws {
        let client = MQTTClient(
            profile: profile,
            configuration: .init(clientID: "c\(round)", reconnect: .quick, log: { _, _ in sentinel.touch() }))
        switch round % 7 {
        case 0:
            break
        case 1:
            // CONNACK never comes.
            let connecting = Task { try await client.connect() }
            for _ in 0..<round { await Task.yield() }
            connecting.cancel()
            _ = await connecting.result
        case 2:
            try await client.connect()
            _ = try client.enqueue("never awaited", to: "t", qos: .exactlyOnce)
        case 3:
            try await client.connect()
            let subscription = try await client.subscribe(to: "t/#", qos: .exactlyOnce)
            try await client.publish("unread", to: "t/1", qos: .atLeastOnce)
            _ = subscription.droppedCount
        case 4:
            try await client.connect()
            let reader = Task { [events = client.events] in
                var count = 0
                for await _ in events { count += 1 }
                return count
            }
            let disconnecting = Task { await client.disconnect() }
            await disconnecting.value
            // The client is gone when this returns; its events then end.
            Task { _ = await reader.value }
        case 5:
            try await client.connect()
            let subscription = try await client.subscribe(to: "t", qos: .atLeastOnce)
            let reader = Task { for try await _ in subscription {} }
            await Task.yield()
            reader.cancel()
            _ = await reader.result
        default:
            try await client.connect()
            let receipt = try client.enqueue("awaited elsewhere", to: "t", qos: .exactlyOnce)
            Task { _ = try? await receipt.outcome }
        }
    }

    @Test func events_of_a_client_that_is_let_go_of_end() async throws {
        var client: MQTTClient? = MQTTClient(profile: try .tcp(host: "127.0.0.1"))
        let events = try #require(client?.events)
        let reader = Task {
            var count = 0
            for await _ in events { count += 1 }
            return count
        }
        client = nil
        // The state that it started with, and maybe that it has been disconnected.
        #expect((1...2).contains(await reader.value))
    }
}

/// Lives as long as the client's driver does, which holds it by the configuration.
private final class Sentinel: Sendable {
    func touch() {}
}

private struct Weak {
    weak var value: Sentinel?
}

/// Accepts one client after the other, answers CONNECT of 3.1.1, sends what it has, and never reads again.
final class SilentServer: Sendable {
    let port: UInt16
    private let descriptor: Int32

    init(answers: Bool = true, burst: [UInt8] = []) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        self.descriptor = descriptor
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, length) == 0 && listen(descriptor, 64) == 0
                    && getsockname(descriptor, pointer, &length) == 0
            }
        }
        try #require(isListening)
        port = UInt16(bigEndian: address.sin_port)
        guard answers else { return }
        pthreadDetached {
            while true {
                let client = accept(descriptor, nil, nil)
                if client < 0 { return }
                var buffer = [UInt8](repeating: 0, count: 64)
                _ = recv(client, &buffer, buffer.count, 0)
                // CONNACK of 3.1.1
                let answer = [0x20, 2, 0, 0] + burst
                _ = Glibc.send(client, answer, answer.count, Int32(MSG_NOSIGNAL))
            }
        }
    }

    func close() {
        shutdown(descriptor, Int32(SHUT_RDWR))
        _ = Glibc.close(descriptor)
    }
}

/// A thread of its own, so that what blocks there starves no task.
private func pthreadDetached(_ body: @escaping @Sendable () -> Void) {
    final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    let box = Unmanaged.passRetained(Box(body)).toOpaque()
    pthread_create(
        &thread, nil,
        { pointer in
            if let pointer { Unmanaged<Box>.fromOpaque(pointer).takeRetainedValue().body() }
            return nil
        }, box)
    pthread_detach(thread)
}

/// How many connections this process has to a port of 127.0.0.1.
private func connections(to port: UInt16) -> Int {
    (0..<Int32(4096)).count { descriptor in
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getpeername(descriptor, $0, &length)
            }
        }
        return result == 0 && UInt16(bigEndian: address.sin_port) == port
    }
}
