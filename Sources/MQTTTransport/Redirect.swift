/// The redirects of one attempt (RFC 9110, section 15.4): decides where each leads, and whether to go there. The
/// connector carries it out.
package struct RedirectTrail: Sendable {
    /// Why a redirect isn't followed, as a clause.
    package struct Refusal: Error, Sendable, Hashable {
        package let reason: String
    }

    package static let maximumCount = 5

    private let original: Route
    private let policy: RedirectPolicy
    private var visited: [Redirect]

    package init(from route: Route) {
        original = route
        policy = route.webSocket?.redirects ?? .none
        visited = [Redirect(of: route)]
    }

    package var count: Int { visited.count - 1 }

    /// The route on which to go on.
    ///
    /// - Parameters:
    ///   - location: as it came; resolved against the route that was redirected last.
    package mutating func follow(status: Int, location: String?) throws(Refusal) -> Route {
        guard [301, 302, 303, 307, 308].contains(status) else {
            throw Refusal(reason: "\(status) isn't one of 301, 302, 303, 307 and 308")
        }
        guard let location else { throw Refusal(reason: "it has no Location") }
        if case .none = policy { throw Refusal(reason: "the profile follows no redirects") }
        let current = visited[visited.count - 1]
        let target = try Redirect(location: location, from: current)
        guard target.isEncrypted || !current.isEncrypted else {
            throw Refusal(reason: "it leads from wss to ws, which is never done")
        }
        let receivesCredentials: Bool
        if target.isAtHost(original.host) {
            receivesCredentials = true
        } else if case .hosts(let hosts) = policy, let host = hosts.first(where: { target.isAtHost($0.name) })
        {
            receivesCredentials = host.credentials == .sentThereToo
        } else {
            throw Refusal(reason: "it leads to another host, \(target.host), which the profile doesn't list")
        }
        guard !visited.contains(target) else { throw Refusal(reason: "it leads back to \(target)") }
        guard count < Self.maximumCount else {
            throw Refusal(reason: "\(Self.maximumCount) redirects have been followed already")
        }
        visited.append(target)
        return Route(original, redirectedTo: target, receivesCredentials: receivesCredentials)
    }
}

/// Where a redirect leads.
package struct Redirect: Sendable, Hashable {
    package let isEncrypted: Bool
    /// In lower case, without a dot at its end.
    package let host: String
    package let port: UInt16
    /// Path and query.
    package let path: String

    package init(of route: Route) {
        isEncrypted = route.tls != nil
        host = Self.comparable(route.host)
        port = route.port
        path = route.webSocket?.path ?? "/"
    }

    /// Resolves a reference (RFC 3986, section 5.2.2).
    package init(location: String, from base: Redirect) throws(RedirectTrail.Refusal) {
        guard location.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else {
            throw RedirectTrail.Refusal(
                reason:
                    "its Location holds a character that must be percent-encoded, or there are two of them")
        }
        // The fragment is the client's own (RFC 9110, section 10.2.2) and nothing to a WebSocket.
        let reference = location.prefix { $0 != "#" }
        let (scheme, afterScheme) = Self.scheme(of: reference)
        let name: String
        switch scheme {
        case nil: name = base.isEncrypted ? "wss" : "ws"
        case "ws", "http": name = "ws"
        case "wss", "https": name = "wss"
        case .some(let other): throw RedirectTrail.Refusal(reason: "it leads to the scheme \(other)")
        }
        let authority: Substring
        var path: Substring
        if afterScheme.hasPrefix("//") {
            let rest = afterScheme.dropFirst(2)
            authority = rest.prefix { $0 != "/" && $0 != "?" }
            path = rest.dropFirst(authority.count)
            if !path.hasPrefix("/") { path = "/" + path }
        } else if scheme != nil {
            throw RedirectTrail.Refusal(reason: "its Location names no host")
        } else {
            authority = Substring(base.authority)
            path = Self.merge(afterScheme, into: base.path)
        }
        guard !authority.contains("@") else {
            throw RedirectTrail.Refusal(reason: "its Location holds a user name")
        }
        let query = path.drop { $0 != "?" }
        let url = "\(name)://\(authority)\(Self.withoutDotSegments(path.prefix { $0 != "?" }))\(query)"
        do throws(ProfileError) {
            let profile = try ConnectionProfile(url: url)
            isEncrypted = profile.isEncrypted
            host = Self.comparable(profile.host)
            port = profile.port
            self.path = profile.webSocket?.path ?? "/"
        } catch {
            throw RedirectTrail.Refusal(reason: "its Location can't be used: \(error)")
        }
    }

    /// A Location as it may be shown.
    package static func withoutUserInformation(_ location: String) -> String {
        guard let slashes = location.firstRange(of: "//") else { return location }
        let authority = location[slashes.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let at = authority.lastIndex(of: "@") else { return location }
        return "\(location[..<slashes.upperBound])…\(location[at...])"
    }

    package func isAtHost(_ name: String) -> Bool { host == Self.comparable(name) }

    private var authority: String { "\(URLParts.written(host: host)):\(port)" }

    /// In lower case, without brackets and a dot at its end.
    package static func comparable(_ host: String) -> String {
        var host = host.lowercased()
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        return host.hasSuffix(".") ? String(host.dropLast()) : host
    }

    /// In lower case, and what follows its colon (RFC 3986, section 3.1); nil for a relative reference.
    private static func scheme(of reference: Substring) -> (String?, Substring) {
        let beforeColon = reference.prefix { $0 != ":" && $0 != "/" && $0 != "?" }
        let rest = reference.dropFirst(beforeColon.count)
        guard rest.hasPrefix(":") else { return (nil, reference) }
        return (beforeColon.lowercased(), rest.dropFirst())
    }

    /// RFC 3986, section 5.2.3.
    private static func merge(_ reference: Substring, into base: String) -> Substring {
        let basePath = base.prefix { $0 != "?" }
        if reference.isEmpty { return Substring(base) }
        if reference.hasPrefix("?") { return basePath + reference }
        if reference.hasPrefix("/") { return reference }
        let directory = basePath.lastIndex(of: "/").map { basePath[...$0] } ?? "/"
        return directory + reference
    }

    /// RFC 3986, section 5.2.4.
    private static func withoutDotSegments(_ path: Substring) -> String {
        var kept: [Substring] = []
        let segments = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            switch segment {
            case ".": if isLast { kept.append("") }
            case "..":
                kept = kept.dropLast()
                if isLast { kept.append("") }
            default: kept.append(segment)
            }
        }
        return "/" + kept.joined(separator: "/")
    }
}

extension Redirect: CustomStringConvertible {
    package var description: String { "\(isEncrypted ? "wss" : "ws")://\(authority)\(path)" }
}
