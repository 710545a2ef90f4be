import MQTTTransport
import Testing

/// What an automatic profile stands for.
@Suite struct RouteLadderTests {
    @Test func the_default_ladder_is_tls_then_secure_websocket_then_port_443() throws {
        let profile = try ConnectionProfile.automatic(host: "broker.test")
        #expect(
            try profile.directWays().map(\.description) == [
                "mqtts://broker.test:8883", "wss://broker.test:8084/mqtt", "wss://broker.test:443/mqtt",
                "mqtts://broker.test:443",
            ])
        #expect(try profile.directWays().map { $0.tls?.applicationProtocols } == [[], [], [], ["mqtt"]])
        #expect(profile.isEncrypted)
        #expect("\(profile)" == "auto://broker.test")
    }

    @Test func what_is_set_on_the_profile_holds_for_all_its_ways() throws {
        var profile = try ConnectionProfile.automatic(
            host: "broker.test", rungs: [.tls(), .webSocketSecure(port: 8884, path: "/ws")])
        profile.tls?.trust = .file("ca.pem")
        profile.webSocket?.headers = [.init(name: "X-Key", value: "1")]
        profile.webSocket?.path = "/passed-over"
        profile.userName = "u"
        profile.proxy = try Proxy(url: "http://proxy.test:3128")
        for way in try profile.directWays() {
            #expect(way.tls?.trust == .file("ca.pem"))
            #expect(way.userName == "u")
            #expect(way.proxy == profile.proxy)
            #expect(way.ladder == nil)
        }
        #expect(try profile.directWays()[1].webSocket?.headers.count == 1)
        #expect(try profile.directWays()[1].webSocket?.path == "/ws")
    }

    @Test func a_single_route_is_its_own_only_way() throws {
        let profile = try ConnectionProfile.tls(host: "broker.test")
        #expect(try profile.directWays() == [profile])
    }

    @Test func a_url_of_the_scheme_auto_is_an_automatic_profile() throws {
        #expect(
            try ConnectionProfile(url: "auto://u:p@broker.test").directWays()
                == ConnectionProfile.automaticWithLogin("broker.test").directWays())
        #expect(throws: ProfileError.self) { try ConnectionProfile(url: "auto://broker.test:8883") }
        #expect(throws: ProfileError.self) { try ConnectionProfile(url: "auto://broker.test/mqtt") }
    }

    @Test func a_plaintext_rung_needs_consent_in_words() throws {
        let rungs: [RouteLadder.Rung] = [.tls(), .tcp()]
        #expect(throws: ProfileError.self) { try ConnectionProfile.automatic(host: "h", rungs: rungs) }
        let consented = try ConnectionProfile.automatic(
            host: "h", ladder: RouteLadder(rungs: rungs, allowsPlaintext: true))
        #expect(!consented.isEncrypted)
        #expect(try consented.directWays().map(\.isEncrypted) == [true, false])
        // Taken back after the profile was made.
        var changed = consented
        changed.ladder?.allowsPlaintext = false
        #expect(throws: ProfileError.self) { try changed.directWays() }
    }

    @Test(arguments: [
        RouteLadder(rungs: []),
        RouteLadder(rungs: [.tls(port: 0)]),
        RouteLadder(stagger: .zero),
        RouteLadder(deadline: .zero),
        RouteLadder(rungs: [.webSocketSecure(path: "mqtt")]),
        RouteLadder(rungs: [.tls(applicationProtocols: [""])]),
    ])
    func a_ladder_that_cannot_be_used_is_refused(_ ladder: RouteLadder) {
        #expect(throws: ProfileError.self) { try ConnectionProfile.automatic(host: "h", ladder: ladder) }
    }

    // MARK: Proxies of the environment

    private static let environment = ProxyEnvironment([
        "https_proxy": "http://u:secret@proxy.test:3128", "no_proxy": "direct.test,broker.test:443",
    ])

    @Test func proxies_of_the_environment_follow_the_direct_ways_except_where_no_proxy_says_so() throws {
        let (ways, problem) = try ConnectionProfile.automatic(host: "broker.test").ways(
            environment: Self.environment)
        #expect(problem == nil)
        let proxy = try Proxy(url: "http://u:secret@proxy.test:3128")
        #expect(ways.map(\.port) == [8883, 8084, 443, 443, 8883, 8084])
        #expect(ways.map(\.proxy) == [nil, nil, nil, nil, proxy, proxy])
        #expect(
            try ConnectionProfile.automatic(host: "direct.test").ways(environment: Self.environment).0.count
                == 4)
    }

    @Test func a_profile_with_one_route_or_a_proxy_of_its_own_ignores_the_environment() throws {
        let single = try ConnectionProfile.tls(host: "broker.test")
        #expect(try single.ways(environment: Self.environment).0 == [single])
        var own = try ConnectionProfile.automatic(host: "broker.test")
        own.proxy = try Proxy(url: "socks5h://own.test")
        #expect(
            try own.ways(environment: Self.environment).0.map(\.proxy)
                == Array(repeating: own.proxy, count: 4))
        var unwilling = try ConnectionProfile.automatic(host: "broker.test")
        unwilling.ladder?.usesProxyEnvironment = false
        #expect(try unwilling.ways(environment: Self.environment).0.count == 4)
    }

    @Test func an_environment_that_cannot_be_used_leaves_the_direct_ways_and_is_told() throws {
        let (ways, problem) = try ConnectionProfile.automatic(host: "broker.test").ways(
            environment: ProxyEnvironment(["HTTPS_PROXY": "gopher://u:secret@proxy.test"]))
        #expect(ways.count == 4)
        #expect(problem?.description.contains("HTTPS_PROXY") == true)
        #expect(problem?.description.contains("secret") == false)
    }

    @Test func a_rung_that_offers_no_protocol_requires_none() throws {
        var profile = try ConnectionProfile.automatic(host: "broker.test")
        profile.tls?.requiresApplicationProtocol = true
        #expect(
            try profile.directWays().map { $0.tls?.requiresApplicationProtocol } == [
                false, false, false, true,
            ])
    }

    // MARK: Which failure speaks for all

    private static func attempt(_ outcome: RouteAttempt.Outcome) throws -> RouteAttempt {
        RouteAttempt(profile: try .tls(host: "h"), outcome: outcome)
    }

    @Test func the_failure_that_got_furthest_speaks_for_the_whole() throws {
        let timeout = TransportError(stage: .tcp, code: .tcpTimeout, evidence: .none)
        let refused = TransportError(stage: .tcp, code: .tcpRefused, evidence: .none)
        let untrusted = TransportError(stage: .tls, code: .tlsUntrusted, evidence: .none)
        let attempts = [
            try Self.attempt(.failed(timeout)), try Self.attempt(.failed(untrusted)),
            try Self.attempt(.failed(refused)), try Self.attempt(.unfinished(.webSocket)),
        ]
        #expect(attempts.decisiveFailure(deadline: .seconds(30)) == untrusted)
        #expect([attempts[0], attempts[2]].decisiveFailure(deadline: .seconds(30)) == timeout)
    }

    @Test func where_none_has_failed_the_deadline_is_the_failure() throws {
        let attempts = [try Self.attempt(.unfinished(.tcp)), try Self.attempt(.unfinished(.tls))]
        let failure = attempts.decisiveFailure(deadline: .seconds(3))
        #expect(failure.code == .tlsTimeout)
        #expect(failure.evidence == .deadline(.seconds(3)))
    }
}

extension ConnectionProfile {
    fileprivate static func automaticWithLogin(_ host: String) throws -> ConnectionProfile {
        var profile = try automatic(host: host)
        profile.userName = "u"
        profile.password = Array("p".utf8)
        return profile
    }
}
