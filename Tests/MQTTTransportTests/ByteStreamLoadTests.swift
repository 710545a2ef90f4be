import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

@Suite("ByteStream neither spins nor blocks", .timeLimit(.minutes(1)))
struct ByteStreamLoadTests {
    @Test func a_peer_that_does_not_read_holds_up_nothing_but_its_bytes() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.ignore])
            let client = try bench.client(.tcp(host: "127.0.0.1", port: Int(peer.port)))
            #expect(await client.outcome() == nil)
            let pending = Watched<[Int]>([])
            let chunk = [UInt8](repeating: 0x30, count: 8 << 20)
            for _ in 0..<4 {
                client.withStream { $0.send([chunk]) }
                await client.settle()
                client.withStream { stream in pending.update { $0.append(stream.pendingBytes) } }
            }
            let sizes = await pending.first { $0.count == 4 }
            #expect(sizes == sizes.sorted())
            #expect(sizes[3] > 16 << 20)
            let used = await cpuTime(of: bench.loop, over: .milliseconds(200))
            #expect(used < .milliseconds(50))
            client.withStream { $0.abort(nil) }
            _ = await client.end()
            peer.stop()
        }
    }

    /// Keep-alive tells a slow line from a dead one by this.
    @Test func progress_is_told_while_bytes_wait_for_a_slow_reader() async throws {
        try await Bench.run { bench in
            let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(listener) }
            let port = try bindWithoutListening(listener)
            try #require(listen(listener, 1) == 0)
            let client = try bench.client(.tcp(host: "127.0.0.1", port: port))
            #expect(await client.outcome() == nil)
            let reader = accept(listener, nil, nil)
            defer { close(reader) }
            let size = 32 << 20
            client.send([UInt8](repeating: 0x30, count: size))
            _ = await client.watched.first { $0.partialWrites == 1 }
            var buffer = [UInt8](repeating: 0, count: 1 << 20)
            var received = 0
            func read(upTo count: Int) throws {
                while received < count {
                    let more = recv(reader, &buffer, buffer.count, 0)
                    try #require(more > 0)
                    received += more
                }
            }
            try read(upTo: size / 2)
            let halfway = await client.watched.first { $0.partialWrites > 1 }
            #expect(halfway.flushes == 0)
            try read(upTo: size)
            let done = await client.watched.first { $0.flushes > 0 }
            #expect(done.flushes == 1)
        }
    }

    @Test func an_ended_or_idle_connection_costs_no_turns() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(
                [.close], [.upgradeWebSocket, .send([0x81, 0x00]), .hold], [.expectCount(1), .reset], [.hold])
            let port = Int(peer.port)
            let ended = try bench.client(.tcp(host: "127.0.0.1", port: port))
            _ = await ended.end()
            let lingering = try bench.client(.webSocket(host: "127.0.0.1", port: port))
            _ = await lingering.end()
            let reset = try bench.client(.tcp(host: "127.0.0.1", port: port)) { event, stream in
                if event == .connected { stream.send([[0x10]]) }
            }
            _ = await reset.end()
            let idle = try bench.client(.tcp(host: "127.0.0.1", port: port))
            #expect(await idle.outcome() == nil)
            #expect(await cpuTime(of: bench.loop, over: .milliseconds(200)) < .milliseconds(50))
            #expect(await cpuTime(of: bench.peerLoop, over: .milliseconds(200)) < .milliseconds(50))
        }
    }

    /// One that refills whenever it has been flushed must not keep the loop from others.
    @Test func a_stream_that_refills_at_once_leaves_the_others_their_turn() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.hold])
            let client = try bench.client(.tcp(host: "127.0.0.1", port: Int(peer.port))) { event, stream in
                if event == .connected || event == .flushed { stream.send([[0xC0, 0x00]]) }
            }
            #expect(await client.outcome() == nil)
            for _ in 0..<20 { await client.settle() }
            #expect(client.state.flushes > 20)
            client.withStream { $0.abort(nil) }
            _ = await client.end()
        }
    }
}
