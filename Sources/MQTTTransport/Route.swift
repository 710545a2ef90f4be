/// One way to the broker, as a list of stages; a pure function of a profile with a single way, or of a route and where
/// it was redirected to.
package struct Route: Sendable, Hashable {
    package let host: String
    package let port: UInt16
    package let tls: TLSOptions?
    package private(set) var webSocket: WebSocketOptions?
    package let proxy: Proxy?
    package let socket: SocketOptions
    package let deadlines: StageDeadlines
    /// Whether its host may see what only the profile's host is meant to see.
    package let receivesCredentials: Bool

    package init(_ profile: ConnectionProfile) {
        host = profile.host
        port = profile.port
        webSocket = profile.webSocket
        var tls = profile.tls
        if let options = tls, webSocket != nil, options.applicationProtocols.isEmpty {
            // Some front ends choose HTTP/2, which has no Upgrade, for clients that don't ask for HTTP/1.1.
            tls?.applicationProtocols = ["http/1.1"]
        }
        self.tls = tls
        proxy = profile.proxy
        socket = profile.socket
        deadlines = profile.deadlines
        receivesCredentials = true
    }

    /// - Parameter original: the route of the profile, whatever came between.
    init(_ original: Route, redirectedTo redirect: Redirect, receivesCredentials: Bool) {
        host = redirect.host
        port = redirect.port
        var webSocket = original.webSocket
        webSocket?.path = redirect.path
        if !receivesCredentials { webSocket?.headers = [] }
        self.webSocket = webSocket
        if redirect.isEncrypted {
            var tls = original.tls ?? TLSOptions(applicationProtocols: ["http/1.1"])
            if !redirect.isAtHost(original.host) {
                // The name in place of the host's is that host's own.
                tls.serverName = nil
                if !receivesCredentials { tls.identity = nil }
            }
            self.tls = tls
        } else {
            tls = nil
        }
        proxy = original.proxy
        socket = original.socket
        deadlines = original.deadlines
        self.receivesCredentials = receivesCredentials
    }

    /// The same with a request of the program's.
    ///
    /// - Throws: `ProfileError` for one that can't be sent.
    func with(_ request: UpgradeRequest) throws(ProfileError) -> Route {
        var route = self
        route.webSocket?.path = request.path
        route.webSocket?.headers = request.headers
        if let options = route.webSocket { try ProfileValidation.webSocket(options) }
        return route
    }

    /// The stages that this route takes, in order.
    package var stages: [ConnectionStage] {
        [.resolve, .tcp] + (proxy == nil ? [] : [.proxy]) + (tls == nil ? [] : [.tls])
            + (webSocket == nil ? [] : [.webSocket]) + [.mqttConnect]
    }

    /// Whom TCP connects to.
    var firstHop: (host: String, port: UInt16) { proxy.map { ($0.host, $0.port) } ?? (host, port) }

    /// The server as its proxy is told of it.
    var target: String { authority(host, port) }

    /// The URL of a WebSocket route, as it may be printed.
    var url: String { "\(tls == nil ? "ws" : "wss")://\(hostField)\(webSocket?.shownPath ?? "")" }

    /// How long its stages may take together, up to the open byte stream.
    var deadline: Duration {
        deadlines.resolve + deadlines.tcp + (proxy == nil ? .zero : deadlines.proxy) + deadlines.tls
            + deadlines.webSocket
    }

    /// Whom TLS asks for and verifies.
    package var serverName: String { tls?.serverName ?? host }

    /// The Host field of the opening handshake: the port only if it isn't the scheme's own, and brackets around
    /// an IPv6 address (RFC 6455, section 4.1; RFC 3986, section 3.2.2).
    package var hostField: String {
        let name = host.contains(":") ? "[\(host.prefix { $0 != "%" })]" : host
        let isDefaultPort = port == (tls == nil ? 80 : 443)
        return isDefaultPort ? name : "\(name):\(port)"
    }
}

extension ConnectionProfile {
    /// The profile of the way that was taken in the end.
    package func redirected(to route: Route) -> ConnectionProfile {
        guard Route(self) != route, let webSocket = route.webSocket else { return self }
        var profile = self
        profile.host = route.host
        profile.port = route.port
        profile.transport = route.tls.map { .webSocketSecure($0, webSocket) } ?? .webSocket(webSocket)
        if !route.receivesCredentials {
            profile.userName = nil
            profile.password = nil
        }
        return profile
    }
}
