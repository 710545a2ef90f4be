/// Several ways to one broker, tried in order and each a little after the one before, until one of them has got
/// through.
///
/// ```swift
/// var profile = try ConnectionProfile.automatic(host: "broker.example.com")
/// profile.tls?.trust = .file("company.pem")                                   // holds for all of them
/// profile.ladder?.rungs.insert(.webSocketSecure(port: 8884), at: 1)
/// ```
///
/// Only the preparations race: TCP, a proxy's tunnel, TLS and the opening handshake. CONNECT is sent on one connection
/// at a time, since two with one client identifier would take each other over [MQTT-3.1.4-3]. Where it fails short of
/// an answer by the broker, the next way has its turn; a refusal by the broker ends the attempt, since it would be the
/// same on every way.
public struct RouteLadder: Sendable, Hashable {
    /// Best first; at least one.
    public var rungs: [Rung]
    /// Options of TLS for all encrypted rungs; a rung's own list of protocols (ALPN) replaces the list here.
    public var tls: TLSOptions
    /// Options of WebSocket for all rungs that use it; the path is each rung's own.
    public var webSocket: WebSocketOptions
    /// How long after one rung the next is tried, where the first hasn't failed before; above zero.
    public var stagger: Duration
    /// How long an attempt may take over all rungs, CONNACK included; above zero.
    public var deadline: Duration
    /// Whether the proxies that the environment names (`ProxyEnvironment`) make further rungs, after the direct ones; by
    /// default they do. They don't where the profile has a proxy of its own, which all rungs use. A variable that can't
    /// be used makes no rung, and the client's log is told.
    public var usesProxyEnvironment: Bool
    /// Whether a rung may be plaintext: the broker's password and all messages can then be read on the way by whoever
    /// blocks the encrypted ones.
    public var allowsPlaintext: Bool

    /// One way.
    public struct Rung: Sendable, Hashable {
        /// 1 to 65535.
        public var port: UInt16
        public var kind: Kind

        public enum Kind: Sendable, Hashable {
            /// MQTT over TLS. `applicationProtocols` are offered by ALPN instead of those of `RouteLadder.tls`, where
            /// there are any.
            case tls(applicationProtocols: [String])
            /// MQTT over secure WebSocket, at this path.
            case webSocketSecure(path: String)
            /// MQTT over TCP, in plaintext.
            case tcp
            /// MQTT over WebSocket, in plaintext, at this path.
            case webSocket(path: String)
        }

        public init(port: UInt16, kind: Kind) {
            self.port = port
            self.kind = kind
        }

        public static func tls(port: UInt16 = 8883, applicationProtocols: [String] = []) -> Rung {
            Rung(port: port, kind: .tls(applicationProtocols: applicationProtocols))
        }

        public static func webSocketSecure(port: UInt16 = 8084, path: String = "/mqtt") -> Rung {
            Rung(port: port, kind: .webSocketSecure(path: path))
        }

        public static func tcp(port: UInt16 = 1883) -> Rung { Rung(port: port, kind: .tcp) }

        public static func webSocket(port: UInt16 = 80, path: String = "/mqtt") -> Rung {
            Rung(port: port, kind: .webSocket(path: path))
        }
    }

    /// TLS on 8883; secure WebSocket on 8084 and 443, at `/mqtt`; TLS on 443 with ALPN `mqtt`.
    public static let defaultRungs: [Rung] = [
        .tls(), .webSocketSecure(), .webSocketSecure(port: 443),
        .tls(port: 443, applicationProtocols: ["mqtt"]),
    ]

    public init(
        rungs: [Rung] = RouteLadder.defaultRungs, tls: TLSOptions = TLSOptions(),
        webSocket: WebSocketOptions = WebSocketOptions(), stagger: Duration = .milliseconds(500),
        deadline: Duration = .seconds(30), usesProxyEnvironment: Bool = true, allowsPlaintext: Bool = false
    ) {
        self.rungs = rungs
        self.tls = tls
        self.webSocket = webSocket
        self.stagger = stagger
        self.deadline = deadline
        self.usesProxyEnvironment = usesProxyEnvironment
        self.allowsPlaintext = allowsPlaintext
    }
}

extension RouteLadder.Rung {
    package var isEncrypted: Bool {
        switch kind {
        case .tls, .webSocketSecure: true
        case .tcp, .webSocket: false
        }
    }
}

extension ConnectionProfile {
    /// Whatever way leads to the broker: TLS on 8883, then secure WebSocket, then what looks like the web; see
    /// `RouteLadder`. Never in plaintext.
    ///
    /// - Parameters:
    ///   - host: a host name, an IPv4 or an IPv6 address.
    ///   - rungs: the ways, best first.
    ///   - options: of TLS, for all of them.
    /// - Throws: `ProfileError`.
    public static func automatic(
        host: String, rungs: [RouteLadder.Rung] = RouteLadder.defaultRungs, options: TLSOptions = TLSOptions()
    ) throws(ProfileError) -> ConnectionProfile {
        try automatic(host: host, ladder: RouteLadder(rungs: rungs, tls: options))
    }

    /// The ways of a ladder to the broker.
    ///
    /// - Throws: `ProfileError` for a ladder that can't be used, or that has a plaintext rung without
    ///   `allowsPlaintext`.
    public static func automatic(
        host: String, ladder: RouteLadder
    ) throws(ProfileError) -> ConnectionProfile {
        guard let first = ladder.rungs.first else { throw ProfileError("the ladder has no rung") }
        return try ConnectionProfile(host: host, port: Int(first.port), transport: .automatic(ladder))
    }

    /// The single ways that this profile stands for, best first: itself, or the rungs of its ladder, followed by the
    /// same through the proxies of the environment.
    ///
    /// - Parameter environment: of the process; it decides nothing for a profile with one route or a proxy of its own.
    /// - Returns: the ways, and what is wrong with the environment where it can't be used.
    /// - Throws: `ProfileError` for a ladder that can't be used.
    package func ways(
        environment: ProxyEnvironment
    ) throws(ProfileError) -> ([ConnectionProfile], environmentProblem: ProfileError?) {
        guard let ladder else { return ([self], nil) }
        try ProfileValidation.ladder(ladder)
        let ways = ladder.rungs.map { way($0, of: ladder) }
        guard proxy == nil, ladder.usesProxyEnvironment else { return (ways, nil) }
        var tunnelled: [ConnectionProfile] = []
        var problem: ProfileError?
        for way in ways {
            do throws(ProfileError) {
                guard let proxy = try environment.proxy(for: way) else { continue }
                var way = way
                way.proxy = proxy
                tunnelled.append(way)
            } catch {
                problem = problem ?? error
            }
        }
        return (ways + tunnelled, problem)
    }

    private func way(_ rung: RouteLadder.Rung, of ladder: RouteLadder) -> ConnectionProfile {
        var way = self
        way.port = rung.port
        switch rung.kind {
        case .tls(let protocols):
            var tls = ladder.tls
            if !protocols.isEmpty { tls.applicationProtocols = protocols }
            way.transport = .tls(tls.requiringWhatItOffers)
        case .webSocketSecure(let path):
            var webSocket = ladder.webSocket
            webSocket.path = path
            way.transport = .webSocketSecure(ladder.tls.requiringWhatItOffers, webSocket)
        case .tcp: way.transport = .tcp
        case .webSocket(let path):
            var webSocket = ladder.webSocket
            webSocket.path = path
            way.transport = .webSocket(webSocket)
        }
        return way
    }
}

extension TLSOptions {
    /// A rung that offers no protocol can't require one.
    fileprivate var requiringWhatItOffers: TLSOptions {
        var options = self
        if applicationProtocols.isEmpty { options.requiresApplicationProtocol = false }
        return options
    }
}

extension ProfileValidation {
    static func ladder(_ ladder: RouteLadder) throws(ProfileError) {
        guard !ladder.rungs.isEmpty else { throw ProfileError("the ladder has no rung") }
        guard ladder.stagger > .zero, ladder.deadline > .zero else {
            throw ProfileError("the ladder's stagger or its deadline isn't above zero")
        }
        guard ladder.allowsPlaintext || ladder.rungs.allSatisfy(\.isEncrypted) else {
            throw ProfileError("the ladder has a plaintext rung, and allowsPlaintext isn't set")
        }
        try tls(ladder.tls)
        try webSocket(ladder.webSocket)
        for rung in ladder.rungs {
            _ = try port(Int(rung.port))
            switch rung.kind {
            case .tls(let protocols): try tls(TLSOptions(applicationProtocols: protocols))
            case .webSocketSecure(let path), .webSocket(let path): try webSocket(WebSocketOptions(path: path))
            case .tcp: break
            }
        }
    }
}
