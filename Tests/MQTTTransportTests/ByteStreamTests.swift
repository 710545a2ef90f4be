import Foundation
import MQTTConformance
import MQTTLoopback
import MQTTTransport
import Testing

@Suite("ByteStream", .timeLimit(.minutes(1)))
struct ByteStreamTests {
    enum Kind: CaseIterable, Sendable {
        case tcp
        case tls
        case webSocket
        case webSocketSecure
    }

    // MARK: Both roles

    /// A server of the transport's own that sends back what it gets.
    private final class Echo: ByteStreamDelegate {
        var streams: [ByteStream] = []
        let ends: Watched<[TransportError?]>

        init(ends: Watched<[TransportError?]>) { self.ends = ends }

        func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}
        func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
            stream.send([Array(bytes)])
        }
        func streamFlushed(_ stream: ByteStream) {}
        func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
            ends.update { $0.append(error) }
            streams.removeAll { $0 === stream }
        }
    }

    private func withEcho(
        _ bench: Bench, _ kind: Kind,
        _ body: (ConnectionProfile, Watched<[TransportError?]>) async throws -> Void
    ) async throws {
        let context = kind == .tls || kind == .webSocketSecure ? try Fixture.server() : nil
        let isWebSocket = kind == .webSocket || kind == .webSocketSecure
        let ends = Watched<[TransportError?]>([])
        let echo = LoopBound(Echo(ends: ends), on: bench.peerLoop)
        let address = try #require(SocketAddress(literal: "127.0.0.1", port: 0))
        let loop = bench.peerLoop
        let made = try Listener(loop: loop, address: address) { descriptor, peer in
            do throws(TransportError) {
                let stream = try ByteStream(
                    loop: loop, descriptor: descriptor, peer: peer, role: .server(webSocket: isWebSocket),
                    tlsContext: context)
                stream.delegate = echo.value
                echo.value.streams.append(stream)
                stream.start()
            } catch {
                close(descriptor)
            }
        }
        let port = Int(made.address.port)
        let listener = LoopBound(made, on: loop)
        listener.execute { $0.start() }
        let profile: ConnectionProfile =
            switch kind {
            case .tcp: try .tcp(host: "127.0.0.1", port: port)
            case .tls: try .tls(host: "127.0.0.1", port: port, options: try Fixture.trust())
            case .webSocket: try .webSocket(host: "127.0.0.1", port: port)
            case .webSocketSecure:
                try .webSocketSecure(host: "127.0.0.1", port: port, options: try Fixture.trust())
            }
        try await body(profile, ends)
        listener.execute { $0.close() }
    }

    /// Bytes that don't repeat at any power of two.
    private static func pattern(_ count: Int) -> [UInt8] {
        let block = (0..<65_521).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + block.count)
        while bytes.count < count { bytes.append(contentsOf: block) }
        bytes.removeLast(bytes.count - count)
        return bytes
    }

    /// 10 MiB through the client's writes and the server's, both of which have to wait for the other's reads.
    @Test(
        .mqtt311("7.1.2-1"), .mqtt5("4.2.0-1"),
        arguments: Kind.allCases)
    func ten_mebibytes_go_there_and_back_whole(_ kind: Kind) async throws {
        try await Bench.run { bench in
            try await withEcho(bench, kind) { profile, ends in
                let client = try bench.client(profile)
                #expect(await client.outcome() == nil)
                let bytes = Self.pattern(10 << 20)
                // Packets of odd sizes.
                var packets: [[UInt8]] = []
                var start = 0
                for size in [1, 125, 126, 65_535, 65_536, 70_000, 4 << 20] {
                    packets.append(Array(bytes[start..<start + size]))
                    start += size
                }
                packets.append(Array(bytes[start...]))
                client.withStream { [packets] in $0.send(packets) }
                let received = await client.received(bytes.count)
                #expect(received == bytes)
                client.withStream { $0.close() }
                #expect(await client.end() == nil)
                #expect(client.state.ends.count == 1)
                let serverEnd = await ends.first { !$0.isEmpty }
                #expect(serverEnd.count == 1)
                let isWebSocket = profile.webSocket != nil
                #expect(serverEnd[0]?.code == (isWebSocket ? .wsClosed : .tcpClosed))
                if isWebSocket {
                    #expect(serverEnd[0]?.evidence == .webSocketClose(code: 1000, reason: "", clean: true))
                }
            }
        }
    }

    @Test func ten_mebibytes_in_torn_writes_arrive_whole_under_TLS() async throws {
        try await Bench.run { bench in
            let bytes = Self.pattern(10 << 20)
            var slices: [[UInt8]] = []
            var start = 0
            var size = 1
            while start < bytes.count {
                slices.append(Array(bytes[start..<min(start + size, bytes.count)]))
                start += size
                size = size * 7 % 65_537 + 1
            }
            let peer = try bench.peer(tls: try Fixture.server(), [.sendSlices(slices), .hold])
            let client = try bench.client(
                .tls(host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust()))
            #expect(await client.received(bytes.count) == bytes)
        }
    }

    // MARK: WebSocket frames

    @Test(
        .mqtt311("6.0.0-2"), .mqtt5("6.0.0-2"))
    func packets_and_messages_need_not_align() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .upgradeWebSocket,
                // Two packets in one frame, one packet over three frames and two messages [MQTT-6.0.0-2].
                .send([0x82, 0x06, 0x20, 0x02, 0x00, 0x00, 0xD0, 0x00]),
                .sendSlices([[0x02, 0x01, 0x40], [0x80, 0x02, 0x02, 0x00], [0x82, 0x01], [0x07]]), .hold,
            ])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            #expect(
                await client.received(10) == [0x20, 0x02, 0x00, 0x00, 0xD0, 0x00, 0x40, 0x02, 0x00, 0x07])
        }
    }

    /// Each packet is a message of its own, masked with a fresh key (RFC 6455, section 5.3).
    @Test(
        .mqtt311("6.0.0-1"), .mqtt5("6.0.0-1"))
    func packets_sent_in_one_turn_are_messages_of_one_write() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.upgradeWebSocket, .hold])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port))) {
                event, stream in
                guard event == .connected else { return }
                stream.send([[0xC0, 0x00]])
                stream.send([[0xC0, 0x00], [0xE0, 0x00]])
            }
            #expect(await client.outcome() == nil)
            let received = await peer.record { record in
                afterHead(record.received).count >= 24
            }.received
            let frames = afterHead(received)
            #expect(frames.count == 24)
            var keys: Set<[UInt8]> = []
            for (index, packet) in [[0xC0, 0x00], [0xC0, 0x00], [0xE0, 0x00] as [UInt8]].enumerated() {
                let frame = Array(frames[index * 8..<index * 8 + 8])
                #expect(Array(frame[0...1]) == [0x82, 0x82])
                #expect([frame[6] ^ frame[2], frame[7] ^ frame[3]] == packet)
                keys.insert(Array(frame[2...5]))
            }
            #expect(keys.count == 3)
        }
    }

    /// RFC 6455, section 5.5.3.
    @Test func a_ping_is_answered_with_its_own_payload() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.upgradeWebSocket, .send([0x89, 0x03, 0x61, 0x62, 0x63]), .hold])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            let received = await peer.record { afterHead($0.received).count >= 9 }.received
            let pong = afterHead(received)
            #expect(Array(pong.prefix(2)) == [0x8A, 0x83])
            #expect(unmasked(pong) == [0x61, 0x62, 0x63])
            #expect(client.state.received.isEmpty)
        }
    }

    static let violations: [(String, [UInt8], FailureCode, UInt16)] = [
        ("text", [0x81, 0x02, 0x68, 0x69], .wsTextFrame, 1003),
        ("empty text", [0x81, 0x00], .wsTextFrame, 1003),
        ("RSV1", [0xC2, 0x01, 0x00], .wsFrameInvalid, 1002),
        ("masked", [0x82, 0x81, 1, 2, 3, 4, 5], .wsFrameInvalid, 1002),
        ("reserved opcode", [0x83, 0x00], .wsFrameInvalid, 1002),
        ("length not minimal", [0x82, 0x7E, 0x00, 0x01, 0x00], .wsFrameInvalid, 1002),
        ("continuation alone", [0x80, 0x01, 0x00], .wsFrameInvalid, 1002),
        ("a frame of 2^62 bytes", [0x82, 0x7F, 0x40, 0, 0, 0, 0, 0, 0, 0], .wsSizeLimited, 1009),
    ]

    @Test(
        .mqtt311("6.0.0-1"), .mqtt5("6.0.0-1"),
        arguments: violations)
    func a_violation_is_named_and_answered_with_its_close_code(
        _ name: String, _ frame: [UInt8], _ code: FailureCode, _ closeCode: UInt16
    ) async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.upgradeWebSocket, .send(frame), .expectEnd])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            let error = await client.end()
            #expect(error?.code == code)
            #expect(error?.hop == "127.0.0.1:\(peer.port)")
            let record = await peer.ended()
            #expect(record.end?.code == .tcpClosed)
            let close = afterHead(record.received)
            #expect(close.first == 0x88)
            #expect(Array(unmasked(close).prefix(2)) == [UInt8(closeCode >> 8), UInt8(closeCode & 0xFF)])
            #expect(client.state.ends.count == 1)
        }
    }

    /// A Close with code and reason, the reason with an escape sequence in it.
    @Test func a_close_of_the_peer_is_reported_with_code_and_reason() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .upgradeWebSocket, .send([0x88, 0x06, 0x03, 0xE9, 0x1B, 0x5B, 0x33, 0x31]), .expectEnd,
            ])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            let error = await client.end()
            #expect(error?.code == .wsClosed)
            #expect(error?.evidence == .webSocketClose(code: 1001, reason: "\u{1B}[31", clean: true))
            #expect(error?.description.contains("\u{1B}") == false)
            let close = afterHead(await peer.ended().received)
            #expect(Array(unmasked(close).prefix(2)) == [0x03, 0xE9])
        }
    }

    @Test func an_end_of_an_open_stream_is_named_by_its_kind() async throws {
        try await Bench.run { bench in
            let upgraded: [ScriptedPeer.Step] = [.upgradeWebSocket, .pause(.milliseconds(1))]
            let cases: [(Bool, [ScriptedPeer.Step], FailureCode)] = [
                (false, [.expectCount(1), .close], .tcpClosed),
                (false, [.expectCount(1), .reset], .tcpReset),
                (true, upgraded + [.close], .wsClosed),
                (true, upgraded + [.reset], .tcpReset),
            ]
            for (isWebSocket, script, code) in cases {
                let peer = try ScriptedPeer(on: bench.peerLoop, scripts: [script])
                let port = Int(peer.port)
                let client = try bench.client(
                    isWebSocket
                        ? .webSocket(host: "127.0.0.1", port: port) : .tcp(host: "127.0.0.1", port: port)
                ) { event, stream in
                    if event == .connected { stream.send([[0x10]]) }
                }
                #expect(await client.outcome() == nil)
                let error = await client.end()
                #expect(error?.stage == .established)
                #expect(error?.code == code)
                #expect(error?.hop == "127.0.0.1:\(port)")
                #expect(client.state.ends.count == 1)
                if code == .wsClosed {
                    #expect(error?.evidence == .webSocketClose(code: 1006, reason: "", clean: false))
                }
            }
        }
    }

    /// Last words, then FIN or RST, in one go.
    @Test func what_came_before_the_end_is_delivered_first() async throws {
        try await Bench.run { bench in
            let words = Self.pattern(300_000)
            for end in [ScriptedPeer.Step.close, .closeWithoutNotify] {
                let peer = try bench.peer(tls: try Fixture.server(), [.send(words), end])
                let client = try bench.client(
                    .tls(host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust()))
                let error = await client.end()
                #expect(client.state.received == words)
                #expect(error?.code == .tcpClosed)
                #expect(error?.stage == .established)
            }
        }
    }

    /// The first to meet the RST is our write, which is no signal; what the peer said before still counts.
    @Test func last_words_count_although_a_write_has_met_the_RST() async throws {
        try await Bench.run { bench in
            // SIGPIPE would end the process.
            let peer = try bench.peer([
                .upgradeWebSocket, .pause(.milliseconds(20)), .send([0x88, 0x02, 0x03, 0xF3]), .reset,
            ])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port))) {
                event, stream in
                guard event == .connected else { return }
                // The loop is held up until the RST is here.
                usleep(100_000)
                stream.send([[0xC0, 0x00]])
            }
            let error = await client.end()
            #expect(error?.code == .wsClosed)
            #expect(error?.evidence == .webSocketClose(code: 1011, reason: "", clean: true))
            #expect(client.state.ends.count == 1)
        }
    }

    /// Without last words the RST itself is the reason, and not the end that reading finds after it.
    @Test(arguments: [false, true])
    func a_RST_that_a_write_has_met_is_a_RST(_ isTLS: Bool) async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(
                tls: isTLS ? try Fixture.server() : nil, [.send([0x20]), .pause(.milliseconds(20)), .reset])
            let client = try bench.client(.to(peer, isTLS: isTLS)) { event, stream in
                guard event == .received else { return }
                usleep(100_000)
                stream.send([[0xC0, 0x00]])
            }
            let error = await client.end()
            #expect(error?.code == .tcpReset)
            #expect(client.state.received == [0x20])
            #expect(client.state.ends.count == 1)
        }
    }
}
