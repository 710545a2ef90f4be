import MQTTProbe
import MQTTTransport
import MQTTTraversal
import Testing

struct StageRecordTests {
    private static let start = ContinuousClock.now

    private static func passed(_ stage: ConnectionStage, from: Int, to: Int) -> StageObservation {
        StageObservation(
            stage: stage, outcome: .passed, started: start + .milliseconds(from),
            ended: start + .milliseconds(to), detail: "seen")
    }

    private static func attempts() throws -> [ProbeAttempt] {
        try plan(ProbeOptions(host: "broker.example.com")).attempts
    }

    @Test func stages_that_did_not_run_are_told_from_those_that_did() throws {
        let error = TransportError(stage: .tls, code: .tlsTimeout, evidence: .deadline(.seconds(5)))
        let record = StageRecord([
            Self.passed(.resolve, from: 0, to: 4), Self.passed(.tcp, from: 4, to: 34),
            StageObservation(
                stage: .tls, outcome: .failed(error), started: Self.start + .milliseconds(34),
                ended: Self.start + .milliseconds(5034)),
        ])
        let attempt = try record.attempt(Self.attempts()[1], .failed(MQTTError(error)))
        #expect(attempt.outcome == .failed)
        #expect(attempt.milliseconds == 5034)
        #expect(
            attempt.stages == [
                ProbeReport.Stage(.resolve, .passed, milliseconds: 4, detail: "seen"),
                ProbeReport.Stage(.tcp, .passed, milliseconds: 30, detail: "seen"),
                ProbeReport.Stage(.tls, .failed, milliseconds: 5000), ProbeReport.Stage(.webSocket, .notRun),
                ProbeReport.Stage(.mqttConnect, .notRun),
            ])
    }

    @Test func an_alert_that_comes_after_the_handshake_is_a_failure_of_tls() throws {
        let error = TransportError(stage: .tls, code: .tlsClientCertRequired, evidence: .alert(116))
        let record = StageRecord([
            Self.passed(.resolve, from: 0, to: 1), Self.passed(.tcp, from: 1, to: 2),
            Self.passed(.tls, from: 2, to: 9),
            StageObservation(
                stage: .mqttConnect, outcome: .failed(error), started: Self.start + .milliseconds(9),
                ended: Self.start + .milliseconds(12)),
        ])
        let attempt = try record.attempt(Self.attempts()[0], .failed(MQTTError(error)))
        #expect(attempt.stages.map(\.state) == [.passed, .passed, .failed, .notRun])
        #expect(attempt.failure?.code == .tlsClientCertRequired)
    }

    @Test(
        arguments: [
            ([], "dns.timeout"), ([.resolve], "tcp.timeout"), ([.resolve, .tcp], "tls.timeout"),
            ([.resolve, .tcp, .tls], "tcp.silent"),
            ([.resolve, .tcp, .tls, .webSocket], "mqtt.connack_timeout"),
        ] as [([ConnectionStage], String)])
    func an_attempt_that_takes_too_long_fails_where_it_is(passed: [ConnectionStage], code: String) throws {
        let record = StageRecord(passed.map { Self.passed($0, from: 0, to: 1) })
        let attempt = try record.attempt(Self.attempts()[1], .overdue(.seconds(25)))
        #expect(attempt.outcome == .failed)
        #expect(attempt.failure?.code.rawValue == code)
        #expect(attempt.failure?.evidence == "no answer within 25.0 seconds")
        #expect(attempt.stages.firstIndex { $0.state == .failed } == passed.count)
    }

    @Test func a_failure_before_all_stages_leaves_them_not_run() throws {
        let error = MQTTError(.tlsNoTrustStore, "no trust store")
        let attempt = try StageRecord().attempt(Self.attempts()[0], .failed(error))
        #expect(attempt.failure?.stage == .local)
        #expect(attempt.milliseconds == nil)
        #expect(attempt.stages.allSatisfy { $0.state == .notRun })
    }

    private static let redirected = [
        passed(.resolve, from: 0, to: 1), passed(.tcp, from: 1, to: 2), passed(.tls, from: 2, to: 3),
        StageObservation(
            stage: .webSocket, outcome: .redirected(to: "wss://broker.example.com:9001/mqtt"),
            started: start + .milliseconds(3), ended: start + .milliseconds(4)),
        passed(.resolve, from: 4, to: 5), passed(.tcp, from: 5, to: 15),
    ]

    @Test func after_a_redirect_the_stages_are_those_of_the_new_way() throws {
        let error = TransportError(stage: .tls, code: .tlsEOF, evidence: .none)
        let failed = StageObservation(
            stage: .tls, outcome: .failed(error), started: Self.start + .milliseconds(15),
            ended: Self.start + .milliseconds(17))
        let attempt = try StageRecord(Self.redirected + [failed])
            .attempt(Self.attempts()[1], .failed(MQTTError(error)))
        #expect(attempt.redirects == ["wss://broker.example.com:9001/mqtt"])
        #expect(attempt.milliseconds == 17)
        #expect(attempt.stages.map(\.state) == [.passed, .passed, .failed, .notRun, .notRun])
        #expect(attempt.stages[1].milliseconds == 10)
        #expect(attempt.url == "wss://broker.example.com:8084/mqtt")
    }

    @Test func what_runs_when_time_is_up_is_of_the_new_way_too() throws {
        let record = StageRecord(Self.redirected)
        let overdue = try record.attempt(Self.attempts()[1], .overdue(.seconds(5)))
        #expect(overdue.failure?.code == .tlsTimeout)
        let cancelled = try record.attempt(Self.attempts()[1], .cancelled)
        #expect(cancelled.stages.map(\.state) == [.passed, .passed, .unfinished, .notRun, .notRun])
    }
}
