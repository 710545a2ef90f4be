import Glibc
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

@Suite(.timeLimit(.minutes(1))) struct NetworkChangeTests {
    @Test func a_client_that_waits_for_minutes_is_back_at_once() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let client = MQTTClient(
            profile: try broker.profile(.tcp),
            configuration: .init(
                clientID: "c", reconnect: .jittered(base: .seconds(36000), maximum: .seconds(36000))))
        var events = client.events.makeAsyncIterator()
        try await client.connect()
        _ = await events.untilConnected()
        await broker.dropAll()
        while let event = await events.next() {
            if case .reconnecting = event { break }
        }
        client.networkChanged()
        #expect(await events.untilConnected().outcome != nil)
        await client.disconnect()
        await broker.stop()
    }

    @Test func a_connection_that_has_died_is_found_out() async throws {
        let loop = try EventLoop()
        let silent: [ScriptedPeer.Step] = [
            .expectUntil(Array("client-x".utf8)), .send([0x20, 3, 0, 0, 0]), .expect([0xC0, 0]), .hold,
        ]
        let peer = try ScriptedPeer(on: loop, scripts: [silent])
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)),
            configuration: .init(
                version: .v5, clientID: "client-x", keepAlive: .zero, pingTimeout: .milliseconds(200),
                reconnect: .never))
        try await client.connect()
        let events = client.events
        client.networkChanged()
        for await event in events {
            guard case .interrupted(let error) = event else { continue }
            #expect(error.code == .idleBlackholed)
            break
        }
        await client.disconnect()
        peer.stop()
        loop.stopAndJoin()
    }

    /// In a network namespace of its own, so that nothing else on this machine hears of it.
    @Test(.enabled(if: geteuid() == 0 && access("/usr/sbin/ip", X_OK) == 0, "needs root and iproute2"))
    func the_kernel_tells_of_a_link_that_comes_up() async throws {
        let loop = try EventLoop()
        let reports = Watched(0)
        // A namespace is a thread's own; what it starts is in there too.
        let isUp = await withCheckedContinuation { (continuation: CheckedContinuation<Bool, Never>) in
            OwnThread.run {
                guard OwnThread.leaveNetwork(), let watcher = NetworkWatcher(on: loop) else {
                    return continuation.resume(returning: false)
                }
                _ = watcher.add { reports.update { $0 += 1 } }
                continuation.resume(returning: OwnThread.spawn(["/usr/sbin/ip", "link", "set", "lo", "up"]))
            }
        }
        try #require(isUp, "this root may not make a network namespace")
        #expect(await reports.first { $0 > 0 } > 0)
        loop.stopAndJoin()
    }
}

/// A thread that ends with its work.
private enum OwnThread {
    private final class Work: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    static func run(_ work: @escaping @Sendable () -> Void) {
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { pointer in
                if let pointer { Unmanaged<Work>.fromOpaque(pointer).takeRetainedValue().run() }
                return nil
            }, Unmanaged.passRetained(Work(work)).toOpaque())
        pthread_detach(thread)
    }

    /// unshare(CLONE_NEWNET), which isn't in the Glibc module.
    static func leaveNetwork() -> Bool {
        guard let symbol = dlsym(nil, "unshare") else { return false }
        let unshare = unsafeBitCast(symbol, to: (@convention(c) (Int32) -> Int32).self)
        return unshare(0x4000_0000) == 0
    }

    /// - Returns: whether the program has ended well.
    static func spawn(_ words: [String]) -> Bool {
        var arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var process = pid_t()
        guard posix_spawn(&process, words[0], nil, nil, &arguments, environ) == 0 else { return false }
        var status: Int32 = -1
        return waitpid(process, &status, 0) == process && status == 0
    }
}
