import Testing
import WebSocketCore

/// Every broken rule of RFC 6455 §5, with a good message before it that must still be delivered.
@Suite struct RuleTests {
    struct Violation: Sendable, CustomTestStringConvertible {
        var name: String
        var role: WebSocketRole = .client
        var wire: [UInt8]
        var error: WebSocketError
        var code: UInt16 = 1002

        var testDescription: String { name }
    }

    static let violations: [Violation] = [
        Violation(name: "RSV1 (row 34)", wire: [0xC2, 0x01, 0x00], error: .reservedBits(firstByte: 0xC2)),
        Violation(name: "RSV2", wire: [0xA1, 0x00], error: .reservedBits(firstByte: 0xA1)),
        Violation(name: "RSV3", wire: [0x92, 0x00], error: .reservedBits(firstByte: 0x92)),
        Violation(name: "RSV1 on a ping", wire: [0xC9, 0x00], error: .reservedBits(firstByte: 0xC9)),
        Violation(name: "opcode 3", wire: [0x83, 0x00], error: .reservedOpcode(3)),
        Violation(name: "opcode 7", wire: [0x87, 0x00], error: .reservedOpcode(7)),
        Violation(name: "opcode 11", wire: [0x8B, 0x00], error: .reservedOpcode(11)),
        Violation(name: "opcode 15", wire: [0x8F, 0x00], error: .reservedOpcode(15)),
        Violation(name: "fragmented ping", wire: [0x09, 0x00], error: .fragmentedControlFrame),
        Violation(name: "fragmented close", wire: [0x08, 0x00], error: .fragmentedControlFrame),
        Violation(name: "ping of 126", wire: [0x89, 0x7E, 0x00, 0x7E], error: .controlFrameTooLong),
        Violation(name: "close of 126", wire: [0x88, 0x7E, 0x00, 0x7E], error: .controlFrameTooLong),
        Violation(name: "pong of 64 bits", wire: [0x8A, 0x7F], error: .controlFrameTooLong),
        Violation(
            name: "masked frame to a client", wire: [0x82, 0x80, 0, 0, 0, 0], error: .maskedFrameFromServer),
        Violation(
            name: "unmasked frame to a server", role: .server, wire: [0x82, 0x00],
            error: .unmaskedFrameFromClient),
        Violation(name: "125 in 16 bits", wire: [0x82, 0x7E, 0x00, 0x7D], error: .lengthNotMinimal(125)),
        Violation(
            name: "65535 in 64 bits", wire: [0x82, 0x7F, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF],
            error: .lengthNotMinimal(65535)),
        Violation(
            name: "top bit of 64", wire: [0x82, 0x7F, 0x80, 0, 0, 0, 0, 0, 0, 0],
            error: .lengthTopBitSet(0x8000_0000_0000_0000)),
        Violation(name: "continuation of nothing", wire: [0x80, 0x00], error: .continuationWithoutStart),
        Violation(
            name: "continuation after the end", wire: [0x02, 0x00, 0x80, 0x00, 0x00, 0x00],
            error: .continuationWithoutStart),
        Violation(
            name: "message inside a message", wire: [0x02, 0x01, 0x61, 0x82, 0x01, 0x62],
            error: .messageInsideMessage),
        Violation(name: "close of 1 byte (row 23)", wire: [0x88, 0x01, 0x03], error: .closeBodyOfOneByte),
        Violation(
            name: "close reason not UTF-8", wire: [0x88, 0x03, 0x03, 0xE8, 0xFF], error: .closeReasonNotUTF8,
            code: 1007),
        Violation(
            name: "text not UTF-8", wire: [0x81, 0x02, 0x61, 0xFF], error: .textNotUTF8(offset: 1), code: 1007
        ),
    ]

    @Test(arguments: violations)
    func a_broken_rule_fails_the_connection(_ violation: Violation) {
        // "ok", as a whole message, then the offence, then a ping that must be ignored.
        let before: [UInt8]
        let after: [UInt8]
        var answer: [UInt8]
        switch violation.role {
        case .client:
            before = [0x82, 0x02, 0x6F, 0x6B]
            after = [0x89, 0x00]
            let low: UInt8 = violation.code == 1007 ? 0xEF : 0xEA
            answer = [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, 0x03 ^ 0x37, low ^ 0xFA]
        case .server:
            before = [0x82, 0x82, 0, 0, 0, 0, 0x6F, 0x6B]
            after = [0x89, 0x80, 0, 0, 0, 0]
            answer = [0x88, 0x02, 0x03, 0xEA]
        }
        for pieces in everySplit(before + violation.wire + after) {
            var endpoint = Endpoint(violation.role)
            endpoint.feed(pieces)
            let expected = violation.name == "continuation after the end" ? [.binary([])] : [] as [Observed]
            #expect(endpoint.observed == [.binary([0x6F, 0x6B])] + expected + [.failed(violation.error)])
            #expect(endpoint.output == answer)
            #expect(endpoint.connection.state == .failed(violation.error))
            #expect(violation.error.closeCode.rawValue == violation.code)
        }
    }

    @Test(arguments: [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] as [UInt16])
    func close_codes_that_must_not_travel(code: UInt16) {
        expect(
            .client, receiving: [0x88, 0x02, UInt8(code >> 8), UInt8(code & 0xFF)],
            gives: [.failed(.invalidCloseCode(code))],
            answering: [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, 0x03 ^ 0x37, 0xEA ^ 0xFA])
    }

    @Test func a_rule_is_checked_with_the_first_byte_that_breaks_it() {
        for (wire, error) in [
            ([0xC2], .reservedBits(firstByte: 0xC2)),
            ([0x83], .reservedOpcode(3)),
            ([0x80], .continuationWithoutStart),
            ([0x09], .fragmentedControlFrame),
            ([0x89, 0x7E], .controlFrameTooLong),
            ([0x82, 0x80], .maskedFrameFromServer),
            ([0x82, 0x7E, 0x00, 0x05], .lengthNotMinimal(5)),
        ] as [([UInt8], WebSocketError)] {
            var client = Endpoint(.client)
            client.feed(wire)
            #expect(client.observed == [.failed(error)])
        }
    }

    @Test func a_frame_that_is_too_large_fails_with_its_header() {
        var client = Endpoint(.client, frameLimit: 1000)
        client.feed([0x82, 0x7E, 0x03, 0xE9])
        #expect(client.observed == [.failed(.frameTooLarge(length: 1001, limit: 1000))])
        #expect(client.output == [0x88, 0x82, 0x37, 0xFA, 0x21, 0x3D, 0x03 ^ 0x37, 0xF1 ^ 0xFA])

        var allowed = Endpoint(.client, frameLimit: 1000)
        allowed.feed([0x82, 0x7E, 0x03, 0xE8])
        #expect(allowed.observed.isEmpty && allowed.connection.state == .open)
    }

    @Test func a_message_that_grows_too_large_fails_with_the_header_that_says_so() {
        expectTooLarge([0x82, 0x0B], length: 11)
        expectTooLarge([0x02, 0x06, 1, 2, 3, 4, 5, 6, 0x80, 0x05], length: 5)
        expectTooLarge(
            [0x02, 0x01, 1, 0x80, 0x7F, 0x7F, 255, 255, 255, 255, 255, 255, 255], length: .max >> 1)
        var client = Endpoint(.client, messageLimit: 10)
        client.feed([0x02, 0x06, 1, 2, 3, 4, 5, 6, 0x80, 0x04, 7, 8, 9, 10, 0x82, 0x01, 1])
        #expect(client.observed == [.binary([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), .binary([1])])
    }

    private func expectTooLarge(_ wire: [UInt8], length: UInt64) {
        for pieces in everySplit(wire) {
            var client = Endpoint(.client, messageLimit: 10)
            client.feed(pieces)
            #expect(client.observed == [.failed(.messageTooLarge(length: length, limit: 10))])
        }
    }

    @Test func control_frames_pass_under_tiny_limits() {
        var client = Endpoint(.client, frameLimit: 1, messageLimit: 1)
        client.feed([0x89, 0x02, 1, 2])
        #expect(client.observed == [.ping([1, 2])])
    }
}
