import Foundation
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// What comes and goes leaves nothing behind. Beside other tests descriptors and memory belong to everybody, so that
/// these run alone: `make cycles`, with `MQTT_CYCLES` of them.
@Suite(.serialized, .enabled(if: cycles > 0, "MQTT_CYCLES isn't set: make cycles"), .timeLimit(.minutes(15)))
struct CycleTests {
    private struct Resources: CustomStringConvertible {
        let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count) ?? 0
        /// In KiB.
        let memory: Int

        init() {
            let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
            let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
            memory = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) } ?? 0
        }

        var description: String { "\(descriptors) descriptors, \(threads) threads, \(memory) KiB" }
    }

    /// Runs some to have everything made that is made once, then all, and compares.
    private func compare(_ name: String, count: Int, _ body: (Int) async throws -> Void) async throws {
        let warmUp = min(200, count / 4)
        for number in 0..<warmUp { try await body(number) }
        // The first sleep opens the timer of Dispatch.
        try await Task.sleep(for: .milliseconds(200))
        let before = Resources()
        for number in 0..<count { try await body(number) }
        // The last streams' farewells.
        let deadline = ContinuousClock.now + .seconds(5)
        while Resources().descriptors > before.descriptors, ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(50))
        }
        let after = Resources()
        print("\(name), \(count) cycles: \(before) before, \(after) after")
        #expect(after.descriptors <= before.descriptors)
        // Pools of threads grow and shrink by themselves.
        #expect(after.threads <= before.threads + 4)
        // Less than a kilobyte a cycle: the allocator's gaps.
        #expect(after.memory <= before.memory + max(4096, count / 2))
    }

    @Test func connecting_and_disconnecting_leaves_nothing_behind() async throws {
        let broker = try await LoopbackBroker.start()
        let kinds = LoopbackBroker.Kind.allCases
        try await compare("connect and disconnect", count: cycles) { number in
            let client = MQTTClient(
                profile: try broker.profile(kinds[number % kinds.count]),
                configuration: .init(version: number % 8 < 4 ? .v5 : .v3_1_1, clientID: "c"))
            try await client.connect()
            let subscription = try await client.subscribe(to: "t")
            try await client.publish("x", to: "t", qos: .atLeastOnce)
            var messages = subscription.makeAsyncIterator()
            _ = try await messages.next()
            // Every third is let go of without a word.
            if number % 3 != 0 { await client.disconnect() }
        }
        await broker.stop()
    }

    /// eclipse-paho/paho.mqtt.c#1676.
    @Test func row_142_cycles_against_a_closed_port_leave_nothing_behind() async throws {
        let broker = try await LoopbackBroker.start()
        let profiles = try LoopbackBroker.Kind.allCases.map { try broker.profile($0) }
        for kind in LoopbackBroker.Kind.allCases { try await broker.block(kind, by: .refusing) }
        try await compare("refused", count: cycles / 2) { number in
            let client = MQTTClient(profile: profiles[number % profiles.count])
            let error = await #expect(throws: MQTTError.self) { try await client.connect() }
            #expect(error?.code == .tcpRefused)
        }
        await broker.stop()
    }

    /// A million messages at 10,000 cycles.
    @Test func a_consumer_that_sleeps_keeps_memory_flat() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let profile = try broker.profile(.tcp)
        for qos in [QoS.atMostOnce, .atLeastOnce] {
            let configuration = ClientConfiguration(
                version: .v5, clientID: "sleeper", receiveMaximum: 100, subscriptionCapacity: 1000)
            let client = MQTTClient(profile: profile, configuration: configuration)
            let feeder = MQTTClient(profile: profile, configuration: .init(version: .v5, clientID: "feeder"))
            try await client.connect()
            try await feeder.connect()
            let sleeping = try await client.subscribe(
                to: "flood", qos: qos, overflow: qos == .atMostOnce ? .dropOldest : .withholdAcknowledgements)
            func feed(_ count: Int) async throws {
                for number in 0..<count {
                    let receipt = try feeder.enqueue(
                        [UInt8](repeating: 1, count: 64), to: "flood",
                        qos: number % 500 == 499 ? .atLeastOnce : qos)
                    // The feeder's own queue isn't what is looked at.
                    if number % 500 == 499 { _ = try await receipt.outcome }
                }
            }
            try await feed(cycles * 10)
            let before = Resources()
            try await feed(cycles * 90)
            let after = Resources()
            print("QoS \(qos.rawValue), \(cycles * 100) messages to a sleeper: \(before), then \(after)")
            #expect(after.memory <= before.memory + 16 * 1024)
            // Pings go on: the connection stands, and answers.
            try await client.publish("alive", to: "other", qos: .atLeastOnce)
            guard case .connected = client.state else {
                Issue.record("\(client.state)")
                continue
            }
            withExtendedLifetime(sleeping) {}
            await client.disconnect()
            await feeder.disconnect()
        }
        await broker.stop()
    }
}

private let cycles = ProcessInfo.processInfo.environment["MQTT_CYCLES"].flatMap { Int($0) } ?? 0
