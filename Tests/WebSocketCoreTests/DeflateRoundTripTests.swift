import Testing
import WebSocketCore

/// Both roles against each other, however it was agreed and however the bytes come.
@Suite struct DeflateRoundTripTests {
    static let combinations = [WebSocketRole.client, .server].flatMap { role in
        [true, false].flatMap { takeover in (8...15).map { (role, takeover, $0) } }
    }

    @Test(arguments: combinations)
    func messages_arrive_as_they_were_sent(sender: WebSocketRole, takeover: Bool, windowBits: Int) throws {
        var random = SeededGenerator(state: UInt64(windowBits))
        let agreement = try DeflateTests.agree(
            serverTakeover: takeover, clientTakeover: takeover, serverBits: windowBits, clientBits: windowBits
        )
        var from = Endpoint(sender, deflate: agreement)
        var sent: [Observed] = []
        for _ in 0..<40 {
            let payload = Self.payload(&random)
            let kind = String(validating: payload, as: UTF8.self) == nil ? MessageKind.binary : .text
            Self.send(kind, payload, by: &from, &random)
            sent.append(kind == .text ? .text(payload) : .binary(payload))
        }
        let receiver = sender == .client ? WebSocketRole.server : .client
        var whole = Endpoint(receiver, deflate: agreement)
        whole.feed(from.output)
        #expect(whole.observed == sent)
        var cut = Endpoint(receiver, deflate: agreement)
        cut.feed(MutationTests.cut(from.output, &random))
        #expect(cut.observed == sent)
        // With so little inflated at a time, references must keep within the receiver's window.
        var single = Endpoint(receiver, deflate: agreement)
        single.feed(from.output.map { [$0] })
        #expect(single.observed == sent)
    }

    @Test(arguments: [true, false])
    func row_36_messages_under_takeover_stay_whole_for_long(takeover: Bool) throws {
        var random = SeededGenerator(state: 36)
        let agreement = try DeflateTests.agree(serverTakeover: takeover)
        var compressing = Endpoint(.server, deflate: agreement)
        var plain = Endpoint(.server)
        var client = Endpoint(.client, deflate: agreement)
        var sent: [Observed] = []
        for number in 0..<600 {
            let payload: [UInt8]
            switch number % 5 {
            case 0: payload = []
            case 1: payload = Self.noise(Int.random(in: 1...3000, using: &random), &random)
            default: payload = Self.json(Int.random(in: 1...2000, using: &random), &random)
            }
            compressing.output = []
            plain.output = []
            if number % 5 == 1 { plain.send(.binary, payload) } else { compressing.send(.binary, payload) }
            client.feed(compressing.output + plain.output)
            sent.append(.binary(payload))
        }
        #expect(client.observed == sent)
    }

    /// More than one piece of output, from little input, in a frame that is unmasked as it is read.
    @Test(arguments: [WebSocketRole.client, .server])
    func a_message_much_larger_than_a_piece(sender: WebSocketRole) throws {
        let agreement = try DeflateTests.agree()
        for count in [65_535, 65_536, 65_537, 131_072, 1_000_000] {
            let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 / 1000) }
            var from = Endpoint(sender, deflate: agreement)
            var to = Endpoint(sender == .client ? .server : .client, deflate: agreement)
            from.send(.binary, payload)
            from.send(.binary, [42])
            to.feed(from.output)
            #expect(to.observed == [.binary(payload), .binary([42])])
        }
    }

    static func json(_ count: Int, _ random: inout some RandomNumberGenerator) -> [UInt8] {
        var text = ""
        while text.utf8.count < count {
            text += "{\"sensor\":\"attic-\(Int.random(in: 0..<20, using: &random))\",\"temperature\":"
            text += "\(Int.random(in: 150..<300, using: &random)),\"unit\":\"°C\"},"
        }
        return Array(text.utf8)
    }

    static func noise(_ count: Int, _ random: inout some RandomNumberGenerator) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    private static func payload(_ random: inout SeededGenerator) -> [UInt8] {
        switch Int.random(in: 0..<10, using: &random) {
        case 0: []
        case 1: noise(Int.random(in: 0...1000, using: &random), &random)
        case 2: [UInt8](repeating: 0x61, count: Int.random(in: 0...20_000, using: &random))
        case 3: json(6000, &random)
        default: json(Int.random(in: 0...300, using: &random), &random)
        }
    }

    private static func send(
        _ kind: MessageKind, _ payload: [UInt8], by sender: inout Endpoint, _ random: inout SeededGenerator
    ) {
        var rest = payload[...]
        while Int.random(in: 0..<3, using: &random) == 0 {
            let count = Int.random(in: 0...rest.count, using: &random)
            let key = UInt32.random(in: 0 ... .max, using: &random)
            sender.send(kind, Array(rest.prefix(count)), endsMessage: false, key: key)
            rest = rest.dropFirst(count)
        }
        sender.send(kind, Array(rest), key: UInt32.random(in: 0 ... .max, using: &random))
    }
}
