internal import WebSocketCore

/// What bytes from a proxy have led to.
package enum ProxyProgress: Sendable, Hashable {
    case needsMore
    /// The rest of the input belongs to the tunnel.
    case open
    /// The proxy wants the next request on a new connection.
    case reconnect
    /// The login goes on when this has been answered.
    case asks(ProxyQuestion)
}

/// A tunnel by HTTP CONNECT (RFC 9110, section 9.3.6; RFC 9112, section 3.2.3): request, login where the proxy
/// asks for one, reply.
package struct HTTPConnect: Sendable {
    private enum State {
        case head(HTTPHeadParser, hasBytes: Bool)
        /// A 407 has come, whose body ends before the next request.
        case body(HTTPBodyReader, then: ProxyQuestion?)
        case asking(isConnected: Bool)
        case done
    }

    /// RFC 9112, section 3.2.3.
    private let target: String
    private let port: UInt16
    private var login: ProxyLogin
    private var state = State.head(HTTPHeadParser(.response), hasBytes: false)
    /// Whether this connection has carried a request before, so that its end may have crossed ours.
    private var isReused = false
    /// The last 407.
    private var challenge = TransportError.Evidence.none

    /// - Parameters:
    ///   - clientNonce: 16 unpredictable bytes, for Digest.
    ///   - asksProgram: whether the program has a say in the login.
    package init(
        host: String, port: UInt16, credentials: ProxyCredentials?, clientNonce: [UInt8],
        asksProgram: Bool = false
    ) {
        target = authority(host, port)
        self.port = port
        login = ProxyLogin(credentials, target: target, clientNonce: clientNonce, asksProgram: asksProgram)
    }

    /// The request; on a new connection once more.
    package mutating func start(into output: inout [UInt8]) {
        isReused = false
        request(into: &output)
    }

    /// Answers what was asked.
    ///
    /// - Throws: `TransportError` at stage `proxy`.
    package mutating func answer(
        _ answer: ProxyAnswer, output: inout [UInt8]
    ) throws(TransportError) -> ProxyProgress {
        guard case .asking(let isConnected) = state else { return .needsMore }
        do throws(ProxyLogin.Refusal) {
            if let question = try login.answered(answer) { return .asks(question) }
        } catch {
            throw refusal(error)
        }
        guard isConnected else { return .reconnect }
        isReused = true
        request(into: &output)
        return .needsMore
    }

    private mutating func request(into output: inout [UInt8]) {
        var text = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n"
        if let authorization = login.authorization() { text += "Proxy-Authorization: \(authorization)\r\n" }
        output.append(contentsOf: (text + "\r\n").utf8)
        state = .head(HTTPHeadParser(.response), hasBytes: false)
    }

    /// - Throws: `TransportError` at stage `proxy`.
    package mutating func receive(
        _ input: inout UnsafeRawBufferPointer, output: inout [UInt8]
    ) throws(TransportError) -> ProxyProgress {
        while !input.isEmpty {
            switch state {
            case .head(var parser, _):
                state = .done
                let head: HTTPHead?
                do throws(HTTPHeadError) {
                    head = try parser.receive(&input)
                } catch {
                    throw Self.error(error)
                }
                guard let head else {
                    state = .head(parser, hasBytes: true)
                    return .needsMore
                }
                let progress = try replied(head, rest: input, output: &output)
                if progress != .needsMore { return progress }
            case .body(var reader, let question):
                guard reader.receive(&input) else { return goOn(question) }
                state = .body(reader, then: question)
            case .asking, .done:
                return .needsMore
            }
            if case .body(let reader, let question) = state, reader.isComplete {
                if let question {
                    state = .asking(isConnected: true)
                    return .asks(question)
                }
                isReused = true
                request(into: &output)
            }
        }
        return .needsMore
    }

    /// The connection has ended.
    ///
    /// - Returns: how to go on; nil where that was the proxy's last word.
    package mutating func connectionEnded() -> ProxyProgress? {
        switch state {
        case .head(_, let hasBytes): return isReused && !hasBytes ? .reconnect : nil
        case .body(_, let question): return goOn(question)
        case .asking:
            state = .asking(isConnected: false)
            return .needsMore
        case .done: return nil
        }
    }

    /// Without this connection.
    private mutating func goOn(_ question: ProxyQuestion?) -> ProxyProgress {
        guard let question else { return .reconnect }
        state = .asking(isConnected: false)
        return .asks(question)
    }

    private mutating func replied(
        _ head: HTTPHead, rest: UnsafeRawBufferPointer, output: inout [UInt8]
    ) throws(TransportError) -> ProxyProgress {
        guard case .status(let version, let status, let reason) = head.startLine else { return .needsMore }
        switch status {
        case 100...199:
            // Interim: the reply is still to come (RFC 9110, section 15.2).
            state = .head(HTTPHeadParser(.response), hasBytes: true)
            return .needsMore
        case 200...299:
            // Content-Length and Transfer-Encoding mean nothing here (RFC 9110, section 9.3.6).
            return .open
        case 407:
            challenge = Self.evidence(head, status, reason, rest)
            let question: ProxyQuestion?
            do throws(ProxyLogin.Refusal) {
                question = try login.challenged(HTTPChallenge.all(in: head, "Proxy-Authenticate"))
            } catch {
                throw refusal(error)
            }
            guard Self.isPersistent(head, version), let reader = HTTPBodyReader(of: head) else {
                return goOn(question)
            }
            state = .body(reader, then: question)
            return .needsMore
        default:
            throw TransportError(
                stage: .proxy, code: code(forStatus: status),
                evidence: Self.evidence(head, status, reason, rest))
        }
    }

    private func code(forStatus status: Int) -> FailureCode {
        switch status {
        // What tinyproxy says to wrong credentials.
        case 401: login.isGiven ? .proxyAuthFailed : .proxyAuthRequired
        // A proxy's first rule is on ports, and 443 the one that it lets through: only a refusal there tells of
        // the host.
        case 403, 405, 451: port == 443 ? .proxyDeniedHost : .proxyDeniedPort
        case 511: .httpCaptivePortal
        case 500...599: .proxyGatewayError
        // What a web server says to CONNECT, or a login page's redirect.
        default: .proxyReplyMalformed
        }
    }

    /// RFC 9112, section 9.3; Proxy-Connection is what older proxies say.
    private static func isPersistent(_ head: HTTPHead, _ version: HTTPHead.Version) -> Bool {
        let options = (head.list("Connection") + head.list("Proxy-Connection")).map { $0.lowercased() }
        return !options.contains("close") && (version > .http10 || options.contains("keep-alive"))
    }

    private static func evidence(
        _ head: HTTPHead, _ status: Int, _ reason: String, _ rest: UnsafeRawBufferPointer
    ) -> TransportError.Evidence {
        .http(
            TransportError.answer(
                HandshakeError.Refusal(status: status, reason: reason, head: head, body: rest)))
    }

    private func refusal(_ refusal: ProxyLogin.Refusal) -> TransportError {
        switch refusal {
        case .required: TransportError(stage: .proxy, code: .proxyAuthRequired, evidence: challenge)
        case .failed: TransportError(stage: .proxy, code: .proxyAuthFailed, evidence: challenge)
        case .schemes(let names): Self.unspoken(names)
        case .reason(let reason):
            TransportError(
                stage: .proxy, code: .proxyAuthRequired,
                evidence: .text(TransportError.Evidence.printable(reason)))
        }
    }

    private static func unspoken(_ schemes: [String]) -> TransportError {
        let names = TransportError.Evidence.printable(schemes.joined(separator: " or "))
        return TransportError(
            stage: .proxy, code: .proxyAuthRequired,
            evidence: .text(
                "the proxy wants a login by \(names.isEmpty ? "a scheme that it doesn't name" : names), and only "
                    + "Negotiate, Digest (MD5, SHA-256, SHA-512-256; qop auth) and Basic are spoken here"))
    }

    private static func error(_ error: HTTPHeadError) -> TransportError {
        let (code, evidence): (FailureCode, TransportError.Evidence) =
            switch error {
            case .notHTTP(let bytes): (.proxyNotHTTP, .firstBytes(bytes))
            case .malformed(let what): (.proxyReplyMalformed, .text(TransportError.Evidence.printable(what)))
            case .tooLarge(let limit):
                (.proxyReplyMalformed, .text("no end of the head within \(limit) bytes"))
            }
        return TransportError(stage: .proxy, code: code, evidence: evidence)
    }
}
