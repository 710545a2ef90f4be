import MQTTTransport
import Testing

@Suite("ConnectionProfile")
struct ConnectionProfileTests {
    struct Valid: Sendable {
        let url: String
        let host: String
        let port: UInt16
        let canonical: String
        let user: String?
        let password: String?

        init(
            _ url: String, _ host: String, _ port: UInt16, _ canonical: String, user: String? = nil,
            password: String? = nil
        ) {
            self.url = url
            self.host = host
            self.port = port
            self.canonical = canonical
            self.user = user
            self.password = password
        }
    }

    static let valid: [Valid] = [
        Valid("mqtt://broker.example", "broker.example", 1883, "mqtt://broker.example:1883"),
        Valid("mqtt://broker.example/", "broker.example", 1883, "mqtt://broker.example:1883"),
        Valid("tcp://broker.example:2000", "broker.example", 2000, "mqtt://broker.example:2000"),
        Valid("mqtts://broker.example", "broker.example", 8883, "mqtts://broker.example:8883"),
        Valid("ssl://broker.example:", "broker.example", 8883, "mqtts://broker.example:8883"),
        Valid("ws://broker.example", "broker.example", 80, "ws://broker.example:80/mqtt"),
        Valid("wss://broker.example/", "broker.example", 443, "wss://broker.example:443/"),
        Valid(
            "WSS://broker.example:8084/a/b?c=d@e", "broker.example", 8084,
            "wss://broker.example:8084/a/b?…"),
        Valid("ws://broker.example:8083/a@b", "broker.example", 8083, "ws://broker.example:8083/a@b"),
        Valid("ws://broker.example?x=1", "broker.example", 80, "ws://broker.example:80/?…"),
        Valid("mqtt://[::1]", "::1", 1883, "mqtt://[::1]:1883"),
        Valid("wss://[2001:db8::1]:8084/mqtt", "2001:db8::1", 8084, "wss://[2001:db8::1]:8084/mqtt"),
        Valid("mqtt://[fe80::1%25eth0]", "fe80::1%eth0", 1883, "mqtt://[fe80::1%25eth0]:1883"),
        Valid("mqtt://[fe80::1%eth0]:99", "fe80::1%eth0", 99, "mqtt://[fe80::1%25eth0]:99"),
        Valid("mqtt://[fe80::1%2525g%30]", "fe80::1%25g0", 1883, "mqtt://[fe80::1%2525g0]:1883"),
        Valid("ws://[fe80::1%257]/x", "fe80::1%7", 80, "ws://[fe80::1%257]:80/x"),
        Valid("mqtt://192.0.2.1:65535", "192.0.2.1", 65_535, "mqtt://192.0.2.1:65535"),
        Valid("mqtt://my_broker-1", "my_broker-1", 1883, "mqtt://my_broker-1:1883"),
        Valid("mqtt://u@h", "h", 1883, "mqtt://h:1883", user: "u"),
        Valid("mqtt://u:p@h", "h", 1883, "mqtt://h:1883", user: "u", password: "p"),
        Valid("mqtt://u:a:b@c@h", "h", 1883, "mqtt://h:1883", user: "u", password: "a:b@c"),
        Valid("mqtt://u%40x:%2F%3a%25@h", "h", 1883, "mqtt://h:1883", user: "u@x", password: "/:%"),
        Valid("mqtt://:p@h", "h", 1883, "mqtt://h:1883", password: "p"),
        Valid("mqtt://u:@h", "h", 1883, "mqtt://h:1883", user: "u", password: ""),
    ]

    @Test(arguments: valid)
    func a_valid_URL_gives_its_parts(_ example: Valid) throws {
        let profile = try ConnectionProfile(url: example.url)
        #expect(profile.host == example.host)
        #expect(profile.port == example.port)
        #expect(profile.description == example.canonical)
        #expect(profile.userName == example.user)
        #expect(profile.password == example.password.map { Array($0.utf8) })
    }

    static let invalid: [(String, String)] = [
        ("", "\"\" is no URL: it needs a scheme such as mqtts:// or wss://"),
        ("broker.example", "\"broker.example\" is no URL: it needs a scheme such as mqtts:// or wss://"),
        ("u:secret@h:1883", "\"h:1883\" is no URL: it needs a scheme such as mqtts:// or wss://"),
        ("http://h", "the scheme \"http\" is unknown: use auto, mqtts, wss, mqtt or ws"),
        ("mqtt://", "the host is missing"),
        ("mqtt://u:secret@", "the host is missing"),
        ("mqtt://:1883", "the host is missing"),
        ("mqtt://h:0", "the port 0 is outside 1…65535"),
        ("mqtt://h:65536", "the port 65536 is outside 1…65535"),
        ("mqtt://h:-1", "the port \"-1\" isn't a number"),
        ("mqtt://h:99999999999999999999", "the port \"99999999999999999999\" isn't a number"),
        ("mqtt://h:mqtt", "the port \"mqtt\" isn't a number"),
        (
            "mqtt://h/topic",
            "a mqtt:// URL has no path; \"/topic\" would be ignored (is it a ws:// broker?)"
        ),
        ("ws://h/a#b", "a WebSocket URL has no fragment (RFC 6455, section 3)"),
        (
            "ws://h/a b", "the WebSocket path \"/a b\" holds a character that must be percent-encoded"
        ),
        (
            "ws://h/\u{e4}", "the WebSocket path \"/\u{e4}\" holds a character that must be percent-encoded"
        ),
        ("mqtt://[::1", "the IPv6 address \"[::1\" lacks its closing bracket"),
        ("mqtt://[::1]x", "\"x\" after the IPv6 address isn't a port"),
        (
            "mqtt://[fe80::1%25]",
            "the zone of the IPv6 address \"fe80::1%\" is empty: it names an interface"
        ),
        (
            "mqtt://[fe80::1%25a%2]",
            "the zone of the IPv6 address has a % that isn't followed by two hexadecimal digits"
        ),
        (
            "mqtt://h%25eth0",
            "the host \"h%25eth0\" holds a character that no host name has (write IDNs as xn--…)"
        ),
        ("mqtt://::1", "an IPv6 address in a URL stands in brackets: \"[::1]\""),
        ("mqtt://[nonsense:]", "the host \"nonsense:\" is no IPv6 address; the port is given by itself"),
        (
            "mqtt://b\u{fc}cher.example",
            "the host \"b\u{fc}cher.example\" holds a character that no host name has (write IDNs as xn--…)"
        ),
        ("mqtt://u:%zz@h", "the password has a % that isn't followed by two hexadecimal digits"),
        ("mqtt://%2@h", "the user name has a % that isn't followed by two hexadecimal digits"),
        ("mqtt://%ff@h", "the user name isn't UTF-8"),
        ("mqtt://u:sec/ret@h", "the user name or password holds a character that must be percent-encoded"),
        ("mqtt://u:12/ret@h", "the user name or password holds a character that must be percent-encoded"),
        (
            "wss://u:sec#ret@h/mqtt",
            "the user name or password holds a character that must be percent-encoded"
        ),
    ]

    @Test(arguments: invalid)
    func an_invalid_URL_is_refused_with_the_reason(_ url: String, _ reason: String) {
        do throws(ProfileError) {
            let profile = try ConnectionProfile(url: url)
            Issue.record("accepted as \(profile)")
        } catch {
            #expect(error.description == reason)
            #expect(!error.description.contains("secret") && !error.description.contains("sec/"))
            #expect(!error.description.contains("ret@"))
        }
    }

    @Test func the_presets_have_the_registered_ports() throws {
        #expect(try ConnectionProfile.tcp(host: "h").description == "mqtt://h:1883")
        #expect(try ConnectionProfile.tls(host: "h").description == "mqtts://h:8883")
        #expect(try ConnectionProfile.webSocket(host: "h").description == "ws://h:80/mqtt")
        #expect(try ConnectionProfile.webSocketSecure(host: "h").description == "wss://h:8084/mqtt")
        #expect(try ConnectionProfile.tcp(host: "[::1]").host == "::1")
        #expect(try ConnectionProfile.tcp(host: "fe80::1%eth0").host == "fe80::1%eth0")
    }

    @Test func a_preset_refuses_what_a_URL_refuses() {
        for (host, port) in [
            ("", 1), ("h", 0), ("h", 65_536), ("h", -1), ("a b", 1), ("h:1883", 1), ("a%b", 1),
        ] {
            #expect(throws: ProfileError.self) { try ConnectionProfile.tcp(host: host, port: port) }
        }
        #expect(throws: ProfileError.self) {
            try ConnectionProfile.tcp(host: String(repeating: "h", count: 256))
        }
        #expect(throws: ProfileError.self) { try ConnectionProfile.webSocket(host: "h", path: "mqtt") }
        #expect(throws: ProfileError.self) { try ConnectionProfile.webSocket(host: "h", path: "/a\r\nX: y") }
    }

    @Test(arguments: [
        ("X Y", "v", "a header's name"), ("", "v", "a header's name"),
        ("Host", "v", "header Host can't be set by hand"),
        ("sec-websocket-protocol", "v", "header sec-websocket-protocol can't be set by hand"),
        ("Authorization", "secret\r\nX: y", "the value of header Authorization"),
    ])
    func a_header_that_cannot_be_sent_is_refused(_ name: String, _ value: String, _ reason: String) {
        let options = WebSocketOptions(headers: [.init(name: name, value: value)])
        for transport in [
            ConnectionProfile.Transport.webSocket(options), .webSocketSecure(TLSOptions(), options),
        ] {
            let error = #expect(throws: ProfileError.self) {
                try ConnectionProfile(host: "h", port: 1, transport: transport)
            }
            #expect(error?.description == "the WebSocket request can't be written: \(reason)")
        }
    }

    @Test func an_origin_and_the_hosts_of_redirects_are_checked() throws {
        func refusal(_ options: WebSocketOptions) -> String? {
            do throws(ProfileError) {
                _ = try ConnectionProfile(host: "h", port: 1, transport: .webSocket(options))
                return nil
            } catch {
                return error.description
            }
        }
        let header = WebSocketOptions.Header(name: "ORIGIN", value: "http://a")
        #expect(refusal(WebSocketOptions(origin: "https://page.example")) == nil)
        #expect(refusal(WebSocketOptions(headers: [header])) == nil)
        #expect(
            refusal(WebSocketOptions(origin: "page.example/"))
                == "the origin \"page.example/\" isn't scheme://host, perhaps with :port, and isn't null")
        for options in [
            WebSocketOptions(headers: [header], origin: "http://b"),
            WebSocketOptions(headers: [header, header]),
        ] {
            #expect(refusal(options) == "the WebSocket request can have one Origin")
        }
        #expect(refusal(WebSocketOptions(redirects: .hosts(["eu.example.com", "[::1]"]))) == nil)
        for host in ["", "https://eu.example.com", "eu.example.com:443", "*.example.com"] {
            #expect(refusal(WebSocketOptions(redirects: .hosts([.init(host)]))) != nil, "\(host)")
        }
    }

    @Test func a_server_name_is_a_host_alone_and_ALPN_names_have_a_length() {
        for name in ["", "h:8883", "https://h", "b\u{fc}cher.example"] {
            #expect(throws: ProfileError.self) {
                try ConnectionProfile.tls(host: "h", options: TLSOptions(serverName: name))
            }
        }
        for name in ["", String(repeating: "x", count: 256)] {
            #expect(throws: ProfileError.self) {
                try ConnectionProfile.webSocketSecure(
                    host: "h", options: TLSOptions(applicationProtocols: ["mqtt", name]))
            }
        }
    }

    @Test func the_options_of_a_transport_can_be_changed_in_place() throws {
        for url in ["ws://h/x", "wss://h/x"] {
            var profile = try ConnectionProfile(url: url)
            profile.webSocket?.headers = [.init(name: "Authorization", value: "v")]
            #expect(profile.webSocket?.path == "/x")
            #expect(profile.webSocket?.headers == [.init(name: "Authorization", value: "v")])
            profile.tls?.minimumVersion = .v1_3
            #expect(profile.tls?.minimumVersion == (url.hasPrefix("wss") ? .v1_3 : nil))
        }
        var plain = try ConnectionProfile(url: "mqtt://h")
        plain.webSocket = WebSocketOptions()
        plain.tls = TLSOptions()
        #expect(plain.transport == .tcp)
    }

    @Test func a_password_appears_in_no_printed_form() throws {
        let profile = try ConnectionProfile(url: "mqtts://user:hunter2@h")
        var dumped = ""
        dump(profile, to: &dumped)
        let secretBytes = "\(Array("hunter2".utf8))"
        for text in ["\(profile)", String(reflecting: profile), "\([profile])", dumped] {
            #expect(!text.contains("hunter2"))
            #expect(!text.contains(secretBytes))
            #expect(!text.contains("104"))
        }
    }

    @Test func the_value_of_a_header_appears_in_no_printed_form() throws {
        let options = WebSocketOptions(headers: [.init(name: "Authorization", value: "Bearer hunter2")])
        let profile = try ConnectionProfile(host: "h", port: 443, transport: .webSocket(options))
        var dumped = ""
        dump(profile, to: &dumped)
        for text in ["\(options)", "\(profile.transport)", String(reflecting: options), dumped] {
            #expect(!text.contains("hunter2"))
        }
    }

    /// Some brokers take a signature or a token in the query.
    @Test func the_query_of_a_path_appears_in_no_printed_form() throws {
        let profile = try ConnectionProfile(url: "wss://h/mqtt?token=hunter2")
        let options = try #require(profile.webSocket)
        #expect(options.path == "/mqtt?token=hunter2")
        #expect(profile.description == "wss://h:443/mqtt?…")
        #expect(try ConnectionProfile(url: "ws://h?x=1").webSocket?.path == "/?x=1")
        var dumped = ""
        dump(profile, to: &dumped)
        for text in ["\(options)", "\(profile.transport)", String(reflecting: options), dumped] {
            #expect(!text.contains("hunter2"))
        }
    }

    // MARK: Routes

    @Test func a_route_takes_the_stages_of_its_transport() throws {
        #expect(Route(try .tcp(host: "h")).stages == [.resolve, .tcp, .mqttConnect])
        #expect(Route(try .tls(host: "h")).stages == [.resolve, .tcp, .tls, .mqttConnect])
        #expect(Route(try .webSocket(host: "h")).stages == [.resolve, .tcp, .webSocket, .mqttConnect])
        #expect(
            Route(try .webSocketSecure(host: "h")).stages == [.resolve, .tcp, .tls, .webSocket, .mqttConnect])
    }

    /// RFC 6455, section 4.1; RFC 3986, section 3.2.2.
    @Test(arguments: [
        ("ws://h", "h"), ("ws://h:443", "h:443"), ("wss://h", "h"), ("wss://h:80", "h:80"),
        ("wss://[::1]:8084", "[::1]:8084"), ("ws://[::1]", "[::1]"), ("ws://[fe80::1%25eth0]", "[fe80::1]"),
    ])
    func the_Host_field_has_a_port_only_where_it_is_not_the_default(
        _ url: String, _ field: String
    ) throws {
        #expect(Route(try ConnectionProfile(url: url)).hostField == field)
    }

    @Test func secure_WebSocket_offers_HTTP_1_1_unless_told_otherwise() throws {
        #expect(Route(try .webSocketSecure(host: "h")).tls?.applicationProtocols == ["http/1.1"])
        #expect(Route(try .tls(host: "h")).tls?.applicationProtocols == [])
        let own = TLSOptions(applicationProtocols: ["x"])
        #expect(Route(try .webSocketSecure(host: "h", options: own)).tls?.applicationProtocols == ["x"])
    }

    @Test(arguments: [
        StageDeadlines(resolve: .zero), StageDeadlines(tcp: .seconds(-1)), StageDeadlines(tls: .zero),
        StageDeadlines(proxy: .zero), StageDeadlines(webSocket: .zero), StageDeadlines(mqttConnect: .zero),
    ])
    func a_deadline_is_above_zero(_ deadlines: StageDeadlines) {
        #expect(throws: ProfileError.self) {
            try ConnectionProfile(host: "h", port: 1, transport: .tcp, deadlines: deadlines)
        }
    }
}
