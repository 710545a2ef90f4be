internal import Glibc

/// The variables by which programs are told of proxies: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
///
/// ```swift
/// profile.proxy = try ProxyEnvironment.process.proxy(for: profile)
/// ```
///
/// The rules are curl's. A variable's name in lower case comes before the same in upper case, and an empty one counts as
/// unset. `https_proxy` is for encrypted transports (`mqtts`, `wss`), `http_proxy` for the others, `all_proxy` for
/// both where that isn't set. A proxy without a scheme speaks HTTP; without a port it is 443 for `https` and 1080 for
/// everything else.
///
/// `no_proxy` lists what is reached directly, separated by commas or spaces. `*` is everything; `example.com` is that
/// host and all below it, with or without a dot before it; an address is that address, and `192.0.2.0/24` or
/// `2001:db8::/32` a whole network. Names aren't looked up for it.
///
/// It goes beyond curl in this: `HTTP_PROXY` in upper case is read too, unless `REQUEST_METHOD` says that this is a CGI
/// program, where a client's header `Proxy` becomes that variable. `example.com:8883` in `no_proxy` means that port
/// alone. `*` may stand among others, and an IPv6 address in brackets.
public struct ProxyEnvironment: Sendable, Hashable {
    private static let names = ["https_proxy", "http_proxy", "all_proxy", "no_proxy"]
    private static let requestMethod = "REQUEST_METHOD"

    private let variables: [String: String]

    /// The environment that these variables are; others than those named above mean nothing.
    public init(_ variables: [String: String]) {
        self.variables = variables.filter { name, value in
            !value.isEmpty && (Self.names.contains(name.lowercased()) || name == Self.requestMethod)
        }
    }

    /// What the environment of this process is now.
    public static var process: ProxyEnvironment {
        var variables: [String: String] = [:]
        for name in names + names.map({ $0.uppercased() }) + [requestMethod] {
            variables[name] = getenv(name).map { String(cString: $0) }
        }
        return ProxyEnvironment(variables)
    }

    /// The proxy that leads to a profile's broker; nil where it is to be reached directly. The profile's own
    /// `proxy` counts for nothing.
    ///
    /// - Throws: `ProfileError` where the variable that counts holds no proxy that can be used. It names the variable,
    ///   and never repeats a password.
    public func proxy(for profile: ConnectionProfile) throws(ProfileError) -> Proxy? {
        let found = variable(profile.isEncrypted ? "https_proxy" : "http_proxy") ?? variable("all_proxy")
        guard let (name, value) = found, !isExempt(profile) else { return nil }
        do throws(ProfileError) {
            return try Proxy(environmentValue: value)
        } catch {
            throw ProfileError("the environment variable \(name): \(error)")
        }
    }

    private func isExempt(_ profile: ConnectionProfile) -> Bool {
        guard let (_, list) = variable("no_proxy") else { return false }
        return ProxyExemptions(list).cover(host: profile.host, port: profile.port)
    }

    private func variable(_ name: String) -> (name: String, value: String)? {
        if let value = variables[name] { return (name, value) }
        let name = name.uppercased()
        if name == "HTTP_PROXY", variables[Self.requestMethod] != nil { return nil }
        return variables[name].map { (name, $0) }
    }
}

extension ProxyEnvironment: CustomStringConvertible, CustomReflectable {
    /// The names of the variables that are set. Their values may hold passwords.
    public var description: String { variables.keys.sorted().joined(separator: " ") }

    public var customMirror: Mirror { Mirror(self, children: ["variables": variables.keys.sorted()]) }
}

extension Proxy {
    fileprivate init(environmentValue value: String) throws(ProfileError) {
        let hasScheme = value.contains("://")
        let scheme = value.prefix { $0 != ":" }.lowercased()
        if hasScheme, ["socks4", "socks4a", "socks"].contains(scheme) {
            throw ProfileError("SOCKS 4, the scheme \(scheme), isn't spoken here: use socks5h or http")
        }
        let proxy: Proxy
        do throws(ProfileError) {
            proxy = try Proxy(url: hasScheme ? value : "http://\(value)", portOfHTTP: 1080)
        } catch {
            // Where a part isn't what it was taken for, its text may be the password.
            if error.description.hasPrefix("the port ") {
                throw ProfileError("the port isn't a number from 1 to 65535")
            }
            throw ProfileError(Self.withoutQuotation(error.description))
        }
        self = proxy
    }

    private static func withoutQuotation(_ sentence: String) -> String {
        guard let first = sentence.firstIndex(of: "\""), let last = sentence.lastIndex(of: "\"") else {
            return sentence
        }
        return "\(sentence[...first])…\(sentence[last...])"
    }
}

/// What `no_proxy` lists.
struct ProxyExemptions {
    private enum Entry {
        case everything
        /// In lower case, without a dot at either end.
        case domain(String, port: UInt16?)
        case network([UInt8], bits: Int, port: UInt16?)
    }

    private let entries: [Entry]

    /// An entry that can't be read is one that matches nothing.
    init(_ list: String) {
        entries = list.split { $0 == "," || $0.isWhitespace }.compactMap { Self.entry($0) }
    }

    func cover(host: String, port: UInt16) -> Bool {
        let name = host.hasSuffix(".") ? host.dropLast().lowercased() : host.lowercased()
        let address = SocketAddress(literal: host, port: port)?.bytes
        return entries.contains { entry in
            switch entry {
            case .everything: true
            case .domain(let domain, let itsPort):
                address == nil && (itsPort ?? port) == port
                    && (name == domain || name.hasSuffix("." + domain))
            case .network(let network, let bits, let itsPort):
                (itsPort ?? port) == port && address.map { Self.share(bits, network, $0) } == true
            }
        }
    }

    private static func entry(_ text: Substring) -> Entry? {
        if text == "*" { return .everything }
        var text = text
        var port: UInt16?
        if let colon = text.lastIndex(of: ":"),
            text.first == "[" ? text[..<colon].contains("]") : text.firstIndex(of: ":") == colon
        {
            port = UInt16(text[text.index(after: colon)...])
            guard port != nil else { return nil }
            text = text[..<colon]
        }
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard var host = parts.first else { return nil }
        if host.first == "[" {
            guard host.last == "]" else { return nil }
            host = host.dropFirst().dropLast()
        }
        if let address = address(host) {
            guard parts.count == 2 else {
                return .network(address, bits: address.count * 8, port: port)
            }
            guard let bits = UInt8(parts[1]), bits <= address.count * 8 else { return nil }
            return .network(address, bits: Int(bits), port: port)
        }
        if host.last == "." { host = host.dropLast() }
        if host.first == "." { host = host.dropFirst() }
        guard parts.count == 1, !host.isEmpty else { return nil }
        return .domain(host.lowercased(), port: port)
    }

    /// An address in full: the resolver would take 192.168 for 192.0.0.168.
    private static func address(_ text: Substring) -> [UInt8]? {
        for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
            var bytes = [UInt8](repeating: 0, count: count)
            if inet_pton(family, String(text), &bytes) == 1 { return bytes }
        }
        return nil
    }

    private static func share(_ bits: Int, _ network: [UInt8], _ address: [UInt8]) -> Bool {
        guard network.count == address.count else { return false }
        return network.indices.allSatisfy { index in
            let count = min(max(bits - index * 8, 0), 8)
            return (network[index] ^ address[index]) & ~(0xFF >> UInt8(count)) == 0
        }
    }
}
