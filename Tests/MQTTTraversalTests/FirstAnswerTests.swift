import MQTTCore
import MQTTLoopback
import MQTTTransport
import Testing

@testable import MQTTTraversal

/// What a peer that isn't an MQTT server is told by: its first bytes, at once.
@Suite(.timeLimit(.minutes(2))) struct FirstAnswerTests {
    /// An answer, and what the error has to hold.
    static let foreign: [(answer: String, words: String)] = [
        // 0x32 0x32: a PUBLISH of 50 bytes that would never be complete.
        ("220 mail\r\n", #"the answer begins with "220 mail\x0d\x0a""#),
        ("SSH-2.0-OpenSSH_9.2\r\n", #"the answer begins with "SSH-2.0-OpenSSH_9.2\x0d\x0a""#),
        (
            "HTTP/1.0 400 Bad\r\n\r\n",
            #"the answer begins with "HTTP/1.0 400 Bad\x0d\x0a\x0d\x0a", which is HTTP"#
        ),
        // 0x20 0x20: a CONNACK of 32 bytes.
        ("  hello\n", #"the answer begins with "  hello\x0a""#),
        // A TLS alert, unexpected_message.
        (
            "\u{15}\u{3}\u{3}\u{0}\u{2}\u{2}\u{A}",
            #"the answer begins with "\x15\x03\x03\x00\x02\x02\x0a", which is TLS"#
        ),
    ]

    @Test(arguments: foreign)
    func a_banner_instead_of_connack_is_shown_at_once(answer: String, words: String) async throws {
        let error = try await Self.connect(to: [.expectCount(1), .send(Array(answer.utf8)), .hold])
        #expect(error.code == .mqttNotMQTT)
        #expect(error.stage == .mqttConnect)
        #expect(error.description.contains(words))
        #expect(!error.description.contains(".."))
    }

    @Test(
        arguments: [
            // A 5.0 CONNACK with its properties missing, and three bytes of a banner: too few to tell.
            ([0x20, 0x20, 0x00], FailureCode.mqttConnackTimeout, "a part of CONNACK"),
            ([0x32, 0x32, 0x30], .mqttNotMQTT, #"begins with "220""#),
            ([], .mqttConnackTimeout, "no CONNACK came"),
        ] as [([UInt8], FailureCode, String)])
    func the_deadline_tells_silence_from_an_unfinished_answer(
        answer: [UInt8], code: FailureCode, words: String
    ) async throws {
        let error = try await Self.connect(
            to: [.expectCount(1), .send(answer), .hold], deadline: .seconds(2))
        #expect(error.code == code)
        #expect(error.description.contains(words))
    }

    @Test func a_well_formed_packet_ahead_of_connack_stays_a_protocol_error() async throws {
        // PUBLISH, QoS 0, topic "a", no properties [MQTT-3.2.0-1].
        let error = try await Self.connect(to: [.expectCount(1), .send([0x30, 4, 0, 1, 0x61, 0]), .hold])
        #expect(error.code == .mqttProtocolError)
    }

    @Test(arguments: [ScriptedPeer.Step.close, .reset])
    func a_peer_that_hangs_up_at_connect_is_asked_for_its_transport(end: ScriptedPeer.Step) async throws {
        let error = try await Self.connect(to: [.expectCount(1), end])
        #expect([.tcpClosed, .tcpReset].contains(error.code))
        #expect(error.advice.contains("transport"))
    }

    private static func connect(
        to script: [ScriptedPeer.Step], deadline: Duration = .seconds(3600)
    ) async throws -> MQTTError {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(on: loop, scripts: [script])
        var profile = try ConnectionProfile.tcp(host: "127.0.0.1", port: Int(peer.port))
        profile.deadlines.mqttConnect = deadline
        let client = MQTTClient(profile: profile)
        let error = await #expect(throws: MQTTError.self) { try await client.connect() }
        peer.stop()
        loop.stopAndJoin()
        return try #require(error)
    }

    @Test func `AUTH as the first answer is MQTT, and the session's own error stands`() {
        var answer = FirstAnswer()
        ([0xF0, 0x0A, 0x18, 0x08] as [UInt8]).withUnsafeBytes { answer.append($0) }
        #expect(!answer.isText)
        #expect(answer.failure(insteadOf: .connackTimeout) == nil)
        #expect(answer.failure(insteadOf: .authenticationTimeout(.handler)) == nil)
    }
}
