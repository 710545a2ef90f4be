import Testing
import WebSocketCore

/// RFC 7692 §6, §7.2: compressed messages on the wire.
@Suite struct DeflateTests {
    static let hello: [UInt8] = [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]
    /// What a client answers to data that can't be inflated: 1007.
    static let close1007: [UInt8] = [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, 0x03 ^ 0x37, 0xEF ^ 0xFA]
    static let close1002: [UInt8] = [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, 0x03 ^ 0x37, 0xEA ^ 0xFA]

    /// Negotiated between a client and a server that both want this.
    static func agree(
        serverTakeover: Bool = true, clientTakeover: Bool = true, serverBits: Int = 15, clientBits: Int = 15,
        level: Int = 6, threshold: Int = 0
    ) throws -> PerMessageDeflate.Agreement {
        let options = PerMessageDeflate.Options(
            serverNoContextTakeover: !serverTakeover, clientNoContextTakeover: !clientTakeover,
            serverMaxWindowBits: serverBits, clientMaxWindowBits: clientBits,
            compression: .init(level: level, threshold: threshold))
        let client = try OpeningHandshake.Client(
            host: "h", path: "/", key: ClientHandshakeTests.key, deflate: options)
        let request = try #require(try ServerHandshakeTests.receive([client.requestBytes]).0)
        return try #require(request.deflateAgreement(options))
    }

    // MARK: - The examples of §7.2.3

    @Test func section_7_2_3_1_a_message_in_one_block() throws {
        expect(
            .client, deflate: try Self.agree(), receiving: [0xC1, 0x07] + Self.hello, gives: [.text("Hello")])
        expect(
            .client, deflate: try Self.agree(),
            receiving: [0x41, 0x03, 0xF2, 0x48, 0xCD, 0x80, 0x04, 0xC9, 0xC9, 0x07, 0x00],
            gives: [.text("Hello")])
        var server = Endpoint(.server, deflate: try Self.agree())
        server.send(.text, FrameTests.hello)
        #expect(server.output == [0xC1, 0x07] + Self.hello)
    }

    @Test func section_7_2_3_1_masked() throws {
        let wire =
            [0xC1, 0x87, 0x37, 0xFA, 0x21, 0x3D]
            + zip(Self.hello, [0x37, 0xFA, 0x21, 0x3D, 0x37, 0xFA, 0x21]).map { $0 ^ $1 }
        expect(.server, deflate: try Self.agree(), receiving: wire, gives: [.text("Hello")])
        var client = Endpoint(.client, deflate: try Self.agree())
        client.send(.text, FrameTests.hello)
        #expect(client.output == wire)
    }

    @Test func section_7_2_3_2_the_window_is_shared_by_messages() throws {
        let wire = [0xC1, 0x07] + Self.hello + [0xC1, 0x05, 0xF2, 0x00, 0x11, 0x00, 0x00]
        expect(
            .client, deflate: try Self.agree(), receiving: wire, gives: [.text("Hello"), .text("Hello")])
        var server = Endpoint(.server, deflate: try Self.agree())
        server.send(.text, FrameTests.hello)
        server.send(.text, FrameTests.hello)
        #expect(server.output == wire)
    }

    @Test func section_7_2_3_2_without_takeover_nothing_is_referred_to() throws {
        let agreement = try Self.agree(serverTakeover: false)
        let repeated: [UInt8] = [0xC1, 0x05, 0xF2, 0x00, 0x11, 0x00, 0x00]
        expect(
            .client, deflate: agreement, receiving: [0xC1, 0x07] + Self.hello + repeated,
            gives: [
                .text("Hello"), .failed(.compressedDataInvalid("invalid distance too far back")),
            ], answering: Self.close1007)
        // 7 bytes aren't shorter than 5.
        var server = Endpoint(.server, deflate: agreement)
        server.send(.text, FrameTests.hello)
        #expect(server.output == [0x81, 0x05] + FrameTests.hello)
    }

    @Test func section_7_2_3_3_a_block_without_compression() throws {
        expect(
            .client, deflate: try Self.agree(),
            receiving: [0xC1, 0x0B, 0x00, 0x05, 0x00, 0xFA, 0xFF] + FrameTests.hello + [0x00],
            gives: [.text("Hello")])
    }

    @Test func section_7_2_3_4_a_block_with_BFINAL() throws {
        let final: [UInt8] = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]
        expect(
            .client, deflate: try Self.agree(), receiving: [0xC1, 0x08] + final, gives: [.text("Hello")])
        // The window lives on behind it.
        expect(
            .client, deflate: try Self.agree(),
            receiving: [0xC1, 0x08] + final + [0xC1, 0x05, 0xF2, 0x00, 0x11, 0x00, 0x00],
            gives: [.text("Hello"), .text("Hello")])
        // In a message of its own, and with the block that the tail completes.
        expect(
            .client, deflate: try Self.agree(),
            receiving: [0xC1, 0x10] + final.dropLast() + final.dropLast() + [0x03, 0x00]
                + [0xC2, 0x01, 0x01] + [0xC1, 0x08] + final,
            gives: [.failed(.compressedDataInvalid("it ends inside a block"))], answering: Self.close1007)
        expect(
            .client, deflate: try Self.agree(),
            receiving: [0xC1, 0x0F] + final.dropLast() + final + [0xC2, 0x01, 0x01] + [0xC1, 0x08] + final,
            gives: [.text("HelloHello"), .binary([]), .text("Hello")])
    }

    @Test func section_7_2_3_5_two_blocks_in_one_message() throws {
        expect(
            .client, deflate: try Self.agree(),
            receiving: [0xC1, 0x0D, 0xF2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xFF, 0xFF]
                + [0xCA, 0xC9, 0xC9, 0x07, 0x00],
            gives: [.text("Hello")])
    }

    @Test func section_7_2_3_6_an_empty_last_fragment() throws {
        let wire =
            [0x41, 0x0B] + Self.hello + [0x00, 0x00, 0xFF, 0xFF, 0x80, 0x01, 0x00]
        expect(.client, deflate: try Self.agree(), receiving: wire, gives: [.text("Hello")])
        var server = Endpoint(.server, deflate: try Self.agree())
        server.send(.text, FrameTests.hello, endsMessage: false)
        server.send(.text, [])
        #expect(server.output == wire)
    }

    @Test(arguments: [true, false])
    func an_empty_message_is_one_byte(takeover: Bool) throws {
        let agreement = try Self.agree(serverTakeover: takeover)
        expect(
            .client, deflate: agreement, receiving: [0xC1, 0x01, 0x00, 0xC2, 0x01, 0x00],
            gives: [.text(""), .binary([])])
        var server = Endpoint(.server, deflate: agreement)
        server.send(.text, [])
        server.send(.binary, [])
        // Without takeover there is no window to keep in step, and 0 bytes are shorter.
        #expect(
            server.output == (takeover ? [0xC1, 0x01, 0x00, 0xC2, 0x01, 0x00] : [0x81, 0x00, 0x82, 0x00]))
    }

    // MARK: - Other compressors

    /// Python 3.11: c = zlib.compressobj(9, zlib.DEFLATED, -9), then for each message
    /// (c.compress(message) + c.flush(zlib.Z_SYNC_FLUSH))[:-4].
    @Test func what_python_compressed_with_a_window_of_512_bytes() throws {
        let messages: [([UInt8], String)] = [
            (
                [
                    0xAA, 0x56, 0xCA, 0x4C, 0x51, 0xB2, 0x32, 0xD0, 0x51, 0x2A, 0x49, 0xCD, 0x2D, 0x48, 0x2D,
                    0x4A, 0x2C, 0x29, 0x2D, 0x4A, 0x55, 0xB2, 0x32, 0x32, 0xD0, 0x33, 0xD5, 0x51, 0x2A, 0xCD,
                    0xCB, 0x2C, 0x51, 0xB2, 0x52, 0x72, 0x56, 0xAA, 0x05, 0x00,
                ], "{\"id\":0,\"temperature\":20.5,\"unit\":\"C\"}"
            ),
            (
                [0xAA, 0x06, 0xAB, 0x32, 0x44, 0x57, 0x65, 0x88, 0xAA, 0x0A, 0x00],
                "{\"id\":1,\"temperature\":21.5,\"unit\":\"C\"}"
            ),
            (
                [0x82, 0xA8, 0x32, 0x42, 0x57, 0x65, 0x84, 0xAA, 0x0A, 0x00],
                "{\"id\":2,\"temperature\":22.5,\"unit\":\"C\"}"
            ),
            (
                [0x82, 0xA8, 0x32, 0x46, 0x57, 0x65, 0x8C, 0xAA, 0x0A, 0x00],
                "{\"id\":3,\"temperature\":23.5,\"unit\":\"C\"}"
            ),
        ]
        var client = Endpoint(.client, deflate: try Self.agree(serverBits: 9))
        for (bytes, _) in messages { client.feed([0xC1, UInt8(bytes.count)] + bytes) }
        #expect(client.observed == messages.map { .text($0.1) })
        var server = Endpoint(.server, deflate: try Self.agree(serverBits: 9, level: 9))
        for (_, text) in messages { server.send(.text, Array(text.utf8)) }
        #expect(server.output == messages.flatMap { [0xC1, UInt8($0.0.count)] + $0.0 })
    }

    // MARK: - §6

    @Test func row_32_a_message_without_RSV1_stays_legal_and_out_of_the_window() throws {
        expect(
            .client, deflate: try Self.agree(),
            receiving: [0x82, 0x04, 0x20, 0x02, 0, 0, 0xC1, 0x07] + Self.hello + [0x81, 0x02, 0x6F, 0x6B]
                + [0x01, 0x01, 0x61, 0x80, 0x01, 0x62, 0xC1, 0x05, 0xF2, 0x00, 0x11, 0x00, 0x00],
            gives: [.binary([0x20, 0x02, 0, 0]), .text("Hello"), .text("ok"), .text("ab"), .text("Hello")])
    }

    @Test(
        arguments: [
            ([0x41, 0x01, 0xF2, 0xC0, 0x01, 0x48], 0xC0), ([0x01, 0x01, 0x61, 0xC0, 0x01, 0x62], 0xC0),
            ([0xC9, 0x00], 0xC9), ([0xC8, 0x00], 0xC8), ([0xA1, 0x00], 0xA1), ([0xD1, 0x00], 0xD1),
        ] as [([UInt8], UInt8)])
    func the_bit_RSV1_belongs_to_the_first_frame_of_a_message(wire: [UInt8], first: UInt8) throws {
        expect(
            .client, deflate: try Self.agree(), receiving: wire,
            gives: [.failed(.reservedBits(firstByte: first))], answering: Self.close1002)
    }

    @Test func control_frames_and_empty_fragments_inside_a_compressed_message() throws {
        expect(
            .client, deflate: try Self.agree(),
            receiving: [0x41, 0x00, 0x00, 0x01, 0xF2, 0x89, 0x01, 0x2A, 0x00, 0x02, 0x48, 0xCD, 0x00, 0x00]
                + [0x8A, 0x00, 0x00, 0x04, 0xC9, 0xC9, 0x07, 0x00, 0x80, 0x00, 0x81, 0x01, 0x61],
            gives: [.ping([0x2A]), .pong([]), .text("Hello"), .text("a")],
            answering: [0x8A, 0x81, 0x37, 0xFA, 0x21, 0x3D, 0x2A ^ 0x37])
    }

    // MARK: - Sending

    @Test func a_message_below_the_threshold_is_sent_as_it_is() throws {
        var server = Endpoint(.server, deflate: try Self.agree(threshold: 64))
        let zeros = [UInt8](repeating: 0, count: 64)
        server.send(.binary, Array(zeros.dropLast()))
        #expect(server.output == [0x82, 0x3F] + zeros.dropLast())
        server.output = []
        server.send(.binary, zeros)
        #expect(server.output[0] == 0xC2 && server.output.count < 10)
    }

    @Test func what_does_not_get_shorter_is_compressed_only_for_the_windows_sake() throws {
        var random = SeededGenerator(state: 7)
        let noise = (0..<200).map { _ in UInt8.random(in: 0...255, using: &random) }
        var alone = Endpoint(.server, deflate: try Self.agree(serverTakeover: false))
        alone.send(.binary, noise)
        #expect(alone.output == [0x82, 0x7E, 0x00, 0xC8] + noise)
        // With takeover it comes for little more, and for nearly nothing the second time.
        var sharing = Endpoint(.server, deflate: try Self.agree())
        sharing.send(.binary, noise)
        #expect(sharing.output[0] == 0xC2 && sharing.output.count <= 4 + noise.count + 6)
        sharing.output = []
        sharing.send(.binary, noise)
        #expect(sharing.output.count < 20)
    }

    @Test func a_fragment_can_be_read_as_soon_as_it_was_sent() throws {
        var server = Endpoint(.server, deflate: try Self.agree())
        var connection = WebSocketConnection(
            role: .client, maximumFrameSize: .max, maximumMessageSize: .max, deflate: try Self.agree())
        for (fragment, endsMessage) in [("Hel", false), ("lo, ", false), ("world", true)] {
            server.output = []
            server.send(.text, Array(fragment.utf8), endsMessage: endsMessage)
            var received: [UInt8] = []
            var ended = false
            server.output.withUnsafeMutableBytes { buffer in
                var input = buffer
                var output: [UInt8] = []
                while let event = connection.next(in: &input, output: &output, maskingKey: { 0 }) {
                    guard case .payload(.text, let bytes, let endsMessage) = event else { return }
                    received += bytes
                    ended = endsMessage
                }
            }
            #expect(received == Array(fragment.utf8))
            #expect(ended == endsMessage)
        }
    }

    @Test func fragments_without_compression() {
        var client = Endpoint(.client)
        client.send(.binary, [1], endsMessage: false, key: 0)
        client.connection.sendPing(maskingKey: 0, into: &client.output)
        client.send(.binary, [], endsMessage: false, key: 0)
        client.send(.binary, [2], key: 0)
        client.send(.text, [0x61], key: 0)
        #expect(
            client.output == [0x02, 0x81, 0, 0, 0, 0, 1, 0x89, 0x80, 0, 0, 0, 0, 0x00, 0x80, 0, 0, 0, 0]
                + [0x80, 0x81, 0, 0, 0, 0, 2, 0x81, 0x81, 0, 0, 0, 0, 0x61])
    }

    /// The length of the payload decides on the header, and may turn out in another class than expected.
    @Test(arguments: [WebSocketRole.client, .server])
    func the_header_is_the_shortest_for_what_was_compressed(role: WebSocketRole) throws {
        var random = SeededGenerator(state: 1)
        let agreement = try Self.agree()
        var sender = Endpoint(role, deflate: agreement)
        var receiver = Endpoint(role == .client ? .server : .client, deflate: agreement)
        var sent: [Observed] = []
        for count in [122, 123, 124, 125, 126, 127, 200, 65_520, 65_530, 65_535, 65_536, 65_540, 70_000] {
            let noise = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            for payload in [noise, [UInt8](repeating: 1, count: count)] {
                sender.send(.binary, payload)
                sent.append(.binary(payload))
            }
        }
        // A length that isn't in its shortest form fails the receiver.
        receiver.feed(sender.output)
        #expect(receiver.observed == sent)
    }
}
