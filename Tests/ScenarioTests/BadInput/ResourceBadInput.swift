import Foundation
import Glibc
import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Whatever comes, the process neither dies, spins nor leaks. Measured in processes of their own, where nothing
/// else runs. Numbers are rows of a collection of real bug reports.
@Suite(.timeLimit(.minutes(1)))
struct ResourceBadInput {
    /// 147: the end of a connection ends the work, with and without further attempts.
    @Test func an_ended_connection_costs_no_time() async {
        await #expect(processExitsWith: .success) {
            let stand = try Stand.shared.get()
            let connack = ProtocolVersion.v5.connack
            let peer = try stand.peer([[.expectPacket, .send(connack), .close]])
            let client = try stand.client(peer, .v5) { $0.reconnect = .never }
            let events = EventRecorder(client)
            try await client.connectInTime()
            try await events.wait(for: "connected", "disconnected")
            let before = Self.processorSeconds()
            // Doing nothing is what is measured.
            try await Task.sleep(for: .seconds(2))
            #expect(Self.processorSeconds() - before < 0.1)
        }
    }

    /// 142: attempts against a closed port, and connections that break at each stage.
    @Test func failed_attempts_leave_no_descriptors() async {
        await #expect(processExitsWith: .success) {
            let stand = try Stand.shared.get()
            let port = Int(try FreePorts.choose(1)[0])
            let peer = try stand.peer([[.reset]])
            let encrypted = try stand.peer(encrypted: true, [[.close]])
            func attempts(_ count: Int) async throws {
                for _ in 0..<count {
                    for transport in Transport.allCases {
                        let profiles = [
                            try transport.profile(port: port, stand.trusting),
                            try transport.profile(port: Int(peer.port), stand.trusting),
                            try transport.profile(port: Int(encrypted.port), stand.trusting),
                        ]
                        for profile in profiles {
                            let client = MQTTClient(profile: profile)
                            _ = try await failure("connect") { try await client.connect() }
                        }
                    }
                }
            }
            try await attempts(3)
            let baseline = Self.descriptorCount()
            try await attempts(40)
            // Peers close their side a moment later.
            try await eventually("the descriptors are back at \(baseline)", within: .seconds(10)) {
                Self.descriptorCount() <= baseline
            }
        }
    }

    /// 144: a RST meets the writes of a client; SIGPIPE keeps its default, which ends a process.
    @Test(arguments: [false, true])
    func a_reset_while_writing_is_no_SIGPIPE(_ isEncrypted: Bool) async {
        // An exit test takes no arguments of its own.
        if isEncrypted {
            await #expect(processExitsWith: .success) { try await Self.writeIntoResets(isEncrypted: true) }
        } else {
            await #expect(processExitsWith: .success) { try await Self.writeIntoResets(isEncrypted: false) }
        }
    }

    private static func writeIntoResets(isEncrypted: Bool) async throws {
        let stand = try Stand.shared.get()
        let connack = ProtocolVersion.v5.connack
        let peer = try stand.peer(encrypted: isEncrypted, [[.expectPacket, .send(connack), .reset]])
        defer { peer.stop() }
        for _ in 0..<50 {
            let client = try stand.client(peer, .v5, isEncrypted ? .tls : .tcp) { $0.reconnect = .never }
            let events = EventRecorder(client)
            try await client.connectInTime()
            for _ in 0..<3 { try client.enqueue([UInt8](repeating: 0, count: 100_000), to: "t") }
            try await events.wait(for: "disconnected")
            #expect([.tcpReset, .tcpClosed].contains(events.endError?.code))
        }
        var action = sigaction()
        sigaction(SIGPIPE, nil, &action)
        #expect(action.__sigaction_handler.sa_handler == nil)
    }

    /// A server that answers with noise: each attempt ends with an error within its deadlines.
    @Test(arguments: [Transport.tcp, .webSocket])
    func random_answers_end_every_attempt_by_an_error(_ transport: Transport) async throws {
        var generator = SeededGenerator(state: 0x5EED_0000 + (transport == .tcp ? 1 : 2))
        let scripts = (0..<150).map { number -> [ScriptedPeer.Step] in
            let noise = (0..<Int.random(in: 1...400, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            // Some noise comes after a good beginning, where more of the client is listening.
            switch (transport, number % 3) {
            case (.webSocket, 0): return [.upgradeWebSocket, .send(noise), .close]
            case (.webSocket, 1): return [.upgradeWebSocket, .send([0x82, 0x7E, 1, 0x2C] + noise), .close]
            case (_, 0): return [.send([0x20, 0x7F, 0, 0] + noise), .close]
            case (_, 1): return [.sendSlices(noise.map { [$0] }), .close]
            default: return [.send(noise), .close]
            }
        }
        let stand = try Stand.shared.get()
        let peer = try stand.peer(scripts)
        defer { peer.stop() }
        for number in scripts.indices {
            let client = try stand.client(peer, .v5, transport, connack: .seconds(2))
            let (error, duration) = try await failure("attempt \(number)") { try await client.connect() }
            #expect(error.stage != .local && error.stage != .established, "\(number): \(error)")
            #expect(duration < .seconds(15))
        }
        #expect(peer.connectionCount == scripts.count)
    }

    private static func processorSeconds() -> Double {
        var usage = rusage()
        getrusage(Int32(RUSAGE_SELF.rawValue), &usage)
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }

    private static func descriptorCount() -> Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? .max
    }
}

/// SplitMix64: the same noise in each run.
private struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
