import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

@Suite("ByteStream, its end", .timeLimit(.minutes(1)))
struct ByteStreamClosingTests {
    private static let disconnect: [UInt8] = [0xE0, 0x00]

    /// A binary message of 100,000 bytes.
    private static var inbound: [UInt8] {
        [0x82, 0x7F, 0, 0, 0, 0, 0, 0x01, 0x86, 0xA0] + [UInt8](repeating: 0x30, count: 100_000)
    }

    /// Bug: a client that closes while 100 kB are on their way to it resets, and the reset destroys its
    /// DISCONNECT.
    @Test(arguments: [false, true])
    func row_68_last_words_arrive_although_data_is_on_its_way_to_us(_ isTLS: Bool) async throws {
        try await Bench.run { bench in
            for _ in 0..<5 {
                let peer = try bench.peer(
                    tls: isTLS ? try Fixture.server() : nil, [.send(Self.inbound), .expectEnd])
                let client = try bench.client(.to(peer, isTLS: isTLS)) { event, stream in
                    guard event == .connected else { return }
                    stream.send([Self.disconnect])
                    stream.close()
                }
                #expect(await client.end() == nil)
                let record = await peer.ended()
                #expect(record.received == Self.disconnect)
                #expect(record.end?.code == .tcpClosed)
                #expect(client.state.ends.count == 1)
                peer.stop()
            }
        }
    }

    @Test func over_secure_WebSocket_the_Close_frame_follows_and_its_answer_ends_the_wait() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(
                tls: try Fixture.server(),
                [
                    .upgradeWebSocket, .send(Self.inbound),
                    // DISCONNECT in a masked frame of two bytes, then a masked Close of two bytes.
                    .expect([0x82, 0x82]), .expectCount(6), .expect([0x88, 0x82]), .expectCount(6),
                    .send([0x88, 0x02, 0x03, 0xE8]), .expectEnd,
                ])
            let instants = Watched<[ContinuousClock.Instant]>([])
            let client = try bench.client(
                .webSocketSecure(host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust())
            ) { event, stream in
                if event == .connected {
                    stream.send([Self.disconnect])
                    stream.close()
                }
                if event == .connected || event == .closed { instants.update { $0.append(.now) } }
            }
            #expect(await client.end() == nil)
            let times = await instants.first { $0.count == 2 }
            #expect(times[0].duration(to: times[1]) < ByteStream.closeDeadline)
            let record = await peer.ended()
            #expect(record.mismatch == nil)
            #expect(record.isScriptDone)
            #expect(record.end?.code == .tcpClosed)
        }
    }

    @Test func a_peer_that_never_answers_the_close_is_left_after_the_deadline() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.upgradeWebSocket, .hold])
            let instants = Watched<[ContinuousClock.Instant]>([])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port))) {
                event, stream in
                if event == .connected { stream.close() }
                if event != .flushed { instants.update { $0.append(.now) } }
            }
            #expect(await client.end() == nil)
            let times = await instants.first { $0.count == 2 }
            let waited = times[0].duration(to: times[1])
            #expect(waited > .milliseconds(1900) && waited < .seconds(4))
            #expect(await peer.ended().end?.code == .tcpClosed)
        }
    }

    /// What is queued leaves before the FIN, even for a peer that has said its own last word.
    @Test(arguments: [false, true])
    func everything_queued_leaves_before_the_FIN(_ endsFirst: Bool) async throws {
        try await Bench.run { bench in
            let words = [UInt8](repeating: 0x33, count: 8 << 20)
            for isTLS in [false, true] {
                let peer = try bench.peer(
                    tls: isTLS ? try Fixture.server() : nil,
                    endsFirst ? [.closeWithoutNotify, .expectEnd] : [.expectEnd])
                let client = try bench.client(.to(peer, isTLS: isTLS)) { event, stream in
                    guard event == .connected else { return }
                    stream.send([words])
                    stream.close()
                }
                #expect(await client.end() == nil)
                #expect(await peer.ended().received.count == words.count)
                #expect(client.state.ends.count == 1)
            }
        }
    }

    @Test func abort_is_a_RST() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.send([0x20]), .expectEnd])
            let reason = TransportError(stage: .established, code: .idlePingIgnored, evidence: .none)
            let client = try bench.client(.tcp(host: "127.0.0.1", port: Int(peer.port)))
            _ = await client.received(1)
            client.withStream { $0.abort(reason) }
            #expect(await client.end() == reason)
            #expect(await peer.ended().end?.code == .tcpReset)
        }
    }

    // MARK: Calls from inside the callbacks

    enum Call: CaseIterable, Sendable {
        case close
        case abort
        case sendAndClose
        case closeAndAbort
        case sendAndAbort

        func make(_ stream: ByteStream) {
            switch self {
            case .close: stream.close()
            case .abort: stream.abort(nil)
            case .sendAndClose:
                stream.send([[0xE0, 0x00]])
                stream.close()
            case .closeAndAbort:
                stream.close()
                stream.abort(nil)
            case .sendAndAbort:
                stream.send([[0xE0, 0x00]])
                stream.abort(nil)
            }
        }
    }

    /// Three frames or records arrive at once; the owner ends the stream at the first and calls on in the end.
    @Test(arguments: Call.allCases)
    func the_owner_may_end_the_stream_from_inside_its_callbacks(_ call: Call) async throws {
        try await Bench.run { bench in
            for isTLS in [false, true] {
                let frame: [UInt8] = [0x82, 0x02, 0xD0, 0x00]
                let peer = try bench.peer(
                    tls: isTLS ? try Fixture.server() : nil,
                    [.upgradeWebSocket, .send(frame + frame + frame), .expectEnd])
                let port = Int(peer.port)
                for (index, at) in [TestClient.Event.connected, .received].enumerated() {
                    let client = try bench.client(
                        isTLS
                            ? .webSocketSecure(host: "127.0.0.1", port: port, options: try Fixture.trust())
                            : .webSocket(host: "127.0.0.1", port: port)
                    ) { event, stream in
                        if event == at { call.make(stream) }
                        if event == .closed {
                            Call.sendAndClose.make(stream)
                            Call.sendAndAbort.make(stream)
                        }
                    }
                    if call == .close || call == .sendAndClose {
                        // No answer to our Close: the deadline is another test's.
                        _ = await peer.record(index) { afterHead($0.received).count >= 8 }
                        client.withStream { $0.abort(nil) }
                    }
                    #expect(await client.end() == nil)
                    await client.settle()
                    #expect(client.state.ends.count == 1)
                    #expect(client.state.received == (at == .connected ? [] : [0xD0, 0x00]))
                }
                peer.stop()
            }
        }
    }

    // MARK: Nothing is left behind

    private final class Weak: @unchecked Sendable {
        weak var stream: ByteStream?
    }

    @Test func a_closed_stream_is_released() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(
                tls: try Fixture.server(), [.upgradeWebSocket, .send([0x88, 0x00]), .expectEnd],
                [.upgradeWebSocket, .hold])
            let profile = try ConnectionProfile.webSocketSecure(
                host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust())
            let weak = [Weak(), Weak()]
            for (index, weak) in weak.enumerated() {
                let client = try bench.client(profile) { event, stream in
                    weak.stream = stream
                    if event == .connected, index == 1 { stream.abort(nil) }
                }
                _ = await client.end()
                _ = await peer.ended(connection: index)
            }
            // The last references fall on the loop, at the latest when the peer's end has been read.
            for weak in weak {
                let released = Watched(false)
                bench.loop.execute { Self.poll(weak, on: bench.loop, released) }
                _ = await released.first { $0 }
            }
        }
    }

    private static func poll(_ weak: Weak, on loop: EventLoop, _ released: Watched<Bool>) {
        if weak.stream == nil { return released.update { $0 = true } }
        _ = loop.schedule(at: loop.now + .milliseconds(5)) { poll(weak, on: loop, released) }
    }

    /// Bug: a descriptor lost with each failed connection.
    @Test func descriptors_return_to_where_they_were() async {
        await #expect(processExitsWith: .success) {
            func count() throws -> Int {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
            }
            func cycle(refused: Int, connected: Int) async throws {
                try await Bench.run { bench in
                    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
                    defer { close(descriptor) }
                    let port = try bindWithoutListening(descriptor)
                    for _ in 0..<refused {
                        let client = try bench.client(.tcp(host: "127.0.0.1", port: port))
                        try #require(await client.outcome()?.code == .tcpRefused)
                    }
                    let peer = try bench.peer(tls: try Fixture.server(), [.expectEnd])
                    for index in 0..<connected {
                        let options = try Fixture.trust()
                        let client = try bench.client(
                            .tls(host: "127.0.0.1", port: Int(peer.port), options: options)
                        ) { event, stream in
                            if event == .connected { stream.close() }
                        }
                        try #require(await client.end() == nil)
                        _ = await peer.ended(connection: index)
                    }
                    peer.stop()
                }
            }
            try await cycle(refused: 1, connected: 1)
            let before = try count()
            try await cycle(refused: 500, connected: 200)
            let after = try count()
            // A few may be the runtime's own.
            exit(after <= before + 10 ? EXIT_SUCCESS : EXIT_FAILURE)
        }
    }
}
