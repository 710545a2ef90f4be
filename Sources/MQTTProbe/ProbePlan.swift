package import MQTTTraversal

/// What a probe is asked to do.
package struct ProbeOptions: Sendable, Hashable {
    package var host: String
    package var ports: ProbePorts
    package var version: ProtocolVersion
    package var trust: TLSOptions.Trust
    /// A random one for each attempt where nil.
    package var clientID: String?
    package var userName: String?
    package var password: [UInt8]?
    package var proxy: ProxyChoice
    /// How long each stage may take.
    package var timeout: Duration

    /// A probe in which everything is dropped ends soon, and two lost SYNs, sent again after 1 s and 3 s
    /// (RFC 6298, section 2), still make no failure.
    package static let defaultTimeout = Duration.seconds(5)

    /// Through what the ways lead.
    package enum ProxyChoice: Sendable, Hashable {
        case none
        case fixed(Proxy)
        /// The one that these variables have for each way.
        case environment(ProxyEnvironment)
    }

    package init(
        host: String, ports: ProbePorts = ProbePorts(), version: ProtocolVersion = .v5,
        trust: TLSOptions.Trust = .system, clientID: String? = nil, userName: String? = nil,
        password: [UInt8]? = nil, proxy: ProxyChoice = .none,
        timeout: Duration = ProbeOptions.defaultTimeout
    ) {
        self.host = host
        self.ports = ports
        self.version = version
        self.trust = trust
        self.clientID = clientID
        self.userName = userName
        self.password = password
        self.proxy = proxy
        self.timeout = timeout
    }
}

/// The ways that a probe tries, best first; the raw value is the name in reports and options.
package enum ProbeRoute: String, Sendable, Hashable, Codable, CaseIterable {
    case tls
    case webSocketSecure = "wss"
    case webSocketSecureAlternative = "wss-alt"
    case tcp
}

/// Where each way leads; 1 to 65535.
package struct ProbePorts: Sendable, Hashable {
    package var tls = 8883
    package var webSocketSecure = 8084
    /// 443, which networks that know only the web let through.
    package var webSocketSecureAlternative = 443
    package var tcp = 1883

    package init() {}

    package subscript(route: ProbeRoute) -> Int {
        get {
            switch route {
            case .tls: tls
            case .webSocketSecure: webSocketSecure
            case .webSocketSecureAlternative: webSocketSecureAlternative
            case .tcp: tcp
            }
        }
        set {
            switch route {
            case .tls: tls = newValue
            case .webSocketSecure: webSocketSecure = newValue
            case .webSocketSecureAlternative: webSocketSecureAlternative = newValue
            case .tcp: tcp = newValue
            }
        }
    }
}

/// One way to be tried.
package struct ProbeAttempt: Sendable, Hashable {
    package let route: ProbeRoute
    /// Holds the credentials, on encrypted ways only.
    package let profile: ConnectionProfile
    package let clientID: String
    /// Why it isn't to be tried; nil where it is.
    package let skipReason: String?
}

/// What a probe will do: a pure function of its options and of random bits.
package struct ProbePlan: Sendable, Hashable {
    package let host: String
    package let version: ProtocolVersion
    package let timeout: Duration
    /// Best first.
    package let attempts: [ProbeAttempt]
    /// Two connections with one client identifier would take each other over, so a given one is used by one
    /// attempt after the other [MQTT-3.1.4-3].
    package let isSequential: Bool
    package let hasCredentials: Bool

    /// - Parameter random: makes the client identifiers.
    /// - Throws: `ProfileError` where host, port or a variable that names a proxy can't be used.
    package init(
        _ options: ProbeOptions, random: inout some RandomNumberGenerator
    ) throws(ProfileError) {
        host = options.host
        version = options.version
        timeout = options.timeout
        isSequential = options.clientID != nil
        hasCredentials = options.userName != nil || options.password != nil
        var attempts: [ProbeAttempt] = []
        for route in ProbeRoute.allCases {
            var profile = try Self.profile(route, options)
            var skipReason: String?
            if profile.isEncrypted {
                profile.userName = options.userName
                profile.password = options.password
            } else if hasCredentials {
                // Without them the broker would refuse, and that would be a verdict on something else.
                skipReason = "user name and password are never sent in plaintext"
            }
            attempts.append(
                ProbeAttempt(
                    route: route, profile: profile,
                    clientID: options.clientID ?? Self.clientID(random: &random), skipReason: skipReason))
        }
        self.attempts = attempts
    }

    private static func profile(
        _ route: ProbeRoute, _ options: ProbeOptions
    ) throws(ProfileError) -> ConnectionProfile {
        let port = options.ports[route]
        let tls = TLSOptions(trust: options.trust)
        var profile =
            switch route {
            case .tls: try ConnectionProfile.tls(host: options.host, port: port, options: tls)
            case .webSocketSecure, .webSocketSecureAlternative:
                try ConnectionProfile.webSocketSecure(host: options.host, port: port, options: tls)
            case .tcp: try ConnectionProfile.tcp(host: options.host, port: port)
            }
        profile.deadlines = StageDeadlines(
            resolve: options.timeout, tcp: options.timeout, proxy: options.timeout,
            tls: options.timeout, webSocket: options.timeout, mqttConnect: options.timeout)
        switch options.proxy {
        case .none: break
        case .fixed(let proxy): profile.proxy = proxy
        case .environment(let environment): profile.proxy = try environment.proxy(for: profile)
        }
        return profile
    }

    /// 19 letters and digits: every 3.1.1 server takes up to 23 of these [MQTT-3.1.3-5].
    private static func clientID(random: inout some RandomNumberGenerator) -> String {
        let digits = String(random.next() & 0xFFFF_FFFF_FFFF, radix: 16)
        return "wsprobe" + String(repeating: "0", count: 12 - digits.utf8.count) + digits
    }
}
