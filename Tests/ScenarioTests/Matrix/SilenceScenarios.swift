import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Ports that refuse, and ports that accept and say nothing: every stage has a deadline that holds.
@Suite(.timeLimit(.minutes(1)))
struct SilenceScenarios {
    struct Silence: Sendable, CustomTestStringConvertible {
        var transport: Transport
        var script: [ScriptedPeer.Step]
        var isEncrypted = false
        var stage: ConnectionStage
        var code: FailureCode
        var testDescription: String

        static let all = [
            Silence(
                transport: .tcp, script: [.hold], stage: .mqttConnect, code: .mqttConnackTimeout,
                testDescription: "CONNECT unanswered"),
            Silence(
                transport: .tls, script: [.ignore], stage: .tls, code: .tlsTimeout,
                testDescription: "ClientHello unanswered"),
            Silence(
                transport: .tls, script: [.hold], isEncrypted: true, stage: .mqttConnect,
                code: .mqttConnackTimeout, testDescription: "CONNECT in TLS unanswered"),
            Silence(
                transport: .webSocket, script: [.hold], stage: .webSocket, code: .tcpSilent,
                testDescription: "upgrade unanswered"),
            Silence(
                transport: .webSocket, script: [.upgradeWebSocket, .hold], stage: .mqttConnect,
                code: .mqttConnackTimeout, testDescription: "CONNECT in WebSocket unanswered"),
            Silence(
                transport: .webSocketSecure, script: [.ignore], stage: .tls, code: .tlsTimeout,
                testDescription: "ClientHello for WSS unanswered"),
            Silence(
                transport: .webSocketSecure, script: [.hold], isEncrypted: true, stage: .webSocket,
                code: .tcpSilent, testDescription: "upgrade in TLS unanswered"),
            Silence(
                transport: .webSocketSecure, script: [.upgradeWebSocket, .hold], isEncrypted: true,
                stage: .mqttConnect, code: .mqttConnackTimeout,
                testDescription: "CONNECT in WSS unanswered"),
        ]
    }

    @Test(arguments: Silence.all, [ProtocolVersion.v3_1_1, .v5])
    func the_deadline_holds(_ silence: Silence, _ version: ProtocolVersion) async throws {
        let stand = try Stand.shared.get()
        let peer = try stand.peer(encrypted: silence.isEncrypted, [silence.script])
        defer { peer.stop() }
        var profile = try silence.transport.profile(port: Int(peer.port), stand.trusting)
        // Those of the other stages are long enough for a busy machine, and too long for the bound below.
        profile.deadlines = StageDeadlines()
        switch silence.stage {
        case .tls: profile.deadlines.tls = .milliseconds(400)
        case .webSocket: profile.deadlines.webSocket = .milliseconds(400)
        default: profile.deadlines.mqttConnect = .milliseconds(400)
        }
        let stages = StageRecorder()
        let client = MQTTClient(
            profile: profile, configuration: ClientConfiguration(version: .init(version), log: stages.log))
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == silence.code)
        #expect(error.stage == silence.stage)
        let duration = try #require(stages.duration(of: silence.stage))
        #expect(duration >= .milliseconds(400) && duration < .seconds(5), "\(duration)")
        if silence.script.contains(where: { if case .ignore = $0 { false } else { true } }) {
            // The socket is closed, not left behind.
            _ = try await within("the end of the connection") { await peer.ended() }
        }
    }

    @Test(arguments: Transport.allCases)
    func a_port_that_refuses_is_named_at_once(_ transport: Transport) async throws {
        let port = try FreePorts.choose(1)[0]
        let stand = try Stand.shared.get()
        let stages = StageRecorder()
        let client = MQTTClient(
            profile: try transport.profile(port: Int(port), stand.trusting),
            configuration: ClientConfiguration(log: stages.log))
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == .tcpRefused)
        #expect(error.stage == .tcp)
        #expect(error.hop == "127.0.0.1:\(port)")
        #expect(try #require(stages.duration(of: .tcp)) < .seconds(5))
    }
}

/// What scripted peers share: their loop and certificates.
struct Stand: Sendable {
    static let shared = Result { try Stand() }

    let certificates: TestCertificates
    private let server: TLSContext
    private let loop: EventLoop

    private init() throws {
        certificates = try TestCertificates()
        let directory = try TemporaryDirectory.make()
        defer { TemporaryDirectory.remove(directory) }
        let files = try certificates.write(to: directory)
        server = try TLSContext(
            serverCertificateFile: files.server.certificate, privateKeyFile: files.server.key)
        loop = try PeerLoop.get()
    }

    /// Options of a client that trusts the stand.
    var trusting: TLSOptions { TLSOptions(trust: .pem(Array(certificates.authority.certificate.utf8))) }

    func peer(encrypted: Bool = false, _ scripts: [[ScriptedPeer.Step]]) throws -> ScriptedPeer {
        try ScriptedPeer(on: loop, tls: encrypted ? server : nil, scripts: scripts)
    }
}
