import Glibc
import MQTTTransport
import Testing

private let ok = "HTTP/1.1 200 Connection established\r\n\r\n"
private let basic = "Proxy-Authenticate: Basic realm=\"p\"\r\n"

/// What a conversation led to.
private struct Talk: Equatable {
    var progress = ProxyProgress.needsMore
    var sent = ""
    var rest = ""
}

private func machine(_ login: (String, String)? = ("alice", "secret"), port: UInt16 = 8883) -> HTTPConnect {
    HTTPConnect(
        host: "broker.example", port: port,
        credentials: login.map { ProxyCredentials(userName: $0.0, password: Array($0.1.utf8)) },
        clientNonce: Array(0..<16))
}

/// Gives it a reply in pieces, to its end or the first progress.
private func give(
    _ reply: String, to connect: inout HTTPConnect, pieceSize: Int = .max
) throws(TransportError) -> Talk {
    var talk = Talk()
    var output: [UInt8] = []
    var rest = Array(reply.utf8)[...]
    while !rest.isEmpty, talk.progress == .needsMore {
        let piece = Array(rest.prefix(pieceSize))
        rest = rest.dropFirst(piece.count)
        let result = piece.withUnsafeBytes { bytes -> Result<(ProxyProgress, [UInt8]), TransportError> in
            Result { () throws(TransportError) in
                var input = bytes
                let progress = try connect.receive(&input, output: &output)
                return (progress, Array(input))
            }
        }
        let (progress, left) = try result.get()
        talk.progress = progress
        rest = left + rest
    }
    talk.sent = String(decoding: output, as: UTF8.self)
    talk.rest = String(decoding: rest, as: UTF8.self)
    return talk
}

private func failure(of reply: String, login: (String, String)? = nil, port: UInt16 = 8883) -> TransportError?
{
    var connect = machine(login, port: port)
    var output: [UInt8] = []
    connect.start(into: &output)
    do throws(TransportError) {
        _ = try give(reply, to: &connect)
        return nil
    } catch {
        return error
    }
}

private func digest(_ nonce: String, _ more: String = "") -> String {
    "HTTP/1.1 407 Login\r\nProxy-Authenticate: Digest realm=\"p\", nonce=\"\(nonce)\", qop=\"auth\", "
        + "algorithm=SHA-256\(more)\r\nContent-Length: 0\r\n\r\n"
}

/// RFC 9110, section 9.3.6.
@Suite struct HTTPConnectTests {
    @Test(arguments: [1, 2, 3, 7, .max])
    func `a 2xx opens the tunnel, and what follows belongs to it`(pieceSize: Int) throws {
        for head in [
            ok, "HTTP/1.0 200\r\n\r\n", "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            var connect = machine()
            var output: [UInt8] = []
            connect.start(into: &output)
            #expect(
                try give(head + "inside", to: &connect, pieceSize: pieceSize)
                    == Talk(progress: .open, rest: "inside"))
        }
    }

    @Test(
        arguments: [
            "Content-Length: 7\r\n\r\n0\r\n\r\nxy",
            "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n",
            "Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ], [1, 5, .max])
    func `the body of a 407 is read to its end`(body: String, pieceSize: Int) throws {
        var connect = machine()
        var output: [UInt8] = []
        connect.start(into: &output)
        let talk = try give("HTTP/1.1 407 Login\r\n\(basic)\(body)", to: &connect, pieceSize: pieceSize)
        #expect(
            talk
                == Talk(
                    sent: "CONNECT broker.example:8883 HTTP/1.1\r\nHost: broker.example:8883\r\n"
                        + "Proxy-Authorization: Basic YWxpY2U6c2VjcmV0\r\n\r\n"))
        var ended = connect
        #expect(ended.connectionEnded() == .reconnect, "the proxy may end the connection as we write")
        #expect(try give(ok, to: &connect, pieceSize: pieceSize).progress == .open)
    }

    @Test(
        arguments: [
            "HTTP/1.1 407 x\r\nConnection: close\r\nContent-Length: 0\r\n",
            "HTTP/1.1 407 x\r\nProxy-Connection: Close\r\nContent-Length: 0\r\n",
            "HTTP/1.0 407 x\r\nContent-Length: 0\r\n", "HTTP/1.1 407 x\r\n",
            "HTTP/1.1 407 x\r\nContent-Length: 1, 2\r\n", "HTTP/1.1 407 x\r\nContent-Length: 9999999\r\n",
            "HTTP/1.1 407 x\r\nTransfer-Encoding: gzip, chunked\r\n",
        ])
    func `a 407 whose connection can't be used again asks for a new one`(head: String) throws {
        var connect = machine()
        var output: [UInt8] = []
        connect.start(into: &output)
        #expect(try give(head + basic + "\r\n", to: &connect).progress == .reconnect)
        output = []
        connect.start(into: &output)
        #expect(String(decoding: output, as: UTF8.self).contains("Basic YWxpY2U6c2VjcmV0\r\n\r\n"))
        var ended = connect
        #expect(ended.connectionEnded() == nil)
        #expect(try give(ok, to: &connect).progress == .open)
    }

    @Test func `a login that was refused isn't tried again`() throws {
        let first = "HTTP/1.1 407 Login\r\n\(basic)Content-Length: 0\r\n\r\n"
        for (challenge, refusal) in [
            (first, first), (digest("N1"), digest("N1")), (first, "HTTP/1.0 401 Unauthorized\r\n\r\n"),
        ] {
            var connect = machine()
            var output: [UInt8] = []
            connect.start(into: &output)
            _ = try give(challenge, to: &connect)
            let error = #expect(throws: TransportError.self) { try give(refusal, to: &connect) }
            #expect(error?.code == .proxyAuthFailed)
        }
    }

    @Test func `the strongest scheme is answered, and a nonce that was too old is renewed once`() throws {
        var connect = machine()
        var output: [UInt8] = []
        connect.start(into: &output)
        let offers =
            "HTTP/1.1 407 Login\r\n\(basic)Proxy-Authenticate: Digest realm=\"p\", nonce=\"N0\", algorithm=MD5, "
            + "Digest realm=\"p\", nonce=\"N1\", qop=\"auth\", algorithm=SHA-256\r\nContent-Length: 0\r\n\r\n"
        let first = try give(offers, to: &connect).sent
        #expect(
            first.contains(
                "Proxy-Authorization: Digest username=\"alice\", realm=\"p\", uri=\"broker.example:8883\", "
                    + "algorithm=SHA-256, nonce=\"N1\", nc=00000001, cnonce=\"AAECAwQFBgcICQoLDA0ODw==\", "
                    + "qop=auth, response=\"6a842f5b67aab10d1e42fb71f134cceb3b7feaa5241352b1390a14fefee25f91\"\r\n"
            ))
        let second = try give(digest("N2", ", stale=TRUE"), to: &connect).sent
        #expect(second.contains("nonce=\"N2\", nc=00000001"))
        #expect(
            second.contains("response=\"86cf7ecad422c5b60859f345a76aa555a383f7ec3a03c57f077c82cabaf19dc5\""))
        let error = #expect(throws: TransportError.self) {
            try give(digest("N3", ", stale=true"), to: &connect)
        }
        #expect(error?.code == .proxyAuthFailed)
    }

    @Test func `a nonce that is used again is counted`() throws {
        var connect = machine()
        var output: [UInt8] = []
        connect.start(into: &output)
        #expect(try give(digest("N1"), to: &connect).sent.contains("nc=00000001"))
        // The proxy ended the connection as the request left.
        #expect(connect.connectionEnded() == .reconnect)
        output = []
        connect.start(into: &output)
        #expect(String(decoding: output, as: UTF8.self).contains("nc=00000002"))
    }

    @Test(
        arguments: [
            (
                "algorithm=SHA-256-sess, qop=auth",
                "617f54a40033b941314ac34152100bddf584343b420f83635c237f4054dd92c3"
            ), ("domain=x", "9365591cf690336f4bb1534641047c70"),
            ("algorithm=MD5, qop=auth", "5f0ac92d72aa82b2556d22064639cfc0"),
            (
                "algorithm=sha-512-256, qop=\"auth\"",
                "480021f281ed9b02ebfd16f293ffd2d449e8710a657f62348abb4b1f597cb816"
            ),
        ])
    func `each form of Digest gives the response that others compute`(more: String, response: String) throws {
        var connect = machine()
        var output: [UInt8] = []
        connect.start(into: &output)
        let challenge =
            "HTTP/1.1 407 x\r\nProxy-Authenticate: Digest realm=p, nonce=N1, \(more)\r\nContent-Length: 0\r\n\r\n"
        let sent = try give(challenge, to: &connect).sent
        #expect(sent.contains("response=\"\(response)\""))
    }

    @Test(
        arguments: [
            ("HTTP/1.1 407 Login\r\n\(basic)\r\n", 8883, .proxyAuthRequired, "challenge: Basic realm=\"p\""),
            (
                "HTTP/1.1 407 Login\r\nProxy-Authenticate: NTLM\r\nProxy-Authenticate: Bearer\r\n\r\n",
                8883,
                .proxyAuthRequired, "a login by NTLM or Bearer, and only Negotiate, Digest"
            ),
            ("HTTP/1.1 407 Login\r\n\r\n", 443, .proxyAuthRequired, "a scheme that it doesn't name"),
            ("HTTP/1.1 401 Unauthorized\r\n\r\n", 443, .proxyAuthRequired, "HTTP 401"),
            (
                "HTTP/1.1 403 Filtered\r\nContent-Length: 9\r\n\r\n<b>no</b>", 8883, .proxyDeniedPort,
                "body begins \"no\""
            ),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", 443, .proxyDeniedHost, "HTTP 403 Forbidden"),
            ("HTTP/1.1 405 Method Not Allowed\r\n\r\n", 8883, .proxyDeniedPort, "HTTP 405"),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", 443, .proxyGatewayError, "HTTP 502"),
            ("HTTP/1.0 503 x\r\nServer: squid\r\n\r\n", 443, .proxyGatewayError, "Server: squid"),
            ("HTTP/1.1 504 x\r\n\r\n", 443, .proxyGatewayError, "HTTP 504"),
            ("HTTP/1.1 511 x\r\n\r\n", 443, .httpCaptivePortal, "HTTP 511"),
            (
                "HTTP/1.1 302 x\r\nLocation: http://u:p@portal/\r\n\r\n", 443, .proxyReplyMalformed,
                "http://…@portal/"
            ),
            ("HTTP/1.1 400 Bad Request\r\n\r\n", 443, .proxyReplyMalformed, "HTTP 400"),
            ("SSH-2.0-OpenSSH\r\n", 443, .proxyNotHTTP, "\"SSH-2.0-OpenSSH"),
            ("\u{5}\u{0}", 443, .proxyNotHTTP, "\\x05\\x00"),
            ("HTTP/1.1 abc\r\n\r\n", 443, .proxyReplyMalformed, "not a status code"),
            (
                "HTTP/1.1 200 \(String(repeating: "a", count: 70_000))", 443, .proxyReplyMalformed,
                "no end of the head within 65536 bytes"
            ),
        ] as [(String, UInt16, FailureCode, String)])
    func `a reply that opens nothing is named`(
        reply: String, port: UInt16, code: FailureCode, says: String
    ) throws {
        let error = try #require(failure(of: reply, port: port))
        #expect(error.code == code)
        #expect(error.stage == .proxy)
        #expect(error.evidence.description.contains(says), "\(error)")
    }
}

/// RFC 4559, without Kerberos.
@Suite struct NegotiateTests {
    private static func offer(_ challenge: String) -> String {
        "HTTP/1.1 407 Login\r\n\(challenge)Content-Length: 0\r\n\r\n"
    }

    private static let negotiate = "Proxy-Authenticate: Negotiate\r\n"

    private static func started(_ login: (String, String)? = ("alice", "secret")) -> HTTPConnect {
        var connect = machine(login)
        var output: [UInt8] = []
        connect.start(into: &output)
        return connect
    }

    private static func answer(_ answer: ProxyAnswer, to connect: inout HTTPConnect) throws -> Talk {
        var output: [UInt8] = []
        let progress = try connect.answer(answer, output: &output)
        return Talk(progress: progress, sent: String(decoding: output, as: UTF8.self))
    }

    @Test func `tokens go back and forth, ahead of every other scheme`() throws {
        var connect = Self.started()
        let first = try give(digest("N1").replacing("Digest", with: "Negotiate, Digest"), to: &connect)
        #expect(first == Talk(progress: .asks(.negotiate(nil))))
        #expect(try Self.answer(.token([0, 1, 2]), to: &connect).sent.contains("Negotiate AAEC\r\n"))
        let second = try give(Self.offer("Proxy-Authenticate: Negotiate AwQ=\r\n"), to: &connect)
        #expect(second.progress == .asks(.negotiate([3, 4])))
        #expect(try Self.answer(.token([5]), to: &connect).sent.contains("Negotiate BQ==\r\n"))
        #expect(
            try give("HTTP/1.1 200 OK\r\nProxy-Authenticate: Negotiate !\r\n\r\n", to: &connect).progress
                == .open)
    }

    @Test func `where Kerberos has no token, or the proxy refuses it, a password may do`() throws {
        let basic = Self.offer(Self.negotiate + basic)
        var unavailable = Self.started()
        #expect(try give(basic, to: &unavailable).progress == .asks(.negotiate(nil)))
        #expect(
            try Self.answer(.failed("run kinit"), to: &unavailable).sent.contains(
                "Basic YWxpY2U6c2VjcmV0\r\n"))

        var refused = Self.started()
        _ = try give(basic, to: &refused)
        _ = try Self.answer(.token([1]), to: &refused)
        #expect(try give(basic, to: &refused).sent.contains("Basic YWxpY2U6c2VjcmV0\r\n"))
        let error = #expect(throws: TransportError.self) { try give(basic, to: &refused) }
        #expect(error?.code == .proxyAuthFailed)
    }

    @Test(arguments: [basic, "", "Proxy-Authenticate: NTLM\r\n"])
    func `without a password the error is what Kerberos said`(others: String) throws {
        var connect = Self.started(nil)
        _ = try give(Self.offer(Self.negotiate + others), to: &connect)
        let error = #expect(throws: TransportError.self) {
            try Self.answer(.failed("no credentials:\nrun kinit"), to: &connect)
        }
        #expect(error?.code == .proxyAuthRequired)
        let said = try #require(error?.evidence.description)
        #expect(said.hasPrefix("the proxy wants a login by Negotiate"))
        #expect(said.hasSuffix("Negotiate: no credentials: run kinit"))
        #expect(said.contains("NTLM") == others.contains("NTLM"))
    }

    @Test func `a ticket that the proxy refuses is a login that failed`() throws {
        var connect = Self.started(nil)
        _ = try give(Self.offer(Self.negotiate), to: &connect)
        _ = try Self.answer(.token([1]), to: &connect)
        let error = #expect(throws: TransportError.self) {
            try give(Self.offer(Self.negotiate), to: &connect)
        }
        #expect(error?.code == .proxyAuthFailed)
    }

    @Test func `a proxy that always wants another round isn't followed for ever`() throws {
        var connect = Self.started()
        var talk = try give(Self.offer(Self.negotiate), to: &connect)
        for round in 1..<8 {
            #expect(talk.progress == .asks(.negotiate(round == 1 ? nil : [3, 4])))
            _ = try Self.answer(.token([UInt8(round)]), to: &connect)
            talk = try give(Self.offer("Proxy-Authenticate: Negotiate AwQ=\r\n"), to: &connect)
        }
        _ = try Self.answer(.token([8]), to: &connect)
        let error = #expect(throws: TransportError.self) {
            try give(Self.offer("Proxy-Authenticate: Negotiate AwQ=\r\n"), to: &connect)
        }
        #expect(error?.code == .proxyAuthFailed)
    }

    @Test func `Digest by an algorithm that OpenSSL forbids is named, and Basic may do`() async throws {
        await #expect(processExitsWith: .success) {
            // As under FIPS: nothing has the property.
            let file = "/tmp/mqtt-openssl-\(getpid()).cnf"
            defer { unlink(file) }
            let lines = "openssl_conf = a\n[a]\nalg_section = b\n[b]\ndefault_properties = fips=yes\n"
            guard let stream = fopen(file, "w"), fputs(lines, stream) >= 0, fclose(stream) == 0 else {
                exit(EXIT_FAILURE)
            }
            setenv("OPENSSL_CONF", file, 1)
            let md5 = "Proxy-Authenticate: Digest realm=\"p\", nonce=\"n\"\r\n"
            func answer(_ challenges: String) -> Result<Talk, TransportError> {
                var connect = Self.started()
                return Result { () throws(TransportError) in
                    try give(Self.offer(challenges), to: &connect)
                }
            }
            guard case .failure(let error) = answer(md5), case .success(let talk) = answer(md5 + basic) else {
                exit(EXIT_FAILURE)
            }
            #expect(error.code == .proxyAuthRequired)
            #expect(error.evidence.description.contains("Digest with MD5, which this machine's OpenSSL"))
            #expect(talk.sent.contains("Basic YWxpY2U6c2VjcmV0"))
        }
    }
}
