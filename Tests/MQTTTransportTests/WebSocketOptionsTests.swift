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
}
