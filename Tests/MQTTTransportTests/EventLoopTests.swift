import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

@Suite("EventLoop", .timeLimit(.minutes(1)))
struct EventLoopTests {
    private func withLoop(_ body: (EventLoop) async throws -> Void) async throws {
        let loop = try EventLoop()
        defer { loop.stopAndJoin() }
        try await body(loop)
    }

    @Test func work_runs_on_the_loop_in_the_order_of_the_calls() async throws {
        try await withLoop { loop in
            let seen = Watched<[[Int]]>(Array(repeating: [], count: 4))
            await withTaskGroup(of: Void.self) { group in
                for caller in 0..<4 {
                    group.addTask {
                        for number in 0..<1000 {
                            loop.execute {
                                loop.preconditionIsCurrent()
                                seen.update { $0[caller].append(number) }
                            }
                        }
                    }
                }
            }
            let all = await seen.first { $0.allSatisfy { $0.count == 1000 } }
            for numbers in all { #expect(numbers == Array(0..<1000)) }
            #expect(!loop.isCurrent)
        }
    }

    /// What is queued while the loop is busy runs in one turn, after one wake.
    @Test func wakes_are_coalesced() async throws {
        try await withLoop { loop in
            let turns = Watched<[ContinuousClock.Instant]>([])
            let gate = DispatchSemaphore(value: 0)
            loop.execute { gate.wait() }
            for _ in 0..<1000 { loop.execute { turns.update { $0.append(loop.now) } } }
            gate.signal()
            let instants = await turns.first { $0.count == 1000 }
            // The first may have been queued before the loop took up the work that waits.
            #expect(Set(instants).count <= 2)
        }
    }

    @Test func work_queued_by_work_is_not_lost() async throws {
        try await withLoop { loop in
            let count = Watched(0)
            for _ in 0..<2000 {
                loop.execute { loop.execute { count.update { $0 += 1 } } }
            }
            #expect(await count.first { $0 == 2000 } == 2000)
        }
    }

    @Test func timers_fire_in_the_order_of_their_deadlines_and_cancelled_ones_never() async throws {
        try await withLoop { loop in
            let fired = Watched<[Int]>([])
            loop.execute {
                let start = loop.now
                func timer(_ number: Int, _ milliseconds: Int) -> EventLoop.TimerIdentifier {
                    loop.schedule(at: start + .milliseconds(milliseconds)) {
                        fired.update { $0.append(number) }
                    }
                }
                _ = timer(5, 60)
                _ = timer(1, -10)
                let cancelled = timer(99, 30)
                _ = timer(3, 40)
                let cancelledLater = timer(98, 50)
                // Earlier than what the timer descriptor was armed for.
                _ = timer(2, 20)
                // Equal deadlines keep their order.
                _ = timer(4, 40)
                loop.cancel(cancelled)
                _ = loop.schedule(at: start + .milliseconds(50 - 1)) { loop.cancel(cancelledLater) }
            }
            #expect(await fired.first { $0.contains(5) } == [1, 2, 3, 4, 5])
        }
    }

    @Test func thousands_of_timers_survive_cancelling_most_of_them() async throws {
        try await withLoop { loop in
            let fired = Watched<[Int]>([])
            loop.execute {
                var cancelled: [EventLoop.TimerIdentifier] = []
                for number in (0..<2000).reversed() {
                    let deadline = loop.now + .microseconds(number * 10)
                    let timer = loop.schedule(at: deadline) { fired.update { $0.append(number) } }
                    if number % 100 != 0 { cancelled.append(timer) }
                }
                for timer in cancelled { loop.cancel(timer) }
            }
            let numbers = await fired.first { $0.count == 20 }
            #expect(numbers == stride(from: 0, to: 2000, by: 100).map { $0 })
        }
    }

    /// Bug: signals every 5 ms that end the wait early, or start it anew.
    @Test func signals_neither_end_a_wait_nor_lengthen_it() async {
        await #expect(processExitsWith: .success) {
            var action = sigaction()
            action.__sigaction_handler.sa_handler = { _ in }
            sigaction(SIGUSR1, &action, nil)
            let loop = try EventLoop()
            let thread = Watched<pthread_t?>(nil)
            loop.execute { thread.update { $0 = pthread_self() } }
            guard let target = await thread.first(where: { $0 != nil }) else { exit(EXIT_FAILURE) }
            // On a busy machine a wait may be over before its signals come: such a round tells nothing.
            for _ in 0..<20 {
                let elapsed = Watched<Duration?>(nil)
                loop.execute {
                    // The deadline counts from the turn's own time.
                    let start = loop.now
                    _ = loop.schedule(at: start + .milliseconds(500)) {
                        elapsed.update { $0 = ContinuousClock.now - start }
                    }
                }
                var signals = 0
                while elapsed.value == nil {
                    pthread_kill(target, SIGUSR1)
                    signals += 1
                    usleep(5000)
                }
                // A wait that each signal starts anew would not end at all.
                let waited = elapsed.value ?? .zero
                guard waited >= .milliseconds(500), waited < .seconds(30) else { exit(EXIT_FAILURE) }
                if signals >= 10 {
                    loop.stopAndJoin()
                    exit(EXIT_SUCCESS)
                }
            }
            exit(EXIT_FAILURE)
        }
    }

    @Test func stopping_runs_what_was_queued_and_gives_the_descriptors_back() async {
        await #expect(processExitsWith: .success) {
            func count() throws -> Int {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
            }
            let before = try count()
            let ran = Watched(0)
            for _ in 0..<50 {
                let loop = try EventLoop()
                for _ in 0..<10 { loop.execute { ran.update { $0 += 1 } } }
                loop.stopAndJoin()
            }
            let after = try count()
            // A few may be the runtime's own.
            exit(ran.value == 500 && after <= before + 10 ? EXIT_SUCCESS : EXIT_FAILURE)
        }
    }

    @Test func stopping_ends_the_connections_of_the_loop() async throws {
        let bench = try Bench()
        let peer = try bench.peer([.send([0x20]), .expectEnd])
        do {
            let client = try bench.client(.tcp(host: "127.0.0.1", port: Int(peer.port)))
            _ = await client.received(1)
            bench.loop.stopAndJoin()
        }
        #expect(await peer.ended().end?.code == .tcpClosed)
        bench.peerLoop.stopAndJoin()
    }

    // MARK: Descriptors

    private final class Handler: EventHandler {
        let onReadable: () -> Void
        init(_ onReadable: @escaping () -> Void) { self.onReadable = onReadable }
        func readable() { onReadable() }
        func writable() {}
        func loopEnded() {}
    }

    /// Two descriptors are reported in one turn; the handler of the first gives the second's number to another.
    @Test func an_event_of_a_descriptor_number_never_reaches_its_next_owner() async throws {
        try await withLoop { loop in
            let outcome = Watched<(first: Int, wrong: Int, isOver: Bool)>((0, 0, false))
            loop.execute {
                func pair() -> [Int32] {
                    var pair: [Int32] = [0, 0]
                    socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair)
                    return pair
                }
                let (a, b, silent) = (pair(), pair(), pair())
                for (mine, other) in [(a, b), (b, a)] {
                    loop.register(
                        mine[0],
                        handler: Handler {
                            outcome.update { $0.first += 1 }
                            loop.unregister(mine[0])
                            loop.unregister(other[0])
                            // The number now belongs to a socket to which nobody has written.
                            dup2(silent[0], other[0])
                            loop.register(other[0], handler: Handler { outcome.update { $0.wrong += 1 } })
                        })
                }
                write(a[1], "x", 1)
                write(b[1], "x", 1)
                _ = loop.schedule(at: loop.now + .milliseconds(50)) {
                    for descriptor in a + b + silent {
                        loop.unregister(descriptor)
                        close(descriptor)
                    }
                    outcome.update { $0.isOver = true }
                }
            }
            let result = await outcome.first { $0.isOver }
            #expect(result.first == 1)
            #expect(result.wrong == 0)
        }
    }

    @Test func random_bytes_do_not_repeat_over_refills() {
        var pool = RandomPool()
        var words: Set<UInt32> = []
        for _ in 0..<5000 { words.insert(pool.next()) }
        // Two equal words among 5000 are unlikely (0.3 %), ten are not possible.
        #expect(words.count > 4990)
        #expect(pool.bytes(10_000).count == 10_000)
        #expect(pool.bytes(16) != pool.bytes(16))
    }
}
