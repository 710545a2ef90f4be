internal import MQTTTraversal

/// What follows from the attempts: a pure function of them.
///
/// It compares what was seen, and claims a cause only where the comparison supports it: a port that refuses may
/// be blocked, or nothing may listen there.
package struct Diagnosis: Sendable, Hashable, Codable {
    package let verdict: Verdict
    /// What to use; nil where nothing works.
    package let recommendation: Recommendation?
    /// For a person, the most important first.
    package let sentences: [String]

    package enum Verdict: String, Sendable, Hashable, Codable {
        /// MQTT over TLS works.
        case preferred
        /// Only another way works.
        case fallback
        /// Nothing works.
        case none
        /// Interrupted before anything was known to work.
        case inconclusive
    }

    package struct Recommendation: Sendable, Hashable, Codable {
        package let route: ProbeRoute
        /// For `ConnectionProfile(url:)`; without credentials.
        package let url: String
        /// For `Proxy(url:)`; without credentials.
        package let proxy: String?
        package let isEncrypted: Bool

        private enum CodingKeys: String, CodingKey {
            case route, url, proxy
            case isEncrypted = "encrypted"
        }
    }

    /// - Parameter attempts: the best route first, encrypted ones before plaintext.
    package init(host: String, attempts: [ProbeReport.Attempt]) {
        // An encrypted way that works always comes before a plaintext one.
        let working = attempts.filter { $0.outcome == .ok }
        let best = working.first(where: \.isEncrypted) ?? working.first
        recommendation = best.map {
            Recommendation(route: $0.route, url: $0.url, proxy: $0.proxy, isEncrypted: $0.isEncrypted)
        }
        let isInterrupted = attempts.contains { $0.outcome == .unfinished }
        switch best?.route {
        case .tls?: verdict = .preferred
        case .webSocketSecure?, .webSocketSecureAlternative?, .tcp?: verdict = .fallback
        case nil: verdict = isInterrupted ? .inconclusive : .none
        }
        let findings = Findings(host: host, attempts: attempts, best: best)
        sentences = findings.sentences
    }
}

/// The comparisons.
private struct Findings {
    typealias Attempt = ProbeReport.Attempt

    let host: String
    let attempts: [Attempt]
    let best: Attempt?

    var failed: [Attempt] { attempts.filter { $0.outcome == .failed } }

    var sentences: [String] {
        [headline].compactMap { $0 }
            + [resolution, proxy, refusal, certificates, ports, plaintext, rest]
            .compactMap { $0 }
    }

    private var headline: String? {
        guard let best else {
            let isInterrupted = attempts.contains { $0.outcome == .unfinished }
            return isInterrupted
                ? "Interrupted before anything was known to work." : "None of these ways works from here."
        }
        if best.route == .tls { return "\(best.name) works: use it." }
        guard let preferred = attempts.first(where: { $0.route == .tls }), preferred.outcome == .failed,
            let failure = preferred.failure
        else { return "\(best.name) works." }
        return "\(preferred.name) \(phrase(failure)); \(best.name) works."
    }

    /// The same name failed everywhere: no port has been tried at all.
    private var resolution: String? {
        let codes = failed.map { $0.failure?.stage == .resolve ? $0.failure?.code : nil }
        guard best == nil, let code = codes.first ?? nil, codes.allSatisfy({ $0 == code }),
            code != .proxyUnresolvable
        else { return nil }
        return "The name \(host) could not be resolved (\(code.rawValue)), so no port was tried: "
            + "this says nothing about the ports."
    }

    /// What failed at a proxy, or before it, says nothing of what is behind it.
    private var proxy: String? {
        let proxied = failed.filter { $0.proxy != nil }
        guard best == nil, !proxied.isEmpty, proxied.count == failed.count else { return nil }
        let codes = proxied.compactMap(\.failure?.code)
        let way = list(names: Set(proxied.compactMap(\.proxy)).sorted())
        if codes.allSatisfy({ $0 == .proxyUnresolvable || $0 == .proxyRefused || $0 == .proxyTimeout }) {
            return
                "The proxy \(way) can't be reached or doesn't answer, so this says nothing about the broker."
        }
        if codes.allSatisfy({ $0 == .proxyAuthRequired || $0 == .proxyAuthFailed || $0 == .proxySOCKSMethod })
        {
            return
                "The proxy \(way) wants a login and got none that it takes, so nothing behind it was tried: this "
                + "says nothing about the broker."
        }
        return nil
    }

    /// A CONNACK that refuses has come from a broker: the way there is open.
    private var refusal: String? {
        let refused = failed.filter { attempt in
            switch attempt.failure?.code {
            case .mqttRefused?, .mqttVersionUnsupported?, .mqttRedirect?: true
            default: false
            }
        }
        guard let first = refused.first, let failure = first.failure else { return nil }
        // Attempts are skipped only where there are credentials.
        let isAnonymous = failure.code == .mqttRefused && !attempts.contains { $0.outcome == .skipped }
        return "The network lets MQTT through on \(list(refused)): it is the broker that says no "
            + "(\(failure.code.rawValue), \(failure.evidence))."
            + (isAnonymous
                ? " This probe had no login: give one with --username if the broker wants it." : "")
    }

    /// The host is up where one port accepts, so that what happens to the others is about those ports.
    private var ports: String? {
        // TCP ends at the proxy.
        guard attempts.allSatisfy({ $0.proxy == nil }) else { return nil }
        let closed = failed.filter { $0.failure?.stage == .tcp }
        let open = attempts.filter { $0.stages.contains { $0.stage == .tcp && $0.state == .passed } }
        // Where the preferred way works, nobody has to open anything.
        guard closed.contains(where: { $0.route == .tls }) else { return nil }
        if open.isEmpty {
            guard attempts.allSatisfy({ $0.outcome == .failed || $0.outcome == .skipped }),
                closed.count == failed.count
            else { return nil }
            return "No port that was tried accepts a connection: the host may be down, or the wrong one, or "
                + "this network lets nothing through to it. Try another network to tell these apart."
        }
        let those = closed.count == 1 ? "that port" : "those ports"
        return "The host accepts connections on \(list(open, ports: true)), so what stops "
            + "\(list(closed, ports: true)) concerns \(those) alone: a firewall, or no listener there. "
            + "The broker's owner can tell which."
    }

    private var certificates: String? {
        let bad = failed.filter { attempt in
            switch attempt.failure?.code {
            case .tlsUntrusted?, .tlsIntercepted?: true
            default: false
            }
        }
        guard let first = bad.first, let certificate = first.failure?.certificate else { return nil }
        let verified = attempts.filter { attempt in
            attempt.stages.contains { $0.stage == .tls && $0.state == .passed }
        }
        if !verified.isEmpty {
            return
                "The certificate on \(list(bad, ports: true)) isn't trusted (issuer \(certificate.issuer)), "
                + "while the one on \(list(verified, ports: true)) is. Either different servers answer, or "
                + "something between answers on \(list(bad, ports: true)) in the broker's place: compare that "
                + "issuer with what the broker's owner says."
        }
        let issuers = Set(bad.map { $0.failure?.certificate?.issuer })
        guard issuers.count == 1, bad.count > 1 else { return nil }
        return
            "The certificates on \(list(bad, ports: true)) come from one issuer that isn't trusted here "
            + "(\(certificate.issuer)). If that is the broker's own CA, give its file with --ca; if its owner "
            + "doesn't know it, something between opens the encryption."
    }

    private var plaintext: String? {
        guard let best, !best.isEncrypted else { return nil }
        return
            "\(best.name) is not encrypted: anybody on the way can read and change all of it. Prefer to have "
            + "an encrypted port opened."
    }

    private var rest: String? {
        guard best != nil, attempts.contains(where: { $0.outcome == .unfinished }) else { return nil }
        return "Interrupted: the other ways weren't tried to their end."
    }

    private func list(_ attempts: [Attempt], ports: Bool = false) -> String {
        var numbers: [UInt16] = []
        for attempt in attempts where !numbers.contains(attempt.port) { numbers.append(attempt.port) }
        let names = ports ? numbers.map(String.init) : attempts.map(\.name)
        let prefix = ports ? (names.count == 1 ? "port " : "ports ") : ""
        return prefix + list(names: names)
    }

    private func list(names: [String]) -> String {
        if names.count < 2 { return names.joined() }
        return names.dropLast().joined(separator: ", ") + " and " + (names.last ?? "")
    }

    private func phrase(_ failure: ProbeReport.Failure) -> String {
        switch failure.code {
        case .tcpRefused: "is refused"
        case .tcpTimeout: "gets no answer at all"
        case .tcpSilent, .tlsTimeout, .mqttConnackTimeout: "is accepted, and then nothing comes"
        case .tlsIntercepted: "shows a certificate of a product that opens TLS"
        case .tlsUntrusted: "shows a certificate that isn't trusted"
        default: "fails with \(failure.code.rawValue)"
        }
    }
}

extension ProbeReport.Attempt {
    /// As the table calls it: `WSS 8084 /mqtt`.
    package var name: String {
        switch route {
        case .tls: "TLS \(port)"
        case .webSocketSecure, .webSocketSecureAlternative: "WSS \(port) \(path)"
        case .tcp: "TCP \(port)"
        }
    }

    /// What follows the authority of the URL.
    private var path: Substring {
        guard let authority = url.firstRange(of: "://")?.upperBound,
            let slash = url[authority...].firstIndex(of: "/")
        else { return "" }
        return url[slash...]
    }
}
