/// Which redirects of the WebSocket opening handshake are followed (RFC 6455, section 4.1).
///
/// ```swift
/// var profile = try ConnectionProfile(url: "wss://broker.example.com/mqtt")
/// profile.webSocket?.redirects = .hosts(["eu.example.com"])                 // no credentials for it
/// profile.webSocket?.redirects = .hosts([.init("eu.example.com", credentials: .sentThereToo)])
/// profile.webSocket?.redirects = .none
/// ```
///
/// Whatever the policy: 301, 302, 303, 307 and 308 count, five of them at most, never from `wss` to `ws`, never to
/// a place that has been visited, never with a user name in Location. What isn't followed fails with
/// `ws.redirected`, and the error says which rule was in the way. Each attempt starts from the profile again.
public enum RedirectPolicy: Sendable, Hashable {
    /// No redirect is followed.
    case none
    /// Redirects to the profile's own host, at any port and path.
    case sameHost
    /// Those, and redirects to these hosts.
    case hosts([Host])

    /// A host besides the profile's own.
    public struct Host: Sendable, Hashable, ExpressibleByStringLiteral {
        /// Compared without regard to case and to a dot at its end; without port.
        public var name: String
        public var credentials: Credentials

        public init(_ name: String, credentials: Credentials = .withheld) {
            self.name = name
            self.credentials = credentials
        }

        public init(stringLiteral name: String) { self.init(name) }
    }

    /// What a host learns: `WebSocketOptions.headers`, the client certificate, and of CONNECT user name, password
    /// and authentication.
    public enum Credentials: Sendable, Hashable {
        /// None of it is sent there.
        case withheld
        /// The host gets all that the profile's own host gets.
        case sentThereToo
    }
}
