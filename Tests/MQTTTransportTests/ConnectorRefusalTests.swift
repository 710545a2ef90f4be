import MQTTLoopback
import MQTTTransport
import Testing

/// A refused opening handshake is reported as what it is, whatever becomes of its body.
@Suite("Connector, refusals", .timeLimit(.minutes(1)))
struct ConnectorRefusalTests {
    private static let head = "HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\n\r\n"
    private static let longHead = "HTTP/1.1 403 Forbidden\r\n\r\n"

    private func refusal(
        _ steps: [ScriptedPeer.Step], encrypted: Bool = false, deadlines: StageDeadlines = StageDeadlines()
    ) async throws -> (TransportError.HTTPAnswer, Duration) {
        try await Bench.run { bench in
            let peer = try bench.peer(tls: encrypted ? try Fixture.server() : nil, steps)
            let port = Int(peer.port)
            let client = try bench.client(
                encrypted
                    ? .webSocketSecure(host: "127.0.0.1", port: port, options: try Fixture.trust())
                    : .webSocket(host: "127.0.0.1", port: port), deadlines: deadlines)
            let error = try #require(await client.outcome())
            #expect(error.code == .httpBlockPage)
            #expect(error.stage == .webSocket)
            #expect(error.hop == "127.0.0.1:\(port)")
            guard case .http(let answer) = error.evidence else { throw error }
            return (answer, try #require(client.state.observations.last?.duration))
        }
    }

    @Test(arguments: [false, true])
    func a_body_that_comes_after_the_head_is_read(_ isEncrypted: Bool) async throws {
        let (answer, _) = try await refusal(
            [
                .answerUpgrade(Self.head), .pause(.milliseconds(20)), .send(Array("block".utf8)),
                .pause(.milliseconds(20)), .send(Array("ed".utf8)), .expectEnd,
            ], encrypted: isEncrypted)
        #expect(answer.excerpt == "blocked")
    }

    @Test func a_body_that_comes_byte_by_byte_is_read() async throws {
        let (answer, _) = try await refusal([.answerUpgrade(Self.head + "blocked", writeSize: 1), .expectEnd])
        #expect(answer.excerpt == "blocked")
    }

    @Test func a_body_that_does_not_come_is_waited_for_half_a_second() async throws {
        let (answer, duration) = try await refusal([.answerUpgrade(Self.head + "blo"), .expectEnd])
        #expect(answer.excerpt == "blo")
        #expect(duration >= .milliseconds(500) && duration < .seconds(5))
    }

    @Test func the_stages_deadline_ends_the_wait_and_is_not_the_failure() async throws {
        let (answer, duration) = try await refusal(
            [.answerUpgrade(Self.longHead + "blo"), .expectEnd],
            deadlines: StageDeadlines(webSocket: .milliseconds(300)))
        #expect(answer.excerpt == "blo")
        #expect(duration >= .milliseconds(300))
    }

    @Test(arguments: [ScriptedPeer.Step.close, .closeWithoutNotify, .reset], [false, true])
    func the_end_of_the_connection_is_not_the_failure(
        _ end: ScriptedPeer.Step, _ isEncrypted: Bool
    ) async throws {
        for head in [Self.head, Self.longHead] {
            let (answer, _) = try await refusal(
                // The pause lets the answer be read before a RST could destroy it.
                [.answerUpgrade(head + "blo"), .pause(.milliseconds(50)), end], encrypted: isEncrypted)
            #expect(answer.excerpt == "blo")
        }
    }

    @Test func an_endless_page_is_cut_short() async throws {
        let page = [UInt8](repeating: UInt8(ascii: "e"), count: 100_000)
        let (answer, _) = try await refusal([.answerUpgrade(Self.longHead, following: page), .hold])
        #expect(answer.excerpt == String(repeating: "e", count: 300))
    }

    /// A page must not drive a terminal.
    @Test func what_would_drive_a_terminal_is_taken_out() async throws {
        let (answer, _) = try await refusal([
            .answerUpgrade(
                "HTTP/1.1 403 \u{1b}]0;x\u{7}\u{202E}\r\nServer: \u{9b}2J\r\nContent-Length: 12\r\n\r\n"
                    + "a\u{1b}[31m\u{202E}b\u{8}"), .expectEnd,
        ])
        for text in [answer.reason, answer.server ?? "", answer.excerpt] {
            #expect(
                text.unicodeScalars.allSatisfy {
                    $0.properties.generalCategory != .control && $0.properties.generalCategory != .format
                })
        }
    }
}
