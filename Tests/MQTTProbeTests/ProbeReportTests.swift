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
                {
                  "attempts" : [
                    {
                      "encrypted" : true,
                      "failure" : {
                        "advice" : "The certificate's issuer isn't trusted here: give the broker's CA file, or, \
                if the issuer is your company's, ask about TLS inspection.",
                        "certificate" : {
                          "depth" : 0,
                          "issuer" : "CN = Some CA",
                          "subject" : "CN = broker"
                        },
                        "code" : "tls.untrusted",
                        "evidence" : "self-signed",
                        "fault" : "networkOrServer",
                        "hop" : "203.0.113.5:8883",
                        "stage" : "tls"
                      },
                      "milliseconds" : 12.4,
                      "outcome" : "failed",
                      "port" : 8883,
                      "route" : "tls",
                      "stages" : [
                        {
                          "milliseconds" : 0.4,
                          "stage" : "resolve",
                          "state" : "passed"
                        },
                        {
                          "milliseconds" : 0.4,
                          "stage" : "tcp",
                          "state" : "passed"
                        },
                        {
                          "milliseconds" : 12.4,
                          "stage" : "tls",
                          "state" : "failed"
                        },
                        {
                          "stage" : "mqttConnect",
                          "state" : "notRun"
                        }
                      ],
                      "url" : "mqtts://broker.connectmq.com:8883"
                    },
                    {
                      "encrypted" : true,
                      "milliseconds" : 20.5,
                      "outcome" : "ok",
                      "port" : 8084,
                      "route" : "wss",
                      "stages" : [
                        {
                          "milliseconds" : 5.1,
                          "stage" : "resolve",
                          "state" : "passed"
                        },
                        {
                          "milliseconds" : 5.1,
                          "stage" : "tcp",
                          "state" : "passed"
                        },
                        {
                          "milliseconds" : 5.1,
                          "stage" : "tls",
                          "state" : "passed"
                        },
                        {
                          "milliseconds" : 5.1,
                          "stage" : "webSocket",
                          "state" : "passed"
                        },
                        {
                          "milliseconds" : 5.1,
                          "stage" : "mqttConnect",
                          "state" : "passed"
                        }
                      ],
                      "url" : "wss://broker.connectmq.com:8084/mqtt"
                    },
                    {
                      "encrypted" : false,
                      "outcome" : "skipped",
                      "port" : 1883,
                      "route" : "tcp",
                      "skipReason" : "user name and password are never sent in plaintext",
                      "stages" : [
                        {
                          "stage" : "resolve",
                          "state" : "notRun"
                        },
                        {
                          "stage" : "tcp",
                          "state" : "notRun"
                        },
                        {
                          "stage" : "mqttConnect",
                          "state" : "notRun"
                        }
                      ],
                      "url" : "mqtt://broker.connectmq.com:1883"
                    }
                  ],
                  "diagnosis" : {
                    "recommendation" : {
                      "encrypted" : true,
                      "route" : "wss",
                      "url" : "wss://broker.connectmq.com:8084/mqtt"
                    },
                    "sentences" : [
                      "TLS 8883 shows a certificate that isn't trusted; WSS 8084 /mqtt works.",
                      "The certificate on port 8883 isn't trusted (issuer CN = Some CA), while the one on port 8084 is. \
                Either different servers answer, or something between answers on port 8883 in the broker's place: compare \
                that issuer with what the broker's owner says."
                    ],
                    "verdict" : "fallback"
                  },
                  "host" : "broker.connectmq.com",
                  "mqtt" : "5.0",
                  "schema" : "wsprobe/1",
                  "startedAt" : "2026-11-30T09:41:00Z",
                  "timeoutMilliseconds" : 5000
                }

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
