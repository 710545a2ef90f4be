package import MQTTTransport

/// A network as it is met in the field, on the loopback interface: what a probe has to say of each way to the broker.
///
/// A resolver of its own maps each host and port to a listener at a port that the system chooses, so that clients keep
/// the ports they think of, and need no rights.
package struct HostileNetwork: Sendable {
    /// The broker's name in all networks.
    package static let broker = "broker.test"
    package static let proxy = "proxy.test"

    package let name: String
    /// For a person: what it is like there.
    package let summary: String
    /// How the broker's name is looked up.
    package var names = Names.known
    /// What answers at the broker's IPv4 address; nil where it has none.
    package var ipv4: NetworkPorts? = .open
    package var ipv6: NetworkPorts?
    /// What answers to any other name.
    package var elsewhere = NetworkPorts.web
    package var proxy: HostileProxy?
    package var trust = Trust.broker
    package var configuration = BrokerConfiguration()
    package var redirection: LoopbackBroker.Redirection?
    /// What a probe is asked for besides ways to connect.
    package var measures: Set<Measure> = []
    /// How long each stage of a probe needs here for a right verdict, where that is more than usual.
    package var timeout = Duration.seconds(1)

    /// What to expect of ways, by their identifiers, such as `wss-443` or `tls-8883@proxy-1`; one `*` stands for anything,
    /// and the longest pattern that matches counts. Several codes, with `|` between them, where nobody could tell them
    /// apart from outside.
    package let expected: [String: String]
    /// The same for a client, which sees less where a verdict needs another connection to compare with.
    package var seen: [String: String] = [:]
    package let outcome: Outcome

    package init(
        _ name: String, _ summary: String, _ outcome: Outcome, _ expected: [String: String],
        _ change: (inout HostileNetwork) -> Void = { _ in }
    ) {
        self.name = name
        self.summary = summary
        self.outcome = outcome
        self.expected = expected
        change(&self)
    }

    /// The codes that are right for a way; none where nothing is expected of it.
    package func expectation(ofWay identifier: String) -> [String] { Self.codes(expected, identifier) }

    /// The codes that a client may fail with there, or `ok`.
    package func observation(ofWay identifier: String) -> [String] {
        let codes = Self.codes(seen, identifier)
        return codes.isEmpty ? expectation(ofWay: identifier) : codes
    }

    private static func codes(_ patterns: [String: String], _ identifier: String) -> [String] {
        let matching = patterns.filter { pattern, _ in
            let parts = pattern.split(separator: "*", omittingEmptySubsequences: false)
            guard parts.count == 2 else { return identifier == pattern }
            return identifier.count >= pattern.count - 1 && identifier.hasPrefix(parts[0])
                && identifier.hasSuffix(parts[1])
        }
        let longest = matching.max { $0.key.count < $1.key.count }
        return longest?.value.split(separator: "|").map(String.init) ?? []
    }

    /// What a probe says of the whole.
    package enum Outcome: String, Sendable, Hashable {
        case preferred
        case fallback
        case none
        /// A person has to do something here first.
        case action
    }

    package enum Measure: String, Sendable, Hashable, CaseIterable {
        case echo
        case idle
        case size
    }

    package enum Trust: Sendable, Hashable {
        case broker
        /// The authority of the product that opens TLS, too.
        case brokerAndInspector
    }

    package enum Names: Sendable {
        case known
        /// What asking for the broker's name comes to.
        case failing(FailureCode)
        /// No answer.
        case unanswered
        /// The network's own name server leads to an address of its own, where this answers; others know better.
        case hijacked(NetworkPorts)
    }
}

/// What answers at the ports of one address.
package struct NetworkPorts: Sendable {
    package var parts: [UInt16: HostilePart]
    /// At all other ports.
    package var others: HostilePart

    package init(_ parts: [UInt16: HostilePart] = [:], others: HostilePart = .refused) {
        self.parts = parts
        self.others = others
    }

    /// The broker, by every way there is.
    package static let open = NetworkPorts([
        1883: .broker, 8883: .tls(.valid, .broker), 8083: .webSocket(.broker), 80: .webSocket(.broker),
        8084: .secureWebSocket(), 443: .https(),
    ])

    /// A web server, which says no more than that it is there.
    package static let web = NetworkPorts([
        80: .http("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
        443: .tls(.valid, .http("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")),
    ])

    package static func only(_ part: HostilePart) -> NetworkPorts { NetworkPorts(others: part) }

    /// The same with these ports otherwise.
    package func with(_ ports: [UInt16], _ part: HostilePart) -> NetworkPorts {
        var changed = self
        for port in ports { changed.parts[port] = part }
        return changed
    }

    /// The same with another end of TLS wherever there is one.
    package func with(_ end: HostilePart.TLSEnd) -> NetworkPorts {
        NetworkPorts(parts.mapValues { $0.with(end) }, others: others.with(end))
    }
}

extension HostilePart {
    fileprivate func with(_ end: TLSEnd) -> HostilePart {
        switch self {
        case .dropped, .refused, .script, .broker: self
        case .tls(_, let inside): .tls(end, inside.with(end))
        case .webSocket(let inside): .webSocket(inside.with(end))
        case .hello(let rules, let otherwise):
            .hello(rules.map { HelloRule($0.condition, $0.part.with(end)) }, otherwise.with(end))
        case .hindered(let hindrance, let inside): .hindered(hindrance, inside.with(end))
        }
    }
}
