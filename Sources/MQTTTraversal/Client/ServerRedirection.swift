public import MQTTTransport

/// What becomes of a server's wish that the client use another one: CONNACK or DISCONNECT with Reason Code 0x9C
/// (Use another server) or 0x9D (Server moved) and a Server Reference (5.0, section 4.11).
///
/// ```swift
/// configuration.redirection = .sameTransport(hosts: ["b.example.com"])     // no credentials for it
/// configuration.redirection = .sameTransport(hosts: [.init("b.example.com", credentials: .sentThereToo)])
/// configuration.redirection = .follow { request in
///     request.references.first.flatMap(request.profile(for:)).map { .init($0) }
/// }
/// ```
///
/// A redirection that is followed is followed at once, and calls that wait go on waiting. One by 0x9C holds until the
/// connection ends; the next reconnect starts where the client was before. One by 0x9D holds for the life of
/// the client, as soon as the other server has accepted.
///
/// Whatever the policy: five at most in a row, never back to a place of the same row, never from an encrypted transport
/// to a plaintext one. A row ends with a connection that has stood for 30 s, or with an attempt that fails. What isn't
/// followed is the error `mqtt.redirect`, which says why.
public enum ServerRedirection: Sendable {
    /// None is followed: `mqtt.redirect` ends the attempt or the connection, and names the reference.
    case report
    /// The closure says where to go, or nil to stay. It is called on the client's loop, so it must not block.
    case follow(@Sendable (RedirectionRequest) -> RedirectionTarget?)

    /// Follows to the profile's own host and to these hosts: same transport, same options, same path. Of several
    /// references the first that leads there is taken.
    public static func sameTransport(hosts: [RedirectPolicy.Host]) -> ServerRedirection {
        .follow { request in
            for reference in request.references {
                guard let profile = request.profile(for: reference) else { continue }
                if let host = hosts.first(where: { reference.isAtHost($0.name) }) {
                    return RedirectionTarget(profile, credentials: host.credentials)
                }
                if reference.isAtHost(request.originalHost) { return RedirectionTarget(profile) }
            }
            return nil
        }
    }
}

/// What a server asks for.
public struct RedirectionRequest: Sendable, Hashable {
    /// In the server's order; at least one. Those that make no sense are left out.
    public var references: [ServerReference]
    /// 0x9D rather than 0x9C.
    public var isPermanent: Bool
    /// How the server that asks was reached. Without what may be meant for it alone: user name, password, headers,
    /// client certificate.
    public var profile: ConnectionProfile
    /// The host of the client's own profile.
    public var originalHost: String
    /// How many this makes in a row: 1 to 5.
    public var count: Int

    /// A request made by hand, for a program's own tests.
    public init(
        references: [ServerReference], isPermanent: Bool, profile: ConnectionProfile, originalHost: String,
        count: Int = 1
    ) {
        self.references = references
        self.isPermanent = isPermanent
        self.profile = profile
        self.originalHost = originalHost
        self.count = count
    }

    /// The present profile with host and port of a reference; the present port where it names none. Another host is
    /// asked for by its own name in TLS.
    ///
    /// - Returns: nil where the reference is a URL of another transport.
    public func profile(for reference: ServerReference) -> ConnectionProfile? {
        if let url = reference.url,
            url.isEncrypted != profile.isEncrypted || (url.webSocket == nil) != (profile.webSocket == nil)
        {
            return nil
        }
        var profile = profile
        if !reference.isAtHost(profile.host) { profile.tls?.serverName = nil }
        profile.host = reference.host
        if let port = reference.port { profile.port = port }
        return profile
    }
}

/// Where to go instead.
public struct RedirectionTarget: Sendable, Hashable {
    /// Its user name, password, headers and client certificate are used in any case; see `credentials` for those of
    /// the client.
    public var profile: ConnectionProfile
    /// Whether it gets what the client's own server gets, as far as its profile has nothing of its own: user name,
    /// password, authentication and User Properties of CONNECT, headers, client certificate. The host of
    /// the client's profile always does. The will and all messages go to any server.
    public var credentials: RedirectPolicy.Credentials

    public init(_ profile: ConnectionProfile, credentials: RedirectPolicy.Credentials = .withheld) {
        self.profile = profile
        self.credentials = credentials
    }
}

/// One of the servers in a Server Reference (5.0, section 4.11): `host`, `host:port`, `[v6]:port`, or a URL as a profile
/// takes it, which the standard doesn't know but servers send.
public struct ServerReference: Sendable, Hashable {
    /// A host name, an IPv4 address, or an IPv6 address without brackets.
    public let host: String
    /// nil where the reference names none; a URL always has one.
    public let port: UInt16?
    /// What a reference in the form of a URL makes.
    public let url: ConnectionProfile?

    /// - Returns: nil where the text is none of the forms, or has a user name.
    public init?(_ text: some StringProtocol) {
        let text = String(text)
        if text.contains("@") { return nil }
        do throws(ProfileError) {
            if text.contains("://") {
                let profile = try ConnectionProfile(url: text)
                (host, port, url) = (profile.host, profile.port, profile)
            } else {
                let (name, port) = try URLParts.hostAndPort(text[...])
                // Any port will do to have the host checked.
                let profile = try ConnectionProfile.tcp(host: name, port: port ?? 1883)
                host = profile.host
                self.port = port.map { _ in profile.port }
                url = nil
            }
        } catch {
            return nil
        }
    }

    /// The list that a Server Reference is, separated by spaces.
    static func list(_ text: String) -> [ServerReference] {
        text.split(separator: " ").compactMap { ServerReference($0) }
    }

    func isAtHost(_ name: String) -> Bool { Redirect.comparable(host) == Redirect.comparable(name) }
}
