/// One way to the broker, as a list of stages; a pure function of a profile.
package struct Route: Sendable, Hashable {
    package let host: String
    package let port: UInt16
    package let tls: TLSOptions?
    package let webSocket: WebSocketOptions?
    package let deadlines: StageDeadlines

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
        deadlines = profile.deadlines
    }

    /// The stages that this route takes, in order.
    package var stages: [ConnectionStage] {
        [.resolve, .tcp] + (tls == nil ? [] : [.tls]) + (webSocket == nil ? [] : [.webSocket]) + [
            .mqttConnect
        ]
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
