import MQTTConformance
import MQTTCore
import MQTTTransport
import Testing

@testable import MQTTTraversal

/// Where servers send a client, and whether it goes there (5.0, section 4.11).
struct ServerTrailTests {
    fileprivate static let start = ContinuousClock.now
    private static let everywhere = ServerRedirection.follow { request in
        request.references.first.flatMap { request.profile(for: $0) }.map { RedirectionTarget($0) }
    }

    private static func profile(_ url: String = "wss://user:secret@a.example:9001/x") throws
        -> ConnectionProfile
    {
        var profile = try ConnectionProfile(url: url)
        profile.webSocket?.headers = [.init(name: "Authorization", value: "Bearer secret")]
        profile.tls?.identity = .init(certificateFile: "c", privateKeyFile: "k")
        profile.tls?.serverName = "front.example"
        return profile
    }

    private static func trail(
        _ redirection: ServerRedirection = everywhere, url: String = "wss://user:secret@a.example:9001/x"
    ) throws -> ServerTrail {
        var configuration = ClientConfiguration()
        configuration.redirection = redirection
        var trail = ServerTrail(
            profile: try profile(url), configuration: configuration, stableAfter: .seconds(30))
        trail.startOver()
        return trail
    }

    // MARK: Server References

    @Test(
        .mqtt5("detect-server-reference"),
        arguments: [
            // Section 4.11's own examples.
            ("myserver.xyz.org", "myserver.xyz.org", nil, nil),
            ("myserver.xyz.org:8883", "myserver.xyz.org", 8883, nil),
            ("10.10.151.22:8883", "10.10.151.22", 8883, nil),
            ("[fe80::9610:3eff:fe1c]:1883", "fe80::9610:3eff:fe1c", 1883, nil),
            ("[::1]", "::1", nil, nil), ("b.example.:1", "b.example.", 1, nil), ("b:", "b", nil, nil),
            ("mqtts://b.example", "b.example", 8883, "mqtts://b.example:8883"),
            ("WSS://b.example/x", "b.example", 443, "wss://b.example:443/x"),
        ] as [(String, String, UInt16?, String?)])
    func a_reference_is_a_host_perhaps_with_a_port(
        _ text: String, _ host: String, _ port: UInt16?, _ url: String?
    ) throws {
        let reference = try #require(ServerReference(text))
        #expect(reference.host == host)
        #expect(reference.port == port)
        #expect(reference.url?.description == url)
    }

    @Test(arguments: [
        "", ":", ":1883", "b:0", "b:65536", "b:x", "b:-1", "b: 1", "::1", "fe80::1:1883", "[::1", "[::1]x",
        "[]:1",
        "[b.example]:x", "user@b", "mqtt://user:secret@b", "http://b.example", "b/x", "b.example/mqtt:1",
        "b?c",
        "b\u{0}", "b\r\nc", "bücher.example", "mqtt://b/x",
    ])
    func what_makes_no_sense_is_no_reference(_ text: String) {
        #expect(ServerReference(text) == nil)
    }

    @Test func a_list_is_separated_by_spaces() {
        let hosts = ServerReference.list("  b:1 [::2]:2  : c ").map(\.host)
        #expect(hosts == ["b", "::2", "c"])
    }

    // MARK: What the policy is asked

    @Test func the_policy_hears_what_the_server_said_and_no_secrets() throws {
        let heard = Lock<[RedirectionRequest]>([])
        let policy = ServerRedirection.follow { request in
            heard.withLock { $0.append(request) }
            return request.profile(for: request.references[1]).map { RedirectionTarget($0) }
        }
        var trail = try Self.trail(policy)
        #expect(trail.step("b c:1", isPermanent: true) == nil)
        #expect(trail.step("d e", isPermanent: false) == nil)
        #expect(trail.present.profile.description == "wss://e:1/x")
        let requests = heard.withLock { $0 }
        #expect(requests.map { $0.references.map(\.host) } == [["b", "c"], ["d", "e"]])
        #expect(requests.map(\.isPermanent) == [true, false])
        #expect(requests.map(\.count) == [1, 2])
        #expect(requests.map(\.profile.description) == ["wss://a.example:9001/x", "wss://c:1/x"])
        #expect(requests.allSatisfy { $0.originalHost == "a.example" })
        for profile in requests.map(\.profile) {
            #expect(profile.userName == nil && profile.password == nil)
            #expect(profile.webSocket?.headers == [] && profile.tls?.identity == nil)
        }
    }

    @Test func a_reference_without_port_keeps_the_present_one() throws {
        var trail = try Self.trail()
        #expect(trail.step("b.example") == nil)
        #expect(trail.present.profile.description == "wss://b.example:9001/x")
    }

    @Test(arguments: [
        ("wss://c.example:1/y", "wss://c.example:1/x"), ("mqtts://c.example", nil), ("ws://c.example", nil),
        ("mqtt://c.example", nil), ("c.example", "wss://c.example:9001/x"),
        ("A.Example.:1", "wss://A.Example.:1/x"),
        ("d.example", nil), ("d.example c.example:7", "wss://c.example:7/x"),
    ])
    func the_same_transport_at_listed_hosts(_ reference: String, _ url: String?) throws {
        var trail = try Self.trail(.sameTransport(hosts: ["c.EXAMPLE"]))
        let refusal = trail.step(reference)
        #expect(refusal == (url == nil ? "the client's policy is against it" : nil))
        #expect(trail.present.profile.description == url ?? "wss://a.example:9001/x")
    }

    // MARK: Rules that no policy changes

    @Test(arguments: [
        (nil, "it names no server"), ("", "its Server Reference names no host"),
        (":: x:y", "its Server Reference names no host"),
        ("a.example", "it leads back to wss://a.example:9001/x"),
        ("A.example.:9001", "it leads back to wss://A.example.:9001/x"),
    ])
    func what_is_not_followed(_ reference: String?, _ reason: String) throws {
        var trail = try Self.trail()
        #expect(trail.step(reference) == reason)
        #expect(try trail.present == Self.trail().present)
    }

    @Test func a_policy_that_only_reports_follows_nothing() throws {
        var trail = try Self.trail(.report)
        let notice = try #require(RedirectionNotice(reference: "b", isPermanent: true))
        let taken = trail.present.profile
        let follows = try trail.follow(notice, from: taken, now: Self.start)
        #expect(!follows)
    }

    @Test(
        .mqtt5("detect-server-reference"),
        arguments: [
            ("mqtts://a", "mqtt://b", false), ("wss://a", "ws://b", false), ("mqtts://a", "ws://b", false),
            ("wss://a", "mqtts://b", true), ("mqtts://a", "wss://b", true), ("mqtt://a", "wss://b", true),
            ("mqtt://a", "mqtt://b", true),
        ])
    func nothing_leads_from_encryption_to_plaintext(_ from: String, _ to: String, _ isFollowed: Bool) throws {
        var trail = try Self.trail(
            .follow { $0.references[0].url.map { RedirectionTarget($0, credentials: .sentThereToo) } },
            url: from)
        let expected = isFollowed ? nil : "it leads from encryption to plaintext, which is never done"
        #expect(trail.step(to) == expected)
        // Nor later in the row.
        if isFollowed, to != "mqtt://b" {
            #expect(trail.step("mqtt://c") == "it leads from encryption to plaintext, which is never done")
        }
    }

    @Test func five_in_a_row() throws {
        var trail = try Self.trail()
        for host in 1...5 { #expect(trail.step("b\(host)") == nil) }
        #expect(trail.step("b6") == "5 redirections have been followed already")
        trail.startOver()
        #expect(trail.step("b6") == nil)
    }

    @Test func a_short_connection_does_not_end_the_row() throws {
        var trail = try Self.trail()
        #expect(trail.step("b") == nil)
        trail.accepted(now: Self.start)
        #expect(trail.step("a.example", after: .seconds(29)) == "it leads back to wss://a.example:9001/x")
        #expect(trail.step("c", after: .seconds(29)) == nil)
        #expect(trail.step("b") == "it leads back to wss://b:9001/x")
    }

    @Test func a_connection_that_stood_ends_it() throws {
        var trail = try Self.trail()
        #expect(trail.step("b") == nil)
        trail.accepted(now: Self.start)
        #expect(trail.step("b", after: .seconds(30)) == "it leads back to wss://b:9001/x")
        #expect(trail.step("a.example", after: .seconds(30)) == nil)
        #expect(trail.step("b") == "it leads back to wss://b:9001/x")
    }

    // MARK: How long it holds

    @Test(
        .mqtt5("detect-server-reference"),
        arguments: [
            // What led there, whether the last place accepted, and where the next attempt begins.
            ([("b", false)], true, "a.example"), ([("b", true)], true, "b"),
            ([("b", true)], false, "a.example"),
            // A place that is only for now has moved: that is of no concern to the first one.
            ([("b", false), ("c", true)], true, "a.example"), ([("b", true), ("c", true)], true, "c"),
        ] as [([(String, Bool)], Bool, String)])
    func temporary_and_permanent(_ steps: [(String, Bool)], _ accepted: Bool, _ home: String) throws {
        var trail = try Self.trail()
        for (reference, isPermanent) in steps {
            #expect(trail.step(reference, isPermanent: isPermanent) == nil)
        }
        if accepted { trail.accepted(now: Self.start) }
        trail.startOver()
        #expect(trail.present.profile.host == home)
    }

    @Test func a_temporary_place_of_one_that_has_moved() throws {
        var trail = try Self.trail()
        #expect(trail.step("b", isPermanent: true) == nil)
        trail.accepted(now: Self.start)
        #expect(trail.step("c") == nil)
        trail.accepted(now: Self.start)
        trail.startOver()
        #expect(trail.present.profile.host == "b")
    }

    @Test func `each server is reached through the same proxy and from the same address`() throws {
        var profile = try Self.profile()
        profile.proxy = try Proxy(.http, host: "proxy.example")
        profile.socket = SocketOptions(localAddress: "127.0.0.5")
        let ways: [(ServerRedirection, String)] = [
            (.sameTransport(hosts: ["b"]), "b"), (Self.everywhere, "wss://b.example/x"),
        ]
        for (redirection, reference) in ways {
            var configuration = ClientConfiguration()
            configuration.redirection = redirection
            var trail = ServerTrail(
                profile: profile, configuration: configuration, stableAfter: .seconds(30))
            trail.startOver()
            #expect(trail.step(reference) == nil)
            #expect(trail.present.profile.host.hasPrefix("b"))
            #expect(trail.present.profile.proxy == profile.proxy)
            #expect(trail.present.profile.socket == profile.socket)
        }
    }

    // MARK: Credentials

    @Test func another_host_learns_nothing_by_default() throws {
        var trail = try Self.trail(.sameTransport(hosts: ["b"]))
        #expect(trail.step("b") == nil)
        let place = trail.present
        #expect(place.userName == nil && place.password == nil && !place.receivesCredentials)
        #expect(place.profile.userName == nil && place.profile.password == nil)
        #expect(place.profile.webSocket?.headers == [] && place.profile.tls?.identity == nil)
        // It isn't the original's name that it is asked for and verified by.
        #expect(place.profile.tls?.serverName == nil)
    }

    @Test func another_host_learns_all_where_the_answer_says_so() throws {
        var trail = try Self.trail(.sameTransport(hosts: [.init("b", credentials: .sentThereToo)]))
        #expect(trail.step("b") == nil)
        var expected = try Self.profile()
        expected.host = "b"
        expected.tls?.serverName = nil
        #expect(trail.present.profile == expected)
        #expect(trail.present.userName == "user" && trail.present.password == Array("secret".utf8))
        #expect(trail.present.receivesCredentials)
    }

    @Test func the_same_host_learns_all_at_any_port() throws {
        var trail = try Self.trail(.sameTransport(hosts: []))
        #expect(trail.step("A.example:1") == nil)
        #expect(trail.present.userName == "user" && trail.present.receivesCredentials)
        #expect(trail.present.profile.tls?.serverName == "front.example")
    }

    @Test func what_was_withheld_comes_back_with_the_first_host() throws {
        var trail = try Self.trail(.sameTransport(hosts: ["b"]))
        #expect(trail.step("b") == nil)
        #expect(trail.step("a.example:1") == nil)
        #expect(trail.present.userName == "user" && trail.present.receivesCredentials)
        #expect(try trail.present.profile.webSocket?.headers == Self.profile().webSocket?.headers)
    }

    @Test(arguments: [RedirectPolicy.Credentials.withheld, .sentThereToo])
    func a_place_may_have_a_login_of_its_own(_ credentials: RedirectPolicy.Credentials) throws {
        var trail = try Self.trail(
            .follow { request in
                guard var profile = request.profile(for: request.references[0]) else { return nil }
                profile.userName = "other"
                return RedirectionTarget(profile, credentials: credentials)
            })
        #expect(trail.step("b") == nil)
        #expect(trail.present.userName == "other" && trail.present.password == nil)
        #expect(trail.present.receivesCredentials == (credentials == .sentThereToo))
    }

    @Test func the_configurations_login_outweighs_the_profiles() throws {
        var configuration = ClientConfiguration(userName: "configured", password: [1])
        configuration.redirection = .sameTransport(hosts: [.init("b", credentials: .sentThereToo)])
        var trail = ServerTrail(
            profile: try Self.profile(), configuration: configuration, stableAfter: .seconds(30))
        trail.startOver()
        #expect(trail.present.userName == "configured" && trail.present.password == [1])
        #expect(trail.step("b") == nil)
        #expect(trail.present.userName == "configured" && trail.present.password == [1])
    }

    // MARK: Notices

    @Test func only_0x9C_and_0x9D_send_elsewhere() {
        let properties = Properties([.serverReference("b")])
        #expect(RedirectionNotice(.useAnotherServer, properties)?.isPermanent == false)
        #expect(RedirectionNotice(.serverMoved, properties)?.isPermanent == true)
        #expect(RedirectionNotice(.serverBusy, properties) == nil)
        #expect(RedirectionNotice(.serverMoved, Properties())?.reference == nil)
    }
}

extension ServerTrail {
    /// Why the redirection isn't followed; nil where it is.
    fileprivate mutating func step(
        _ reference: String?, isPermanent: Bool = false, after held: Duration = .zero
    ) -> String? {
        guard let notice = RedirectionNotice(reference: reference, isPermanent: isPermanent) else {
            return "no notice"
        }
        do throws(Refusal) {
            return try follow(notice, from: present.profile, now: ServerTrailTests.start + held)
                ? nil : "reported"
        } catch {
            return error.reason
        }
    }
}

extension RedirectionNotice {
    fileprivate init?(reference: String?, isPermanent: Bool) {
        self.init(
            isPermanent ? .serverMoved : .useAnotherServer,
            Properties(reference.map { [.serverReference($0)] } ?? []))
    }
}
