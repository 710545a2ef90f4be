import CTraversalOpenSSL
import Foundation
import MQTTLoopback
import Testing

@testable import MQTTTransport

@Suite("TLS, pinned keys", .timeLimit(.minutes(1)))
struct TLSPinTests {
    /// Computed from the key itself, not from the certificate's field.
    private static func pin(ofCertificate file: String) throws -> PublicKeyPin {
        let bio = try #require(BIO_new_file(file, "r"))
        defer { BIO_free(bio) }
        let certificate = try #require(PEM_read_bio_X509(bio, nil, nil, nil))
        defer { X509_free(certificate) }
        var info: UnsafeMutablePointer<UInt8>?
        let count = i2d_PUBKEY(X509_get0_pubkey(certificate), &info)
        defer { CRYPTO_free(info, nil, 0) }
        var digest = [UInt8](repeating: 0, count: 32)
        SHA256(info, Int(count), &digest)
        return try PublicKeyPin(bytes: digest)
    }

    private static let stranger = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

    private func outcome(
        _ bench: Bench, _ server: TestCertificates.IdentityFiles, _ options: TLSOptions,
        version: TLSOptions.Version = .v1_3
    ) async throws -> (TransportError?, ScriptedPeer.Record) {
        let peer = try bench.peer(tls: try Fixture.server(server, maximumVersion: version), [.hold])
        defer { peer.stop() }
        var profile = try ConnectionProfile.webSocketSecure(
            host: "127.0.0.1", port: Int(peer.port), options: options)
        profile.webSocket?.headers = [.init(name: "Authorization", value: "Basic c2VjcmV0")]
        let client = try bench.client(profile, deadlines: .silent)
        let error = await client.outcome()
        return (error, await peer.ended())
    }

    // MARK: Pins themselves

    @Test func a_pin_is_read_in_each_usual_form() throws {
        let slash = "/" + String(repeating: "A", count: 41) + "8="
        for text in ["47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", slash] {
            let pin = try PublicKeyPin(text)
            #expect(try PublicKeyPin("sha256/" + text) == pin)
            #expect(try PublicKeyPin("sha256//" + text) == pin)
            #expect(try PublicKeyPin(text + "\n") == pin)
            #expect(try PublicKeyPin(bytes: pin.bytes) == pin)
            #expect(pin.description == "sha256/" + text)
        }
        // The SHA-256 of nothing.
        let empty = try PublicKeyPin("sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")
        #expect(empty.bytes.prefix(4) == [0xE3, 0xB0, 0xC4, 0x42])
    }

    @Test(arguments: [
        "", "sha256/", "sha1/2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=", "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "sha256///47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    ])
    func what_is_no_pin_is_refused(_ text: String) {
        #expect(throws: ProfileError.self) { try PublicKeyPin(text) }
    }

    @Test(arguments: [0, 20, 31, 33])
    func other_lengths_are_refused(_ count: Int) {
        #expect(throws: ProfileError.self) { try PublicKeyPin(bytes: [UInt8](repeating: 0, count: count)) }
    }

    // MARK: Beside verification

    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func one_key_of_the_verified_chain_is_enough(_ version: TLSOptions.Version) async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            var options = try Fixture.trust()
            let backup = try PublicKeyPin(Self.stranger)
            for held in [files.server.certificate, files.authority] {
                options.pins = [backup, try Self.pin(ofCertificate: held)]
                let (error, record) = try await outcome(bench, files.server, options, version: version)
                // Nobody answers the upgrade, but it was sent.
                #expect(error?.code == .tcpSilent)
                #expect(String(decoding: record.received, as: UTF8.self).hasPrefix("GET /mqtt HTTP/1.1"))
            }
        }
    }

    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func a_trusted_chain_without_a_pinned_key_is_refused_before_anything_is_sent(
        _ version: TLSOptions.Version
    ) async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            var options = try Fixture.trust()
            options.pins = [
                try PublicKeyPin(Self.stranger), try Self.pin(ofCertificate: files.wrongAuthority),
            ]
            let (error, record) = try await outcome(bench, files.server, options, version: version)
            #expect(error?.stage == .tls)
            #expect(error?.code == .tlsInterceptedTrusted)
            guard case .certificate(let problem)? = error?.evidence else {
                Issue.record("no certificate in \(String(describing: error))")
                return
            }
            let leaf = try Self.pin(ofCertificate: files.server.certificate)
            #expect(problem.pins == [leaf, try Self.pin(ofCertificate: files.authority)])
            #expect(problem.subject.contains("localhost"))
            #expect(problem.issuer.contains("Loopback test authority"))
            #expect(error?.description.contains(leaf.description) == true)
            #expect(record.received.isEmpty)
            // bad_certificate
            #expect(
                record.end.flatMap { end -> TransportError.Evidence? in
                    if case .byClient(let error) = end { return error.evidence }
                    return nil
                } == .alert(42))
        }
    }

    @Test func pins_never_replace_verification() async throws {
        try await Bench.run { bench in
            let files = try Fixture.files()
            for (server, code) in [
                (files.untrustedServer, FailureCode.tlsUntrusted), (files.expiredServer, .tlsExpired),
                (files.wrongNameServer, .tlsNameMismatch),
            ] {
                var options = try Fixture.trust()
                options.pins = [try Self.pin(ofCertificate: server.certificate)]
                #expect(try await outcome(bench, server, options).0?.code == code)
            }
        }
    }

    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func without_verification_the_servers_own_key_is_still_checked(_ version: TLSOptions.Version) async throws
    {
        try await Bench.run { bench in
            let files = try Fixture.files()
            var options = TLSOptions(verification: .disabledAndOpenToInterception)
            options.pins = [try Self.pin(ofCertificate: files.expiredServer.certificate)]
            #expect(
                try await outcome(bench, files.expiredServer, options, version: version).0?.code == .tcpSilent
            )
            let (error, record) = try await outcome(bench, files.server, options, version: version)
            // Nobody says that it is trusted.
            #expect(error?.code == .tlsUntrusted)
            #expect(record.received.isEmpty)
            // Anybody can put a CA's certificate behind his own.
            let root = try CertificateAuthority(commonName: "Root")
            let middle = try root.intermediate(commonName: "Middle")
            let server = try Fixture.files(
                middle.issue(.server(names: [], addresses: ["127.0.0.1"])))
            options.pins = [try Self.pin(ofCertificate: try Fixture.file(middle.certificate))]
            #expect(try await outcome(bench, server, options, version: version).0?.code == .tlsUntrusted)
        }
    }

    @Test func options_with_other_pins_need_another_context() throws {
        var options = TLSOptions()
        let before = options.ofContext
        options.pins = [try PublicKeyPin(Self.stranger)]
        #expect(options.ofContext != before)
    }
}
