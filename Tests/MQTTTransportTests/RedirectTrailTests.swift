import MQTTTransport
import Testing

/// Where redirects lead, and which are followed.
struct RedirectTrailTests {
    private static func route(
        _ url: String, _ redirects: RedirectPolicy = .sameHost
    ) throws -> Route {
        var profile = try ConnectionProfile(url: url)
        profile.webSocket?.redirects = redirects
        profile.webSocket?.origin = "http://page.example"
        profile.webSocket?.headers = [.init(name: "Authorization", value: "Bearer secret")]
        profile.tls?.identity = .init(certificateFile: "c", privateKeyFile: "k")
        profile.tls?.serverName = "front.example"
        return Route(profile)
    }

    /// The URL that it leads to, or why it isn't followed.
    private static func follow(
        _ location: String?, from url: String, _ redirects: RedirectPolicy = .sameHost, status: Int = 302
    ) throws -> String {
        var trail = RedirectTrail(from: try route(url, redirects))
        do throws(RedirectTrail.Refusal) {
            let next = try trail.follow(status: status, location: location)
            return
                "\(next.tls == nil ? "ws" : "wss")://\(next.host):\(next.port)\(next.webSocket?.path ?? "")"
        } catch {
            return error.reason
        }
    }

    // RFC 3986, section 5.4, and what servers send.
    @Test(arguments: [
        ("ws://b.example:9001/x", "ws://b.example:9001/x"),
        ("ws://B.Example./x", "ws://b.example:80/x"),
        ("WSS://b.example", "wss://b.example:443/"),
        ("http://b.example:8080/a?b=c#d", "ws://b.example:8080/a?b=c"),
        ("https://b.example?b", "wss://b.example:443/?b"),
        ("//b.example:99/x", "ws://b.example:99/x"),
        ("/x/./y/../z?q=../r", "ws://b.example:9001/x/z?q=../r"),
        ("x", "ws://b.example:9001/a/b/x"), ("./x/", "ws://b.example:9001/a/b/x/"),
        ("../x", "ws://b.example:9001/a/x"), ("../../../x", "ws://b.example:9001/x"),
        ("..", "ws://b.example:9001/a/"), (".", "ws://b.example:9001/a/b/"),
        ("?q", "ws://b.example:9001/a/b/c?q"), ("x?y#z", "ws://b.example:9001/a/b/x?y"),
        ("/%2e%2e/x", "ws://b.example:9001/%2e%2e/x"), ("/x:y", "ws://b.example:9001/x:y"),
        ("/\\evil.example", "ws://b.example:9001/\\evil.example"),
        ("///x", "its Location can't be used: the host is missing"),
        ("http:///x", "its Location can't be used: the host is missing"),
        ("http:x", "its Location names no host"), ("https:/x", "its Location names no host"),
        ("b.example:80/x", "it leads to the scheme b.example"),
        ("ftp://b.example/", "it leads to the scheme ftp"),
        ("mqtt://b.example", "it leads to the scheme mqtt"),
        ("javascript:x", "it leads to the scheme javascript"),
        ("http://u:p@b.example/", "its Location holds a user name"),
        ("//@b.example/", "its Location holds a user name"),
        ("http://b.example:0/", "its Location can't be used: the port 0 is outside 1…65535"),
        ("http://b.example:99999/", "its Location can't be used: the port 99999 is outside 1…65535"),
        ("", "it leads back to ws://b.example:9001/a/b/c?d"),
        ("#x", "it leads back to ws://b.example:9001/a/b/c?d"),
        ("/a/b/c?d", "it leads back to ws://b.example:9001/a/b/c?d"),
        ("http://c.example/", "it leads to another host, c.example, which the profile doesn't list"),
        (
            "http://b.example.evil.example/",
            "it leads to another host, b.example.evil.example, which the profile doesn't list"
        ),
    ])
    func a_location_is_resolved(location: String, result: String) throws {
        #expect(try Self.follow(location, from: "ws://b.example:9001/a/b/c?d") == result)
    }

    @Test(arguments: ["/a b", "/é", "/a\r\nX: y", "/a, /b"])
    func a_location_that_is_no_reference_is_refused(location: String) throws {
        let reason = try Self.follow(location, from: "ws://b.example/")
        #expect(reason.hasPrefix("its Location holds a character that must be percent-encoded"))
    }

    @Test func addresses_of_IPv6_keep_their_brackets() throws {
        #expect(try Self.follow("/x", from: "ws://[::1]:9001/") == "ws://::1:9001/x")
        #expect(try Self.follow("ws://[::1]:9002/", from: "ws://[::1]:9001/") == "ws://::1:9002/")
        let listed = RedirectPolicy.hosts(["[::2]"])
        #expect(try Self.follow("ws://[::2]/", from: "ws://[::1]:9001/", listed) == "ws://::2:80/")
        let next = try RedirectTrailTests.next("/x", from: "wss://[::1]:9001/")
        #expect(next.hostField == "[::1]:9001")
    }

    @Test func encryption_is_taken_up_and_never_given_up() throws {
        #expect(try Self.follow("https://b.example/x", from: "ws://b.example/") == "wss://b.example:443/x")
        for location in ["http://b.example/", "ws://b.example:443/", "ws://b.example"] {
            #expect(
                try Self.follow(location, from: "wss://b.example/x")
                    == "it leads from wss to ws, which is never done")
        }
        var trail = RedirectTrail(from: try Self.route("ws://b.example/"))
        _ = try trail.follow(status: 302, location: "wss://b.example/")
        #expect(throws: RedirectTrail.Refusal.self) {
            try trail.follow(status: 302, location: "ws://b.example/x")
        }
    }

    @Test(arguments: [300, 304, 305, 306, 399])
    func other_statuses_are_not_followed(status: Int) throws {
        #expect(
            try Self.follow("/x", from: "ws://b.example/", status: status)
                == "\(status) isn't one of 301, 302, 303, 307 and 308")
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func each_redirect_is_followed(status: Int) throws {
        #expect(try Self.follow("/x", from: "ws://b.example/", status: status) == "ws://b.example:80/x")
        #expect(try Self.follow(nil, from: "ws://b.example/", status: status) == "it has no Location")
    }

    @Test func the_policy_decides_on_hosts() throws {
        let url = "ws://b.example/"
        #expect(try Self.follow("/x", from: url, .none) == "the profile follows no redirects")
        let listed = RedirectPolicy.hosts(["C.Example."])
        #expect(try Self.follow("//c.example/x", from: url, listed) == "ws://c.example:80/x")
        #expect(try Self.follow("/x", from: url, listed) == "ws://b.example:80/x")
        #expect(try Self.follow("//d.example/x", from: url, listed).hasPrefix("it leads to another host"))
    }

    @Test func a_chain_is_bounded_and_has_no_loop() throws {
        var trail = RedirectTrail(from: try Self.route("ws://b.example/0", .hosts(["c.example"])))
        // Each relative to the one before.
        _ = try trail.follow(status: 302, location: "http://c.example/0")
        _ = try trail.follow(status: 302, location: "/1")
        for back in ["/0", "ws://B.example:80/0", "//c.example:80/1"] {
            #expect(throws: RedirectTrail.Refusal.self) { try trail.follow(status: 302, location: back) }
        }
        for step in 2...4 { #expect(try trail.follow(status: 302, location: "/\(step)").host == "c.example") }
        #expect(trail.count == 5)
        let refusal = #expect(throws: RedirectTrail.Refusal.self) {
            try trail.follow(status: 302, location: "/5")
        }
        #expect(refusal?.reason == "5 redirects have been followed already")
    }

    private static func next(
        _ location: String, from url: String, _ redirects: RedirectPolicy = .sameHost
    ) throws -> Route {
        var trail = RedirectTrail(from: try route(url, redirects))
        return try trail.follow(status: 307, location: location)
    }

    @Test func the_profiles_own_host_keeps_everything() throws {
        let next = try Self.next("wss://b.example:8443/x", from: "wss://b.example/")
        #expect(next.receivesCredentials)
        #expect(next.webSocket?.headers.count == 1)
        #expect(next.tls == (try Self.route("wss://b.example/")).tls)
    }

    @Test func another_host_gets_what_its_entry_says() throws {
        for credentials in [RedirectPolicy.Credentials.withheld, .sentThereToo] {
            let next = try Self.next(
                "wss://c.example/x", from: "wss://b.example/",
                .hosts([.init("c.example", credentials: credentials)]))
            let isTrusted = credentials == .sentThereToo
            #expect(next.receivesCredentials == isTrusted)
            #expect(next.webSocket?.headers.count == (isTrusted ? 1 : 0))
            #expect(next.webSocket?.origin == "http://page.example")
            #expect((next.tls?.identity != nil) == isTrusted)
            // The other host is verified by its own name.
            #expect(next.serverName == "c.example")
            #expect(next.tls?.verification == .full)
        }
    }

    /// b → c → b: what c didn't get, b gets again.
    @Test func the_way_back_to_the_profiles_host_has_its_credentials() throws {
        var trail = RedirectTrail(from: try Self.route("wss://b.example/0", .hosts(["c.example"])))
        #expect(try !trail.follow(status: 302, location: "https://c.example/").receivesCredentials)
        let back = try trail.follow(status: 302, location: "https://b.example/1")
        #expect(back.receivesCredentials)
        #expect(back.webSocket?.headers.count == 1)
        #expect(back.serverName == "front.example")
    }

    @Test func plaintext_that_is_redirected_to_TLS_is_verified() throws {
        let next = try Self.next("https://b.example/", from: "ws://b.example/")
        #expect(next.tls == TLSOptions(applicationProtocols: ["http/1.1"]))
    }

    @Test(arguments: [
        ("http://u:p@h/x", "http://…@h/x"), ("//u@h", "//…@h"), ("http://h/a@b", "http://h/a@b"),
        ("http://u@x:p@h?q", "http://…@h?q"), ("/x", "/x"), ("", ""),
    ])
    func a_location_is_shown_without_user_information(location: String, shown: String) {
        #expect(Redirect.withoutUserInformation(location) == shown)
    }
}
