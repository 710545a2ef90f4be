internal import WebSocketCore

/// What is wrong with a profile or its URL.
public struct ProfileError: Error, Sendable, Hashable, CustomStringConvertible {
    /// One sentence that names the part at fault; never holds a password.
    public let description: String

    init(_ description: String) { self.description = description }
}

extension ConnectionProfile {
    /// A profile from a URL: `mqtt://` (or `tcp://`), `mqtts://` (or `ssl://`), `ws://`, `wss://`, or `auto://` for
    /// `automatic(host:)`, which has no port.
    ///
    /// Ports default as registered: 1883, 8883, 80, 443; an empty WebSocket path means `/mqtt`. User name and
    /// password may stand before the host, percent-encoded.
    ///
    /// - Throws: `ProfileError`.
    public init(url: String) throws(ProfileError) {
        let parts = try URLParts(url, example: "mqtts:// or wss://")
        let path = parts.path
        let transport: Transport
        let defaultPort: Int
        switch parts.scheme {
        case "mqtt", "tcp": (transport, defaultPort) = (.tcp, 1883)
        case "mqtts", "ssl": (transport, defaultPort) = (.tls(TLSOptions()), 8883)
        case "ws":
            (transport, defaultPort) = (.webSocket(WebSocketOptions(path: try Self.webSocketPath(path))), 80)
        case "wss":
            (transport, defaultPort) = (
                .webSocketSecure(TLSOptions(), WebSocketOptions(path: try Self.webSocketPath(path))), 443
            )
        case "auto":
            guard parts.port == nil else {
                throw ProfileError("an auto:// URL has no port: it stands for several")
            }
            (transport, defaultPort) = (.automatic(RouteLadder()), 8883)
        default:
            throw ProfileError("the scheme \"\(parts.scheme)\" is unknown: use auto, mqtts, wss, mqtt or ws")
        }
        if transport.hasNoPath, !path.isEmpty, path != "/" {
            throw ProfileError(
                "a \(parts.scheme):// URL has no path; \"\(path)\" would be ignored (is it a ws:// broker?)")
        }
        try self.init(
            host: parts.host, port: parts.port ?? defaultPort, transport: transport,
            userName: parts.userName, password: parts.password)
    }

    private static func webSocketPath(_ path: String) throws(ProfileError) -> String {
        if path.contains("#") { throw ProfileError("a WebSocket URL has no fragment (RFC 6455, section 3)") }
        if path.isEmpty { return "/mqtt" }
        return path.hasPrefix("/") ? path : "/" + path
    }
}

extension ConnectionProfile.Transport {
    fileprivate var hasNoPath: Bool {
        switch self {
        case .tcp, .tls, .automatic: true
        case .webSocket, .webSocketSecure: false
        }
    }
}

/// The rules for the parts of a profile.
enum ProfileValidation {
    static func host(_ host: String) throws(ProfileError) -> String {
        var bare = host
        if bare.hasPrefix("["), bare.hasSuffix("]") { bare = String(bare.dropFirst().dropLast()) }
        guard !bare.isEmpty else { throw ProfileError("the host is missing") }
        guard bare.utf8.count <= 255 else { throw ProfileError("the host is longer than 255 bytes") }
        if bare.contains(":") {
            let address = String(bare.prefix { $0 != "%" })
            guard SocketAddress(literal: address, port: 0)?.family == .ipv6 else {
                throw ProfileError("the host \"\(bare)\" is no IPv6 address; the port is given by itself")
            }
            guard address == bare || bare.utf8.count > address.utf8.count + 1 else {
                throw ProfileError("the zone of the IPv6 address \"\(bare)\" is empty: it names an interface")
            }
        }
        let allowed = bare.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                true
            case UInt8(ascii: ":"), UInt8(ascii: "%"):
                bare.contains(":")
            default: false
            }
        }
        guard allowed else {
            throw ProfileError(
                "the host \"\(bare)\" holds a character that no host name has (write IDNs as xn--…)")
        }
        return bare
    }

    static func deadlines(_ deadlines: StageDeadlines) throws(ProfileError) {
        let all = [
            deadlines.preparation, deadlines.resolve, deadlines.tcp, deadlines.proxy, deadlines.tls,
            deadlines.webSocket, deadlines.mqttConnect,
        ]
        guard all.allSatisfy({ $0 > .zero }) else { throw ProfileError("a deadline isn't above zero") }
    }

    static func port(_ port: Int) throws(ProfileError) -> UInt16 {
        guard let value = UInt16(exactly: port), value > 0 else {
            throw ProfileError("the port \(port) is outside 1…65535")
        }
        return value
    }

    static func webSocket(_ options: WebSocketOptions) throws(ProfileError) {
        guard options.path.hasPrefix("/") else {
            throw ProfileError("the WebSocket path \"\(options.path)\" doesn't begin with /")
        }
        guard options.path.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") }) else {
            throw ProfileError(
                "the WebSocket path \"\(options.path)\" holds a character that must be percent-encoded")
        }
        if let origin = options.origin, !OpeningHandshake.isOrigin(origin) {
            throw ProfileError(
                "the origin \"\(origin)\" isn't scheme://host, perhaps with :port, and isn't null")
        }
        let origins = options.headers.count { $0.name.lowercased() == "origin" }
        guard origins + (options.origin == nil ? 0 : 1) < 2 else {
            throw ProfileError("the WebSocket request can have one Origin")
        }
        try headers(options.headers)
        if let compression = options.compression {
            guard 9...15 ~= compression.windowBits, compression.threshold >= 0 else {
                throw ProfileError("compression has windowBits of 9 to 15 and a threshold of 0 or more")
            }
        }
        if let pings = options.pings, pings.interval <= .zero || pings.timeout <= .zero {
            throw ProfileError("the interval and the time-out of WebSocket Pings must be above zero")
        }
        if case .hosts(let hosts) = options.redirects {
            for host in hosts { _ = try self.host(host.name) }
        }
    }

    private static func headers(_ headers: [WebSocketOptions.Header]) throws(ProfileError) {
        for header in headers {
            do throws(HandshakeError) {
                try OpeningHandshake.Client.check(header: header.name, value: header.value)
            } catch {
                guard case .invalidRequest(let what) = error else { continue }
                throw ProfileError("the WebSocket request can't be written: \(what)")
            }
        }
    }

    static func tls(_ options: TLSOptions) throws(ProfileError) {
        if let name = options.serverName { _ = try serverName(name) }
        guard options.applicationProtocols.allSatisfy({ (1...255).contains($0.utf8.count) }) else {
            throw ProfileError("an ALPN protocol name has 1 to 255 bytes")
        }
        // PEM_BUFSIZE of OpenSSL.
        if let passphrase = options.identity?.passphrase, passphrase.count > 1024 {
            throw ProfileError("the passphrase of the private key is longer than 1024 bytes")
        }
    }

    /// As SNI and certificates have it: no port, no brackets, no trailing dot, whatever the resolver was asked
    /// (RFC 6066, section 3).
    static func serverName(_ name: String) throws(ProfileError) -> String {
        let name = try host(name)
        return name.hasSuffix(".") ? String(name.dropLast()) : name
    }
}
