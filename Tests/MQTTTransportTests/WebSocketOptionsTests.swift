import MQTTLoopback
import MQTTTransport
import Testing

@Suite("WebSocket, options of what we send", .timeLimit(.minutes(1)))
struct WebSocketOptionsTests {
    private static func profile(
        to peer: ScriptedPeer, _ change: (inout WebSocketOptions) -> Void
    ) throws -> ConnectionProfile {
        var profile = try ConnectionProfile.webSocket(host: "127.0.0.1", port: Int(peer.port))
        var options = WebSocketOptions()
        change(&options)
        profile.webSocket = options
        return profile
    }

    private static let ping: ScriptedPeer.Step = .expect([0x89, 0x84])
    /// A masking key and a payload of four bytes.
    private static let keyAndPayload: ScriptedPeer.Step = .expectCount(8)

    @Test func a_Ping_follows_each_Pong_after_the_interval() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .upgradeWebSocket,
                Self.ping, Self.keyAndPayload, .send([0x8A, 0x04, 0, 0, 0, 1]),
                Self.ping, Self.keyAndPayload, .send([0x8A, 0x04, 0, 0, 0, 2]),
                Self.ping, Self.keyAndPayload, .close,
            ])
            let client = try bench.client(
                Self.profile(to: peer) { $0.pings = .init(every: .milliseconds(50)) })
            #expect(await client.end()?.code == .wsClosed)
            let record = await peer.ended()
            #expect(record.mismatch == nil)
            #expect(record.isScriptDone)
        }
    }

    @Test func silence_after_a_Ping_ends_the_connection() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.upgradeWebSocket, Self.ping, Self.keyAndPayload, .hold])
            let client = try bench.client(
                Self.profile(to: peer) {
                    $0.pings = .init(every: .milliseconds(50), timeout: .milliseconds(100))
                })
            let error = await client.end()
            #expect(error?.code == .idlePingIgnored)
            #expect(error?.stage == .established)
            #expect(error?.hop == "127.0.0.1:\(peer.port)")
            #expect(error?.evidence == .deadline(.milliseconds(100)))
            #expect(await peer.ended().end?.code == .tcpReset)
        }
    }

    @Test func without_the_option_no_Ping_is_sent() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.upgradeWebSocket, .pause(.milliseconds(200)), .close])
            let client = try bench.client(Self.profile(to: peer) { _ in })
            #expect(await client.end()?.code == .wsClosed)
            #expect(afterHead(await peer.ended().received).isEmpty)
        }
    }

    @Test(arguments: [
        WebSocketOptions.Pings(every: .zero), .init(every: .seconds(-1)),
        .init(every: .seconds(1), timeout: .zero),
    ])
    func an_interval_or_time_out_of_zero_is_refused(_ pings: WebSocketOptions.Pings) {
        #expect(throws: ProfileError.self) {
            try ConnectionProfile(
                host: "h", port: 80, transport: .webSocket(WebSocketOptions(pings: pings)))
        }
    }

    /// Bug: options that were changed after the profile was made weren't checked, and windows of 2^16 bytes ended the
    /// process.
    @Test(arguments: [
        WebSocketOptions(compression: .init(windowBits: 16)), .init(compression: .init(windowBits: 8)),
        .init(compression: .init(threshold: -1)), .init(pings: .init(every: .zero)),
        .init(origin: "no origin"),
        .init(redirects: .hosts(["no host"])), .init(path: "no path"),
        .init(headers: [.init(name: "Upgrade", value: "h2c")]),
    ])
    func options_that_are_changed_in_place_are_checked_at_the_attempt(_ options: WebSocketOptions)
        async throws
    {
        try await Bench.run { bench in
            let peer = try bench.peer([.hold])
            let client = try bench.client(Self.profile(to: peer) { $0 = options })
            let error = await client.outcome()
            #expect(error?.stage == .local)
            #expect(error?.code == .clientInvalidArgument)
            #expect(error?.evidence != .text(""))
            #expect(await peer.ended().received.isEmpty)
        }
    }

    @Test func each_packet_is_a_message_of_its_own_by_default() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .upgradeWebSocket, .expect([0x82, 0x82]), .expectCount(6), .expect([0x82, 0x83]),
                .expectCount(7),
            ])
            let client = try bench.client(Self.profile(to: peer) { _ in }) { event, stream in
                if event == .connected { stream.send([[0xC0, 0x00], [0x30, 0x01, 0x00]]) }
            }
            #expect(await client.outcome() == nil)
            #expect(await peer.finished().mismatch == nil)
        }
    }

    /// Packets of 2, 3 and 16,380 bytes: together they are one byte above the limit.
    @Test func packets_share_a_message_where_that_is_chosen_and_none_is_split() async throws {
        try await Bench.run { bench in
            let large = [UInt8](repeating: 0x33, count: 16 * 1024 - 4)
            let peer = try bench.peer([
                .upgradeWebSocket, .expect([0x82, 0x85]), .expectCount(9),
                .expect([0x82, 0xFE, 0x3F, 0xFC]), .expectCount(4 + large.count),
            ])
            let client = try bench.client(Self.profile(to: peer) { $0.packing = .packetsShareMessages }) {
                event, stream in
                if event == .connected { stream.send([[0xC0, 0x00], [0x30, 0x01, 0x00], large]) }
            }
            #expect(await client.outcome() == nil)
            #expect(await peer.finished().mismatch == nil)
        }
    }

    @Test func a_packet_larger_than_a_shared_message_goes_by_itself() async throws {
        try await Bench.run { bench in
            let large = [UInt8](repeating: 0x33, count: 70_000)
            let peer = try bench.peer([
                .upgradeWebSocket, .expect([0x82, 0x82]), .expectCount(6),
                .expect([0x82, 0xFF, 0, 0, 0, 0, 0, 0x01, 0x11, 0x70]), .expectCount(4 + large.count),
                .expect([0x82, 0x82]), .expectCount(6),
            ])
            let client = try bench.client(Self.profile(to: peer) { $0.packing = .packetsShareMessages }) {
                event, stream in
                if event == .connected { stream.send([[0xC0, 0x00], large, [0xC0, 0x00]]) }
            }
            #expect(await client.outcome() == nil)
            #expect(await peer.finished().mismatch == nil)
        }
    }

    // MARK: Compression

    /// 101 with whatever extensions the script agrees to.
    private static func answer(_ extensions: String) -> String {
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mqtt\r\n\(extensions)\r\n"
    }

    private static let agreed = answer("Sec-WebSocket-Extensions: permessage-deflate\r\n")
    private static let repeated = [UInt8](repeating: 0x30, count: 1000)

    @Test func compression_is_not_offered_by_default() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.upgradeWebSocket, .close])
            let client = try bench.client(Self.profile(to: peer) { _ in })
            #expect(await client.outcome() == nil)
            let request = String(decoding: await peer.ended().received, as: UTF8.self)
            #expect(!request.contains("Sec-WebSocket-Extensions"))
        }
    }

    @Test func what_is_offered_follows_the_options() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.answerUpgrade(Self.answer("")), .close])
            let client = try bench.client(
                Self.profile(to: peer) {
                    $0.compression = .init(contextTakeover: false, windowBits: 10)
                })
            #expect(await client.outcome() == nil)
            let request = String(decoding: await peer.ended().received, as: UTF8.self)
            #expect(
                request.contains(
                    "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
                        + "client_no_context_takeover; server_max_window_bits=10; client_max_window_bits=10\r\n"
                ))
        }
    }

    @Test func once_agreed_long_packets_are_compressed_and_short_ones_and_CONNECT_are_not() async throws {
        try await Bench.run { bench in
            let connect = [0x10] + [UInt8](repeating: 0x41, count: 999)
            let peer = try bench.peer([
                .answerUpgrade(Self.agreed),
                .expect([0x82, 0xFE, 0x03, 0xE8]), .expectCount(1004),
                .expect([0x82, 0x82]), .expectCount(6),
                // RSV1, and far shorter than 1000 bytes.
                .expect([0xC2]), .expectCount(5),
            ])
            let client = try bench.client(Self.profile(to: peer) { $0.compression = .init() }) {
                event, stream in
                if event == .connected { stream.send([connect, [0xC0, 0x00], Self.repeated]) }
            }
            #expect(await client.outcome() == nil)
            #expect(await peer.finished().mismatch == nil)
        }
    }

    @Test func a_declined_offer_leaves_everything_uncompressed() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .answerUpgrade(Self.answer("")), .expect([0x82, 0xFE, 0x03, 0xE8]), .expectCount(1004),
            ])
            let client = try bench.client(Self.profile(to: peer) { $0.compression = .init() }) {
                event, stream in
                if event == .connected { stream.send([Self.repeated]) }
            }
            #expect(await client.outcome() == nil)
            #expect(await peer.finished().mismatch == nil)
        }
    }

    /// Class 08 of the bug reports: RSV1=0 stays legal after negotiation, and nothing is compressed unasked.
    @Test func compressed_and_uncompressed_messages_are_both_received() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                // "Hello" (RFC 7692, section 7.2.3.1), then four bytes as they are.
                .answerUpgrade(
                    Self.agreed, following: [0xC2, 0x07, 0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]),
                .send([0x82, 0x04, 0x20, 0x02, 0x00, 0x00]), .hold,
            ])
            let client = try bench.client(Self.profile(to: peer) { $0.compression = .init() })
            #expect(await client.received(9) == Array("Hello".utf8) + [0x20, 0x02, 0x00, 0x00])
        }
    }

    @Test func corrupt_compressed_data_ends_the_connection_with_1007() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .answerUpgrade(Self.agreed), .send([0xC2, 0x03, 0xFF, 0xFF, 0xFF]), .expect([0x88, 0x82]),
                .expectCount(6),
            ])
            let client = try bench.client(Self.profile(to: peer) { $0.compression = .init() })
            let error = await client.end()
            #expect(error?.code == .wsFrameInvalid)
            #expect(error?.evidence.description.hasPrefix("deflate: ") == true)
            let record = await peer.finished()
            #expect(record.mismatch == nil)
            #expect(unmasked(Array(record.received.suffix(8))) == [0x03, 0xEF])
        }
    }
}
