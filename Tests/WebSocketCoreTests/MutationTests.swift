import Testing
import WebSocketCore

/// Seeded mutations: whatever arrives, an endpoint uses every byte or fails, and how it was cut doesn't matter.
@Suite struct MutationTests {
    @Test(arguments: [WebSocketRole.client, .server])
    func mutated_streams_end_the_same_however_they_are_cut(role: WebSocketRole) {
        var random = SeededGenerator(state: role == .client ? 6455 : 7692)
        var failures = 0
        var messages = 0
        for _ in 0..<1500 {
            let wire = Self.mutated(Self.stream(to: role, &random), &random)
            var whole = Endpoint(role, frameLimit: 70_000, messageLimit: 100_000)
            whole.feed(wire)
            var cut = Endpoint(role, frameLimit: 70_000, messageLimit: 100_000)
            cut.feed(Self.cut(wire, &random))
            #expect(whole.observed == cut.observed)
            #expect(whole.output == cut.output)
            #expect(whole.connection.state == cut.connection.state)

            // What we answered must itself be flawless to the other side, and end at our Close.
            var peer = Endpoint(role == .client ? .server : .client)
            peer.feed(whole.output)
            let isFlawless = peer.observed.allSatisfy {
                switch $0 {
                case .pong, .close: true
                case .text, .binary, .ping, .failed: false
                }
            }
            #expect(isFlawless)
            for event in whole.observed {
                switch event {
                case .failed: failures += 1
                case .text, .binary: messages += 1
                case .ping, .pong, .close: break
                }
            }
        }
        #expect(failures > 300 && messages > 300, "the mutations reach both outcomes")
    }

    @Test func mutated_handshakes_end_the_same_however_they_are_cut() throws {
        var random = SeededGenerator(state: 9112)
        var accepted = 0
        var refused = 0
        for _ in 0..<1500 {
            let wire = Self.mutated(Array(ClientHandshakeTests.good.utf8), &random)
            let client = try ClientHandshakeTests.client(headLimit: 400)
            let (whole, wholeRest) = ClientHandshakeTests.judge([wire], by: client)
            let (cut, cutRest) = ClientHandshakeTests.judge(wire.map { [$0] }, by: client)
            switch (whole, cut) {
            case (.success(let a)?, .success(let b)?):
                accepted += 1
                #expect(a == b)
                #expect(wholeRest == cutRest)
            case (.failure?, .failure?):
                // The evidence may be shorter when less has arrived, so only the verdict is compared.
                refused += 1
            case (nil, nil): break
            default: Issue.record("\(String(describing: whole)) against \(String(describing: cut))")
            }
        }
        #expect(accepted > 50 && refused > 300, "the mutations reach both outcomes")
    }

    @Test func mutated_refusals_say_the_same_however_they_are_cut() throws {
        var random = SeededGenerator(state: 9110)
        let good = """
            HTTP/1.1 403 Forbidden\r
            Content-Type: text/html\r
            Transfer-Encoding: chunked\r
            \r
            1b;x=y\r
            <html><!-- a --><p>no</p> <\r
            10\r
            script>x</script\r
            8\r
            > grüße\r
            0\r
            \r

            """
        var known = 0
        for _ in 0..<1500 {
            let wire = Self.mutated(Array(good.utf8), &random)
            let whole = try Self.refusal([wire])
            let cut = try Self.refusal(Self.cut(wire, &random))
            #expect(whole == cut)
            if let whole, !whole.bodyExcerpt.isEmpty {
                known += 1
                #expect(whole.bodyExcerpt.utf8.count <= 300)
            }
        }
        #expect(known > 300)
    }

    /// What a client knows at the end of the stream; nil where no refusal has come.
    private static func refusal(_ pieces: [[UInt8]]) throws -> HandshakeError.Refusal? {
        var client = try ClientHandshakeTests.client()
        for piece in pieces {
            let hasEnded = piece.withUnsafeBytes { buffer in
                var input = buffer
                return (try? client.receive(&input)) != .some(nil)
            }
            if hasEnded { break }
        }
        return client.refusal
    }

    /// A few good frames, as the peer of `role` sends them.
    private static func stream(to role: WebSocketRole, _ random: inout SeededGenerator) -> [UInt8] {
        var peer = Endpoint(role == .client ? .server : .client)
        for _ in 0..<Int.random(in: 1...6, using: &random) {
            let key = UInt32.random(in: 0 ... .max, using: &random)
            switch Int.random(in: 0..<8, using: &random) {
            case 0: peer.connection.sendPing(payload: [1, 2, 3], maskingKey: key, into: &peer.output)
            case 1: peer.send(.text, Array("grüße €𝄞 0123456789".utf8), key: key)
            case 2:
                peer.send(.binary, FrameTests.payload(Int.random(in: 120...300, using: &random)), key: key)
            case 3 where role == .client: peer.output += [0x01, 0x02, 0xE2, 0x82, 0x80, 0x01, 0xAC]
            case 3: peer.output += [0x01, 0x80, 1, 2, 3, 4, 0x80, 0x81, 0, 0, 0, 0, 0x61]
            case 4 where role == .client: peer.output += [0x8A, 0x00, 0x88, 0x02, 0x03, 0xE8]
            default: peer.send(.binary, FrameTests.payload(Int.random(in: 0...20, using: &random)), key: key)
            }
        }
        return peer.output
    }

    static func mutated(_ bytes: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 0...3, using: &random) where !bytes.isEmpty {
            let index = Int.random(in: 0..<bytes.count, using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 1: bytes[index] = UInt8.random(in: 0...255, using: &random)
            case 2: bytes.remove(at: index)
            case 3: bytes.insert(UInt8.random(in: 0...255, using: &random), at: index)
            default: bytes.removeLast(bytes.count - index)
            }
        }
        return bytes
    }

    static func cut(_ bytes: [UInt8], _ random: inout SeededGenerator) -> [[UInt8]] {
        var pieces: [[UInt8]] = []
        var start = 0
        while start < bytes.count {
            let end = min(start + Int.random(in: 1...9, using: &random), bytes.count)
            pieces.append(Array(bytes[start..<end]))
            start = end
        }
        return pieces
    }
}
