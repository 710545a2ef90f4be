/// A proxy on the way to the broker: every transport passes it as a tunnel, whose inside it needn't understand.
///
/// ```swift
/// profile.proxy = try Proxy(url: "http://alice:secret@proxy.example:8080")
/// ```
public struct Proxy: Sendable, Hashable {
    public var kind: Kind
    /// A host name, an IPv4 address, or an IPv6 address without brackets.
    public var host: String
    /// 1 to 65535.
    public var port: UInt16
    /// Sent only when the proxy asks for a login.
    public var userName: String?
    /// Never part of `description`.
    public var password: [UInt8]?

    /// What the proxy speaks.
    public enum Kind: Sendable, Hashable {
        /// HTTP CONNECT (RFC 9110, section 9.3.6). The proxy resolves the broker's name.
        case http
        /// HTTP CONNECT inside TLS to the proxy, which is verified by these options and not by the broker's.
        case https(TLSOptions)
        /// SOCKS 5 (RFC 1928).
        case socks5(NameResolution)
    }

    /// Who looks the broker's name up for SOCKS.
    public enum NameResolution: Sendable, Hashable {
        /// This machine, and the proxy sees an address: `socks5://`.
        case local
        /// The proxy, also where names resolve only there: `socks5h://`.
        case proxy
    }

    /// A proxy from its parts.
    ///
    /// - Parameters:
    ///   - kind: what it speaks.
    ///   - host: a host name, an IPv4 or an IPv6 address.
    ///   - port: by default what is customary: 8080 for `http`, 443 for `https`, 1080 for SOCKS.
    ///   - userName: of HTTP without a colon or control characters (RFC 7617, section 2); of SOCKS 1 to 255 bytes,
    ///     as the password (RFC 1929, section 2).
    ///   - password: none or empty where the proxy wants only a name; SOCKS needs one.
    /// - Throws: `ProfileError` for what can't be used.
    public init(
        _ kind: Kind, host: String, port: Int? = nil, userName: String? = nil, password: [UInt8]? = nil
    ) throws(ProfileError) {
        self.kind = kind
        self.host = try ProfileValidation.host(host)
        self.port = try ProfileValidation.port(port ?? kind.defaultPort)
        self.userName = userName
        self.password = password
        try ProfileValidation.proxy(self)
    }

    /// A proxy from a URL: `http://`, `https://`, `socks5://` (names are resolved here) or `socks5h://` (by the
    /// proxy), with user name and password before the host, percent-encoded.
    ///
    /// Without a port it is 8080 for `http`, 443 for `https`, 1080 for SOCKS.
    ///
    /// - Parameter url: without path and query.
    /// - Throws: `ProfileError`.
    public init(url: String) throws(ProfileError) {
        try self.init(url: url, portOfHTTP: Kind.http.defaultPort)
    }

    /// - Parameter portOfHTTP: of an `http` proxy whose URL has none.
    init(url: String, portOfHTTP: Int) throws(ProfileError) {
        let parts = try URLParts(url, example: "http:// or socks5h://")
        let kind: Kind =
            switch parts.scheme {
            case "http": .http
            case "https": .https(TLSOptions())
            case "socks5": .socks5(.local)
            case "socks5h": .socks5(.proxy)
            default:
                throw ProfileError(
                    "the proxy's scheme \"\(parts.scheme)\" is unknown: use http, https, socks5 or socks5h")
            }
        guard parts.path.isEmpty || parts.path == "/" else {
            throw ProfileError("a proxy's URL has no path (percent-encode a / in user name or password)")
        }
        try self.init(
            kind, host: parts.host, port: parts.port ?? (kind == .http ? portOfHTTP : kind.defaultPort),
            userName: parts.userName, password: parts.password)
    }
}

extension Proxy: CustomStringConvertible, CustomReflectable {
    /// The URL, without user name and password.
    public var description: String { "\(kind.scheme)://\(authority(host, port))" }

    public var customMirror: Mirror {
        Mirror(self, children: ["kind": kind, "host": host, "port": port])
    }
}

extension Proxy {
    var credentials: ProxyCredentials? {
        userName.map { ProxyCredentials(userName: $0, password: password ?? []) }
    }

    /// Options of the TLS to the proxy itself.
    package var tls: TLSOptions? {
        if case .https(let options) = kind { return options }
        return nil
    }

    /// Whether this machine has to look the broker's name up.
    var needsAddress: Bool { kind == .socks5(.local) }
}

/// A login for a proxy.
package struct ProxyCredentials: Sendable, Hashable {
    let userName: String
    let password: [UInt8]

    package init(userName: String, password: [UInt8]) {
        self.userName = userName
        self.password = password
    }

    /// Why an HTTP proxy can't be told them.
    var problemForHTTP: String? {
        if userName.contains(":") { return "the proxy's user name has a colon (RFC 7617, section 2)" }
        let hasControl = (Array(userName.utf8) + password).contains { $0 < 0x20 || $0 == 0x7F }
        return hasControl ? "the proxy's user name or password has a control character" : nil
    }

    /// Why a SOCKS proxy can't be told them.
    var problemForSOCKS: String? {
        if 1...255 ~= userName.utf8.count, 1...255 ~= password.count { return nil }
        return "a SOCKS login has a user name and a password, of 1 to 255 bytes each (RFC 1929)"
    }
}

extension Proxy.Kind {
    fileprivate var defaultPort: Int {
        switch self {
        case .http: 8080
        case .https: 443
        case .socks5: 1080
        }
    }

    fileprivate var scheme: String {
        switch self {
        case .http: "http"
        case .https: "https"
        case .socks5(.local): "socks5"
        case .socks5(.proxy): "socks5h"
        }
    }
}

extension ProfileValidation {
    static func proxy(_ proxy: Proxy) throws(ProfileError) {
        if let options = proxy.tls { try tls(options) }
        guard let userName = proxy.userName else {
            if proxy.password != nil { throw ProfileError("the proxy's password has no user name") }
            return
        }
        let credentials = ProxyCredentials(userName: userName, password: proxy.password ?? [])
        let problem =
            switch proxy.kind {
            case .http, .https: credentials.problemForHTTP
            case .socks5: credentials.problemForSOCKS
            }
        if let problem { throw ProfileError(problem) }
    }
}

/// `host:port` with an IPv6 address in brackets and without its zone, which means nothing elsewhere (RFC 3986,
/// section 3.2.2).
func authority(_ host: String, _ port: UInt16) -> String {
    "\(host.contains(":") ? "[\(host.prefix { $0 != "%" })]" : host):\(port)"
}
