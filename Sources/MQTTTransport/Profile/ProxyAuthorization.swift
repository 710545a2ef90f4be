/// Says how to log in at a proxy that asks for it.
///
/// It is asked at each 407 of an HTTP proxy, and by SOCKS 5 where the proxy wants a login and the profile has none; in
/// a task of its own, never on the client's loop. Answering has to fit into the profile's `deadlines.proxy`, with the
/// rest of the tunnel; when that is over the task is cancelled.
///
/// What it throws ends the attempt with `proxy.auth_required` and its text, so that mustn't hold secrets.
public typealias ProxyLoginHandler = @Sendable (ProxyChallenge) async throws -> ProxyAuthorization

/// What a proxy asks for.
public struct ProxyChallenge: Sendable, Hashable {
    public let proxy: Proxy
    /// What the proxy offers, in its order; for SOCKS `username/password` (RFC 1929) alone.
    public let schemes: [Scheme]
    /// 1 at the first question in this tunnel; it ends with `proxy.auth_failed` after 8.
    public let attempt: Int
    /// The schemes of what the proxy has been told in this tunnel and has answered with another 407, in order.
    public let tried: [String]

    /// One scheme of Proxy-Authenticate (RFC 9110, section 11.3).
    public struct Scheme: Sendable, Hashable {
        /// Such as `Basic`, as it came; in any case.
        public let name: String
        /// The data of schemes with several rounds, such as Negotiate, in Base64 (`token68`).
        public let token: String?
        private let parameters: [String: String]

        package init(name: String, token: String? = nil, parameters: [String: String] = [:]) {
            self.name = name
            self.token = token
            self.parameters = parameters
        }

        /// The value of that parameter, such as `realm`.
        ///
        /// - Parameter name: in any case.
        public subscript(name: String) -> String? { parameters[name.lowercased()] }
    }

    package init(proxy: Proxy, schemes: [Scheme], attempt: Int, tried: [String]) {
        self.proxy = proxy
        self.schemes = schemes
        self.attempt = attempt
        self.tried = tried
    }
}

/// The answer to a ``ProxyChallenge``.
///
/// An answer that the proxy has refused isn't sent again: giving it twice ends the attempt with `proxy.auth_failed`,
/// since it may lock an account.
public enum ProxyAuthorization: Sendable, Hashable {
    /// Used by the strongest scheme that the proxy offers and takes a password: Digest before Basic.
    case credentials(userName: String, password: [UInt8])
    /// The whole value of Proxy-Authorization, such as `Bearer …`: printable ASCII. HTTP proxies only.
    case header(String)
    /// What is done without a handler: Kerberos, if the proxy offers Negotiate, then the proxy's own user name and
    /// password.
    case builtIn
}

extension ProxyAuthorization: CustomStringConvertible, CustomReflectable {
    /// Which kind it is, without what it holds.
    public var description: String {
        switch self {
        case .credentials: "credentials"
        case .header: "header"
        case .builtIn: "builtIn"
        }
    }

    public var customMirror: Mirror { Mirror(self, children: []) }
}
