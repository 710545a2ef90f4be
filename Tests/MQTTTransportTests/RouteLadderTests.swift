import MQTTTransport
import Testing

/// What an automatic profile stands for.
@Suite struct RouteLadderTests {
    @Test func the_default_ladder_is_tls_then_secure_websocket_then_port_443() throws {
        let profile = try ConnectionProfile.automatic(host: "broker.test")
        #expect(
            try profile.ways().map(\.description) == [
                "mqtts://broker.test:8883", "wss://broker.test:8084/mqtt", "wss://broker.test:443/mqtt",
                "mqtts://broker.test:443",
            ])
        #expect(try profile.ways().map { $0.tls?.applicationProtocols } == [[], [], [], ["mqtt"]])
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
        for way in try profile.ways() {
            #expect(way.tls?.trust == .file("ca.pem"))
            #expect(way.userName == "u")
            #expect(way.proxy == profile.proxy)
            #expect(way.ladder == nil)
        }
        #expect(try profile.ways()[1].webSocket?.headers.count == 1)
        #expect(try profile.ways()[1].webSocket?.path == "/ws")
    }

    @Test func a_single_route_is_its_own_only_way() throws {
        let profile = try ConnectionProfile.tls(host: "broker.test")
        #expect(try profile.ways() == [profile])
    }

    @Test func a_url_of_the_scheme_auto_is_an_automatic_profile() throws {
        #expect(
            try ConnectionProfile(url: "auto://u:p@broker.test").ways()
                == ConnectionProfile.automaticWithLogin("broker.test").ways())
        #expect(throws: ProfileError.self) { try ConnectionProfile(url: "auto://broker.test:8883") }
        #expect(throws: ProfileError.self) { try ConnectionProfile(url: "auto://broker.test/mqtt") }
    }

    @Test func a_plaintext_rung_needs_consent_in_words() throws {
        let rungs: [RouteLadder.Rung] = [.tls(), .tcp()]
        #expect(throws: ProfileError.self) { try ConnectionProfile.automatic(host: "h", rungs: rungs) }
        let consented = try ConnectionProfile.automatic(
            host: "h", ladder: RouteLadder(rungs: rungs, allowsPlaintext: true))
        #expect(!consented.isEncrypted)
        #expect(try consented.ways().map(\.isEncrypted) == [true, false])
        // Taken back after the profile was made.
        var changed = consented
        changed.ladder?.allowsPlaintext = false
        #expect(throws: ProfileError.self) { try changed.ways() }
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
