import Testing
import WebSocketCore

/// RFC 6455 §5.2, §5.3 and the examples of §5.7.
@Suite struct FrameTests {
    static let hello: [UInt8] = [0x48, 0x65, 0x6C, 0x6C, 0x6F]

    @Test func section_5_7_unmasked_text() {
        expect(.client, receiving: [0x81, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F], gives: [.text("Hello")])
    }

    @Test func section_5_7_masked_text() {
        let wire: [UInt8] = [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58]
        expect(.server, receiving: wire, gives: [.text("Hello")])
        var client = Endpoint(.client)
        client.send(.text, Self.hello)
        #expect(client.output == wire)
    }

    @Test func section_5_7_fragmented_text() {
        expect(
            .client, receiving: [0x01, 0x03, 0x48, 0x65, 0x6C, 0x80, 0x02, 0x6C, 0x6F],
            gives: [.text("Hello")])
    }

    @Test func section_5_7_ping_and_its_masked_pong() {
        expect(
            .client, receiving: [0x89, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F], gives: [.ping(Self.hello)],
            answering: [0x8A, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58])
        expect(
            .server, receiving: [0x8A, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58],
            gives: [.pong(Self.hello)])
    }

    @Test func server_answers_a_ping_unmasked() {
        expect(
            .server, receiving: [0x89, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58],
            gives: [.ping(Self.hello)], answering: [0x8A, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F])
    }

    @Test func section_5_7_lengths_of_256_and_65536() {
        for (header, count) in [
            ([0x82, 0x7E, 0x01, 0x00] as [UInt8], 256),
            ([0x82, 0x7F, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00], 65536),
        ] {
            let payload = Self.payload(count)
            var client = Endpoint(.client)
            client.feed(header + payload)
            #expect(client.observed == [.binary(payload)])
        }
    }

    /// The header of each length, as the server writes it. Bug-report class 03.
    static let lengths: [(Int, [UInt8])] = [
        (0, [0x82, 0x00]),
        (1, [0x82, 0x01]),
        (125, [0x82, 0x7D]),
        (126, [0x82, 0x7E, 0x00, 0x7E]),
        (127, [0x82, 0x7E, 0x00, 0x7F]),
        (40000, [0x82, 0x7E, 0x9C, 0x40]),
        (65535, [0x82, 0x7E, 0xFF, 0xFF]),
        (65536, [0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0]),
        (70000, [0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0x11, 0x70]),
    ]

    @Test(arguments: lengths)
    func lengths_are_written_in_the_shortest_form(count: Int, header: [UInt8]) {
        let payload = Self.payload(count)
        var server = Endpoint(.server)
        server.send(.binary, payload)
        #expect(server.output == header + payload)

        var client = Endpoint(.client)
        client.send(.binary, payload)
        var masked = header
        masked[1] |= 0x80
        masked += [0x37, 0xFA, 0x21, 0x3D]
        #expect(Array(client.output.prefix(masked.count)) == masked)
        #expect(client.output.count == masked.count + count)
        let key: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        let expected = payload.indices.map { payload[$0] ^ key[$0 % 4] }
        #expect(Array(client.output.dropFirst(masked.count)) == expected)
    }

    @Test(arguments: lengths)
    func lengths_are_read_however_the_bytes_come(count: Int, header: [UInt8]) {
        let payload = Self.payload(count)
        let whole = header + payload
        for size in [1, 3, 7, 1400, 4096, 100_000] {
            var client = Endpoint(.client)
            for start in stride(from: 0, to: whole.count, by: size) {
                client.feed(Array(whole[start..<min(start + size, whole.count)]))
            }
            #expect(client.observed == [.binary(payload)], "pieces of \(size)")
        }
    }

    @Test func masking_goes_on_where_a_piece_ended() {
        for count in 0...40 {
            let payload = Self.payload(count)
            var client = Endpoint(.client)
            client.send(.binary, payload, key: 0x0102_0304)
            for pieces in everySplit(client.output) {
                var server = Endpoint(.server)
                server.feed(pieces)
                #expect(server.observed == [.binary(payload)])
            }
        }
    }

    @Test func masking_works_at_unaligned_addresses() {
        for offset in 0..<9 {
            var client = Endpoint(.client)
            client.output = [UInt8](repeating: 0xEE, count: offset)
            client.send(.text, Self.hello)
            #expect(
                Array(client.output.dropFirst(offset))
                    == [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58])
            #expect(client.output.prefix(offset).allSatisfy { $0 == 0xEE })
        }
    }

    @Test func pieces_come_before_their_frame_is_complete() {
        var connection = WebSocketConnection(
            role: .client, maximumFrameSize: .max, maximumMessageSize: .max)
        var bytes: [UInt8] = [0x82, 0x7F, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x2A, 0x2B]
        var output: [UInt8] = []
        bytes.withUnsafeMutableBytes { buffer in
            var input = buffer
            let event = connection.next(in: &input, output: &output, maskingKey: { 0 })
            guard case .payload(.binary, let piece, endsMessage: false)? = event else {
                Issue.record("no piece of the message")
                return
            }
            #expect(Array(piece) == [0x2A, 0x2B])
            #expect(input.isEmpty)
        }
    }

    @Test func an_empty_message_is_one_event() {
        expect(.client, receiving: [0x82, 0x00], gives: [.binary([])])
        expect(.client, receiving: [0x01, 0x00, 0x00, 0x00, 0x80, 0x00], gives: [.text("")])
        expect(.server, receiving: [0x82, 0x80, 1, 2, 3, 4], gives: [.binary([])])
    }

    @Test func control_frames_may_stand_inside_a_fragmented_message() {
        expect(
            .client,
            receiving: [0x01, 0x03, 0x48, 0x65, 0x6C, 0x89, 0x00, 0x8A, 0x01, 0x2A, 0x80, 0x02, 0x6C, 0x6F],
            gives: [.ping([]), .pong([0x2A]), .text("Hello")],
            answering: [0x8A, 0x80, 0x37, 0xFA, 0x21, 0x3D])
    }

    @Test func our_ping_carries_at_most_125_bytes() {
        var client = Endpoint(.client)
        client.connection.sendPing(maskingKey: Endpoint.key, into: &client.output)
        #expect(client.output == [0x89, 0x80, 0x37, 0xFA, 0x21, 0x3D])
        var server = Endpoint(.server)
        server.connection.sendPing(
            payload: [UInt8](repeating: 7, count: 200), maskingKey: 0, into: &server.output)
        #expect(server.output == [0x89, 0x7D] + [UInt8](repeating: 7, count: 125))
    }

    @Test func a_thousand_pings_in_one_read_get_a_thousand_pongs() {
        var client = Endpoint(.client)
        client.feed((0..<1000).flatMap { _ in [0x89, 0x00] as [UInt8] })
        #expect(client.observed == [Observed](repeating: .ping([]), count: 1000))
        #expect(client.output == (0..<1000).flatMap { _ in [0x8A, 0x80, 0x37, 0xFA, 0x21, 0x3D] as [UInt8] })
        #expect(client.keysAsked == 1000)
    }

    static func payload(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
    }
}
