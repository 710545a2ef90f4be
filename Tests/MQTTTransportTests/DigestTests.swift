import MQTTTransport
import Testing
import WebSocketCore

/// The challenges of a head with this line.
private func challenges(_ value: String) throws -> [HTTPChallenge] {
    var parser = HTTPHeadParser(.response)
    let head = try Array("HTTP/1.1 407 x\r\nProxy-Authenticate: \(value)\r\n\r\n".utf8).withUnsafeBytes {
        var input = $0
        return try parser.receive(&input)
    }
    return HTTPChallenge.all(in: try #require(head), "Proxy-Authenticate")
}

/// RFC 7616.
@Suite struct DigestTests {
    @Test(
        arguments: [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ])
    func `the example of section 3_9_1`(algorithm: String, response: String) throws {
        let challenge = try challenges(
            "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=\(algorithm), "
                + "nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", "
                + "opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"")[0]
        let answer = try #require(DigestChallenge(challenge)).authorization(
            userName: "Mufasa", password: Array("Circle of Life".utf8), method: "GET",
            uri: "/dir/index.html",
            clientNonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", count: 1)
        #expect(
            answer
                == "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", "
                + "algorithm=\(algorithm), nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", "
                + "nc=00000001, cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, "
                + "response=\"\(response)\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"")
    }

    // The RFC's own digits are those of a SHA-512 cut to 256 bits (erratum 4897).
    @Test func `the example of section 3_9_2, by SHA-512-256 as FIPS 180-4 has it`() throws {
        let challenge = try challenges(
            "Digest realm=\"api@example.org\", qop=\"auth\", algorithm=SHA-512-256, "
                + "nonce=\"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK\", "
                + "opaque=\"HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS\", charset=UTF-8, userhash=true")[0]
        let answer = try #require(DigestChallenge(challenge)).authorization(
            userName: "J\u{E4}s\u{F8}n Doe", password: Array("Secret, or not?".utf8), method: "GET",
            uri: "/doe.json", clientNonce: "NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v", count: 1)
        #expect(
            answer
                == "Digest username=\"793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b\", "
                + "realm=\"api@example.org\", uri=\"/doe.json\", algorithm=SHA-512-256, "
                + "nonce=\"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK\", nc=00000001, "
                + "cnonce=\"NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v\", qop=auth, "
                + "response=\"3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5\", "
                + "opaque=\"HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS\", userhash=true")
    }

    @Test func `a name outside ASCII is encoded where the proxy knows UTF-8`() throws {
        let plain = try #require(
            DigestChallenge(try challenges("Digest realm=\"a\\\"b\", nonce=\"n\"")[0]))
        let known = try #require(
            DigestChallenge(try challenges("Digest realm=\"r\", nonce=\"n\", charset=\"UTF-8\"")[0]))
        func beginning(_ challenge: DigestChallenge) throws -> Substring {
            let answer = try #require(
                challenge.authorization(
                    userName: "\u{E4} \"", password: [], method: "CONNECT", uri: "h:1", clientNonce: "c",
                    count: 1))
            return answer.prefix { $0 != "," }
        }
        #expect(try beginning(plain) == "Digest username=\"\u{E4} \\\"\"")
        #expect(try beginning(known) == "Digest username*=UTF-8''%C3%A4%20%22")
    }

    @Test(
        arguments: [
            "Digest realm=\"r\"", "Digest nonce=\"n\"", "Digest realm=\"r\", nonce=\"n\", algorithm=SHA-1",
            "Digest realm=\"r\", nonce=\"n\", qop=\"auth-int\"", "Basic realm=\"r\", nonce=\"n\"",
        ])
    func `a challenge that can't be answered is none`(_ value: String) throws {
        #expect(DigestChallenge(try challenges(value)[0]) == nil)
    }

    @Test func `challenges share a line, and their parameters do too`() throws {
        let all = try challenges(
            "Negotiate, NTLM TlRMTVNTUA==, Digest realm=\"a, b\" , nonce = n\r\nProxy-Authenticate: basic Realm=x"
        )
        #expect(all.map(\.scheme) == ["Negotiate", "NTLM", "Digest", "basic"])
        #expect(all[2]["Realm"] == "a, b")
        #expect(all[2]["nonce"] == "n")
        #expect(all[3]["realm"] == "x")
    }
}
