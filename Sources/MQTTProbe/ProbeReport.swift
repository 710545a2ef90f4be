package import MQTTTraversal

/// What a probe has seen, and what follows from it; `json()` writes it.
///
/// Keys and raw values are stable within a schema. Optional keys are left out where there is nothing to say.
package struct ProbeReport: Sendable, Hashable, Codable {
    package static let schema = "wsprobe/1"

    /// Name and version of this format.
    package let schema: String
    package let host: String
    /// The MQTT version spoken: `3.1.1` or `5.0`.
    package let mqtt: String
    /// UTC, as `2026-11-30T09:41:00Z`.
    package let startedAt: String
    /// The time that each stage had.
    package let timeoutMilliseconds: Double
    /// Best route first.
    package let attempts: [Attempt]
    package let diagnosis: Diagnosis
    /// Of the recommended way, where any were asked for and there is one.
    package var measurements: Measurements?

    package init(
        host: String, mqtt: String, startedAt: String, timeoutMilliseconds: Double, attempts: [Attempt]
    ) {
        schema = Self.schema
        self.host = host
        self.mqtt = mqtt
        self.startedAt = startedAt
        self.timeoutMilliseconds = timeoutMilliseconds
        self.attempts = attempts
        diagnosis = Diagnosis(host: host, attempts: attempts)
    }

    package struct Attempt: Sendable, Hashable, Codable {
        package let route: ProbeRoute
        /// Without credentials.
        package let url: String
        package let port: UInt16
        /// The URL of the proxy on the way, without credentials.
        package let proxy: String?
        package let isEncrypted: Bool
        package let outcome: Outcome
        /// Why it was skipped.
        package let skipReason: String?
        /// From its begin to CONNACK or to its failure.
        package let milliseconds: Double?
        /// The URLs to which the server sent the probe, in order; the stages are those of the last.
        package let redirects: [String]?
        /// Those that this route takes, in order.
        package let stages: [Stage]
        package let failure: Failure?

        private enum CodingKeys: String, CodingKey {
            case route, url, port, proxy
            case isEncrypted = "encrypted"
            case outcome, skipReason, milliseconds, redirects, stages, failure
        }

        package init(
            route: ProbeRoute, url: String, port: UInt16, proxy: String? = nil, isEncrypted: Bool,
            outcome: Outcome, skipReason: String? = nil, milliseconds: Double? = nil,
            redirects: [String]? = nil,
            stages: [Stage], failure: Failure? = nil
        ) {
            self.route = route
            self.url = url
            self.port = port
            self.proxy = proxy
            self.isEncrypted = isEncrypted
            self.outcome = outcome
            self.skipReason = skipReason
            self.milliseconds = milliseconds
            self.redirects = redirects
            self.stages = stages
            self.failure = failure
        }
    }

    package enum Outcome: String, Sendable, Hashable, Codable {
        /// CONNACK has accepted the connection.
        case ok
        case failed
        case skipped
        /// The probe was interrupted.
        case unfinished
    }

    package struct Stage: Sendable, Hashable, Codable {
        package let stage: ConnectionStage
        package let state: State
        package let milliseconds: Double?
        /// What was found out on the way: addresses, the TLS version, the subprotocol.
        package let detail: String?

        package init(
            _ stage: ConnectionStage, _ state: State, milliseconds: Double? = nil, detail: String? = nil
        ) {
            self.stage = stage
            self.state = state
            self.milliseconds = milliseconds
            self.detail = detail
        }

        package enum State: String, Sendable, Hashable, Codable {
            case passed
            case failed
            case notRun
            /// Under way when the probe was interrupted.
            case unfinished
        }
    }

    package struct Failure: Sendable, Hashable, Codable {
        /// `local` where it failed before any stage began.
        package let stage: ConnectionStage
        package let code: FailureCode
        /// The peer in question, such as `203.0.113.5:8883`.
        package let hop: String?
        /// What was seen, in words.
        package let evidence: String
        package let fault: MQTTError.Party
        package let advice: String
        /// Where a certificate was the reason.
        package let certificate: Certificate?

        package init(
            stage: ConnectionStage, code: FailureCode, hop: String? = nil, evidence: String,
            fault: MQTTError.Party, advice: String, certificate: Certificate? = nil
        ) {
            self.stage = stage
            self.code = code
            self.hop = hop
            self.evidence = evidence
            self.fault = fault
            self.advice = advice
            self.certificate = certificate
        }

        package init(_ error: MQTTError) {
            self.init(
                stage: error.stage, code: error.code, hop: error.hop, evidence: error.evidence.description,
                fault: error.fault, advice: error.advice, certificate: Certificate(error.evidence))
        }
    }

    /// The certificate of the chain at which verification stopped.
    package struct Certificate: Sendable, Hashable, Codable {
        /// 0 is the server's own; higher numbers are its issuers.
        package let depth: Int
        package let subject: String
        package let issuer: String

        package init(depth: Int, subject: String, issuer: String) {
            self.depth = depth
            self.subject = subject
            self.issuer = issuer
        }

        init?(_ evidence: TransportError.Evidence) {
            guard case .certificate(let problem) = evidence else { return nil }
            self.init(depth: problem.depth, subject: problem.subject, issuer: problem.issuer)
        }
    }
}
