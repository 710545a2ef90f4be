import MQTTTransport
import Testing

@Suite struct ProxyTests {
    @Test(
        arguments: [
            ("http://proxy.example", .http, "proxy.example", 8080, nil, nil),
            ("HTTP://proxy.example:3128/", .http, "proxy.example", 3128, nil, nil),
            ("https://u@proxy.example", .https(TLSOptions()), "proxy.example", 443, "u", nil),
            ("socks5://a%40b:p%3Aw@[::1]", .socks5(.local), "::1", 1080, "a@b", "p:w"),
            ("socks5h://192.0.2.1:9050", .socks5(.proxy), "192.0.2.1", 9050, nil, nil),
        ] as [(String, Proxy.Kind, String, UInt16, String?, String?)])
    func `a URL gives its parts`(
        url: String, kind: Proxy.Kind, host: String, port: UInt16, user: String?, password: String?
    ) throws {
        let proxy = try Proxy(url: url)
        #expect(proxy.kind == kind)
        #expect(proxy.host == host)
        #expect(proxy.port == port)
        #expect(proxy.userName == user)
        #expect(proxy.password == password.map { Array($0.utf8) })
    }

    @Test(
        arguments: [
            ("proxy.example:3128", "needs a scheme"), ("ftp://h", "scheme \"ftp\" is unknown"),
            ("http://", "host is missing"), ("http://h/path", "no path"), ("http://h:0", "port 0"),
            ("http://us/er:secret@h", "percent-encode"), ("http://u:sec/ret@h", "percent-encoded"),
            ("http://:secret@h", "no user name"), ("http://a%3Ab:secret@h", "colon"),
            ("http://a:secret%0A@h", "control character"), ("socks5://u@h", "1 to 255 bytes"),
            ("socks5h://u:@h", "1 to 255 bytes"), ("http://secret.h h", "character that no host name has"),
        ])
    func `what can't be used is said, without the password`(url: String, says: String) {
        let error = #expect(throws: ProfileError.self) { try Proxy(url: url) }
        #expect(error?.description.contains(says) == true, "\(String(describing: error))")
        if !url.contains("h h") { #expect(error?.description.contains("secret") == false) }
    }

    @Test func `a server name for TLS to the proxy is checked too`() {
        #expect(throws: ProfileError.self) {
            try Proxy(.https(TLSOptions(serverName: "a b")), host: "h")
        }
    }

    @Test func `neither a description nor a dump tells the login`() throws {
        var profile = try ConnectionProfile.tls(host: "broker.example")
        profile.proxy = try Proxy(url: "http://alice:secret@proxy.example")
        var dumped = ""
        dump(profile, to: &dumped)
        let texts = [
            dumped, "\(profile)", String(reflecting: profile.proxy), "\(try #require(profile.proxy))",
        ]
        for text in texts {
            #expect(!text.contains("secret"))
            #expect(!text.contains("\(Array("secret".utf8))"))
            #expect(!text.contains("alice"))
        }
        #expect(texts[3] == "http://proxy.example:8080")
    }

    @Test func `the stage stands between TCP and TLS`() throws {
        var profile = try ConnectionProfile.webSocketSecure(host: "broker.example")
        profile.proxy = try Proxy(.socks5(.proxy), host: "proxy.example")
        #expect(Route(profile).stages == [.resolve, .tcp, .proxy, .tls, .webSocket, .mqttConnect])
    }
}
