/// How to reach a broker: the one thing that a program changes when the network changes.
///
/// ```swift
/// let profile = ConnectionProfile.webSocketSecure(host: "broker.connectmq.com")   // port 8084, path /mqtt
/// let same = try ConnectionProfile(url: "wss://broker.connectmq.com:8084/mqtt")
/// ```
public struct ConnectionProfile: Sendable, Hashable {
    /// A host name, an IPv4 address, or an IPv6 address without brackets.
    public var host: String
    /// 1 to 65535. Of no meaning for `automatic`, whose rungs have ports of their own.
    public var port: UInt16
    public var transport: Transport
    /// User name for CONNECT.
    public var userName: String?
    /// Password for CONNECT; never part of `description`.
    public var password: [UInt8]?
    /// Through what the broker is reached; nil for no proxy, whatever the environment says
    /// (``ProxyEnvironment`` asks it).
    public var proxy: Proxy?
    public var socket: SocketOptions
    public var deadlines: StageDeadlines

    /// What carries the MQTT packets.
    public enum Transport: Sendable, Hashable {
        case tcp
        case tls(TLSOptions)
        case webSocket(WebSocketOptions)
        case webSocketSecure(TLSOptions, WebSocketOptions)
        /// The first of several ways that gets through.
        case automatic(RouteLadder)
    }

    /// A profile from its parts; the presets below are shorter.
    ///
    /// - Throws: `ProfileError` where a host, port, path, header, server name, ALPN name or socket option can't be
    ///   used, or a deadline isn't above zero.
    public init(
        host: String, port: Int, transport: Transport, userName: String? = nil, password: [UInt8]? = nil,
        proxy: Proxy? = nil, socket: SocketOptions = SocketOptions(),
        deadlines: StageDeadlines = StageDeadlines()
    ) throws(ProfileError) {
        self.host = try ProfileValidation.host(host)
        self.port = try ProfileValidation.port(port)
        self.transport = transport
        self.userName = userName
        self.password = password
        self.proxy = proxy
        self.socket = socket
        self.deadlines = deadlines
        try ProfileValidation.socket(socket)
        try ProfileValidation.deadlines(deadlines)
        if let tls { try ProfileValidation.tls(tls) }
        if let webSocket { try ProfileValidation.webSocket(webSocket) }
        if let ladder { try ProfileValidation.ladder(ladder) }
    }

    /// MQTT over TCP, in plaintext: choosing it is consent to that.
    public static func tcp(host: String, port: Int = 1883) throws(ProfileError) -> ConnectionProfile {
        try ConnectionProfile(host: host, port: port, transport: .tcp)
    }

    /// MQTT over TLS.
    public static func tls(
        host: String, port: Int = 8883, options: TLSOptions = TLSOptions()
    ) throws(ProfileError) -> ConnectionProfile {
        try ConnectionProfile(host: host, port: port, transport: .tls(options))
    }

    /// MQTT over WebSocket, in plaintext: choosing it is consent to that.
    public static func webSocket(
        host: String, port: Int = 80, path: String = "/mqtt"
    ) throws(ProfileError) -> ConnectionProfile {
        try ConnectionProfile(
            host: host, port: port, transport: .webSocket(WebSocketOptions(path: path)))
    }

    /// MQTT over secure WebSocket.
    public static func webSocketSecure(
        host: String, port: Int = 8084, path: String = "/mqtt", options: TLSOptions = TLSOptions()
    ) throws(ProfileError) -> ConnectionProfile {
        try ConnectionProfile(
            host: host, port: port, transport: .webSocketSecure(options, WebSocketOptions(path: path)))
    }
}

extension ConnectionProfile {
    /// The TLS options of an encrypted transport, or those that all ways of an automatic one share; setting them on a plaintext one changes nothing.
    public var tls: TLSOptions? {
        get {
            switch transport {
            case .tcp, .webSocket: nil
            case .tls(let options), .webSocketSecure(let options, _): options
            case .automatic(let ladder): ladder.tls
            }
        }
        set {
            guard let newValue else { return }
            switch transport {
            case .tcp, .webSocket: break
            case .tls: transport = .tls(newValue)
            case .webSocketSecure(_, let webSocket): transport = .webSocketSecure(newValue, webSocket)
            case .automatic(var ladder):
                ladder.tls = newValue
                transport = .automatic(ladder)
            }
        }
    }

    /// The WebSocket options of a WebSocket transport, or those that all ways of an automatic one share; setting them on another one changes nothing.
    public var webSocket: WebSocketOptions? {
        get {
            switch transport {
            case .tcp, .tls: nil
            case .webSocket(let options), .webSocketSecure(_, let options): options
            case .automatic(let ladder): ladder.webSocket
            }
        }
        set {
            guard let newValue else { return }
            switch transport {
            case .tcp, .tls: break
            case .webSocket: transport = .webSocket(newValue)
            case .webSocketSecure(let tls, _): transport = .webSocketSecure(tls, newValue)
            case .automatic(var ladder):
                ladder.webSocket = newValue
                transport = .automatic(ladder)
            }
        }
    }

    /// The ways of an automatic transport; setting them on another one changes nothing.
    public var ladder: RouteLadder? {
        get {
            if case .automatic(let ladder) = transport { ladder } else { nil }
        }
        set {
            if let newValue, ladder != nil { transport = .automatic(newValue) }
        }
    }

    /// Whether nothing is ever sent in plaintext.
    public var isEncrypted: Bool {
        switch transport {
        case .tcp, .webSocket: false
        case .tls, .webSocketSecure: true
        case .automatic(let ladder): !ladder.allowsPlaintext
        }
    }
}

extension ConnectionProfile: CustomStringConvertible, CustomReflectable {
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "host": host, "port": port, "transport": transport, "proxy": proxy as Any,
                "socket": socket, "deadlines": deadlines,
            ])
    }

    /// The URL, without user name and password, and with `…` for what a query holds: it is often a signature or a token.
    public var description: String {
        let authority = "\(URLParts.written(host: host)):\(port)"
        switch transport {
        case .tcp: return "mqtt://\(authority)"
        case .tls: return "mqtts://\(authority)"
        case .webSocket(let options): return "ws://\(authority)\(options.shownPath)"
        case .webSocketSecure(_, let options): return "wss://\(authority)\(options.shownPath)"
        case .automatic: return "auto://\(host.contains(":") ? "[\(host)]" : host)"
        }
    }
}
