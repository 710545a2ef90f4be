import Testing
import WebSocketCore

/// Compressed data that is wrong or too much.
@Suite struct DeflateLimitTests {
    @Test(.timeLimit(.minutes(1)), arguments: [WebSocketRole.client, .server])
    func a_bomb_costs_no_more_than_the_limit(role: WebSocketRole) throws {
        let limit: UInt64 = 1 << 20
        let agreement = try DeflateTests.agree(level: 9)
        var bomber = Endpoint(role == .client ? .server : .client, deflate: agreement)
        // 128 MiB in about 128 KiB.
        let zeros = [UInt8](repeating: 0, count: 1 << 20)
        for _ in 0..<127 { bomber.send(.binary, zeros, endsMessage: false) }
        bomber.send(.binary, zeros)
        #expect(bomber.output.count < 150_000)

        var connection = WebSocketConnection(
            role: role, maximumFrameSize: limit, maximumMessageSize: limit, deflate: agreement)
        var output: [UInt8] = []
        var pieces: [Int] = []
        var error: WebSocketError?
        var used = 0
        bomber.output.withUnsafeMutableBytes { buffer in
            var input = buffer
            while let event = connection.next(in: &input, output: &output, maskingKey: { 0 }) {
                switch event {
                case .payload(.binary, let bytes, endsMessage: false):
                    pieces.append(bytes.count)
                    used = buffer.count - input.count
                case .failed(let failure): error = failure
                default: Issue.record("\(event)")
                }
            }
        }
        #expect(pieces == [Int](repeating: 65_536, count: 16))
        guard case .messageTooLarge(_, limit)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(output.suffix(2) == [0x03, 0xF1], "1009")
        #expect(used < 3000)
    }

    @Test(arguments: [0, 1, 100, 65_535, 65_536, 65_537, 200_000])
    func a_message_of_exactly_the_limit_passes(limit: Int) throws {
        let agreement = try DeflateTests.agree()
        for fragmented in [false, true] {
            for count in [limit, limit + 1] {
                let payload = [UInt8](repeating: 0x61, count: count)
                var server = Endpoint(.server, deflate: agreement)
                server.send(.text, payload, endsMessage: !fragmented)
                if fragmented { server.send(.text, []) }
                var client = Endpoint(.client, messageLimit: UInt64(limit), deflate: agreement)
                client.feed(server.output)
                var single = Endpoint(.client, messageLimit: UInt64(limit), deflate: agreement)
                single.feed(server.output.map { [$0] })
                #expect(single.observed == client.observed)
                if count == limit {
                    #expect(client.observed == [.text(payload)])
                } else if case .failed(.messageTooLarge(_, UInt64(limit)))? = client.observed.first {
                    #expect(client.output.suffix(2) == [0x03 ^ 0x37, 0xF1 ^ 0xFA])
                } else {
                    Issue.record("\(client.observed)")
                }
            }
        }
    }

    @Test func the_limit_of_a_frame_is_that_of_its_compressed_bytes() throws {
        let agreement = try DeflateTests.agree()
        var server = Endpoint(.server, deflate: agreement)
        server.send(.binary, [UInt8](repeating: 0, count: 10_000))
        let payload = UInt64(server.output.count - 2)
        var client = Endpoint(.client, frameLimit: payload, deflate: agreement)
        client.feed(server.output)
        #expect(client.observed == [.binary([UInt8](repeating: 0, count: 10_000))])
        var strict = Endpoint(.client, frameLimit: payload - 1, deflate: agreement)
        strict.feed(server.output)
        #expect(strict.observed == [.failed(.frameTooLarge(length: payload, limit: payload - 1))])
    }

    @Test func text_is_checked_after_inflation() throws {
        let agreement = try DeflateTests.agree()
        for (text, offset) in TextTests.invalid {
            var server = Endpoint(.server, deflate: agreement)
            server.send(.text, text)
            expect(
                .client, deflate: agreement, receiving: server.output,
                gives: [.failed(.textNotUTF8(offset: UInt64(offset)))], answering: DeflateTests.close1007)
        }
        for text in TextTests.valid {
            var server = Endpoint(.server, deflate: agreement)
            server.send(.text, text)
            expect(.client, deflate: agreement, receiving: server.output, gives: [.text(text)])
        }
    }

    @Test(
        arguments: [
            // Nothing at all, not even the one byte of an empty message.
            [], [0xF2], [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07], [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00],
            // The tail that should have been cut off, whole and in part.
            [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00], [0x00, 0x00, 0x00, 0xFF, 0xFF],
            [0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65], [0x02],
        ] as [[UInt8]])
    func a_message_ends_with_a_block(payload: [UInt8]) throws {
        for pieces in everySplit([0xC2, UInt8(payload.count)] + payload) {
            var client = Endpoint(.client, deflate: try DeflateTests.agree())
            client.feed(pieces)
            guard case .failed(.compressedDataInvalid)? = client.observed.first else {
                Issue.record("\(client.observed)")
                return
            }
            #expect(client.output == DeflateTests.close1007)
        }
    }

    @Test func a_bad_block_fails_before_its_message_ends() throws {
        // BTYPE 11, in the first bytes of a frame that would go on.
        var client = Endpoint(.client, deflate: try DeflateTests.agree())
        client.feed([0xC2, 0x7D, 0x06])
        #expect(client.observed == [.failed(.compressedDataInvalid("invalid block type"))])
    }

    @Test func a_close_cuts_a_compressed_message() throws {
        let agreement = try DeflateTests.agree()
        var from = Endpoint(.client, deflate: agreement)
        from.send(.binary, [UInt8](repeating: 0, count: 300_000))
        from.close(.normalClosure)
        var connection = WebSocketConnection(
            role: .server, maximumFrameSize: .max, maximumMessageSize: .max, deflate: agreement)
        var output: [UInt8] = []
        var codes: [CloseCode] = []
        from.output.withUnsafeMutableBytes { buffer in
            var input = buffer
            _ = connection.next(in: &input, output: &output, maskingKey: { 0 })
            connection.close(.goingAway, maskingKey: 0, into: &output)
            while let event = connection.next(in: &input, output: &output, maskingKey: { 0 }) {
                guard case .closeReceived(let code, _) = event else {
                    Issue.record("\(event)")
                    return
                }
                codes.append(code)
            }
        }
        #expect(codes == [.normalClosure])
        #expect(output == [0x88, 0x02, 0x03, 0xE9])
    }

    @Test(arguments: [true, false])
    func every_byte_of_a_stream_can_be_corrupt(takeover: Bool) throws {
        var random = SeededGenerator(state: 7692)
        let agreement = try DeflateTests.agree(serverTakeover: takeover)
        var server = Endpoint(.server, deflate: agreement)
        server.send(.text, DeflateRoundTripTests.json(200, &random))
        server.send(.text, DeflateRoundTripTests.json(100, &random), endsMessage: false)
        server.send(.text, DeflateRoundTripTests.json(100, &random))
        var failures = 0
        for index in server.output.indices {
            for bit in 0..<8 {
                var wire = server.output
                wire[index] ^= 1 << UInt8(bit)
                expectSame(.client, wire, agreement, &random)
                var client = Endpoint(.client, messageLimit: 100_000, deflate: agreement)
                client.feed(wire)
                if case .failed? = client.observed.last { failures += 1 }
            }
        }
        #expect(failures > server.output.count)
    }

    @Test(arguments: [WebSocketRole.client, .server])
    func mutated_streams_end_the_same_however_they_are_cut(role: WebSocketRole) throws {
        var random = SeededGenerator(state: role == .client ? 1951 : 1952)
        let agreement = try DeflateTests.agree()
        for _ in 0..<500 {
            var peer = Endpoint(role == .client ? .server : .client, deflate: agreement)
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                let json = DeflateRoundTripTests.json(Int.random(in: 0...300, using: &random), &random)
                peer.send(.text, json, endsMessage: Bool.random(using: &random))
                peer.connection.sendPing(maskingKey: 1, into: &peer.output)
            }
            expectSame(role, MutationTests.mutated(peer.output, &random), agreement, &random)
        }
    }

    private func expectSame(
        _ role: WebSocketRole, _ wire: [UInt8], _ agreement: PerMessageDeflate.Agreement,
        _ random: inout SeededGenerator
    ) {
        var whole = Endpoint(role, frameLimit: 70_000, messageLimit: 100_000, deflate: agreement)
        whole.feed(wire)
        var cut = Endpoint(role, frameLimit: 70_000, messageLimit: 100_000, deflate: agreement)
        cut.feed(MutationTests.cut(wire, &random))
        #expect(whole.observed == cut.observed)
        #expect(whole.output == cut.output)
        #expect(whole.connection.state == cut.connection.state)
    }
}
