import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

@Suite("Connector, TLS stage", .timeLimit(.minutes(1)))
struct ConnectorTLSTests {
    // MARK: No TLS at the other end

    static let strangers: [(String, [ScriptedPeer.Step], FailureCode)] = [
        ("silent", [.hold], .tlsTimeout),
        ("never reads", [.ignore], .tlsTimeout),
        ("FIN after hello", [.expectCount(50), .close], .tlsEOF),
        ("RST after hello", [.expectCount(50), .reset], .tlsResetAfterHello),
        (
            "HTTP", [.expectCount(50), .send(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)), .close],
            .tlsPlaintextReply
        ),
        ("three bytes of text", [.expectCount(50), .send(Array("ERR".utf8)), .close], .tlsPlaintextReply),
        ("a CONNACK", [.expectCount(50), .send([0x20, 0x02, 0x00, 0x05]), .close], .tlsPlaintextReply),
        (
            "garbage", [.expectCount(50), .send([0x00, 0xFF, 0x13, 0x37, 0x00, 0x00]), .hold],
            .tlsPlaintextReply
        ),
        (
            "a record that isn't a handshake",
            [.expectCount(50), .send([0x17, 0x03, 0x03, 0x00, 0x02, 0x00, 0x00]), .hold], .tlsProtocol
        ),
        (
            "a record cut off", [.expectCount(50), .send([0x16, 0x03, 0x03, 0x00, 0x40, 0x02]), .close],
            .tlsEOF
        ),
        (
            "alert protocol_version",
            [.expectCount(50), .send([0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 70]), .close], .tlsVersion
        ),
        (
            "alert handshake_failure, then RST",
            [.expectCount(50), .send([0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 40]), .reset], .tlsAlert
        ),
        (
            "a server of TLS 1.0",
            [
                .expectCount(50),
                .send(
                    [0x16, 0x03, 0x01, 0x00, 0x2A, 0x02, 0x00, 0x00, 0x26, 0x03, 0x01]
                        + [UInt8](repeating: 0x5A, count: 32) + [0x00, 0xC0, 0x13, 0x00]), .hold,
            ], .tlsVersion
        ),
    ]

    @Test(arguments: strangers)
    func what_answers_a_hello_without_TLS_is_named(
        _ name: String, _ script: [ScriptedPeer.Step], _ code: FailureCode
    ) async throws {
        try await Bench.run { bench in
            let peer = try ScriptedPeer(on: bench.peerLoop, scripts: [script])
            var deadlines = StageDeadlines()
            if code == .tlsTimeout { deadlines.tls = .milliseconds(300) }
            let client = try bench.client(
                .tls(host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust()),
                deadlines: deadlines)
            let error = await client.outcome()
            #expect(error?.stage == .tls)
            #expect(error?.code == code, "\(error?.description ?? "")")
            #expect(error?.hop == "127.0.0.1:\(peer.port)")
            expectObservations(client, [.resolve, .tcp, .tls], failure: code)
            switch (name, error?.evidence) {
            case ("HTTP", .firstBytes(let bytes)?):
                #expect(String(decoding: bytes, as: UTF8.self).hasPrefix("HTTP/1.1 400"))
            case ("a CONNACK", let evidence): #expect(evidence == .firstBytes([0x20, 0x02, 0x00, 0x05]))
            case ("three bytes of text", let evidence):
                #expect(evidence == .firstBytes(Array("ERR".utf8)))
            case ("alert protocol_version", let evidence): #expect(evidence == .alert(70))
            case ("alert handshake_failure, then RST", let evidence): #expect(evidence == .alert(40))
            case ("silent", let evidence), ("never reads", let evidence):
                #expect(evidence == .deadline(.milliseconds(300)))
                let duration = try #require(client.state.observations.last?.duration)
                #expect(duration >= .milliseconds(300) && duration < .seconds(3))
            default: break
            }
            peer.stop()
        }
    }

    // MARK: Certificates

    private func outcome(
        _ bench: Bench, server: TestCertificates.IdentityFiles, options: TLSOptions,
        host: String = "localhost"
    ) async throws -> (TransportError?, TestClient) {
        let peer = try bench.peer(tls: try Fixture.server(server), [.hold])
        defer { peer.stop() }
        var options = options
        // "localhost" may resolve to ::1 first, where nobody listens.
        if options.serverName == nil { options.serverName = host }
        let client = try bench.client(.tls(host: "127.0.0.1", port: Int(peer.port), options: options))
        return (await client.outcome(), client)
    }

    @Test func a_certificate_is_refused_for_what_is_wrong_with_it() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            let cases: [(TestCertificates.IdentityFiles, FailureCode, Int)] = [
                (files.untrustedServer, .tlsUntrusted, 20), (files.expiredServer, .tlsExpired, 10),
                (files.notYetValidServer, .tlsNotYetValid, 9),
                (files.wrongNameServer, .tlsNameMismatch, 62),
            ]
            for (server, code, number) in cases {
                let (error, client) = try await outcome(
                    bench, server: server, options: try Fixture.trust())
                #expect(error?.stage == .tls)
                #expect(error?.code == code)
                guard case .certificate(let problem)? = error?.evidence else {
                    Issue.record("no certificate in \(String(describing: error))")
                    continue
                }
                #expect(problem.code == number)
                #expect(problem.depth == 0)
                #expect(!problem.subject.isEmpty && !problem.issuer.isEmpty)
                expectObservations(client, [.resolve, .tcp, .tls], failure: code)
            }
        }
    }

    @Test func a_wrong_CA_refuses_a_good_server() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            let (error, _) = try await outcome(
                bench, server: files.server, options: TLSOptions(trust: .file(files.wrongAuthority)))
            #expect(error?.code == .tlsUntrusted)
        }
    }

    @Test func an_expired_CA_is_refused_although_the_servers_certificate_is_valid() async throws {
        try await Bench.run { bench in
            let directory = FileManager.default.temporaryDirectory
                .appendingPathComponent("mqtt-expired-ca-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: directory) }
            let authority = try CertificateAuthority(commonName: "Expired authority", validity: .expired)
            let identity = try authority.issue(.server(names: ["localhost"], addresses: []))
            let files = TestCertificates.IdentityFiles(
                certificate: directory.appendingPathComponent("server.crt").path,
                key: directory.appendingPathComponent("server.key").path)
            try identity.certificate.write(toFile: files.certificate, atomically: true, encoding: .utf8)
            try identity.key.write(toFile: files.key, atomically: true, encoding: .utf8)
            let (error, _) = try await outcome(
                bench, server: files, options: TLSOptions(trust: .pem(Array(authority.certificate.utf8))))
            #expect(error?.code == .tlsExpired)
            guard case .certificate(let problem)? = error?.evidence else {
                Issue.record("no certificate in \(String(describing: error))")
                return
            }
            #expect(problem.depth == 1)
        }
    }

    @Test func names_and_addresses_in_the_certificate_are_accepted() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            for host in ["localhost", "localhost.", "127.0.0.1", "127.1", "::1"] {
                let (error, client) = try await outcome(
                    bench, server: files.server, options: try Fixture.trust(), host: host)
                #expect(error == nil, "\(host)")
                expectObservations(client, [.resolve, .tcp, .tls], failure: nil)
                #expect(client.state.observations.last?.detail?.hasPrefix("TLSv1.3 TLS_") == true)
            }
            for host in ["127.0.0.2", "::2", "other.invalid"] {
                let (error, _) = try await outcome(
                    bench, server: files.server, options: try Fixture.trust(), host: host)
                #expect(error?.code == .tlsNameMismatch, "\(host)")
            }
        }
    }

    @Test func verification_can_be_switched_off_in_words() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            let (error, _) = try await outcome(
                bench, server: files.wrongNameServer,
                options: TLSOptions(verification: .disabledAndOpenToInterception))
            #expect(error == nil)
        }
    }

    @Test func the_CA_may_come_as_text() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            let pem = try Data(contentsOf: URL(fileURLWithPath: files.authority))
            let (error, _) = try await outcome(
                bench, server: files.server, options: TLSOptions(trust: .pem(Array(pem))))
            #expect(error == nil)
        }
    }

    @Test func a_missing_client_certificate_is_named_under_TLS_1_2() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            let peer = try bench.peer(
                tls: try Fixture.server(clientCAFile: files.authority, maximumVersion: .v1_2), [.hold])
            let client = try bench.client(
                .tls(host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust()))
            let error = await client.outcome()
            #expect(error?.stage == .tls)
            #expect(error?.code == .tlsClientCertRequired)
            #expect(error?.evidence == .alert(40))
            expectObservations(client, [.resolve, .tcp, .tls], failure: .tlsClientCertRequired)
        }
    }

    /// TLS 1.3 refuses only after the client's handshake is over.
    @Test func a_missing_client_certificate_is_named_under_TLS_1_3() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            let peer = try bench.peer(tls: try Fixture.server(clientCAFile: files.authority), [.hold])
            let client = try bench.client(
                .tls(host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust())
            ) { event, stream in
                if event == .connected { stream.send([[0x10, 0x00]]) }
            }
            #expect(await client.outcome() == nil)
            let error = await client.end()
            #expect(error?.stage == .tls)
            #expect(error?.code == .tlsClientCertRequired)
            #expect(error?.evidence == .alert(116))

            let upgrading = try bench.client(
                .webSocketSecure(host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust()))
            let refusal = await upgrading.outcome()
            #expect(refusal?.stage == .tls)
            #expect(refusal?.code == .tlsClientCertRequired)
        }
    }

    @Test func a_client_certificate_is_presented_and_an_untrusted_one_refused() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            for (identity, expected) in [(files.client, nil), (files.untrustedClient, UInt8(48))] {
                let peer = try bench.peer(
                    tls: try Fixture.server(clientCAFile: files.authority, maximumVersion: .v1_2),
                    [.send([0x20]), .hold])
                var options = try Fixture.trust()
                options.identity = TLSOptions.Identity(
                    certificateFile: identity.certificate, privateKeyFile: identity.key)
                let client = try bench.client(
                    .tls(host: "127.0.0.1", port: Int(peer.port), options: options))
                let error = await client.outcome()
                if let expected {
                    #expect(error?.code == .tlsAlert)
                    #expect(error?.evidence == .alert(expected))
                } else {
                    #expect(error == nil)
                    #expect(await client.received(1) == [0x20])
                }
            }
        }
    }

    @Test func a_server_below_the_minimum_version_is_refused() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(tls: try Fixture.server(maximumVersion: .v1_2), [.hold])
            var options = try Fixture.trust()
            options.minimumVersion = .v1_3
            let client = try bench.client(.tls(host: "127.0.0.1", port: Int(peer.port), options: options))
            let error = await client.outcome()
            #expect(error?.code == .tlsVersion)
            #expect(error?.evidence == .alert(70))
        }
    }

    /// The server's Finished of TLS 1.2 and its first bytes share a segment.
    @Test func bytes_that_come_with_the_Finished_go_to_the_next_layer() async throws {
        try await Bench.run { bench in
            for version in [TLSOptions.Version.v1_2, .v1_3] {
                let peer = try bench.peer(
                    tls: try Fixture.server(maximumVersion: version),
                    [.send([0x20, 0x02, 0x00, 0x00]), .hold])
                let client = try bench.client(
                    .tls(host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust()))
                #expect(await client.received(4) == [0x20, 0x02, 0x00, 0x00])
                let summary = client.state.observations.last?.detail
                #expect(summary?.hasPrefix(version == .v1_2 ? "TLSv1.2 " : "TLSv1.3 ") == true)
            }
        }
    }

    @Test func secure_WebSocket_asks_for_HTTP_1_1_and_gets_through() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer(tls: try Fixture.server(), [.upgradeWebSocket, .hold])
            let client = try bench.client(
                .webSocketSecure(host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust()))
            #expect(await client.outcome() == nil)
            expectObservations(client, [.resolve, .tcp, .tls, .webSocket], failure: nil)
            #expect(client.state.observations[2].detail?.hasSuffix("ALPN http/1.1") == true)
            #expect(client.state.observations[3].detail == "subprotocol mqtt")
        }
    }

    // MARK: Local failures

    private func contextError(_ options: TLSOptions) -> TransportError? {
        do throws(TransportError) {
            _ = try TLSContext(client: options)
            return nil
        } catch {
            return error
        }
    }

    @Test func unusable_files_are_named() throws {
        let files = try Fixture.files()
        let missing = "/nonexistent/ca.pem"
        for options in [
            TLSOptions(trust: .file(missing)), TLSOptions(trust: .file(files.server.key)),
            TLSOptions(trust: .pem(Array("no certificate".utf8))), TLSOptions(trust: .pem([])),
            TLSOptions(
                trust: .file(files.authority),
                identity: .init(certificateFile: missing, privateKeyFile: files.client.key)),
            TLSOptions(
                trust: .file(files.authority),
                identity: .init(certificateFile: files.client.certificate, privateKeyFile: files.server.key)),
        ] {
            let error = contextError(options)
            #expect(error?.stage == .local)
            #expect(error?.code == .tlsBadCredentials)
        }
        #expect(
            contextError(TLSOptions(trust: .file(missing)))?.evidence
                == .openSSL("can't use the CA file \(missing): No such file or directory"))
    }

    @Test func a_machine_without_a_trust_store_is_named() async {
        await #expect(processExitsWith: .success) {
            setenv("SSL_CERT_FILE", "/nonexistent/file", 1)
            setenv("SSL_CERT_DIR", "/nonexistent/directory:/nonexistent/other", 1)
            do throws(TransportError) {
                _ = try TLSContext(client: TLSOptions())
                exit(EXIT_FAILURE)
            } catch {
                let isRight =
                    error.stage == .local && error.code == .tlsNoTrustStore
                    && error.description.contains("/nonexistent/file")
                exit(isRight ? EXIT_SUCCESS : EXIT_FAILURE)
            }
        }
    }

    @Test func the_environment_may_name_the_system_store() async {
        await #expect(processExitsWith: .success) {
            let files = try Fixture.files()
            setenv("SSL_CERT_FILE", files.authority, 1)
            let reached = try await Bench.run { bench in
                let peer = try bench.peer(tls: try Fixture.server(), [.hold])
                let client = try bench.client(.tls(host: "127.0.0.1", port: Int(peer.port)))
                return await client.outcome() == nil
            }
            exit(reached ? EXIT_SUCCESS : EXIT_FAILURE)
        }
    }

    @Test func a_header_that_cannot_be_sent_fails_locally_and_observes_TCP_once() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.hold])
            var profile = try ConnectionProfile.webSocket(host: "127.0.0.1", port: Int(peer.port))
            profile.webSocket?.headers = [.init(name: "Host", value: "other")]
            let client = try bench.client(profile)
            let error = await client.outcome()
            #expect(error?.stage == .local)
            #expect(error?.code == .clientInvalidArgument)
            expectObservations(client, [.resolve, .tcp, .local], failure: .clientInvalidArgument)
            #expect(await peer.ended().end?.code == .tcpClosed)
        }
    }

    @Test func a_cancelled_attempt_says_nothing_and_resets() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.hold])
            let client = try bench.client(.webSocket(host: "127.0.0.1", port: Int(peer.port)))
            _ = await peer.record { !$0.received.isEmpty }
            client.cancel()
            #expect(await peer.ended().end?.code == .tcpReset)
            await client.settle()
            #expect(client.state.completions.isEmpty)
            #expect(client.state.observations.map(\.stage) == [.resolve, .tcp])
        }
    }
}
