import MQTTProbe
import MQTTTraversal
import Testing

extension ProbeReport: CustomTestStringConvertible {
    public var testDescription: String {
        "\(host): " + attempts.map { "\($0.route.rawValue) \($0.outcome.rawValue)" }.joined(separator: ", ")
    }
}

/// Attempts as a runner would record them.
enum Reports {
    static func passing(_ route: ProbeRoute) -> ProbeReport.Attempt {
        let stages = stages(route)
        return attempt(
            route, .ok, milliseconds: 20.5,
            stages: stages.map { ProbeReport.Stage($0, .passed, milliseconds: 5.1) })
    }

    static func failing(
        _ route: ProbeRoute, _ code: FailureCode, at stage: ConnectionStage, evidence: String = "as seen",
        hop: String? = nil, issuer: String? = nil, milliseconds: Double = 12.4
    ) -> ProbeReport.Attempt {
        let stages = stages(route)
        let reached = stages.firstIndex(of: stage) ?? 0
        let advice = FailureAdvice(code: code)
        return attempt(
            route, .failed, milliseconds: milliseconds,
            stages: stages.enumerated().map { index, name in
                if index == reached, name == stage {
                    return ProbeReport.Stage(name, .failed, milliseconds: milliseconds)
                }
                return index < reached
                    ? ProbeReport.Stage(name, .passed, milliseconds: 0.4) : ProbeReport.Stage(name, .notRun)
            },
            failure: ProbeReport.Failure(
                stage: stage, code: code, hop: hop, evidence: evidence, fault: advice.fault,
                advice: advice.text,
                certificate: issuer.map {
                    ProbeReport.Certificate(depth: 0, subject: "CN = broker", issuer: $0)
                }))
    }

    static func skipped(_ route: ProbeRoute) -> ProbeReport.Attempt {
        attempt(
            route, .skipped, stages: stages(route).map { ProbeReport.Stage($0, .notRun) },
            skipReason: "user name and password are never sent in plaintext")
    }

    static func unfinished(_ route: ProbeRoute) -> ProbeReport.Attempt {
        attempt(
            route, .unfinished,
            stages: stages(route).enumerated().map { index, name in
                index == 0
                    ? ProbeReport.Stage(name, .passed, milliseconds: 1)
                    : ProbeReport.Stage(name, index == 1 ? .unfinished : .notRun)
            })
    }

    static func report(
        _ attempts: [ProbeReport.Attempt], host: String = "broker.connectmq.com"
    ) -> ProbeReport {
        ProbeReport(
            host: host, mqtt: "5.0", startedAt: "2026-11-30T09:41:00Z", timeoutMilliseconds: 5000,
            attempts: attempts)
    }

    /// 8883 is dropped, 8084 works, 443 is intercepted, 1883 refused: a company's network.
    static let corporate = report([
        failing(
            .tls, .tcpTimeout, at: .tcp, evidence: "no answer within 5.0 seconds", hop: "203.0.113.5:8883",
            milliseconds: 5001.2),
        passing(.webSocketSecure),
        failing(
            .webSocketSecureAlternative, .tlsUntrusted, at: .tls,
            evidence: "unable to get local issuer certificate at depth 0: subject CN = broker, issuer "
                + "O = Example Proxy, CN = Inspection",
            hop: "203.0.113.5:443", issuer: "O = Example Proxy, CN = Inspection"),
        failing(.tcp, .tcpRefused, at: .tcp, evidence: "Connection refused", hop: "203.0.113.5:1883"),
    ])

    private static func attempt(
        _ route: ProbeRoute, _ outcome: ProbeReport.Outcome, milliseconds: Double? = nil,
        stages: [ProbeReport.Stage], skipReason: String? = nil, failure: ProbeReport.Failure? = nil
    ) -> ProbeReport.Attempt {
        let (url, port): (String, UInt16) =
            switch route {
            case .tls: ("mqtts://broker.connectmq.com:8883", 8883)
            case .webSocketSecure: ("wss://broker.connectmq.com:8084/mqtt", 8084)
            case .webSocketSecureAlternative: ("wss://broker.connectmq.com:443/mqtt", 443)
            case .tcp: ("mqtt://broker.connectmq.com:1883", 1883)
            }
        return ProbeReport.Attempt(
            route: route, url: url, port: port, isEncrypted: route != .tcp, outcome: outcome,
            skipReason: skipReason, milliseconds: milliseconds, stages: stages, failure: failure)
    }

    private static func stages(_ route: ProbeRoute) -> [ConnectionStage] {
        switch route {
        case .tls: [.resolve, .tcp, .tls, .mqttConnect]
        case .webSocketSecure, .webSocketSecureAlternative: [.resolve, .tcp, .tls, .webSocket, .mqttConnect]
        case .tcp: [.resolve, .tcp, .mqttConnect]
        }
    }
}
