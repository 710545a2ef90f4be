import Glibc
import MQTTLoopback
import MQTTTransport
import Testing

private let requestEnd = Array("\r\n\r\n".utf8)
private let granted = ScriptedPeer.Step.send(Array("HTTP/1.1 200 Connection established\r\n\r\n".utf8))

private func refuse(_ challenge: String, _ more: String = "") -> ScriptedPeer.Step {
    .send(
        Array(
            "HTTP/1.1 407 Login\r\nProxy-Authenticate: \(challenge)\r\n\(more)Content-Length: 0\r\n\r\n".utf8)
    )
}

private func authorized(_ value: String) -> ScriptedPeer.Step {
    .expect(
        Array(
            ("CONNECT broker.example:1883 HTTP/1.1\r\nHost: broker.example:1883\r\n"
                + "Proxy-Authorization: \(value)\r\n\r\n").utf8))
}

private func profile(
    _ peer: ScriptedPeer, _ kind: Proxy.Kind = .http, login: (String, String)? = nil
) throws -> ConnectionProfile {
    var profile = try ConnectionProfile.tcp(host: "broker.example")
    profile.proxy = try Proxy(
        kind, host: "127.0.0.1", port: Int(peer.port), userName: login?.0,
        password: login.map { Array($0.1.utf8) })
    return profile
}

private struct Unwilling: Error, CustomStringConvertible {
    let description = "the vault\nis locked"
}

@Suite("Connector, login at a proxy", .timeLimit(.minutes(1)))
struct ProxyLoginTests {
    @Test func `a handler may take several rounds on one connection`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .expectUntil(requestEnd), refuse("Negotiate\r\nProxy-Authenticate: Basic realm=\"p\""),
                authorized("Negotiate cm91bmQx"), refuse("Negotiate Y2hhbGxlbmdl"),
                authorized("Negotiate cm91bmQy"),
                .send(Array("HTTP/1.1 200 OK\r\nProxy-Authenticate: Negotiate b2s=\r\n\r\nin".utf8)), .hold,
            ])
            defer { peer.stop() }
            let challenges = Watched<[ProxyChallenge]>([])
            let client = try bench.client(
                try profile(peer),
                proxyLogin: { challenge in
                    challenges.update { $0.append(challenge) }
                    return .header(challenge.attempt == 1 ? "Negotiate cm91bmQx" : "Negotiate cm91bmQy")
                })
            #expect(await client.outcome() == nil)
            #expect(await client.received(2) == Array("in".utf8))
            #expect(peer.connectionCount == 1)
            let asked = challenges.value
            #expect(asked.map(\.attempt) == [1, 2])
            #expect(asked.map(\.tried) == [[], ["Negotiate"]])
            #expect(asked[0].schemes.map(\.name) == ["Negotiate", "Basic"])
            #expect(asked[0].schemes[1]["Realm"] == "p")
            #expect(asked[1].schemes[0].token == "Y2hhbGxlbmdl")
            #expect(asked[0].proxy.port == peer.port)
        }
    }

    @Test func `a connection that ends while the handler thinks is replaced when it has answered`()
        async throws
    {
        try await Bench.run { bench in
            let peer = try bench.peer(
                [.expectUntil(requestEnd), refuse("Basic realm=p"), .close],
                [authorized("Bearer abc"), granted, .hold])
            defer { peer.stop() }
            let client = try bench.client(
                try profile(peer),
                proxyLogin: { _ in
                    _ = await peer.ended()
                    return .header("Bearer abc")
                })
            #expect(await client.outcome() == nil)
            #expect(peer.connectionCount == 2)
        }
    }

    @Test func `a handler that hangs meets the proxy's deadline, and is cancelled`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.expectUntil(requestEnd), refuse("Basic realm=p"), .expectEnd])
            defer { peer.stop() }
            let never = Watched(0)
            let isCancelled = Watched(false)
            let client = try bench.client(
                try profile(peer), deadlines: StageDeadlines(proxy: .milliseconds(300)),
                proxyLogin: { _ in
                    await withTaskCancellationHandler {
                        while !Task.isCancelled { _ = await never.first { $0 > 0 } }
                    } onCancel: {
                        isCancelled.update { $0 = true }
                        never.update { $0 = 1 }
                    }
                    return .builtIn
                })
            let error = await client.outcome()
            #expect(error?.code == .proxyTimeout)
            #expect(error?.evidence == .text("the proxy's login handler gave no answer within 0.3 seconds"))
            _ = await isCancelled.first { $0 }
        }
    }

    @Test func `what a handler throws is the reason, as one line`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.expectUntil(requestEnd), refuse("Basic realm=p"), .expectEnd])
            defer { peer.stop() }
            let client = try bench.client(try profile(peer), proxyLogin: { _ in throw Unwilling() })
            let error = await client.outcome()
            #expect(error?.evidence == .text("the vault is locked"))
            #expect(error?.hop == "127.0.0.1:\(peer.port)")
            expectObservations(client, [.resolve, .tcp, .proxy], failure: .proxyAuthRequired)
        }
    }

    @Test(
        arguments: [
            .credentials(userName: "alice", password: Array("wrong".utf8)), .header("Bearer wrong"),
        ] as [ProxyAuthorization])
    func `an answer that was refused isn't sent again`(answer: ProxyAuthorization) async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .expectUntil(requestEnd), refuse("Basic realm=p"), .expectUntil(requestEnd),
                refuse("Basic realm=p"), .expectEnd,
            ])
            defer { peer.stop() }
            let attempts = Watched<[Int]>([])
            let client = try bench.client(
                try profile(peer),
                proxyLogin: { challenge in
                    attempts.update { $0.append(challenge.attempt) }
                    return answer
                })
            let error = await client.outcome()
            #expect(error?.code == .proxyAuthFailed)
            #expect(error?.evidence.description.contains("HTTP 407") == true)
            #expect(attempts.value == [1, 2])
            #expect(await peer.ended().mismatch == nil)
        }
    }

    @Test(arguments: ["", "Bearer a\r\nX: y", "Bearer \u{7F}", "Bearer \u{E4}"])
    func `a header that would break the request isn't sent`(header: String) async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.expectUntil(requestEnd), refuse("Bearer"), .expectEnd])
            defer { peer.stop() }
            let client = try bench.client(try profile(peer), proxyLogin: { _ in .header(header) })
            let error = await client.outcome()
            #expect(error?.code == .proxyAuthRequired)
            #expect(error?.evidence.description.contains("printable ASCII") == true)
            let requests = await peer.ended().received
            #expect(!String(decoding: requests, as: UTF8.self).contains("Proxy-Authorization"))
        }
    }

    @Test func `a handler can leave it to the profile, and isn't asked without need`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(
                [
                    .expectUntil(requestEnd), refuse("Basic realm=p"), authorized("Basic YWxpY2U6c2VjcmV0"),
                    granted, .hold,
                ], [.expectUntil(requestEnd), granted, .hold])
            defer { peer.stop() }
            let questions = Watched(0)
            let handler: ProxyLoginHandler = { _ in
                questions.update { $0 += 1 }
                return .builtIn
            }
            let profile = try profile(peer, login: ("alice", "secret"))
            for count in [1, 1] {
                let client = try bench.client(profile, proxyLogin: handler)
                #expect(await client.outcome() == nil)
                #expect(questions.value == count)
            }
        }
    }

    // MARK: SOCKS

    @Test func `a SOCKS proxy that wants a login has the handler asked for it`() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([
                .expect([5, 2, 0, 2]), .send([5, 2]), .expect([1, 1, 117, 1, 112]), .send([1, 0]),
                .expectCount(21), .send([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]), .hold,
            ])
            defer { peer.stop() }
            let challenges = Watched<[ProxyChallenge]>([])
            let client = try bench.client(
                try profile(peer, .socks5(.proxy)),
                proxyLogin: { challenge in
                    challenges.update { $0.append(challenge) }
                    return .credentials(userName: "u", password: Array("p".utf8))
                })
            #expect(await client.outcome() == nil)
            #expect(challenges.value.map { $0.schemes.map(\.name) } == [["username/password"]])
        }
    }

    @Test(
        arguments: [
            (.builtIn, "there are none"), (.header("Bearer x"), "a header, which SOCKS doesn't have"),
            (.credentials(userName: "u", password: []), "1 to 255 bytes"),
        ] as [(ProxyAuthorization, String)])
    func `an answer that SOCKS can't use is said`(answer: ProxyAuthorization, says: String) async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.expect([5, 2, 0, 2]), .send([5, 2]), .expectEnd])
            defer { peer.stop() }
            let client = try bench.client(
                try profile(peer, .socks5(.proxy)), proxyLogin: { _ in answer })
            let error = await client.outcome()
            #expect(error?.code == .proxyAuthRequired)
            #expect(error?.evidence.description.contains(says) == true, "\(String(describing: error))")
        }
    }

    @Test func `credentials for SOCKS are asked for once, whatever address of the server is tried`()
        async throws
    {
        try await Bench.run { bench in
            let login: [ScriptedPeer.Step] = [
                .expect([5, 2, 0, 2]), .send([5, 2]), .expect([1, 1, 117, 1, 112]), .send([1, 0]),
            ]
            let peer = try bench.peer(
                login + [.expectCount(22), .send([5, 4]), .close],
                login + [.expectCount(10), .send([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]), .hold])
            defer { peer.stop() }
            let resolver = Resolver { _, port in
                .success(["2001:db8::7", "192.0.2.7"].compactMap { SocketAddress(literal: $0, port: port) })
            }
            let questions = Watched(0)
            let client = try bench.client(
                try profile(peer, .socks5(.local)), resolver: resolver,
                proxyLogin: { _ in
                    questions.update { $0 += 1 }
                    return .credentials(userName: "u", password: Array("p".utf8))
                })
            #expect(await client.outcome() == nil)
            #expect(questions.value == 1)
        }
    }

    // MARK: Reports of others

    @Test func row_47_a_login_is_the_tunnels_and_wrong_credentials_are_one_try() async throws {
        try await Bench.run { bench in
            let login: [ScriptedPeer.Step] = [.expectUntil(requestEnd), refuse("Basic realm=p")]
            let peer = try bench.peer(
                login + [.expectUntil(requestEnd), granted, .upgradeWebSocket, .hold],
                login + [.expectUntil(requestEnd), refuse("Basic realm=p"), .expectEnd])
            defer { peer.stop() }
            var profile = try profile(peer, login: ("alice", "secret"))
            profile.transport = .webSocket(WebSocketOptions(path: "/mqtt"))
            let client = try bench.client(profile)
            #expect(await client.outcome() == nil)
            let record = await peer.record(0) {
                String(decoding: $0.received, as: UTF8.self).contains("GET /mqtt")
            }
            let said = String(decoding: record.received, as: UTF8.self)
            let requests = said.split(separator: "\r\n\r\n")
            #expect(requests.map { $0.hasPrefix("CONNECT ") } == [true, true, false])
            #expect(requests.map { $0.contains("Proxy-Authorization: Basic ") } == [false, true, false])

            let stranger = try bench.client(profile)
            let error = await stranger.outcome()
            #expect(error?.code == .proxyAuthFailed)
            #expect(error?.evidence.description.contains("HTTP 407") == true)
            #expect(await peer.ended(connection: 1).mismatch == nil)
            #expect(peer.connectionCount == 2)
        }
    }

    @Test func row_49_a_proxy_that_never_answers_CONNECT_ends_by_its_deadline() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.expectUntil(requestEnd), .hold])
            defer { peer.stop() }
            let client = try bench.client(
                try profile(peer, login: ("alice", "secret")),
                deadlines: StageDeadlines(proxy: .milliseconds(200)))
            let error = await client.outcome()
            #expect(error?.hop == "127.0.0.1:\(peer.port)")
            #expect(error?.evidence == .deadline(.milliseconds(200)))
            expectObservations(client, [.resolve, .tcp, .proxy], failure: .proxyTimeout)
            #expect(await peer.ended().mismatch == nil)
        }
    }
}
