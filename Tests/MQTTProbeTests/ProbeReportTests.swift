import MQTTProbe
import MQTTTraversal
import Testing

struct ProbeReportTests {
    @Test func json_is_written_like_this() throws {
        let report = Reports.report([
            Reports.failing(
                .tls, .tlsUntrusted, at: .tls, evidence: "self-signed", hop: "203.0.113.5:8883",
                issuer: "CN = Some CA"),
            Reports.passing(.webSocketSecure), Reports.skipped(.tcp),
        ])
        #expect(
            try report.json() == """
                Y
                """)
    }

    @Test(arguments: [
        Reports.corporate,
        Reports.report(ProbeRoute.allCases.map { Reports.unfinished($0) }),
        Reports.report(ProbeRoute.allCases.map { Reports.passing($0) }),
    ])
    func what_is_written_can_be_read(report: ProbeReport) throws {
        #expect(try ProbeReport(json: try report.json()) == report)
    }

    @Test(arguments: FailureCode.allCases) func every_code_survives(code: FailureCode) throws {
        let report = Reports.report([Reports.failing(.tls, code, at: .tls, evidence: "\u{1B}\"\u{2028}")])
        #expect(try ProbeReport(json: try report.json()) == report)
    }

    @Test(arguments: ["", "{}", "[]", "{\"schema\":\"wsprobe/1\"}"])
    func what_is_no_report_is_refused(json: String) {
        #expect(throws: DecodingError.self) { try ProbeReport(json: json) }
    }
}
