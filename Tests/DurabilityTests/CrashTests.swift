import Dispatch
import Glibc
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Processes that are killed while they publish from a session store. Their number is `MQTT_CRASHES`, 20 by default.
@Suite(.serialized, .timeLimit(.minutes(30))) struct CrashTests {
    private let temporary = TemporaryDirectory()
    private var directory: String { temporary.path }
    private static let rounds = getenv("MQTT_CRASHES").flatMap { Int(String(cString: $0)) } ?? 20
    /// More than a process gets through.
    private static let messagesPerRound = 100_000

    /// What arrived at the broker, counted by number.
    private final class Arrivals: Sendable {
        private let counts = Lock<[Int: Int]>([:])

        func add(_ number: Int) { counts.withLock { $0[number, default: 0] += 1 } }
        func count(_ number: Int) -> Int { counts.withLock { $0[number] ?? 0 } }
        func missing(of numbers: [Int]) -> [Int] {
            counts.withLock { counts in numbers.filter { counts[$0] == nil } }
        }
        var all: [Int: Int] { counts.withLock { $0 } }
    }

    private func run(_ arguments: [String], killedAfter lines: Int?, delay: UInt32 = 0) async -> [Substring] {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(
                    returning: CrashingPublisher.run(arguments, killedAfter: lines, delay: delay))
            }
        }
    }

    @Test func what_was_accepted_arrives_and_exactly_once_where_that_was_asked_for() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let profile = try broker.profile(.tcp)
        let port = "\(broker.ports[.tcp] ?? 0)"
        let reader = MQTTClient(profile: profile, configuration: .init(version: .v5, clientID: "reader"))
        try await reader.connect()
        let subscription = try await reader.subscribe(to: "durable/#", qos: .exactlyOnce)
        let arrivals = Arrivals()
        let reading = Task {
            for try await message in subscription {
                if let number = Int(try message.text) { arrivals.add(number) }
            }
        }
        var accepted: [Int] = []
        var random = SystemRandomNumberGenerator()
        for round in 0..<Self.rounds {
            let first = round * Self.messagesPerRound
            // Some die before or just after they have connected, with nothing accepted.
            let lines = Int.random(in: 0...60, using: &random)
            async let output = run(
                [port, directory, "\(first)", "\(Self.messagesPerRound)"], killedAfter: max(1, lines),
                delay: .random(in: 0...20_000, using: &random))
            if round % 3 == 0 { _ = await broker.dropConnections(clientID: "durable") }
            let said = await output
            #expect(!said.contains { $0.hasPrefix("failed") || $0.hasPrefix("ended") }, "\(said.suffix(2))")
            accepted += said.compactMap { Int($0) }
        }
        // A last one sends what is left.
        let deadline = ContinuousClock.now + .seconds(60)
        while !arrivals.missing(of: accepted).isEmpty, ContinuousClock.now < deadline {
            _ = await run([port, directory, "0", "0"], killedAfter: 1, delay: 500_000)
        }
        #expect(accepted.count > Self.rounds)
        #expect(arrivals.missing(of: accepted).isEmpty)
        let doubled = arrivals.all.filter { $0.key % 2 == 1 && $0.value > 1 }
        #expect(doubled.isEmpty)
        let repeated = arrivals.all.count { $0.value > 1 }
        print(
            "\(Self.rounds) crashes: \(accepted.count) accepted, \(arrivals.all.count) arrived,",
            "\(repeated) of QoS 1 more than once, \(doubled.count) of QoS 2")
        await reader.disconnect()
        reading.cancel()
        await broker.stop()
    }

    @Test func a_full_disk_is_said_and_what_was_accepted_before_arrives() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let port = "\(broker.ports[.tcp] ?? 0)"
        let reader = MQTTClient(profile: try broker.profile(.tcp), configuration: .init(clientID: "reader"))
        try await reader.connect()
        let subscription = try await reader.subscribe(to: "durable/#", qos: .exactlyOnce)
        let said = await run([port, directory, "0", "100000", "20000"], killedAfter: nil)
        #expect(said.contains { $0.hasPrefix("failed") && $0.contains("client.storage_failed") })
        #expect(
            said.contains { $0.hasPrefix("ended") && $0.contains("client.storage_failed") },
            "\(said.suffix(2))")
        var missing = Set(said.compactMap { Int($0) })
        #expect(!missing.isEmpty)
        // With room again, the next process sends what this one couldn't.
        async let next = run([port, directory, "0", "0"], killedAfter: 1, delay: 2_000_000)
        for try await message in subscription {
            if let number = Int(try message.text) { missing.remove(number) }
            if missing.isEmpty { break }
        }
        #expect(await next == ["connected"])
        await reader.disconnect()
        await broker.stop()
    }
}
