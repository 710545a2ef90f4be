/// The one error of this library: which stage failed, with which stable code, on which evidence, whose fault it
/// is, and what to do next.
///
/// ```swift
/// do {
///     try await client.connect()
/// } catch let error as MQTTError where error.code == .tlsUntrusted {
///     print(error.advice)
/// }
/// ```
public struct MQTTError: Error, Sendable, Hashable {
    /// Where it happened.
    public let stage: ConnectionStage
    /// What happened; its raw value, such as `tls.untrusted`, is stable.
    public let code: FailureCode
    /// The peer in question, such as `203.0.113.5:8883`; nil where no peer is at fault.
    public let hop: String?
    /// What was seen. Never holds credentials.
    public let evidence: TransportError.Evidence
    /// What the server's acknowledgement said besides its Reason Code: Reason String, User Properties (5.0).
    public let properties: Properties
    /// What became of each way to the broker, where an attempt to connect failed: several for `automatic`.
    public private(set) var routes: [RouteAttempt] = []

    package init(_ error: TransportError) { self.init(error, Properties()) }

    /// A failing PUBACK, PUBREC, PUBCOMP, SUBACK or UNSUBACK.
    init(refused code: ReasonCode, _ properties: Properties) {
        self.init(TransportError(refused: code, properties: properties), properties)
    }

    private init(_ error: TransportError, _ properties: Properties) {
        self.properties = properties
        stage = error.stage
        code = error.code
        hop = error.hop
        evidence = error.evidence
    }

    package init(_ code: FailureCode, stage: ConnectionStage = .local, _ text: String) {
        self.init(TransportError(stage: stage, code: code, evidence: .text(text)))
    }

    /// An attempt that failed on all its ways, for this reason in the first place.
    init(_ error: TransportError, routes: [RouteAttempt]) {
        self.init(error)
        self.routes = routes
    }

    /// Who can mend it.
    public var fault: Party { FailureAdvice(self).fault }

    /// One or two sentences: what to do next.
    public var advice: String { FailureAdvice(self).text }

    /// The server's Reason Code (or 3.1.1 return code), where there is one.
    public var reasonCode: ReasonCode? {
        if case .reasonCode(let code, _, _) = evidence { return ReasonCode(rawValue: code) }
        return nil
    }

    /// Whose fault a failure is, as far as can be told.
    public enum Party: String, Sendable, Hashable, Codable {
        /// A call or a setting of the program that uses this library.
        case program
        /// This machine: its clock, its resolver, its trust store, its limits.
        case machine
        /// Something between here and the server.
        case network
        case proxy
        case server
        /// The evidence fits more than one.
        case networkOrServer
    }
}

extension MQTTError: CustomStringConvertible {
    /// `tls.untrusted at tls (203.0.113.5:8883): self-signed certificate … . The certificate's issuer isn't …`
    public var description: String {
        let error = TransportError(stage: stage, code: code, hop: hop, evidence: evidence)
        let seen = error.description
        let sentence = "\(seen)\(seen.hasSuffix(".") ? "" : ".") \(advice)"
        guard routes.count > 1 else { return sentence }
        return sentence + " All ways: " + routes.map(\.description).joined(separator: "; ")
    }
}
