import MQTTProbe
import MQTTTraversal
import Testing

struct DiagnosisTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var attempts: [ProbeReport.Attempt]
        var verdict: Diagnosis.Verdict
        var url: String?
        var sentences: [String]
    }

    static let rows: [Row] = [
        Row(
            testDescription: "an open network",
            attempts: ProbeRoute.allCases.map { Reports.passing($0) }, verdict: .preferred,
            url: "mqtts://broker.connectmq.com:8883", sentences: ["TLS 8883 works: use it."]),
        Row(
            testDescription: "TLS works and nothing else: nobody has to open anything",
            attempts: [
                Reports.passing(.tls),
                Reports.failing(.webSocketSecure, .tcpRefused, at: .tcp),
                Reports.failing(.webSocketSecureAlternative, .tcpTimeout, at: .tcp),
                Reports.failing(.tcp, .tcpTimeout, at: .tcp),
            ], verdict: .preferred, url: "mqtts://broker.connectmq.com:8883",
            sentences: ["TLS 8883 works: use it."]),
        Row(
            testDescription: "8883 dropped, the rest open",
            attempts: [
                Reports.failing(.tls, .tcpTimeout, at: .tcp), Reports.passing(.webSocketSecure),
                Reports.passing(.webSocketSecureAlternative), Reports.passing(.tcp),
            ], verdict: .fallback, url: "wss://broker.connectmq.com:8084/mqtt",
            sentences: [
                "TLS 8883 gets no answer at all; WSS 8084 /mqtt works.",
                "The host accepts connections on ports 8084, 443 and 1883, so what stops port 8883 concerns "
                    + "that port alone: a firewall, or no listener there. The broker's owner can tell which.",
            ]),
        Row(
            testDescription: "only plaintext works",
            attempts: [
                Reports.failing(.tls, .tcpRefused, at: .tcp),
                Reports.failing(.webSocketSecure, .tcpRefused, at: .tcp),
                Reports.failing(.webSocketSecureAlternative, .tcpRefused, at: .tcp), Reports.passing(.tcp),
            ], verdict: .fallback, url: "mqtt://broker.connectmq.com:1883",
            sentences: [
                "TLS 8883 is refused; TCP 1883 works.",
                "The host accepts connections on port 1883, so what stops ports 8883, 8084 and 443 concerns "
                    + "those ports alone: a firewall, or no listener there. The broker's owner can tell which.",
                "TCP 1883 is not encrypted: anybody on the way can read and change all of it. Prefer to have "
                    + "an encrypted port opened.",
            ]),
        Row(
            testDescription: "an encrypted way comes before a plaintext one",
            attempts: [
                Reports.passing(.tcp), Reports.failing(.tls, .tlsEOF, at: .tls),
                Reports.passing(.webSocketSecureAlternative),
            ], verdict: .fallback, url: "wss://broker.connectmq.com:443/mqtt",
            sentences: ["TLS 8883 fails with tls.eof; WSS 443 /mqtt works."]),
        Row(
            testDescription: "the name doesn't exist",
            attempts: ProbeRoute.allCases.map { Reports.failing($0, .dnsNXDomain, at: .resolve) },
            verdict: .none, url: nil,
            sentences: [
                "None of these ways works from here.",
                "The name broker.connectmq.com could not be resolved (dns.nxdomain), so no port was tried: "
                    + "this says nothing about the ports.",
            ]),
        Row(
            testDescription: "nothing accepts: no cause is claimed",
            attempts: [
                Reports.failing(.tls, .tcpTimeout, at: .tcp),
                Reports.failing(.webSocketSecure, .tcpTimeout, at: .tcp),
                Reports.failing(.webSocketSecureAlternative, .tcpRefused, at: .tcp), Reports.skipped(.tcp),
            ], verdict: .none, url: nil,
            sentences: [
                "None of these ways works from here.",
                "No port that was tried accepts a connection: the host may be down, or the wrong one, or this "
                    + "network lets nothing through to it. Try another network to tell these apart.",
            ]),
        Row(
            testDescription: "one port shows another certificate",
            attempts: [
                Reports.failing(.tls, .tlsUntrusted, at: .tls, issuer: "CN = Inspection"),
                Reports.passing(.webSocketSecure), Reports.passing(.webSocketSecureAlternative),
                Reports.passing(.tcp),
            ], verdict: .fallback, url: "wss://broker.connectmq.com:8084/mqtt",
            sentences: [
                "TLS 8883 shows a certificate that isn't trusted; WSS 8084 /mqtt works.",
                "The certificate on port 8883 isn't trusted (issuer CN = Inspection), while the one on ports "
                    + "8084 and 443 is. Either different servers answer, or something between answers on port "
                    + "8883 in the broker's place: compare that issuer with what the broker's owner says.",
            ]),
        Row(
            testDescription: "one untrusted issuer everywhere: a private CA, or inspection",
            attempts: [
                Reports.failing(.tls, .tlsUntrusted, at: .tls, issuer: "CN = Some CA"),
                Reports.failing(.webSocketSecure, .tlsUntrusted, at: .tls, issuer: "CN = Some CA"),
                Reports.failing(.webSocketSecureAlternative, .tcpRefused, at: .tcp), Reports.skipped(.tcp),
            ], verdict: .none, url: nil,
            sentences: [
                "None of these ways works from here.",
                "The certificates on ports 8883 and 8084 come from one issuer that isn't trusted here (CN = "
                    + "Some CA). If that is the broker's own CA, give its file with --ca; if its owner doesn't "
                    + "know it, something between opens the encryption.",
            ]),
        Row(
            testDescription: "the broker refuses the login: the network is fine",
            attempts: [
                Reports.failing(
                    .tls, .mqttRefused, at: .mqttConnect, evidence: "0x86 Bad User Name or Password"),
                Reports.failing(.webSocketSecure, .mqttRefused, at: .mqttConnect),
                Reports.failing(.webSocketSecureAlternative, .tcpRefused, at: .tcp), Reports.skipped(.tcp),
            ], verdict: .none, url: nil,
            sentences: [
                "None of these ways works from here.",
                "The network lets MQTT through on TLS 8883 and WSS 8084 /mqtt: it is the broker that says no "
                    + "(mqtt.refused, 0x86 Bad User Name or Password).",
            ]),
        Row(
            testDescription: "the broker refuses a client without a login",
            attempts: [
                Reports.failing(.tls, .mqttRefused, at: .mqttConnect, evidence: "0x87 Not authorized"),
                Reports.failing(.tcp, .mqttRefused, at: .mqttConnect, evidence: "0x87 Not authorized"),
            ], verdict: .none, url: nil,
            sentences: [
                "None of these ways works from here.",
                "The network lets MQTT through on TLS 8883 and TCP 1883: it is the broker that says no "
                    + "(mqtt.refused, 0x87 Not authorized). This probe had no login: give one with --username "
                    + "if the broker wants it.",
            ]),
        Row(
            testDescription: "interrupted before anything worked",
            attempts: [
                Reports.failing(.tls, .tcpRefused, at: .tcp), Reports.unfinished(.webSocketSecure),
                Reports.unfinished(.webSocketSecureAlternative), Reports.unfinished(.tcp),
            ], verdict: .inconclusive, url: nil,
            sentences: ["Interrupted before anything was known to work."]),
        Row(
            testDescription: "interrupted, and something works",
            attempts: [Reports.unfinished(.tls), Reports.passing(.webSocketSecure)],
            verdict: .fallback, url: "wss://broker.connectmq.com:8084/mqtt",
            sentences: [
                "WSS 8084 /mqtt works.", "Interrupted: the other ways weren't tried to their end.",
            ]),
    ]

    @Test(arguments: rows) func what_was_seen_leads_to_this(row: Row) {
        let diagnosis = Diagnosis(host: "broker.connectmq.com", attempts: row.attempts)
        #expect(diagnosis.verdict == row.verdict)
        #expect(diagnosis.recommendation?.url == row.url)
        #expect(diagnosis.sentences == row.sentences)
    }

    @Test(arguments: FailureCode.allCases) func no_code_alone_makes_it_blame_a_firewall(code: FailureCode) {
        let attempts = ProbeRoute.allCases.map { Reports.failing($0, code, at: .tcp) }
        let diagnosis = Diagnosis(host: "h", attempts: attempts)
        #expect(diagnosis.verdict == .none)
        #expect(!diagnosis.sentences.joined().contains("firewall"))
    }
}
