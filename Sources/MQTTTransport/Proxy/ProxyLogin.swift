internal import WebSocketCore

/// What the login at a proxy has to be told before it can go on.
package enum ProxyQuestion: Sendable, Hashable {
    /// For the program's handler.
    case program(schemes: [ProxyChallenge.Scheme], attempt: Int, tried: [String])
    /// For Kerberos: the next token of Negotiate (RFC 4559), and the proxy's last one, nil at first.
    case negotiate([UInt8]?)
}

/// The answer to a `ProxyQuestion`.
package enum ProxyAnswer: Sendable, Hashable {
    case program(ProxyAuthorization)
    case token([UInt8])
    /// There is none, and why.
    case failed(String)
}

/// The login at an HTTP proxy (RFC 9110, section 11.7): nothing is sent before the proxy asks, and then one answer
/// by the strongest scheme that it offers and we speak.
struct ProxyLogin: Sendable {
    enum Refusal: Error, Sendable, Hashable {
        /// There are no credentials.
        case required
        /// The proxy has these schemes, and none that is spoken here.
        case schemes([String])
        /// The proxy has seen the credentials and says no. They aren't tried again: that may lock an account.
        case failed
        /// Nothing can be said to the proxy, and this is why.
        case reason(String)
    }

    private enum Answer: Sendable {
        case none
        /// RFC 7617.
        case basic(ProxyCredentials)
        /// RFC 7616, and how often the nonce has been used.
        case digest(DigestChallenge, ProxyCredentials, uses: UInt32)
        /// RFC 4559.
        case negotiate([UInt8])
        /// The program's own.
        case header(String)

        var scheme: String? {
            switch self {
            case .none: nil
            case .basic: "Basic"
            case .digest: "Digest"
            case .negotiate: "Negotiate"
            case .header(let value): String(value.prefix { $0 != " " })
            }
        }
    }

    private enum Kerberos: Sendable {
        case untried
        case underWay
        /// By the proxy.
        case refused
        /// Here, and why.
        case failed(String)
    }

    /// What has several rounds, such as Negotiate, needs two or three.
    private static let maximumRounds = 8

    private let target: String
    private let clientNonce: String
    private let asksProgram: Bool
    /// The proxy's in the profile, until they have been refused.
    private var credentials: ProxyCredentials?
    private var answer = Answer.none
    private var offered: [HTTPChallenge] = []
    private var kerberos = Kerberos.untried
    /// A nonce that was too old has been replaced: once is enough.
    private var hasRenewed = false
    private var rounds = 0
    private var questions = 0
    private var tried: [String] = []
    private var refusedCredentials: [ProxyCredentials] = []
    private var refusedHeaders: [String] = []

    init(_ credentials: ProxyCredentials?, target: String, clientNonce: [UInt8], asksProgram: Bool) {
        self.credentials = credentials
        self.target = target
        self.clientNonce = Base64.encode(clientNonce)
        self.asksProgram = asksProgram
    }

    /// Whether the proxy has been given a login.
    var isGiven: Bool {
        if case .none = answer { return false }
        return true
    }

    /// Proxy-Authorization of the next request.
    mutating func authorization() -> String? {
        switch answer {
        case .none: return nil
        case .basic(let credentials):
            return "Basic "
                + Base64.encode(Array(credentials.userName.utf8) + [UInt8(ascii: ":")] + credentials.password)
        case .digest(let challenge, let credentials, let uses):
            answer = .digest(challenge, credentials, uses: uses + 1)
            return challenge.authorization(
                userName: credentials.userName, password: credentials.password, method: "CONNECT",
                uri: target, clientNonce: clientNonce, count: uses + 1)
        case .negotiate(let token): return "Negotiate \(Base64.encode(token))"
        case .header(let value): return value
        }
    }

    /// Takes the challenges of a 407.
    ///
    /// - Returns: what has to be known before the next request; nil where it can be written.
    mutating func challenged(_ challenges: [HTTPChallenge]) throws(Refusal) -> ProxyQuestion? {
        offered = challenges
        rounds += 1
        guard rounds <= Self.maximumRounds else { throw .failed }
        if let scheme = answer.scheme { tried.append(scheme) }
        switch answer {
        case .none: break
        case .basic(let used): refused(used)
        case .digest(_, let used, _):
            if let digest = strongestDigest, digest.isStale, !hasRenewed {
                hasRenewed = true
                answer = .digest(digest, used, uses: 0)
                return nil
            }
            refused(used)
        case .negotiate:
            if let text = challenges.first(where: { $0.isScheme("Negotiate") })?.token,
                let token = Base64.decode(text)
            {
                return .negotiate(token)
            }
            kerberos = .refused
        case .header(let value): refusedHeaders.append(value)
        }
        guard asksProgram else { return try builtIn() }
        questions += 1
        return .program(schemes: challenges.map(\.asScheme), attempt: questions, tried: tried)
    }

    /// - Returns: as `challenged`.
    mutating func answered(_ answer: ProxyAnswer) throws(Refusal) -> ProxyQuestion? {
        switch answer {
        case .program(.builtIn): return try builtIn()
        case .program(.credentials(let userName, let password)):
            let credentials = ProxyCredentials(userName: userName, password: password)
            if let problem = credentials.problemForHTTP { throw .reason(problem) }
            guard !refusedCredentials.contains(credentials) else { throw .failed }
            guard try use(credentials) else {
                throw .reason("the proxy offers \(offeredNames), and a password needs Digest or Basic")
            }
        case .program(.header(let value)):
            guard !value.isEmpty, value.utf8.allSatisfy({ 0x20...0x7E ~= $0 }) else {
                throw .reason("the login handler's header isn't printable ASCII")
            }
            guard !refusedHeaders.contains(value) else { throw .failed }
            self.answer = .header(value)
        case .token(let token): self.answer = .negotiate(token)
        case .failed(let reason):
            guard case .underWay = kerberos else { throw .reason(reason) }
            kerberos = .failed(reason)
            return try builtIn()
        }
        return nil
    }

    /// What is done where the program has no word in it: the strongest first.
    private mutating func builtIn() throws(Refusal) -> ProxyQuestion? {
        if case .untried = kerberos, offered.contains(where: { $0.isScheme("Negotiate") }) {
            kerberos = .underWay
            return .negotiate(nil)
        }
        if let credentials, try use(credentials) { return nil }
        if isGiven { throw .failed }
        if case .failed(let reason) = kerberos {
            throw .reason("the proxy wants a login by \(offeredNames); Negotiate: \(reason)")
        }
        let isSpoken = offered.contains { $0.isScheme("Basic") || DigestChallenge($0) != nil }
        throw isSpoken ? .required : .schemes(offered.map(\.scheme))
    }

    /// - Returns: whether the proxy offers a scheme that takes them.
    private mutating func use(_ credentials: ProxyCredentials) throws(Refusal) -> Bool {
        if let digest = strongestDigest {
            answer = .digest(digest, credentials, uses: 0)
        } else if offered.contains(where: { $0.isScheme("Basic") }) {
            answer = .basic(credentials)
        } else if let digest = offered.lazy.compactMap({ DigestChallenge($0) }).first {
            throw .reason(
                "the proxy wants Digest with \(digest.algorithmText), which this machine's OpenSSL doesn't have "
                    + "or doesn't allow, as MD5 under FIPS")
        } else {
            return false
        }
        return true
    }

    private var offeredNames: String { offered.map(\.scheme).joined(separator: " or ") }

    private var strongestDigest: DigestChallenge? {
        offered.compactMap { DigestChallenge($0) }.filter(\.isAvailable).max { $0.isWeaker(than: $1) }
    }

    private mutating func refused(_ used: ProxyCredentials) {
        refusedCredentials.append(used)
        if used == credentials { credentials = nil }
    }
}

extension HTTPChallenge {
    fileprivate var asScheme: ProxyChallenge.Scheme {
        ProxyChallenge.Scheme(name: scheme, token: token, parameters: parametersByName)
    }
}
