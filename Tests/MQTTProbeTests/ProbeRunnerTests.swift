import MQTTLoopback
import MQTTProbe
import MQTTTransport
import MQTTTraversal
import Testing

/// Runs against real sockets on loopback.
struct ProbeRunnerTests {
    private typealias Step = ScriptedPeer.Step

    private static func run(_ options: ProbeOptions) async throws -> ProbeReport {
        var random = SystemRandomNumberGenerator()
        return await ProbeRunner(try ProbePlan(options, random: &random)).run()
    }

    /// Four ports to which nothing answers but what a script says.
    private static func ports(_ tls: UInt16, _ wss: UInt16, _ wssAlternative: UInt16, _ tcp: UInt16)
        -> ProbePorts
    {
        var ports = ProbePorts()
        ports[.tls] = Int(tls)
        ports[.webSocketSecure] = Int(wss)
        ports[.webSocketSecureAlternative] = Int(wssAlternative)
        ports[.tcp] = Int(tcp)
        return ports
    }

    private static func options(
        _ broker: LoopbackBroker, trust: TLSOptions.Trust? = nil, timeout: Duration = .seconds(20)
    ) throws -> ProbeOptions {
        func port(_ kind: LoopbackBroker.Kind) throws -> UInt16 { try #require(broker.ports[kind]) }
        return ProbeOptions(
            host: "127.0.0.1",
            ports: ports(
                try port(.tls), try port(.webSocketSecure), try port(.webSocketSecure), try port(.tcp)),
            trust: trust ?? .file(broker.authorityFile), timeout: timeout)
    }

    private static func codes(_ report: ProbeReport) -> [String] {
        report.attempts.map { $0.failure?.code.rawValue ?? $0.outcome.rawValue }
    }

    @Test(arguments: ProtocolVersion.allCases)
    func an_open_network_lets_all_ways_through(version: ProtocolVersion) async throws {
        let broker = try await LoopbackBroker.start()
        var options = try Self.options(broker)
        options.version = version
        let report = try await Self.run(options)
        let counters = await broker.counters
        await broker.stop()

        #expect(counters.received(.connect) == 4)
        #expect(counters.received(.disconnect) == 4)
        #expect(Self.codes(report) == ["ok", "ok", "ok", "ok"])
        #expect(report.mqtt == (version == .v5 ? "5.0" : "3.1.1"))
        #expect(report.diagnosis.verdict == .preferred)
        #expect(report.diagnosis.recommendation?.url == broker.url(.tls))
        for attempt in report.attempts {
            #expect(attempt.stages.allSatisfy { $0.state == .passed && ($0.milliseconds ?? -1) >= 0 })
        }
        #expect(
            report.attempts.map { $0.stages.map(\.stage) } == [
                [.resolve, .tcp, .tls, .mqttConnect], [.resolve, .tcp, .tls, .webSocket, .mqttConnect],
                [.resolve, .tcp, .tls, .webSocket, .mqttConnect], [.resolve, .tcp, .mqttConnect],
            ])
        #expect(try ProbeReport(json: try report.json()) == report)
    }

    @Test func a_refusing_and_a_dropping_port_leave_a_fallback() async throws {
        let broker = try await LoopbackBroker.start()
        try await broker.block(.tls, by: .dropping)
        try await broker.block(.tcp, by: .refusing)
        let report = try await Self.run(try Self.options(broker, timeout: .seconds(3)))
        await broker.stop()

        #expect(Self.codes(report) == ["tcp.timeout", "ok", "ok", "tcp.refused"])
        #expect(report.diagnosis.verdict == .fallback)
        #expect(report.diagnosis.recommendation?.url == broker.url(.webSocketSecure))
        let stages = report.attempts[0].stages
        #expect(stages.map(\.state) == [.passed, .failed, .notRun, .notRun])
        #expect((2990...10_000).contains(stages[1].milliseconds ?? 0))
    }

    @Test func only_plaintext_is_a_fallback_and_called_unencrypted() async throws {
        let broker = try await LoopbackBroker.start()
        try await broker.block(.tls, by: .refusing)
        try await broker.block(.webSocketSecure, by: .refusing)
        let report = try await Self.run(try Self.options(broker))
        await broker.stop()

        #expect(Self.codes(report) == ["tcp.refused", "tcp.refused", "tcp.refused", "ok"])
        #expect(report.diagnosis.verdict == .fallback)
        #expect(report.diagnosis.recommendation?.isEncrypted == false)
    }

    @Test func an_untrusted_certificate_is_reported_with_its_issuer() async throws {
        let broker = try await LoopbackBroker.start()
        let report = try await Self.run(try Self.options(broker, trust: .file(broker.files.wrongAuthority)))
        await broker.stop()

        #expect(Self.codes(report) == ["tls.untrusted", "tls.untrusted", "tls.untrusted", "ok"])
        let certificate = try #require(report.attempts[0].failure?.certificate)
        #expect(certificate.issuer.contains("Loopback test authority"))
        #expect(report.diagnosis.sentences.contains { $0.contains("Loopback test authority") })
    }

    @Test(arguments: [
        (LoopbackBroker.ServerCertificate.expired, "tls.expired"), (.notYetValid, "tls.not_yet_valid"),
        (.wrongName, "tls.name_mismatch"),
    ])
    func what_is_wrong_with_a_certificate_is_told(
        certificate: LoopbackBroker.ServerCertificate, code: String
    ) async throws {
        let broker = try await LoopbackBroker.start(serverCertificate: certificate)
        let report = try await Self.run(try Self.options(broker))
        await broker.stop()
        #expect(Self.codes(report) == [code, code, code, "ok"])
    }

    @Test func a_refused_client_certificate_is_a_failure_of_tls() async throws {
        let broker = try await LoopbackBroker.start(requiresClientCertificate: true)
        let report = try await Self.run(try Self.options(broker))
        await broker.stop()

        #expect(report.attempts[0].failure?.code == .tlsClientCertRequired)
        #expect(report.attempts[0].stages.map(\.state) == [.passed, .passed, .failed, .notRun])
        #expect(report.attempts[1].stages.map(\.state) == [.passed, .passed, .failed, .notRun, .notRun])
    }

    @Test func a_wrong_password_is_the_brokers_refusal_and_never_goes_out_in_plaintext() async throws {
        var configuration = BrokerConfiguration()
        configuration.users = [BrokerConfiguration.User(name: "sensor", password: "right")]
        configuration.allowsAnonymous = false
        let broker = try await LoopbackBroker.start(configuration)
        let loop = try EventLoop()
        let plaintext = try ScriptedPeer(on: loop, scripts: [[.hold]])
        var options = try Self.options(broker)
        options.ports[.tcp] = Int(plaintext.port)
        options.userName = "sensor"
        options.password = Array("wrong".utf8)
        let refused = try await Self.run(options)
        options.password = Array("right".utf8)
        let accepted = try await Self.run(options)
        let connections = plaintext.connectionCount
        plaintext.stop()
        loop.stopAndJoin()
        await broker.stop()

        #expect(Self.codes(refused) == ["mqtt.refused", "mqtt.refused", "mqtt.refused", "skipped"])
        #expect(refused.diagnosis.verdict == .none)
        #expect(refused.diagnosis.sentences.contains { $0.contains("it is the broker that says no") })
        #expect(Self.codes(accepted) == ["ok", "ok", "ok", "skipped"])
        #expect(connections == 0)
        for text in [try refused.json(), try accepted.json()] {
            #expect(!text.contains("sensor") && !text.contains("wrong") && !text.contains("right"))
        }
    }

    @Test func ports_that_accept_and_say_nothing_cost_one_deadline() async throws {
        let loop = try EventLoop()
        let silent = try ScriptedPeer(on: loop, scripts: [[.hold]])
        let report = try await Self.run(
            ProbeOptions(
                host: "127.0.0.1", ports: Self.ports(silent.port, silent.port, silent.port, silent.port),
                timeout: .seconds(1)))
        silent.stop()
        loop.stopAndJoin()

        #expect(Self.codes(report) == ["tls.timeout", "tls.timeout", "tls.timeout", "mqtt.connack_timeout"])
        #expect(report.diagnosis.verdict == .none)
        #expect(report.attempts.allSatisfy { ($0.milliseconds ?? .infinity) < 5000 })
    }

    @Test func a_web_server_is_recognised() async throws {
        let page = Array("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno".utf8)
        let loop = try EventLoop()
        let web = try ScriptedPeer(on: loop, scripts: [[.expectCount(1), .send(page), .close]])
        let report = try await Self.run(
            ProbeOptions(host: "127.0.0.1", ports: Self.ports(web.port, web.port, web.port, web.port)))
        web.stop()
        loop.stopAndJoin()

        #expect(
            Self.codes(report) == [
                "tls.plaintext_reply", "tls.plaintext_reply", "tls.plaintext_reply", "mqtt.not_mqtt",
            ])
        #expect(report.attempts[3].failure?.evidence.isEmpty == false)
    }

    @Test func a_path_without_websocket_is_told_from_a_closed_port() async throws {
        let broker = try await LoopbackBroker.start(webSocketPath: "/elsewhere")
        let report = try await Self.run(try Self.options(broker))
        await broker.stop()
        #expect(Self.codes(report) == ["ok", "http.not_found", "http.not_found", "ok"])
        #expect(report.attempts[1].stages.map(\.state) == [.passed, .passed, .passed, .failed, .notRun])
    }

    @Test func an_unknown_name_is_a_failure_of_resolution_everywhere() async throws {
        // RFC 6761, section 6.4: never in the DNS. Where there is no resolver at all, that is what is said.
        let report = try await Self.run(ProbeOptions(host: "no-such-broker.invalid", timeout: .seconds(10)))
        #expect(report.attempts.allSatisfy { $0.failure?.stage == .resolve })
        #expect(report.attempts.allSatisfy { $0.stages.dropFirst().allSatisfy { $0.state == .notRun } })
        #expect(report.diagnosis.verdict == .none)
    }

    @Test func one_client_identifier_is_never_used_twice_at_once() async throws {
        let broker = try await LoopbackBroker.start()
        var options = try Self.options(broker)
        options.clientID = "pump-7"
        // The broker would tell the one that is taken over (5.0, section 3.1.4).
        let report = try await Self.run(options)
        let counters = await broker.counters
        await broker.stop()
        #expect(Self.codes(report) == ["ok", "ok", "ok", "ok"])
        #expect(counters.sent(.disconnect) == 0)
    }

    @Test func a_cancelled_probe_tells_what_is_known() async throws {
        let loop = try EventLoop()
        let silent = try ScriptedPeer(on: loop, scripts: [[.hold]])
        var random = SystemRandomNumberGenerator()
        let plan = try ProbePlan(
            ProbeOptions(
                host: "127.0.0.1", ports: Self.ports(silent.port, silent.port, silent.port, silent.port),
                timeout: .seconds(60)), random: &random)
        let probing = Task { await ProbeRunner(plan).run() }
        for index in 0..<4 { _ = await silent.record(index) { !$0.received.isEmpty } }
        probing.cancel()
        let report = await probing.value
        silent.stop()
        loop.stopAndJoin()

        #expect(report.attempts.allSatisfy { $0.outcome == .unfinished })
        #expect(report.attempts[0].stages.map(\.state) == [.passed, .passed, .unfinished, .notRun])
        #expect(report.attempts[3].stages.map(\.state) == [.passed, .passed, .unfinished])
        #expect(report.diagnosis.verdict == .inconclusive)
    }

    @Test func a_ca_file_that_is_none_is_found_before_anything_is_tried() throws {
        var random = Counting()
        let options = ProbeOptions(host: "h", trust: .file("/nonexistent/ca.pem"))
        let problem = ProbeRunner(try ProbePlan(options, random: &random)).trustProblem()
        #expect(problem?.code == .tlsBadCredentials)
        #expect(ProbeRunner(try plan(ProbeOptions(host: "h"))).trustProblem() == nil)
    }
}
