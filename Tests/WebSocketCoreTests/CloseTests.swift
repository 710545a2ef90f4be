import Testing
import WebSocketCore

/// The closing handshake: RFC 6455 §5.5.1, §7.
@Suite struct CloseTests {
    @Test(arguments: [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999,
    ])
    func a_close_is_answered_with_its_code(code: UInt16) {
        let high = UInt8(code >> 8)
        let low = UInt8(code & 0xFF)
        expect(
            .client, receiving: [0x88, 0x04, high, low, 0x6E, 0x6F], gives: [.close(code, "no")],
            answering: [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, high ^ 0x37, low ^ 0xFA])
        expect(
            .server, receiving: [0x88, 0x82, 0, 0, 0, 0, high, low], gives: [.close(code, "")],
            answering: [0x88, 0x02, high, low])
    }

    @Test func an_empty_close_is_answered_by_an_empty_close() {
        expect(
            .client, receiving: [0x88, 0x00], gives: [.close(1005, "")],
            answering: [0x88, 0x80, 0x37, 0xFA, 0x21, 0x3D])
    }

    @Test func what_follows_the_peers_close_is_ignored() {
        expect(
            .client, receiving: [0x88, 0x00, 0x89, 0x00, 0x88, 0x00, 0x82, 0x01, 0x61, 0xFF],
            gives: [.close(1005, "")], answering: [0x88, 0x80, 0x37, 0xFA, 0x21, 0x3D])
    }

    @Test func the_longest_reason_fits_in_125_bytes() {
        let reason = String(repeating: "x", count: 123)
        expect(
            .client, receiving: [0x88, 0x7D, 0x03, 0xE8] + Array(reason.utf8), gives: [.close(1000, reason)],
            answering: [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, 0x03 ^ 0x37, 0xE8 ^ 0xFA])
    }

    @Test func our_close_then_the_peers_is_a_clean_end() {
        var server = Endpoint(.server)
        server.close(.goingAway, reason: "bye")
        #expect(server.output == [0x88, 0x05, 0x03, 0xE9, 0x62, 0x79, 0x65])
        #expect(server.connection.state == .closeSent(.goingAway, reason: "bye"))
        // Data, a ping and bad UTF-8 that were under way are dropped; only the Close counts.
        server.feed([0x82, 0x81, 0, 0, 0, 0, 1, 0x89, 0x80, 0, 0, 0, 0, 0x81, 0x81, 0, 0, 0, 0, 0xFF])
        #expect(server.observed.isEmpty)
        server.feed([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE9])
        #expect(server.observed == [.close(1001, "")])
        #expect(server.output == [0x88, 0x05, 0x03, 0xE9, 0x62, 0x79, 0x65])
        #expect(server.connection.state == .closeReceived(.goingAway, reason: ""))
        server.connection.streamEnded()
        #expect(server.connection.state == .closed(.goingAway, reason: "", wasClean: true))
    }

    @Test func nothing_is_sent_after_a_close() {
        var client = Endpoint(.client)
        client.close(.normalClosure)
        let sent = client.output
        client.send(.binary, [1])
        client.connection.sendPing(maskingKey: 0, into: &client.output)
        client.close(.internalError)
        #expect(client.output == sent)
        #expect(sent == [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, 0x03 ^ 0x37, 0xE8 ^ 0xFA])
    }

    @Test func a_close_cuts_a_message_that_is_arriving() {
        var client = Endpoint(.client)
        client.feed([0x82, 0x03, 1])
        client.close(.normalClosure)
        client.feed([2, 3, 0x88, 0x02, 0x03, 0xE8])
        #expect(client.observed == [.close(1000, "")])
    }

    @Test func a_broken_rule_after_our_close_sends_nothing_more() {
        var server = Endpoint(.server)
        server.close(.normalClosure)
        server.feed([0x82, 0x00])
        #expect(server.observed == [.failed(.unmaskedFrameFromClient)])
        #expect(server.output == [0x88, 0x02, 0x03, 0xE8])
    }

    @Test(arguments: [1005, 1006, 1015, 0, 1004, 2999] as [UInt16])
    func codes_that_must_not_travel_give_an_empty_close(code: UInt16) {
        var server = Endpoint(.server)
        server.close(CloseCode(rawValue: code), reason: "lost")
        #expect(server.output == [0x88, 0x00])
    }

    @Test func a_long_reason_is_cut_at_a_character() {
        var server = Endpoint(.server)
        server.close(.normalClosure, reason: String(repeating: "€", count: 60))
        // 41 characters of 3 bytes are 123 bytes.
        #expect(
            server.output
                == [0x88, 0x7D, 0x03, 0xE8] + (0..<41).flatMap { _ in [0xE2, 0x82, 0xAC] as [UInt8] })
        var other = Endpoint(.server)
        other.close(.normalClosure, reason: "ab" + String(repeating: "€", count: 60))
        #expect(other.output.prefix(2) == [0x88, 0x7C])
    }

    @Test func an_end_without_close_frames_is_abnormal() {
        var open = Endpoint(.client)
        open.connection.streamEnded()
        #expect(open.connection.state == .closed(.abnormalClosure, reason: "", wasClean: false))

        var sent = Endpoint(.client)
        sent.close(.normalClosure)
        sent.connection.streamEnded()
        #expect(sent.connection.state == .closed(.abnormalClosure, reason: "", wasClean: false))

        var failed = Endpoint(.client)
        failed.feed([0x83])
        failed.connection.streamEnded()
        #expect(failed.connection.state == .failed(.reservedOpcode(3)))
    }
}
