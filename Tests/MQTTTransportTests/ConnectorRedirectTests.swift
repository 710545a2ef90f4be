import MQTTLoopback
import MQTTTransport
import Testing

@Suite("Connector, redirects", .timeLimit(.minutes(1)))
struct ConnectorRedirectTests {
    /// Every name is 127.0.0.1.
    private static let resolver = Resolver { _, port in
        SocketAddress(literal: "127.0.0.1", port: port).map { .success([$0]) }
            ?? .failure(TransportError(stage: .resolve, code: .dnsNoData, evidence: .none))
    }

    private static func redirect(to location: String, status: Int = 302) -> [ScriptedPeer.Step] {
        [
            .answerUpgrade(
                "HTTP/1.1 \(status) Over There\r\nLocation: \(location)\r\nContent-Length: 999\r\n\r\n<html>"),
            .expectEnd,
        ]
    }

    private static func profile(
        _ host: String, _ port: UInt16, encrypted: Bool = false, _ redirects: RedirectPolicy = .sameHost
    ) throws -> ConnectionProfile {
        var profile = try ConnectionProfile(
            url: "\(encrypted ? "wss" : "ws")://user:secret@\(host):\(port)/first")
        if encrypted { profile.tls = try Fixture.trust() }
        profile.webSocket?.redirects = redirects
        profile.webSocket?.headers = [.init(name: "Authorization", value: "Bearer token")]
        return profile
    }

    private func expectRefusal(
        _ client: TestClient, _ reason: String, sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let error = await client.outcome()
        #expect(error?.code == .wsRedirected, sourceLocation: sourceLocation)
        #expect(error?.stage == .webSocket, sourceLocation: sourceLocation)
        guard case .http(let answer)? = error?.evidence else {
            Issue.record("\(String(describing: error))", sourceLocation: sourceLocation)
            return
        }
        #expect(answer.notFollowed == reason, sourceLocation: sourceLocation)
        #expect(answer.location != nil, sourceLocation: sourceLocation)
    }

    @Test(arguments: [301, 302, 303, 307, 308], [false, true])
    func the_same_host_is_followed_to_another_port(_ status: Int, _ isEncrypted: Bool) async throws {
        try await Bench.run { bench in
            let tls = isEncrypted ? try Fixture.server() : nil
            let target = try bench.peer(tls: tls, [.upgradeWebSocket, .hold])
            let location = "\(isEncrypted ? "https" : "http")://127.0.0.1:\(target.port)/mqtt?x=1"
            let first = try bench.peer(tls: tls, Self.redirect(to: location, status: status))
            let client = try bench.client(Self.profile("127.0.0.1", first.port, encrypted: isEncrypted))
            #expect(await client.outcome() == nil)

            let request = String(
                decoding: await target.record { $0.received.count > 100 }.received, as: UTF8.self)
            #expect(request.hasPrefix("GET /mqtt?x=1 HTTP/1.1\r\nHost: 127.0.0.1:\(target.port)\r\n"))
            #expect(request.contains("\r\nAuthorization: Bearer token\r\n"))
            #expect(!request.contains("secret"))
            // The first connection is given back in order.
            #expect(await first.ended().end?.code == .tcpClosed)

            let observations = client.state.observations
            let once: [ConnectionStage] = [.resolve, .tcp] + (isEncrypted ? [.tls] : []) + [.webSocket]
            #expect(observations.map(\.stage) == once + once)
            let targets = observations.compactMap { observation in
                if case .redirected(let url) = observation.outcome { url } else { nil as String? }
            }
            #expect(
                targets == ["\(isEncrypted ? "wss" : "ws")://127.0.0.1:\(target.port)/mqtt?…"])
            if case .redirected = observations[once.count - 1].outcome {
            } else {
                Issue.record("the redirect isn't the first connection's last observation")
            }
            #expect(client.state.completions.count == 1)
        }
    }

    @Test func encryption_is_never_given_up() async throws {
        try await Bench.run { bench in
            let target = try bench.peer([.upgradeWebSocket, .hold])
            let first = try bench.peer(
                tls: try Fixture.server(), Self.redirect(to: "http://127.0.0.1:\(target.port)/"))
            let client = try bench.client(Self.profile("127.0.0.1", first.port, encrypted: true))
            await expectRefusal(client, "it leads from wss to ws, which is never done")
            #expect(target.connectionCount == 0)
        }
    }

    /// The test's authority isn't in the system's store, which is what a profile without TLS options trusts.
    @Test func a_way_up_to_TLS_is_verified() async throws {
        try await Bench.run { bench in
            let target = try bench.peer(tls: try Fixture.server(), [.upgradeWebSocket, .hold])
            let first = try bench.peer(Self.redirect(to: "https://127.0.0.1:\(target.port)/"))
            let client = try bench.client(Self.profile("127.0.0.1", first.port))
            let error = await client.outcome()
            // Or there is no store on this machine at all.
            #expect(error?.code == .tlsUntrusted || error?.code == .tlsNoTrustStore, "\(error as Any)")
            #expect(!String(decoding: await target.ended().received, as: UTF8.self).contains("GET"))
        }
    }

    @Test func a_loop_ends() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(Self.redirect(to: "/second"), Self.redirect(to: "first"))
            let client = try bench.client(Self.profile("127.0.0.1", peer.port))
            await expectRefusal(client, "it leads back to ws://127.0.0.1:\(peer.port)/first")
            #expect(peer.connectionCount == 2)
        }
    }

    @Test func five_redirects_are_followed_and_no_sixth() async throws {
        try await Bench.run { bench in
            let peer = try ScriptedPeer(
                on: bench.peerLoop, scripts: (1...7).map { Self.redirect(to: "/\($0)") })
            let client = try bench.client(Self.profile("127.0.0.1", peer.port))
            await expectRefusal(client, "5 redirects have been followed already")
            #expect(peer.connectionCount == 6)
        }
    }

    @Test func another_host_is_not_followed() async throws {
        try await Bench.run { bench in
            let target = try bench.peer([.upgradeWebSocket, .hold])
            let first = try bench.peer(Self.redirect(to: "http://other.example:\(target.port)/"))
            let client = try bench.client(
                Self.profile("broker.example", first.port), resolver: Self.resolver)
            await expectRefusal(
                client, "it leads to another host, other.example, which the profile doesn't list")
            #expect(target.connectionCount == 0)
        }
    }

    @Test func a_policy_of_none_follows_nothing() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(Self.redirect(to: "/x"))
            let client = try bench.client(Self.profile("127.0.0.1", peer.port, .none))
            await expectRefusal(client, "the profile follows no redirects")
            #expect(peer.connectionCount == 1)
        }
    }

    @Test func a_location_with_a_user_name_is_neither_followed_nor_shown() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(Self.redirect(to: "http://user:hunter2@127.0.0.1/"))
            let client = try bench.client(Self.profile("127.0.0.1", peer.port))
            await expectRefusal(client, "its Location holds a user name")
            let text = await client.outcome()?.description ?? ""
            #expect(text.contains("Location: http://…@127.0.0.1/") && !text.contains("hunter2"), "\(text)")
        }
    }

    @Test func a_listed_host_gets_no_header_of_the_programs_unless_it_may() async throws {
        for credentials in [RedirectPolicy.Credentials.withheld, .sentThereToo] {
            try await Bench.run { bench in
                let target = try bench.peer([.upgradeWebSocket, .hold])
                let first = try bench.peer(Self.redirect(to: "http://other.example:\(target.port)/mqtt"))
                let client = try bench.client(
                    Self.profile(
                        "broker.example", first.port,
                        .hosts([.init("other.example", credentials: credentials)])),
                    resolver: Self.resolver)
                #expect(await client.outcome() == nil)
                let request = String(
                    decoding: await target.record { $0.received.count > 100 }.received, as: UTF8.self)
                #expect(request.contains("\r\nHost: other.example:\(target.port)\r\n"))
                #expect(request.contains("Authorization") == (credentials == .sentThereToo))
            }
        }
    }

    /// As long as one route may take, however many there are.
    @Test func redirects_together_have_a_deadline() async throws {
        try await Bench.run { bench in
            let scripts = (1...6).map { step in
                [
                    .expectUntil([13, 10, 13, 10]), .pause(.milliseconds(500)),
                    .send(Array("HTTP/1.1 302 X\r\nLocation: /\(step)\r\n\r\n".utf8)), .expectEnd,
                ] as [ScriptedPeer.Step]
            }
            let peer = try ScriptedPeer(on: bench.peerLoop, scripts: scripts)
            let client = try bench.client(
                Self.profile("127.0.0.1", peer.port),
                deadlines: StageDeadlines(
                    resolve: .milliseconds(1), tcp: .milliseconds(500), tls: .milliseconds(1),
                    webSocket: .seconds(1)))
            let error = await client.outcome()
            #expect(error?.stage == .webSocket)
            #expect(error?.code == .tcpSilent)
            #expect(error?.description.contains("redirected, and not at the end after 1.502") == true)
            #expect(peer.connectionCount < 6)
        }
    }

    @Test func an_attempt_that_is_cancelled_after_a_redirect_says_nothing() async throws {
        try await Bench.run { bench in
            let target = try bench.peer([.hold])
            let first = try bench.peer(Self.redirect(to: "http://127.0.0.1:\(target.port)/"))
            let client = try bench.client(Self.profile("127.0.0.1", first.port))
            _ = await target.record { !$0.received.isEmpty }
            client.cancel()
            await client.settle()
            #expect(client.state.completions.isEmpty)
            _ = await target.ended()
        }
    }
}
