import MQTTTransport
import Testing

/// A URL, the variables, and what they mean for it.
///
/// In the rows that begin with `=` curl 7.88.1 (Debian 12) does the same, by what `curl -v` connects to, for https
/// where the URL is encrypted and for http where it isn't. In those that begin with `+` it doesn't, and
/// `ProxyEnvironment` says why this does. The other rows weren't compared.
private let table = """
    = mqtts://broker.example | https_proxy=http://p.example:9 | http://p.example:9
    = mqtts://broker.example | HTTPS_PROXY=http://p.example:9 | http://p.example:9
    = wss://broker.example | HTTPS_PROXY=http://p.example:9 https_proxy=http://q.example:9 | http://q.example:9
    = wss://broker.example | HTTPS_PROXY=http://p.example:9 https_proxy= | http://p.example:9
    = mqtts://broker.example | http_proxy=http://p.example:9 | direct
    = mqtts://broker.example | all_proxy=http://p.example:9 | http://p.example:9
    = wss://broker.example | ALL_PROXY=http://p.example:9 | http://p.example:9
    = wss://broker.example | ALL_PROXY=http://p.example:9 all_proxy=http://q.example:9 | http://q.example:9
    = wss://broker.example | ALL_PROXY=http://p.example:9 https_proxy=http://q.example:9 | http://q.example:9
    = wss://broker.example | all_proxy=http://p.example:9 HTTPS_PROXY=http://q.example:9 | http://q.example:9
    = ws://broker.example | http_proxy=http://p.example:9 | http://p.example:9
    + ws://broker.example | HTTP_PROXY=http://p.example:9 | http://p.example:9
    = ws://broker.example | HTTP_PROXY=http://p.example:9 REQUEST_METHOD=GET | direct
      ws://broker.example | http_proxy=http://p.example:9 REQUEST_METHOD=GET | http://p.example:9
      wss://broker.example | HTTPS_PROXY=http://p.example:9 REQUEST_METHOD=GET | http://p.example:9
      mqtt://broker.example | HTTP_PROXY=http://p.example:9 REQUEST_METHOD=GET ALL_PROXY=q.example:9 | http://q.example:9
      mqtt://broker.example | HTTP_PROXY=http://p.example:9 http_proxy=http://q.example:9 | http://q.example:9
    = mqtt://broker.example | HTTPS_PROXY=http://p.example:9 | direct
    = mqtt://broker.example | all_proxy=socks5://p.example:9 | socks5://p.example:9
      mqtt://broker.example | Http_Proxy=http://p.example:9 PROXY=http://p.example:9 | direct
      mqtt://broker.example | | direct
    = mqtts://broker.example | https_proxy=p.example:9 | http://p.example:9
    = mqtts://broker.example | https_proxy=p.example | http://p.example:1080
    = mqtts://broker.example | https_proxy=http://p.example | http://p.example:1080
    = mqtts://broker.example | https_proxy=https://p.example | https://p.example:443
    = mqtts://broker.example | https_proxy=socks5://p.example | socks5://p.example:1080
    = mqtts://broker.example | https_proxy=socks5h://p.example | socks5h://p.example:1080
    = mqtts://broker.example | https_proxy=HTTP://p.example:9/ | http://p.example:9
    = mqtts://broker.example | https_proxy=u:p@p.example:9 | http://p.example:9
    = mqtts://broker.example | https_proxy=http://[::1]:9 | http://[::1]:9
    = wss://broker.example | https_proxy=p:9 no_proxy=broker.example | direct
    = wss://broker.example | https_proxy=p:9 NO_PROXY=broker.example | direct
    = wss://broker.example | https_proxy=p:9 NO_PROXY=broker.example no_proxy=x | http://p:9
    = wss://broker.example | https_proxy=p:9 NO_PROXY=x no_proxy=broker.example | direct
    = wss://broker.example | https_proxy=p:9 NO_PROXY=broker.example no_proxy= | direct
    = wss://broker.example | https_proxy=p:9 no_proxy=BROKER.Example | direct
    = wss://a.example.com | https_proxy=p:9 no_proxy=example.com | direct
    = wss://a.example.com | https_proxy=p:9 no_proxy=.example.com | direct
    = wss://example.com | https_proxy=p:9 no_proxy=.example.com | direct
    = wss://notexample.com | https_proxy=p:9 no_proxy=example.com | http://p:9
    = wss://example.com. | https_proxy=p:9 no_proxy=example.com | direct
    = wss://example.com | https_proxy=p:9 no_proxy=example.com. | direct
    = wss://a.example.com | https_proxy=p:9 no_proxy=* | direct
    + wss://a.example.com | https_proxy=p:9 no_proxy=x,* | direct
    = wss://a.example.com | https_proxy=p:9 no_proxy=*.example.com | http://p:9
    = wss://a.example.com | https_proxy=p:9 no_proxy=x.y,_a.example.com | direct
    = wss://a.example.com | https_proxy=p:9 no_proxy=x.y_a.example.com | direct
    = wss://a.example.com | https_proxy=p:9 no_proxy=a.example.com_x.y | direct
    = wss://a.example.com | https_proxy=p:9 no_proxy=,,a.example.com | direct
    = wss://a.example.com | https_proxy=p:9 no_proxy=b.a.example.com | http://p:9
    = wss://a.example.com | https_proxy=p:9 no_proxy=com | direct
      wss://a.example.com | https_proxy=p:9 no_proxy=.,,:,/,[],* | direct
      wss://a.example.com | https_proxy=p:9 no_proxy=.,,:,/,[],[x,a.example.com/8,a.example.com:x | http://p:9
    + wss://a.example.com | https_proxy=p:9 no_proxy=a.example.com:443 | direct
      wss://a.example.com:8084 | https_proxy=p:9 no_proxy=a.example.com:443 | http://p:9
    + mqtts://a.example.com | https_proxy=p:9 no_proxy=.example.com:8883 | direct
    = wss://192.0.2.7 | https_proxy=p:9 no_proxy=192.0.2.7 | direct
    = wss://192.0.2.7 | https_proxy=p:9 no_proxy=192.0.2.0/24 | direct
    = wss://192.0.2.7 | https_proxy=p:9 no_proxy=192.0.2.8/29 | http://p:9
      wss://192.0.2.7 | https_proxy=p:9 no_proxy=192.0.2.1/29 | direct
    = wss://192.0.2.7 | https_proxy=p:9 no_proxy=192.0.2.0/33 | http://p:9
    = wss://192.0.2.7 | https_proxy=p:9 no_proxy=192.0.3.0/24 | http://p:9
    = wss://192.0.2.7 | https_proxy=p:9 no_proxy=192.0.2 | http://p:9
    = wss://192.0.2.7 | https_proxy=p:9 no_proxy=.2.7 | http://p:9
    + wss://192.0.2.7 | https_proxy=p:9 no_proxy=0.0.0.0/0 | direct
    + wss://192.0.2.7 | https_proxy=p:9 no_proxy=192.0.2.7:443 | direct
      wss://192.0.2.7 | https_proxy=p:9 no_proxy=192.0.2.0/24:80 | http://p:9
      wss://192.0.2.7.example.com | https_proxy=p:9 no_proxy=192.0.2.7 | http://p:9
    = wss://[2001:db8::7] | https_proxy=p:9 no_proxy=2001:db8::7 | direct
    + wss://[2001:db8::7] | https_proxy=p:9 no_proxy=[2001:db8::7] | direct
    + wss://[2001:db8::7] | https_proxy=p:9 no_proxy=[2001:db8::7]:443 | direct
      wss://[2001:db8::7] | https_proxy=p:9 no_proxy=[2001:db8::7]:80 | http://p:9
    + wss://[2001:db8::7] | https_proxy=p:9 no_proxy=2001:DB8:0:0::7 | direct
    + wss://[2001:db8::7] | https_proxy=p:9 no_proxy=2001:db8::/32 | direct
    + wss://[2001:db8::7] | https_proxy=p:9 no_proxy=2001:db8::/29 | direct
    = wss://[2001:db8::7] | https_proxy=p:9 no_proxy=2001:db9::/32 | http://p:9
    = wss://[2001:db8::7] | https_proxy=p:9 no_proxy=192.0.2.0/24 | http://p:9
    + wss://[2001:db8::7] | https_proxy=p:9 no_proxy=::/0 | direct
      mqtt://broker.example | http_proxy=socks4://broken no_proxy=broker.example | direct
      mqtt://broker.example | https_proxy=socks4://broken http_proxy=p.example:9 | http://p.example:9
    """.split(separator: "\n").map(String.init)

private func variables(_ text: Substring) -> [String: String] {
    var variables: [String: String] = [:]
    for assignment in text.split(separator: " ") {
        let parts = assignment.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        // A blank would end the value in the table.
        let isList = parts[0].lowercased() == "no_proxy"
        variables[String(parts[0])] = String(parts[1].map { isList && $0 == "_" ? " " : $0 })
    }
    return variables
}

@Suite struct ProxyEnvironmentTests {
    @Test func `the variables say which proxy leads to a broker`() throws {
        for row in table {
            let columns = row.dropFirst(2).split(separator: "|", omittingEmptySubsequences: false)
            let url = columns[0].filter { $0 != " " }
            let proxy = try ProxyEnvironment(variables(columns[1])).proxy(for: ConnectionProfile(url: url))
            #expect(proxy?.description ?? "direct" == columns[2].dropFirst(), "\(row)")
        }
    }

    @Test func `a login comes with the proxy`() throws {
        let environment = ProxyEnvironment(["https_proxy": "alice:se%3Acret@p.example:3128"])
        let proxy = try #require(try environment.proxy(for: .tls(host: "broker.example")))
        #expect(proxy.userName == "alice")
        #expect(proxy.password == Array("se:cret".utf8))
    }

    @Test(
        arguments: [
            ("https_proxy", "socks4://alice:secret@h", "SOCKS 4"), ("HTTPS_PROXY", "socks4a://h", "SOCKS 4"),
            ("ALL_PROXY", "ftp://alice:secret@h", "scheme"), ("all_proxy", "http://alice:secret@h:x", "port"),
            ("https_proxy", "alice:secret", "port"), ("https_proxy", "alice:99999", "port"),
            ("https_proxy", "http://alice:secret/@h", "percent-encoded"),
            ("https_proxy", "alice:12:secret", "brackets"), ("https_proxy", "a\"secret\"", "host"),
            ("https_proxy", "socks5h://alice@h", "RFC 1929"), ("https_proxy", "http://h/secret", "no path"),
        ])
    func `a variable that can't be used is named, and its password isn't told`(
        name: String, value: String, says: String
    ) {
        let error = #expect(throws: ProfileError.self) {
            try ProxyEnvironment([name: value]).proxy(for: .tls(host: "broker.example"))
        }
        #expect(error?.description.hasPrefix("the environment variable \(name): ") == true)
        #expect(error?.description.contains(says) == true, "\(String(describing: error))")
        #expect(error?.description.contains("secret") == false)
        #expect(error?.description.contains("99999") == false)
    }

    @Test func `neither a description nor a dump tells a value`() {
        let environment = ProxyEnvironment(["HTTPS_PROXY": "alice:secret@h", "no_proxy": "h", "HOME": "/"])
        var dumped = ""
        dump(environment, to: &dumped)
        #expect("\(environment)" == "HTTPS_PROXY no_proxy")
        #expect(!dumped.contains("secret"))
        #expect(dumped.contains("HTTPS_PROXY"))
    }
}
