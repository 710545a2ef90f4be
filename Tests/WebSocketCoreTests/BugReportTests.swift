import Testing
import WebSocketCore

/// Bytes that broke other clients, one after another on the same connection where the report says so.
@Suite struct BugReportTests {
    @Test func a_packet_cut_across_two_frames_comes_in_order() {
        expect(
            .client,
            receiving: [0x82, 0x0A, 0x30, 0x0D, 0, 2, 0x68, 0x62, 0x61, 0x74, 0x20, 0x36]
                + [0x82, 0x05, 0x20, 0x43, 0x45, 0x53, 0x54],
            gives: [
                .binary([0x30, 0x0D, 0, 2, 0x68, 0x62, 0x61, 0x74, 0x20, 0x36]),
                .binary([0x20, 0x43, 0x45, 0x53, 0x54]),
            ])
    }

    @Test func row_10_a_large_frame_trickles_in_with_what_follows_it() {
        let payload = FrameTests.payload(70000)
        let wire: [UInt8] = [0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0x11, 0x70] + payload + [0x82, 0x01, 0x2A]
        var client = Endpoint(.client)
        for start in stride(from: 0, to: wire.count, by: 1400) {
            client.feed(Array(wire[start..<min(start + 1400, wire.count)]))
        }
        #expect(client.observed == [.binary(payload), .binary([0x2A])])
    }

    @Test func row_12_40000_bytes_use_the_16_bit_form() {
        var client = Endpoint(.client)
        client.send(.binary, FrameTests.payload(40000))
        #expect(client.output.prefix(8) == [0x82, 0xFE, 0x9C, 0x40, 0x37, 0xFA, 0x21, 0x3D])
        #expect(client.output.count == 40008)
    }

    @Test func row_14_every_client_frame_is_masked_with_its_own_key() {
        var connection = WebSocketConnection(
            role: .client, maximumFrameSize: .max, maximumMessageSize: .max)
        var output: [UInt8] = []
        var next: UInt32 = 0x0101_0101
        var bytes: [UInt8] = [0x89, 0x00, 0x89, 0x01, 0x61, 0x88, 0x02, 0x03, 0xE8]
        bytes.withUnsafeMutableBytes { buffer in
            var input = buffer
            while connection.next(
                in: &input, output: &output,
                maskingKey: {
                    defer { next += 0x0101_0101 }
                    return next
                }) != nil
            {}
        }
        #expect(
            output == [0x8A, 0x80, 1, 1, 1, 1, 0x8A, 0x81, 2, 2, 2, 2, 0x63]
                + [0x88, 0x82, 3, 3, 3, 3, 0x00, 0xEB])
    }

    @Test func row_17_an_empty_ping_between_two_messages() {
        expect(
            .client, receiving: [0x82, 0x01, 0x61, 0x89, 0x00, 0x82, 0x01, 0x62],
            gives: [.binary([0x61]), .ping([]), .binary([0x62])],
            answering: [0x8A, 0x80, 0x37, 0xFA, 0x21, 0x3D])
    }

    @Test func row_21_a_close_right_behind_the_handshake() throws {
        let wire = Array(ClientHandshakeTests.good.utf8) + [0x88, 0x04, 0x03, 0xF0, 0x6E, 0x6F]
        let (verdict, rest) = ClientHandshakeTests.judge([wire], by: try ClientHandshakeTests.client())
        #expect(try verdict?.get().subprotocol == "mqtt")
        var client = Endpoint(.client)
        client.feed(rest)
        #expect(client.observed == [.close(1008, "no")])
        #expect(client.output == [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, 0x03 ^ 0x37, 0xF0 ^ 0xFA])
        client.connection.streamEnded()
        #expect(client.connection.state == .closed(.policyViolation, reason: "no", wasClean: true))
    }

    @Test func row_29_a_text_frame_is_told_from_a_binary_one() {
        expect(.client, receiving: [0x81, 0x04, 0x20, 0x02, 0, 0], gives: [.text([0x20, 0x02, 0, 0])])
        var client = Endpoint(.client)
        client.feed([0x81, 0x04, 0x20, 0x02, 0, 0])
        client.close(.unsupportedData)
        #expect(client.output == [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, 0x03 ^ 0x37, 0xEB ^ 0xFA])
    }
}
