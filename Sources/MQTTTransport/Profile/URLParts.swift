/// The parts of a URL with an authority (RFC 3986, section 3), of a broker or a proxy.
package struct URLParts {
    /// In lower case.
    let scheme: String
    private(set) var userName: String?
    private(set) var password: [UInt8]?
    let host: String
    let port: Int?
    /// What follows the authority, with its query.
    let path: String

    init(_ url: String, example: String) throws(ProfileError) {
        guard let separator = url.firstRange(of: "://") else {
            throw ProfileError(
                "\"\(Self.withoutUserInfo(url))\" is no URL: it needs a scheme such as \(example)")
        }
        scheme = url[..<separator.lowerBound].lowercased()
        let rest = url[separator.upperBound...]
        let authorityEnd = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
        var authority = rest[..<authorityEnd]
        path = String(rest[authorityEnd...])
        if !authority.contains("@"), authority.contains(":"), path.contains("@"), path.first != "?" {
            // "user:pa/ss@host" would be taken for host "user" and port "pa", and told so to a log.
            let isPort = authority.drop { $0 != ":" }.dropFirst().allSatisfy(\.isNumber)
            if !isPort || !Self.webSocketSchemes.contains(scheme) {
                throw ProfileError("the user name or password holds a character that must be percent-encoded")
            }
        }

        if let at = authority.lastIndex(of: "@") {
            let parts = authority[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            userName = try Self.percentDecoded(parts[0], part: "user name").flatMap { $0.isEmpty ? nil : $0 }
            if parts.count == 2 { password = try Self.percentDecodedBytes(parts[1], part: "password") }
            authority = authority[authority.index(after: at)...]
        }
        let (written, port) = try Self.hostAndPort(authority)
        host = try Self.decodingZone(of: written)
        self.port = port
    }

    /// A host as a URL has it: IPv6 in brackets, with its zone behind `%25` (RFC 6874, section 2).
    static func written(host: String) -> String {
        guard host.contains(":") else { return host }
        let address = host.prefix { $0 != "%" }
        let zone = host.dropFirst(address.count)
        return "[\(address)\(zone.isEmpty ? "" : "%25\(zone.dropFirst())")]"
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
                throw ProfileError("an IPv6 address in a URL stands in brackets: \"[\(authority)]\"")
            }
        }
        guard let portText, !portText.isEmpty else { return (String(host), nil) }
        guard portText.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = Int(portText) else {
            throw ProfileError("the port \"\(portText)\" isn't a number")
        }
        return (String(host), port)
    }

    /// A bare `%`, as people copy it from other programs, is taken too (RFC 6874, section 3).
    private static func decodingZone(of host: String) throws(ProfileError) -> String {
        let address = host.prefix { $0 != "%" }
        let zone = host.dropFirst(address.count)
        guard host.contains(":"), zone.hasPrefix("%25") else { return host }
        let decoded = try percentDecoded(zone.dropFirst(3), part: "zone of the IPv6 address")
        return "\(address)%\(decoded ?? "")"
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
