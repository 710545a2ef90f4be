/// A tunnel by SOCKS 5: choice of a method (RFC 1928, section 3), login (RFC 1929), CONNECT (section 4), reply
/// (section 6).
package struct SOCKS5: Sendable {
    /// Whom the proxy connects to.
    package enum Target: Sendable, Hashable {
        case address(SocketAddress)
        /// 1 to 255 bytes, which the proxy resolves.
        case name(String, port: UInt16)
    }

    private enum State {
        case method
        /// The program, for user name and password.
        case asking
        case login
        case reply
        case done
    }

    private static let version: UInt8 = 5
    private static let noLogin: UInt8 = 0
    private static let userNameAndPassword: UInt8 = 2

    private let target: Target
    /// Of the profile, or the program's answer.
    private(set) var credentials: ProxyCredentials?
    private let asksProgram: Bool
    private var state = State.method
    /// Of the message that is coming.
    private var received: [UInt8] = []

    /// - Parameter asksProgram: whether the program is asked for credentials where there are none.
    package init(to target: Target, credentials: ProxyCredentials?, asksProgram: Bool = false) {
        self.target = target
        self.credentials = credentials
        self.asksProgram = asksProgram
    }

    private var offersLogin: Bool { credentials != nil || asksProgram }

    package mutating func start(into output: inout [UInt8]) {
        let methods = offersLogin ? [Self.noLogin, Self.userNameAndPassword] : [Self.noLogin]
        output += [Self.version, UInt8(methods.count)] + methods
    }

    /// - Throws: `TransportError` at stage `proxy`.
    package mutating func receive(
        _ input: inout UnsafeRawBufferPointer, output: inout [UInt8]
    ) throws(TransportError) -> ProxyProgress {
        while true {
            switch state {
            case .method:
                guard let message = take(2, from: &input) else { return .needsMore }
                guard message[0] == Self.version else {
                    throw Self.malformed(message + Array(input.prefix(62)))
                }
                try chosen(message[1], output: &output)
                if case .asking = state {
                    let scheme = ProxyChallenge.Scheme(name: "username/password")
                    return .asks(.program(schemes: [scheme], attempt: 1, tried: []))
                }
            case .asking: return .needsMore
            case .login:
                guard let message = take(2, from: &input) else { return .needsMore }
                // The version is that of the login, 1; some servers say that of SOCKS.
                guard message[0] == 1 || message[0] == Self.version else { throw Self.malformed(message) }
                guard message[1] == 0 else {
                    throw TransportError(
                        stage: .proxy, code: .proxyAuthFailed,
                        evidence: .text("the login was answered with status \(message[1])"))
                }
                request(into: &output)
            case .reply:
                guard try takeReply(from: &input) else { return .needsMore }
                state = .done
                return .open
            case .done:
                return .open
            }
        }
    }

    private mutating func chosen(_ method: UInt8, output: inout [UInt8]) throws(TransportError) {
        switch (method, credentials) {
        case (Self.noLogin, _):
            request(into: &output)
        case (Self.userNameAndPassword, let credentials?):
            login(credentials, into: &output)
        case (Self.userNameAndPassword, nil) where asksProgram:
            state = .asking
        default:
            let offered = offersLogin ? "no login, or user name and password" : "no login"
            let answer = method == 0xFF ? "none of them" : "\(method)"
            throw TransportError(
                stage: .proxy, code: .proxySOCKSMethod,
                evidence: .text("offered were \(offered); the proxy takes \(answer)"))
        }
    }

    /// Answers what was asked.
    ///
    /// - Throws: `TransportError` at stage `proxy`.
    package mutating func answer(
        _ answer: ProxyAnswer, output: inout [UInt8]
    ) throws(TransportError) -> ProxyProgress {
        guard case .asking = state else { return .needsMore }
        let reason: String
        switch answer {
        case .program(.credentials(let userName, let password)):
            let credentials = ProxyCredentials(userName: userName, password: password)
            guard let problem = credentials.problemForSOCKS else {
                self.credentials = credentials
                login(credentials, into: &output)
                return .needsMore
            }
            reason = problem
        case .program(.header): reason = "the login handler gave a header, which SOCKS doesn't have"
        case .program(.builtIn): reason = "the proxy wants user name and password, and there are none"
        case .failed(let text): reason = text
        case .token: reason = "SOCKS has no tokens here"
        }
        throw TransportError(
            stage: .proxy, code: .proxyAuthRequired,
            evidence: .text(TransportError.Evidence.printable(reason)))
    }

    private mutating func login(_ credentials: ProxyCredentials, into output: inout [UInt8]) {
        let name = Array(credentials.userName.utf8.prefix(255))
        let password = Array(credentials.password.prefix(255))
        output += [1, UInt8(name.count)] + name + [UInt8(password.count)] + password
        state = .login
    }

    private mutating func request(into output: inout [UInt8]) {
        state = .reply
        output += [Self.version, 1, 0]
        let port: UInt16
        switch target {
        case .address(let address):
            output += [address.family == .ipv4 ? 1 : 4] + address.bytes
            port = address.port
        case .name(let name, let itsPort):
            let bytes = Array(name.utf8.prefix(255))
            output += [3, UInt8(bytes.count)] + bytes
            port = itsPort
        }
        output += [UInt8(port >> 8), UInt8(port & 0xFF)]
    }

    /// - Returns: whether the reply is complete; what follows it stays in `input`.
    private mutating func takeReply(
        from input: inout UnsafeRawBufferPointer
    ) throws(TransportError) -> Bool {
        while true {
            let known = received.count
            if known >= 1, received[0] != Self.version { throw Self.malformed(received) }
            if known >= 2, received[1] != 0 {
                // A refusal may be cut short.
                throw TransportError(
                    stage: .proxy, code: .proxySOCKSReply,
                    evidence: .text("reply \(received[1]): \(Self.name(ofReply: received[1]))"))
            }
            let needed: Int
            switch known < 4 ? 0 : received[3] {
            case 0 where known < 4: needed = 2 + known / 2 * 2
            case 1: needed = 4 + 4 + 2
            case 4: needed = 4 + 16 + 2
            case 3: needed = known < 5 ? 5 : 5 + Int(received[4]) + 2
            default: throw Self.malformed(received)
            }
            if known == needed {
                received = []
                return true
            }
            guard fill(to: needed, from: &input) else { return false }
        }
    }

    private mutating func take(_ count: Int, from input: inout UnsafeRawBufferPointer) -> [UInt8]? {
        guard fill(to: count, from: &input) else { return nil }
        defer { received = [] }
        return received
    }

    private mutating func fill(to count: Int, from input: inout UnsafeRawBufferPointer) -> Bool {
        let taken = input.prefix(max(0, count - received.count))
        received.append(contentsOf: taken)
        input = UnsafeRawBufferPointer(rebasing: input.dropFirst(taken.count))
        return received.count >= count
    }

    private static func malformed(_ bytes: [UInt8]) -> TransportError {
        TransportError(stage: .proxy, code: .proxyReplyMalformed, evidence: .firstBytes(bytes))
    }

    /// RFC 1928, section 6.
    private static func name(ofReply number: UInt8) -> String {
        switch number {
        case 1: "general SOCKS server failure"
        case 2: "connection not allowed by ruleset"
        case 3: "network unreachable"
        case 4: "host unreachable"
        case 5: "connection refused"
        case 6: "TTL expired"
        case 7: "command not supported"
        case 8: "address type not supported"
        default: "unassigned"
        }
    }
}
