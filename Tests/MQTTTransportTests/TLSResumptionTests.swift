import CTraversalOpenSSL
import Foundation
import MQTTLoopback
import Testing

@testable import MQTTTransport

@Suite("TLS, resumed sessions", .timeLimit(.minutes(1)))
struct TLSResumptionTests {
    /// Connects, waits for a byte, behind which every ticket has come, and hangs up; whether TLS was resumed.
    private func connect(_ bench: Bench, _ profile: ConnectionProfile, _ contexts: TLSContextStore)
        async throws
        -> Bool
    {
        let client = try bench.client(profile, contexts: contexts)
        #expect(await client.received(1) == [0x20])
        let detail = client.state.observations.last?.detail ?? ""
        client.withStream { $0.abort(nil) }
        _ = await client.end()
        return detail.contains(", resumed")
    }

    private func profile(_ peer: ScriptedPeer, _ options: TLSOptions? = nil) throws -> ConnectionProfile {
        try .tls(host: "127.0.0.1", port: Int(peer.port), options: options ?? Fixture.trust())
    }

    /// A RST in place of close_notify, as hostile networks end connections, spoils no session.
    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func the_next_connection_resumes_and_so_do_those_after_it(_ version: TLSOptions.Version) async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(
                tls: try Fixture.server(maximumVersion: version), [.send([0x20]), .hold])
            let profile = try profile(peer)
            let contexts = TLSContextStore()
            #expect(try await connect(bench, profile, contexts) == false)
            for _ in 0..<5 { #expect(try await connect(bench, profile, contexts)) }
        }
    }

    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func a_client_certificate_is_part_of_what_is_resumed(_ version: TLSOptions.Version) async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            let server = try Fixture.server(clientCAFile: files.authority, maximumVersion: version)
            let peer = try bench.peer(tls: server, [.send([0x20]), .hold])
            var options = try Fixture.trust()
            options.identity = .init(
                certificateFile: files.client.certificate, privateKeyFile: files.client.key)
            let profile = try profile(peer, options)
            let contexts = TLSContextStore()
            #expect(try await connect(bench, profile, contexts) == false)
            #expect(try await connect(bench, profile, contexts))
        }
    }

    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func another_name_another_port_or_other_protocols_begin_anew(_ version: TLSOptions.Version) async throws {
        try await Bench.run { bench in
            let server = try Fixture.server(maximumVersion: version)
            let peer = try bench.peer(tls: server, [.send([0x20]), .hold])
            let other = try bench.peer(tls: server, [.send([0x20]), .hold])
            let first = try profile(peer)
            let contexts = TLSContextStore()
            #expect(try await connect(bench, first, contexts) == false)
            var renamed = first
            renamed.tls?.serverName = "localhost"
            #expect(try await connect(bench, renamed, contexts) == false)
            var negotiating = first
            negotiating.tls?.applicationProtocols = ["mqtt"]
            #expect(try await connect(bench, negotiating, contexts) == false)
            #expect(try await connect(bench, profile(other), contexts) == false)
            // Other options are another context.
            #expect(try await connect(bench, first, TLSContextStore()) == false)
            for profile in [first, renamed, negotiating] {
                #expect(try await connect(bench, profile, contexts))
            }
        }
    }

    /// A server that has lost its keys, as after a restart.
    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func a_session_that_the_server_refuses_costs_nothing_but_itself(_ version: TLSOptions.Version)
        async throws
    {
        try await Bench.run { bench in
            let connections = Watched(0)
            let server = try OpenSSLServer(
                prepare: {
                    let number = version == .v1_2 ? TLS1_2_VERSION : TLS1_3_VERSION
                    SSL_CTX_ctrl($0, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(number), nil)
                },
                serve: { connection in
                    connections.update { $0 += 1 }
                    // Its own tickets have gone out already.
                    if connections.value == 2 {
                        var keys = [UInt8](repeating: 7, count: 80)
                        SSL_CTX_ctrl(
                            SSL_get_SSL_CTX(connection.ssl), SSL_CTRL_SET_TLSEXT_TICKET_KEYS, 80, &keys)
                    }
                    connection.send([0x20])
                    _ = connection.receive(1)
                })
            defer { server.stop() }
            let profile = try ConnectionProfile.tls(
                host: "127.0.0.1", port: Int(server.port), options: try Fixture.trust())
            let contexts = TLSContextStore()
            var resumed: [Bool] = []
            for _ in 0..<4 { resumed.append(try await connect(bench, profile, contexts)) }
            #expect(resumed == [false, true, false, true])
        }
    }

    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func nothing_is_kept_of_what_nobody_verified(_ version: TLSOptions.Version) async throws {
        try await Bench.run { bench in
            let server = try Fixture.server(maximumVersion: version)
            let peer = try bench.peer(tls: server, [.send([0x20]), .hold])
            var options = try Fixture.trust()
            options.verification = .disabledAndOpenToInterception
            let unverified = try profile(peer, options)
            let contexts = TLSContextStore()
            for _ in 0..<2 { #expect(try await connect(bench, unverified, contexts) == false) }

            options = try Fixture.trust()
            options.pins = [try PublicKeyPin(bytes: [UInt8](repeating: 0, count: 32))]
            let pinned = try profile(peer, options)
            let context = try TLSContext(client: options)
            for _ in 0..<2 {
                let stage = TLSContextStore()
                let client = try bench.client(pinned, contexts: stage)
                #expect(await client.outcome()?.code == .tlsInterceptedTrusted)
                #expect(stage.madeContext(for: options)?.takeSession(for: Self.target(pinned)) == nil)
            }
            #expect(context.takeSession(for: Self.target(pinned)) == nil)

            options = try Fixture.trust()
            options.applicationProtocols = ["unknown"]
            options.requiresApplicationProtocol = true
            let demanding = try profile(peer, options)
            let refused = TLSContextStore()
            #expect(
                await (try bench.client(demanding, contexts: refused)).outcome()?.code == .tlsALPNNotSelected)
            #expect(refused.madeContext(for: options)?.takeSession(for: Self.target(demanding)) == nil)
        }
    }

    private static func target(_ profile: ConnectionProfile) -> TLSTarget {
        let route = Route(profile)
        return TLSTarget(serverName: route.serverName, port: route.port, options: route.tls)
    }

    /// The chain isn't verified again at a resumption: a certificate's end is the session's, however often it is resumed.
    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func a_session_ends_with_its_chain(_ version: TLSOptions.Version) async throws {
        try await Bench.run { bench in
            let root = try CertificateAuthority(commonName: "Root")
            let subject = CertificateSubject.server(names: [], addresses: ["127.0.0.1"])
            for (seconds, expected) in [(3600, 3600), (30 * 86_400, 86_400)] {
                let validity = CertificateValidity(begins: -3600, ends: seconds)
                let server = try Fixture.files(root.issue(subject, validity: validity))
                let peer = try bench.peer(
                    tls: try Fixture.server(server, maximumVersion: version), [.send([0x20]), .hold])
                let profile = try profile(peer, TLSOptions(trust: .pem(Array(root.certificate.utf8))))
                let contexts = TLSContextStore()
                let context = try contexts.context(for: try #require(profile.tls))
                #expect(try await connect(bench, profile, contexts) == false)
                let first = try #require(context.takeSession(for: Self.target(profile)))
                #expect(abs(first.verifiedUntil - time(nil) - expected) < 120)
                context.keep(first, for: Self.target(profile))
                #expect(try await connect(bench, profile, contexts))
                let second = try #require(context.takeSession(for: Self.target(profile)))
                #expect(second.verifiedUntil == first.verifiedUntil)
                while context.takeSession(for: Self.target(profile)) != nil {}
                SSL_SESSION_up_ref(second.pointer)
                context.keep(TLSSession(second.pointer, verifiedUntil: time(nil)), for: Self.target(profile))
                #expect(try await connect(bench, profile, contexts) == false)
                peer.stop()
            }
        }
    }

    @Test func a_shelf_holds_two_values_of_64_keys_and_gives_each_away_once() {
        var shelf = Shelf<Int, String>()
        for letter in ["a", "b", "c"] { shelf.put(letter, for: 0) }
        #expect(shelf.count == 2)
        #expect(shelf.take(0) == "c")
        #expect(shelf.take(0) == "b")
        #expect(shelf.take(0) == nil)
        for key in 0..<64 { shelf.put("\(key)", for: key) }
        shelf.put("again", for: 0)
        shelf.put("new", for: 64)
        #expect(shelf.count == 65)
        #expect(shelf.take(1) == nil)
        #expect(shelf.take(0) == "again")
        #expect(shelf.take(64) == "new")
    }
}
