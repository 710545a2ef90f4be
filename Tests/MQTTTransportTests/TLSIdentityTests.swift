import CTraversalOpenSSL
import Foundation
import MQTTLoopback
import Testing

@testable import MQTTTransport

@Suite("TLS, encrypted keys", .timeLimit(.minutes(1)))
struct TLSIdentityTests {
    enum Form: CaseIterable, Sendable {
        case pkcs8
        case traditional
    }

    private static let passphrase = Array("correct horse".utf8)

    /// The client's key once more, encrypted.
    private static func encryptedKey(_ form: Form) throws -> String {
        let input = try #require(BIO_new_file(try Fixture.files().client.key, "r"))
        defer { BIO_free(input) }
        let key = try #require(PEM_read_bio_PrivateKey(input, nil, nil, nil))
        defer { EVP_PKEY_free(key) }
        let path = try Fixture.file("")
        let output = try #require(BIO_new_file(path, "w"))
        defer { BIO_free(output) }
        let length = Int32(passphrase.count)
        let written =
            switch form {
            case .pkcs8:
                passphrase.withUnsafeBytes {
                    PEM_write_bio_PKCS8PrivateKey(
                        output, key, EVP_aes_256_cbc(), $0.bindMemory(to: CChar.self).baseAddress, length,
                        nil,
                        nil)
                }
            case .traditional:
                PEM_write_bio_PrivateKey_traditional(
                    output, key, EVP_aes_256_cbc(), passphrase, length, nil, nil)
            }
        #expect(written == 1)
        return path
    }

    private func options(_ key: String, _ passphrase: [UInt8]?) throws -> TLSOptions {
        var options = try Fixture.trust()
        options.identity = .init(
            certificateFile: try Fixture.files().client.certificate, privateKeyFile: key,
            passphrase: passphrase)
        return options
    }

    @Test(arguments: Form.allCases)
    func an_encrypted_key_serves_with_its_passphrase(_ form: Form) async throws {
        try await Bench.run { bench in
            let key = try Self.encryptedKey(form)
            let text = try String(contentsOfFile: key, encoding: .utf8)
            #expect(text.contains(form == .pkcs8 ? "BEGIN ENCRYPTED PRIVATE KEY" : "Proc-Type: 4,ENCRYPTED"))
            let peer = try bench.peer(
                tls: try Fixture.server(clientCAFile: Fixture.files().authority), [.send([0x20]), .hold])
            let client = try bench.client(
                .tls(host: "127.0.0.1", port: Int(peer.port), options: try options(key, Self.passphrase)))
            #expect(await client.received(1) == [0x20])
        }
    }

    @Test(arguments: Form.allCases)
    func without_the_right_passphrase_the_error_says_so(_ form: Form) throws {
        let key = try Self.encryptedKey(form)
        for (passphrase, words) in [
            (nil, "is encrypted, and no passphrase is given"),
            (Array("wrong".utf8), "is encrypted, and the passphrase isn't the right one"),
            ([], "is encrypted, and the passphrase isn't the right one"),
        ] {
            let error = #expect(throws: TransportError.self) {
                try TLSContext(client: try options(key, passphrase))
            }
            #expect(error?.stage == .local)
            #expect(error?.code == .tlsBadCredentials)
            #expect(error?.evidence.description == "the private key file \(key) \(words)")
        }
    }

    @Test func a_passphrase_that_isnt_needed_does_no_harm() throws {
        _ = try TLSContext(client: try options(try Fixture.files().client.key, Self.passphrase))
    }

    @Test func the_error_of_a_key_without_its_certificate_names_both() throws {
        let files = try Fixture.files()
        var options = try options(files.server.key, nil)
        let error = #expect(throws: TransportError.self) { try TLSContext(client: options) }
        #expect(
            error?.description.contains(
                "\(files.server.key), which doesn't belong to \(files.client.certificate)")
                == true)
        options.identity?.privateKeyFile = "/nonexistent/key.pem"
        let missing = #expect(throws: TransportError.self) { try TLSContext(client: options) }
        #expect(missing?.description.contains("/nonexistent/key.pem: No such file or directory") == true)
    }

    /// Neither from the key's file nor from another that is encrypted for no reason.
    @Test func nobody_is_asked_on_the_terminal() async {
        await #expect(processExitsWith: .success) {
            let key = try TLSIdentityTests.encryptedKey(.traditional)
            // OpenSSL asks at the controlling terminal, which is another session's then; failing that, at stdin.
            setsid()
            // A prompt catches signals.
            Thread {
                sleep(20)
                _exit(EXIT_FAILURE)
            }.start()
            var ends: [Int32] = [0, 0]
            guard pipe(&ends) == 0, dup2(ends[0], 0) == 0 else { exit(EXIT_FAILURE) }
            let text = try String(contentsOfFile: key, encoding: .utf8)
                .replacingOccurrences(of: "EC PRIVATE KEY", with: "CERTIFICATE")
            var options = try Fixture.trust()
            options.identity = .init(
                certificateFile: try Fixture.files().client.certificate, privateKeyFile: key)
            var certificate = options
            certificate.identity = .init(certificateFile: try Fixture.file(text), privateKeyFile: key)
            let authority = TLSOptions(trust: .pem(Array(text.utf8)))
            let file = TLSOptions(trust: .file(try Fixture.file(text)))
            for options in [options, certificate, authority, file] {
                do throws(TransportError) {
                    _ = try TLSContext(client: options)
                    exit(EXIT_FAILURE)
                } catch {
                    guard error.code == .tlsBadCredentials else { exit(EXIT_FAILURE) }
                }
            }
            exit(EXIT_SUCCESS)
        }
    }

    @Test func a_passphrase_is_never_shown() throws {
        let options = try options("/keys/client.pem", [UInt8](repeating: 171, count: 8))
        let profile = try ConnectionProfile.tls(host: "h", options: options)
        var shown: [String] = []
        func show(_ value: Any) {
            shown.append(String(describing: value))
            shown.append(String(reflecting: value))
            var dumped = ""
            dump(value, to: &dumped)
            shown.append(dumped)
        }
        show(try #require(options.identity))
        show(options)
        show(options.ofContext)
        show(profile)
        show(Route(profile))
        for text in shown {
            #expect(!text.contains("171, 171") && !text.contains("- 171"))
        }
        #expect(shown[0].contains("/keys/client.pem"))
    }

    @Test func a_passphrase_has_a_longest_length() throws {
        for (count, isRight) in [(1024, true), (1025, false)] {
            let options = try options("/k", [UInt8](repeating: 0x61, count: count))
            let made = Result { try ConnectionProfile.tls(host: "h", options: options) }
            #expect(((try? made.get()) != nil) == isRight)
        }
    }
}
