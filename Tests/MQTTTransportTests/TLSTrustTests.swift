import Foundation
import MQTTLoopback
import Testing

@testable import MQTTTransport

@Suite("TLS, whom to trust", .timeLimit(.minutes(1)))
struct TLSTrustTests {
    private static let localhost = CertificateSubject.server(names: ["localhost"], addresses: ["127.0.0.1"])

    /// The outcome of a connection to a server with this identity.
    static func outcome(
        _ bench: Bench, _ server: TestCertificates.IdentityFiles, _ options: TLSOptions
    ) async throws -> TransportError? {
        let peer = try bench.peer(tls: try Fixture.server(server), [.hold])
        defer { peer.stop() }
        let client = try bench.client(.tls(host: "127.0.0.1", port: Int(peer.port), options: options))
        return await client.outcome()
    }

    private func problem(_ error: TransportError?) throws -> TransportError.CertificateProblem {
        guard case .certificate(let problem)? = error?.evidence else {
            Issue.record("no certificate in \(String(describing: error))")
            throw CancellationError()
        }
        return problem
    }

    // MARK: Stores

    @Test func the_CA_of_a_company_is_trusted_beside_the_system_store() async {
        await #expect(processExitsWith: .success) {
            let files = try Fixture.files()
            setenv("SSL_CERT_FILE", files.authority, 1)
            setenv("SSL_CERT_DIR", "/nonexistent", 1)
            let isRight = try await Bench.run { bench in
                let both = TLSOptions(trust: .systemAnd(files: [files.wrongAuthority]))
                let system = TLSOptions(trust: .systemAnd(files: []))
                var codes: [FailureCode?] = []
                for (server, options) in [
                    (files.server, both), (files.untrustedServer, both), (files.server, system),
                    (files.untrustedServer, system),
                ] {
                    codes.append(try await TLSTrustTests.outcome(bench, server, options)?.code)
                }
                return codes == [nil, nil, nil, .tlsUntrusted]
            }
            exit(isRight ? EXIT_SUCCESS : EXIT_FAILURE)
        }
    }

    @Test func with_files_of_its_own_a_program_needs_no_system_store() async {
        await #expect(processExitsWith: .success) {
            setenv("SSL_CERT_FILE", "/nonexistent/file", 1)
            setenv("SSL_CERT_DIR", "/nonexistent/directory", 1)
            func code(_ files: [String]) -> FailureCode? {
                do throws(TransportError) {
                    _ = try TLSContext(client: TLSOptions(trust: .systemAnd(files: files)))
                    return nil
                } catch {
                    return error.code
                }
            }
            let authority = try Fixture.files().authority
            exit(code([authority]) == nil && code([]) == .tlsNoTrustStore ? EXIT_SUCCESS : EXIT_FAILURE)
        }
    }

    @Test func a_file_of_several_that_cannot_be_used_is_named() throws {
        let files = try Fixture.files()
        let text = try Fixture.file("no certificate")
        for bad in ["/nonexistent/ca.pem", text, files.server.key] {
            let error = #expect(throws: TransportError.self) {
                try TLSContext(client: TLSOptions(trust: .systemAnd(files: [files.authority, bad])))
            }
            #expect(error?.code == .tlsBadCredentials)
            #expect(error?.description.contains(bad) == true)
        }
    }

    @Test func an_authority_below_a_root_can_be_all_that_is_trusted() async throws {
        try await Bench.run { bench in
            let root = try CertificateAuthority(commonName: "Root")
            let middle = try root.intermediate(commonName: "Middle")
            let server = try Fixture.files(middle.issue(Self.localhost))
            for anchor in [root, middle] {
                let options = TLSOptions(trust: .pem(Array(anchor.certificate.utf8)))
                #expect(try await Self.outcome(bench, server, options) == nil)
            }
            let other = try root.intermediate(commonName: "Other")
            let options = TLSOptions(trust: .pem(Array(other.certificate.utf8)))
            #expect(try await Self.outcome(bench, server, options)?.code == .tlsUntrusted)
        }
    }

    // MARK: What is wrong

    /// The root in the store, what is below it, the server's own: each may be out of date by itself.
    @Test func row_66_each_certificate_of_the_chain_has_to_be_valid_now() async throws {
        try await Bench.run { bench in
            typealias Validities = (
                root: CertificateValidity, middle: CertificateValidity, leaf: CertificateValidity
            )
            let cases: [(Validities, FailureCode?, depth: Int)] = [
                ((.current, .current, .current), nil, 0),
                ((.current, .current, .expired), .tlsExpired, 0),
                ((.current, .expired, .current), .tlsExpired, 1),
                ((.expired, .current, .current), .tlsExpired, 2),
                ((.current, .current, .notYet), .tlsNotYetValid, 0),
                ((.current, .notYet, .current), .tlsNotYetValid, 1),
            ]
            for (validities, code, depth) in cases {
                let root = try CertificateAuthority(commonName: "Root", validity: validities.root)
                let middle = try root.intermediate(commonName: "Middle", validity: validities.middle)
                let server = try Fixture.files(middle.issue(Self.localhost, validity: validities.leaf))
                let error = try await Self.outcome(
                    bench, server, TLSOptions(trust: .pem(Array(root.certificate.utf8))))
                #expect(error?.code == code)
                if code != nil { #expect(try problem(error).depth == depth) }
            }
        }
    }

    @Test(arguments: [
        ("Zscaler Intermediate Root CA (zscalerthree.net)", "Zscaler"),
        ("Fortinet_CA_SSL", "Fortinet FortiGate"), ("mitmproxy", "mitmproxy"),
        ("DO_NOT_TRUST_FiddlerRoot", "Fiddler"), ("ca.example.goskope.com", "Netskope"),
    ])
    func an_untrusted_issuer_that_bears_a_products_name_is_named(_ issuer: String, _ product: String)
        async throws
    {
        try await Bench.run { bench in
            let authority = try CertificateAuthority(commonName: issuer)
            let below = try authority.intermediate(commonName: "Branch office")
            for issuing in [authority, below] {
                let server = try Fixture.files(issuing.issue(Self.localhost))
                let error = try await Self.outcome(bench, server, try Fixture.trust())
                #expect(error?.code == .tlsIntercepted)
                #expect(try problem(error).inspector == product)
                #expect(error?.description.contains("the issuer's name is that of \(product)") == true)
                // Trusted knowingly, it is as good as any.
                let knowing = TLSOptions(
                    trust: .systemAnd(files: [try Fixture.file(authority.certificate)]))
                #expect(try await Self.outcome(bench, server, knowing) == nil)
            }
        }
    }

    @Test func other_failures_stay_what_they_are_whatever_the_names() async throws {
        try await Bench.run { bench in
            let authority = try CertificateAuthority(commonName: "Zscaler Root CA")
            let trust = TLSOptions(trust: .pem(Array(authority.certificate.utf8)))
            let expired = try Fixture.files(authority.issue(Self.localhost, validity: .expired))
            #expect(try await Self.outcome(bench, expired, trust)?.code == .tlsExpired)
            let renamed = try Fixture.files(
                authority.issue(.server(names: ["mqtt.zscaler.example"], addresses: [])))
            #expect(try await Self.outcome(bench, renamed, trust)?.code == .tlsNameMismatch)
            // What a server calls itself isn't what its issuer is called.
            let plain = try CertificateAuthority(commonName: "A broker's own CA")
            let named = try Fixture.files(
                plain.issue(.server(names: ["mitmproxy.example"], addresses: ["127.0.0.1"])))
            let error = try await Self.outcome(bench, named, try Fixture.trust())
            #expect(error?.code == .tlsUntrusted)
            #expect(try problem(error).inspector == nil)
        }
    }

    @Test(arguments: [
        ("C = US, O = Fortinet, CN = FG100E", "Fortinet FortiGate"),
        ("CN = ESET SSL Filter CA", "ESET"), ("CN = avast! Web/Mail Shield Root", "Avast"),
        ("CN = AVG Web/Mail Shield Root", "AVG"), ("CN = Cisco Umbrella Root CA", "Cisco Umbrella"),
        ("CN = PortSwigger CA", "Burp Suite"), ("CN = CHECK POINT Gateway", "Check Point"),
        ("CN = Reset CA", nil), ("CN = Symantec Class 3 Secure Server CA", nil),
        ("CN = CloudFlare Origin SSL Certificate Authority", nil), ("CN = Checkpoints of interest", nil),
        ("", nil),
    ])
    func products_are_found_by_whole_words(_ name: String, _ product: String?) {
        #expect(InspectionProduct.named(in: name) == product)
    }

    // MARK: Before anything leaves

    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func row_62_a_certificate_of_another_host_gets_no_byte_of_ours(_ version: TLSOptions.Version) async throws
    {
        try await Bench.run { bench in
            let peer = try bench.peer(
                tls: try Fixture.server(Fixture.files().wrongNameServer, maximumVersion: version), [.hold])
            var profile = try ConnectionProfile.webSocketSecure(
                host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust())
            profile.webSocket?.headers = [.init(name: "Authorization", value: "Basic c2VjcmV0")]
            #expect(await (try bench.client(profile)).outcome()?.code == .tlsNameMismatch)
            let record = await peer.ended()
            #expect(record.received.isEmpty)
            guard case .byClient(let end)? = record.end else {
                Issue.record("ended by itself")
                return
            }
            // bad_certificate
            #expect(end.evidence == .alert(42))
        }
    }

    @Test func row_64_a_CA_that_is_given_is_one_that_is_checked() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            let own = try CertificateAuthority(commonName: "localhost")
            let stranger = try Fixture.files(own.issue(Self.localhost))
            let pem = Array(try String(contentsOfFile: files.authority, encoding: .utf8).utf8)
            for trust in [
                TLSOptions.Trust.file(files.authority), .pem(pem), .systemAnd(files: [files.authority]),
            ] {
                #expect(
                    try await Self.outcome(bench, stranger, TLSOptions(trust: trust))?.code == .tlsUntrusted)
            }
        }
    }
}
