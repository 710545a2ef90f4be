internal import WebSocketCore

/// What is wrong with a profile or its URL.
public struct ProfileError: Error, Sendable, Hashable, CustomStringConvertible {
    /// One sentence that names the part at fault; never holds a password.
    public let description: String

    init(_ description: String) { self.description = description }
}

extension ConnectionProfile {
    /// A profile from a URL: `mqtt://` (or `tcp://`), `mqtts://` (or `ssl://`), `ws://`, `wss://`.
    ///
    /// Ports default as registered: 1883, 8883, 80, 443; an empty WebSocket path means `/mqtt`. User name and
    /// password may stand before the host, percent-encoded.
    ///
    /// - Throws: `ProfileError`.
    public init(url: String) throws(ProfileError) {
        guard let separator = url.firstRange(of: "://") else {
            throw ProfileError(
                "\"\(Self.withoutUserInfo(url))\" is no URL: it needs a scheme such as mqtts:// or wss://")
        }
        let scheme = url[..<separator.lowerBound].lowercased()
        let rest = url[separator.upperBound...]
        let authorityEnd = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
        var authority = rest[..<authorityEnd]
        let path = String(rest[authorityEnd...])
        if !authority.contains("@"), authority.contains(":"), path.contains("@"), path.first != "?" {
            // "user:pa/ss@host" would be taken for host "user" and port "pa", and told so to a log.
            let isPort = authority.drop { $0 != ":" }.dropFirst().allSatisfy(\.isNumber)
            if !isPort || !Self.webSocketSchemes.contains(scheme) {
                throw ProfileError("the user name or password holds a character that must be percent-encoded")
            }
        }

        var user: String?
        var password: [UInt8]?
        if let at = authority.lastIndex(of: "@") {
            let parts = authority[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            user = try Self.percentDecoded(parts[0], part: "user name").flatMap { $0.isEmpty ? nil : $0 }
            if parts.count == 2 { password = try Self.percentDecodedBytes(parts[1], part: "password") }
            authority = authority[authority.index(after: at)...]
        }
        let (host, port) = try Self.hostAndPort(authority)
        let transport: Transport
        let defaultPort: Int
        switch scheme {
        case "mqtt", "tcp": (transport, defaultPort) = (.tcp, 1883)
        case "mqtts", "ssl": (transport, defaultPort) = (.tls(TLSOptions()), 8883)
        case "ws":
            (transport, defaultPort) = (.webSocket(WebSocketOptions(path: try Self.webSocketPath(path))), 80)
        case "wss":
            (transport, defaultPort) = (
                .webSocketSecure(TLSOptions(), WebSocketOptions(path: try Self.webSocketPath(path))), 443
            )
        default:
            throw ProfileError("the scheme \"\(scheme)\" is unknown: use mqtt, mqtts, ws or wss")
        }
        if transport.isPlainStream, !path.isEmpty, path != "/" {
            throw ProfileError(
                "a \(scheme):// URL has no path; \"\(path)\" would be ignored (is it a ws:// broker?)")
        }
        try self.init(
            host: host, port: port ?? defaultPort, transport: transport, userName: user, password: password)
    }

    private static let webSocketSchemes = ["ws", "wss"]

    private static func withoutUserInfo(_ url: String) -> Substring {
        url.lastIndex(of: "@").map { url[url.index(after: $0)...] } ?? url[...]
    }

    /// `host`, `host:port`, `[v6]` or `[v6]:port`, not yet checked for what may stand in a host.
    package static func hostAndPort(_ authority: Substring) throws(ProfileError) -> (String, Int?) {
        var host = authority
        var portText: Substring?
        if authority.hasPrefix("[") {
            guard let end = authority.firstIndex(of: "]") else {
                throw ProfileError("the IPv6 address \"\(authority)\" lacks its closing bracket")
            }
            host = authority[authority.index(after: authority.startIndex)..<end]
            let after = authority[authority.index(after: end)...]
            if after.hasPrefix(":") {
                portText = after.dropFirst()
            } else if !after.isEmpty {
                throw ProfileError("\"\(after)\" after the IPv6 address isn't a port")
            }
        } else if let colon = authority.lastIndex(of: ":") {
            host = authority[..<colon]
            portText = authority[authority.index(after: colon)...]
            if host.contains(":") {
                throw ProfileError("an IPv6 address in a URL stands in brackets: [\(authority)]")
            }
        }
        guard let portText, !portText.isEmpty else { return (String(host), nil) }
        guard portText.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = Int(portText) else {
            throw ProfileError("the port \"\(portText)\" isn't a number")
        }
        return (String(host), port)
    }

    private static func webSocketPath(_ path: String) throws(ProfileError) -> String {
        if path.contains("#") { throw ProfileError("a WebSocket URL has no fragment (RFC 6455, section 3)") }
        if path.isEmpty { return "/mqtt" }
        return path.hasPrefix("/") ? path : "/" + path
    }

    private static func percentDecoded(_ text: Substring, part: String) throws(ProfileError) -> String? {
        guard let decoded = String(validating: try percentDecodedBytes(text, part: part), as: UTF8.self)
        else {
            throw ProfileError("the \(part) isn't UTF-8")
        }
        return decoded
    }

    private static func percentDecodedBytes(_ text: Substring, part: String) throws(ProfileError) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let digits = String(rest.prefix(2)), digits.utf8.count == 2,
                let value = UInt8(digits, radix: 16)
            else { throw ProfileError("the \(part) has a % that isn't followed by two hexadecimal digits") }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return bytes
    }
}

extension ConnectionProfile.Transport {
    fileprivate var isPlainStream: Bool {
        switch self {
        case .tcp, .tls: true
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
            deadlines.resolve, deadlines.tcp, deadlines.tls, deadlines.webSocket, deadlines.mqttConnect,
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
    }

    /// As SNI and certificates have it: no port, no brackets, no trailing dot, whatever the resolver was asked
    /// (RFC 6066, section 3).
    static func serverName(_ name: String) throws(ProfileError) -> String {
        let name = try host(name)
        return name.hasSuffix(".") ? String(name.dropLast()) : name
    }
}
