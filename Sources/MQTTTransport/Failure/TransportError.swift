internal import Glibc

/// A failure below MQTT, or one that ended a connection: where it happened, what exactly, and the evidence.
public struct TransportError: Error, Sendable, Hashable {
    public package(set) var stage: ConnectionStage
    public let code: FailureCode
    /// Whom this was said by or to, such as `203.0.113.5:8883`.
    public var hop: String?
    public let evidence: Evidence

    package init(stage: ConnectionStage, code: FailureCode, hop: String? = nil, evidence: Evidence) {
        self.stage = stage
        self.code = code
        self.hop = hop
        self.evidence = evidence
    }

    /// What was seen, as data. Never holds credentials.
    public indirect enum Evidence: Sendable, Hashable {
        case none
        /// The system's error number.
        case errno(Int32)
        /// The resolver's `EAI_` number.
        case resolver(Int32)
        /// Nothing came within this time.
        case deadline(Duration)
        /// Each address that was tried, with its own failure.
        case addresses([TransportError])
        /// A TLS alert sent by the peer (RFC 8446, section 6).
        case alert(UInt8)
        /// What is wrong with the peer's certificate.
        case certificate(CertificateProblem)
        /// OpenSSL's own words.
        case openSSL(String)
        /// The first bytes of an answer that wasn't of the expected protocol.
        case firstBytes([UInt8])
        /// An HTTP answer other than the one hoped for.
        case http(HTTPAnswer)
        /// A WebSocket Close frame, or the lack of one (`clean` false).
        case webSocketClose(code: UInt16, reason: String, clean: Bool)
        /// An MQTT Reason Code (or 3.1.1 return code), and the server's Reason String.
        case reasonCode(UInt8, name: String, reasonString: String?)
        /// Which rule was broken.
        case text(String)
    }

    /// An HTTP answer, with the headers that matter for a diagnosis.
    public struct HTTPAnswer: Sendable, Hashable {
        public var status: Int
        public var reason: String
        /// Without user name and password.
        public var location: String?
        /// Why a redirect wasn't followed, as a clause: "it leads to another host, …".
        public var notFollowed: String?
        /// WWW-Authenticate, or Proxy-Authenticate of a 407.
        public var challenge: String?
        /// Seconds or a date, as it came (RFC 9110, section 10.2.3).
        public var retryAfter: String?
        /// The protocols that the server would upgrade to, where it says so.
        public var upgrade: String?
        /// The versions of WebSocket that the server speaks, where it says so.
        public var webSocketVersion: String?
        public var server: String?
        /// The beginning of the body as one line of text, at most 300 bytes; of a page what it shows.
        public var excerpt: String
        /// The coding that hides the body's text, such as `gzip`.
        public var bodyCoding: String?

        package init(status: Int, reason: String) {
            self.status = status
            self.reason = reason
            excerpt = ""
        }
    }

    /// The certificate at which verification stopped.
    public struct CertificateProblem: Sendable, Hashable {
        /// 0 is the server's own certificate; higher numbers are its issuers.
        public var depth: Int
        public var subject: String
        public var issuer: String
        public var notBefore: String
        public var notAfter: String
        /// OpenSSL's number and words (`X509_V_ERR_…`).
        public var code: Int
        public var reason: String
        /// Whose name the issuer bears, where it is a product that opens TLS, such as `Zscaler`: a guess.
        public var inspector: String?
        /// Where none of the pinned keys was found: the chain's, the server's own first.
        public var pins: [PublicKeyPin] = []
    }
}

extension TransportError: CustomStringConvertible {
    /// `tls.untrusted at tls (203.0.113.5:8883): …`
    public var description: String {
        let place = hop.map { " (\($0))" } ?? ""
        let seen = evidence.description
        return "\(code.rawValue) at \(stage.rawValue)\(place)" + (seen.isEmpty ? "" : ": \(seen)")
    }
}

extension TransportError.Evidence: CustomStringConvertible {
    /// One line for a person; empty if there is nothing to say.
    public var description: String {
        switch self {
        case .none: return ""
        case .errno(let number): return String(cString: strerror(number))
        case .resolver(let number): return String(cString: gai_strerror(number))
        case .deadline(let duration): return "no answer within \(duration)"
        case .addresses(let errors): return errors.map(\.description).joined(separator: "; ")
        case .alert(let number): return "the peer sent TLS alert \(number) (\(TLSAlert.name(number)))"
        case .certificate(let problem):
            let pins = problem.pins.map(\.description).joined(separator: ", ")
            return "\(problem.reason) at depth \(problem.depth): subject \(problem.subject), "
                + "issuer \(problem.issuer), valid \(problem.notBefore) to \(problem.notAfter)"
                + (problem.inspector.map { "; the issuer's name is that of \($0)" } ?? "")
                + (pins.isEmpty ? "" : "; the keys shown are \(pins)")
        case .openSSL(let text), .text(let text): return text
        case .firstBytes(let bytes):
            return "the answer begins with \(Self.printable(bytes))" + Self.protocolHint(bytes)
        case .http(let answer):
            var text = "HTTP \(answer.status)" + (answer.reason.isEmpty ? "" : " \(answer.reason)")
            for (name, value) in [
                ("Location", answer.location), ("not followed", answer.notFollowed),
                ("challenge", answer.challenge), ("Retry-After", answer.retryAfter),
                ("Upgrade", answer.upgrade), ("Sec-WebSocket-Version", answer.webSocketVersion),
                ("Server", answer.server), ("body compressed", answer.bodyCoding),
            ] {
                if let value { text += ", \(name): \(value)" }
            }
            if !answer.excerpt.isEmpty { text += ", body begins \"\(answer.excerpt)\"" }
            return text
        case .webSocketClose(let code, let reason, let clean):
            return
                "WebSocket close \(code)\(reason.isEmpty ? "" : " \"\(Self.printable(reason))\"")"
                + (clean ? "" : ", not clean")
        case .reasonCode(let code, let name, let reasonString):
            let hex = String(code, radix: 16, uppercase: true)
            return "0x\(hex.count < 2 ? "0" : "")\(hex) \(name)"
                + (reasonString.map { ": \"\(Self.printable($0))\"" } ?? "")
        }
    }

    /// At most 300 characters on one line, without what drives a terminal or turns the text around: peers must
    /// not do that.
    package static func printable(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars.prefix(300) {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: result.unicodeScalars.append(" ")
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    private static func protocolHint(_ bytes: [UInt8]) -> String {
        if bytes.starts(with: "HTTP/".utf8) { return ", which is HTTP" }
        // An alert record (RFC 8446, section 5.1): what a TLS server says to a plaintext client.
        if bytes.starts(with: [0x15, 0x03]) { return ", which is TLS" }
        return ""
    }

    /// Printable ASCII as it is, the rest as hexadecimal escapes: peers must not write to a terminal.
    private static func printable(_ bytes: [UInt8]) -> String {
        var text = "\""
        for byte in bytes.prefix(48) {
            if (0x20..<0x7F).contains(byte), byte != 0x22, byte != 0x5C {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                let hex = String(byte, radix: 16)
                text += "\\x" + (hex.count < 2 ? "0" : "") + hex
            }
        }
        return text + "\""
    }
}

/// Names of TLS alerts (RFC 8446, section 6).
enum TLSAlert {
    static func name(_ number: UInt8) -> String {
        switch number {
        case 0: "close_notify"
        case 10: "unexpected_message"
        case 20: "bad_record_mac"
        case 22: "record_overflow"
        case 40: "handshake_failure"
        case 42: "bad_certificate"
        case 43: "unsupported_certificate"
        case 44: "certificate_revoked"
        case 45: "certificate_expired"
        case 46: "certificate_unknown"
        case 47: "illegal_parameter"
        case 48: "unknown_ca"
        case 49: "access_denied"
        case 50: "decode_error"
        case 51: "decrypt_error"
        case 70: "protocol_version"
        case 71: "insufficient_security"
        case 80: "internal_error"
        case 86: "inappropriate_fallback"
        case 90: "user_canceled"
        case 109: "missing_extension"
        case 110: "unsupported_extension"
        case 112: "unrecognized_name"
        case 113: "bad_certificate_status_response"
        case 115: "unknown_psk_identity"
        case 116: "certificate_required"
        case 120: "no_application_protocol"
        default: "unnamed"
        }
    }
}
