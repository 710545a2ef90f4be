internal import WebSocketCore

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
    }

    private enum Answer: Sendable {
        case none
        /// RFC 7617.
        case basic
        /// RFC 7616, and how often the nonce has been used.
        case digest(DigestChallenge, uses: UInt32)
    }

    private let credentials: ProxyCredentials?
    private let target: String
    private let clientNonce: String
    private var answer = Answer.none
    /// A nonce that was too old has been replaced: once is enough.
    private var hasRenewed = false

    init(_ credentials: ProxyCredentials?, target: String, clientNonce: [UInt8]) {
        self.credentials = credentials
        self.target = target
        self.clientNonce = Base64.encode(clientNonce)
    }

    /// Whether the proxy has been given the credentials.
    var isGiven: Bool {
        if case .none = answer { return false }
        return true
    }

    /// Proxy-Authorization of the next request.
    mutating func authorization() -> String? {
        guard let credentials else { return nil }
        switch answer {
        case .none: return nil
        case .basic:
            return "Basic "
                + Base64.encode(Array(credentials.userName.utf8) + [UInt8(ascii: ":")] + credentials.password)
        case .digest(let challenge, let uses):
            answer = .digest(challenge, uses: uses + 1)
            return challenge.authorization(
                userName: credentials.userName, password: credentials.password, method: "CONNECT",
                uri: target, clientNonce: clientNonce, count: uses + 1)
        }
    }

    /// Takes the challenges of a 407.
    mutating func challenged(_ challenges: [HTTPChallenge]) throws(Refusal) {
        let digest = challenges.compactMap { DigestChallenge($0) }.max { $0.isWeaker(than: $1) }
        let offersBasic = challenges.contains { $0.isScheme("Basic") }
        switch answer {
        case .none:
            guard digest != nil || offersBasic else { throw .schemes(challenges.map(\.scheme)) }
            guard credentials != nil else { throw .required }
            answer = digest.map { .digest($0, uses: 0) } ?? .basic
        case .basic:
            throw .failed
        case .digest:
            guard let digest, digest.isStale, !hasRenewed else { throw .failed }
            hasRenewed = true
            answer = .digest(digest, uses: 0)
        }
    }
}
