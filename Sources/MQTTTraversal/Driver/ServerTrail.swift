internal import MQTTCore
internal import MQTTTransport

/// Where the client connects: its profile, or where servers have sent it since (5.0, section 4.11). Decides whether a
/// redirection is followed; the driver carries it out.
struct ServerTrail {
    /// A server, and what it is told of the client.
    struct Place: Sendable, Hashable {
        let profile: ConnectionProfile
        let userName: String?
        let password: [UInt8]?
        /// Whether authentication and User Properties go there too.
        let receivesCredentials: Bool
        /// Whether user name and password are its own, and not the client's.
        var hasOwnLogin = false
    }

    /// Why a redirection isn't followed, as a clause.
    struct Refusal: Error, Sendable, Hashable {
        let reason: String
    }

    static let maximumCount = 5

    private let original: Place
    private let policy: ServerRedirection
    private let stableAfter: Duration
    /// Where attempts begin: the profile, or where a server has moved to for good.
    private var home: Place
    private(set) var present: Place
    /// Whether all that led from `home` to `present` was for good.
    private var isHome = true
    /// The places of this row.
    private var visited: Set<Redirect> = []
    private var count = 0
    private var acceptedAt: ContinuousClock.Instant?

    /// - Parameter stableAfter: how long a connection stands that ends a row.
    init(profile: ConnectionProfile, configuration: ClientConfiguration, stableAfter: Duration) {
        original = Place(
            profile: profile, userName: configuration.userName ?? profile.userName,
            password: configuration.password ?? profile.password, receivesCredentials: true)
        policy = configuration.redirection
        self.stableAfter = stableAfter
        home = original
        present = original
    }

    /// An attempt begins that no server has asked for.
    mutating func startOver() {
        present = home
        isHome = true
        acceptedAt = nil
        startRow()
    }

    /// CONNACK has accepted the connection to the present place.
    mutating func accepted(now: ContinuousClock.Instant) {
        acceptedAt = now
        if isHome { home = present }
    }

    /// The server at the present place sends the client elsewhere, which is the present place then.
    ///
    /// - Parameter taken: the profile of the way that was taken to it.
    /// - Returns: false where redirections are reported only.
    mutating func follow(
        _ redirection: RedirectionNotice, from taken: ConnectionProfile, now: ContinuousClock.Instant
    ) throws(Refusal) -> Bool {
        guard case .follow(let decide) = policy else { return false }
        guard let text = redirection.reference else { throw Refusal(reason: "it names no server") }
        let references = ServerReference.list(text)
        if references.isEmpty { throw Refusal(reason: "its Server Reference names no host") }
        if let acceptedAt, now - acceptedAt >= stableAfter { startRow() }
        guard count < Self.maximumCount else {
            throw Refusal(reason: "\(Self.maximumCount) redirections have been followed already")
        }
        let request = RedirectionRequest(
            references: references, isPermanent: redirection.isPermanent, profile: taken.withoutCredentials,
            originalHost: original.profile.host, count: count + 1)
        guard let target = decide(request) else { throw Refusal(reason: "the client's policy is against it") }
        guard target.profile.isEncrypted || !taken.isEncrypted else {
            throw Refusal(reason: "it leads from encryption to plaintext, which is never done")
        }
        let next = place(of: target, through: taken.proxy)
        visited.insert(Redirect(of: Route(taken)))
        guard visited.insert(Redirect(of: Route(next.profile))).inserted else {
            throw Refusal(reason: "it leads back to \(next.profile)")
        }
        count += 1
        present = next
        if !redirection.isPermanent { isHome = false }
        acceptedAt = nil
        return true
    }

    private mutating func startRow() {
        // Of several ways the one that was taken counts, once it redirects.
        visited = present.profile.ladder == nil ? [Redirect(of: Route(present.profile))] : []
        count = 0
    }

    private func place(of target: RedirectionTarget, through proxy: Proxy?) -> Place {
        var profile = target.profile
        // The way out of this network, whoever is behind it.
        profile.proxy = proxy
        profile.socket = original.profile.socket
        let isAtOriginalHost = Redirect(of: Route(profile)).isAtHost(original.profile.host)
        guard target.credentials == .sentThereToo || isAtOriginalHost else {
            return Place(
                profile: profile, userName: profile.userName, password: profile.password,
                receivesCredentials: false)
        }
        if profile.webSocket?.headers.isEmpty == true {
            profile.webSocket?.headers = original.profile.webSocket?.headers ?? []
        }
        if profile.tls?.identity == nil { profile.tls?.identity = original.profile.tls?.identity }
        if profile.userName != nil || profile.password != nil {
            return Place(
                profile: profile, userName: profile.userName, password: profile.password,
                receivesCredentials: true, hasOwnLogin: true)
        }
        profile.userName = original.profile.userName
        profile.password = original.profile.password
        return Place(
            profile: profile, userName: original.userName, password: original.password,
            receivesCredentials: true)
    }
}

/// A CONNACK or DISCONNECT that sends the client elsewhere.
struct RedirectionNotice: Sendable, Hashable {
    let isPermanent: Bool
    let reference: String?

    /// - Returns: nil for any other Reason Code.
    init?(_ reasonCode: ReasonCode, _ properties: Properties) {
        switch reasonCode {
        case .useAnotherServer: isPermanent = false
        case .serverMoved: isPermanent = true
        default: return nil
        }
        reference = properties.serverReference
    }
}

extension ConnectionProfile {
    /// Without what may be meant for its host alone.
    fileprivate var withoutCredentials: ConnectionProfile {
        var profile = self
        profile.userName = nil
        profile.password = nil
        profile.webSocket?.headers = []
        profile.tls?.identity = nil
        return profile
    }
}
