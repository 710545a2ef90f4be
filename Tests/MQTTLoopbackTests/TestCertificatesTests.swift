import CTraversalOpenSSL
import Foundation
import MQTTLoopback
import Testing

@Suite struct TestCertificatesTests {
    static let made = Result { try TestCertificates(names: ["broker.test"], addresses: ["192.0.2.7"]) }
    let certificates: TestCertificates

    init() throws { certificates = try Self.made.get() }

    @Test func the_authority_vouches_for_server_and_client() throws {
        #expect(try verdict(certificates.server, purpose: X509_PURPOSE_SSL_SERVER) == X509_V_OK)
        #expect(try verdict(certificates.client, purpose: X509_PURPOSE_SSL_CLIENT) == X509_V_OK)
    }

    @Test(arguments: ["localhost", "broker.test"])
    func server_is_valid_for_name(_ name: String) throws {
        #expect(try verdict(certificates.server, host: name) == X509_V_OK)
    }

    @Test(arguments: ["127.0.0.1", "::1", "192.0.2.7"])
    func server_is_valid_for_address(_ address: String) throws {
        #expect(try verdict(certificates.server, address: address) == X509_V_OK)
    }

    @Test func names_and_addresses_not_listed_are_refused() throws {
        #expect(
            try verdict(certificates.server, host: "other.test") == X509_V_ERR_HOSTNAME_MISMATCH)
        #expect(
            try verdict(certificates.server, address: "192.0.2.8") == X509_V_ERR_IP_ADDRESS_MISMATCH)
        #expect(
            try verdict(certificates.wrongNameServer, host: "localhost") == X509_V_ERR_HOSTNAME_MISMATCH)
        #expect(try verdict(certificates.wrongNameServer, host: "wrong-name.invalid") == X509_V_OK)
    }

    @Test func validity_is_refused_for_the_right_reason() throws {
        #expect(try verdict(certificates.expiredServer) == X509_V_ERR_CERT_HAS_EXPIRED)
        #expect(try verdict(certificates.notYetValidServer) == X509_V_ERR_CERT_NOT_YET_VALID)
    }

    @Test func certificates_of_the_other_authority_are_refused() throws {
        #expect(try verdict(certificates.untrustedServer) == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY)
        #expect(
            try verdict(certificates.untrustedServer, trusting: certificates.wrongAuthority) == X509_V_OK)
        #expect(
            try verdict(certificates.server, trusting: certificates.wrongAuthority)
                == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY)
        #expect(
            try verdict(certificates.untrustedClient, purpose: X509_PURPOSE_SSL_CLIENT)
                == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY)
    }

    @Test func a_client_certificate_is_no_server_certificate() throws {
        #expect(
            try verdict(certificates.client, purpose: X509_PURPOSE_SSL_SERVER) == X509_V_ERR_INVALID_PURPOSE)
        #expect(
            try verdict(certificates.server, purpose: X509_PURPOSE_SSL_CLIENT) == X509_V_ERR_INVALID_PURPOSE)
    }

    @Test func extensions_are_as_RFC_5280_asks() throws {
        let authority = try #require(x509(certificates.authority.certificate))
        defer { X509_free(authority) }
        #expect(criticality(authority, NID_basic_constraints) == 1)
        #expect(criticality(authority, NID_key_usage) == 1)
        #expect(criticality(authority, NID_subject_key_identifier) == 0)
        #expect(X509_check_ca(authority) == 1)

        let server = try #require(x509(certificates.server.certificate))
        defer { X509_free(server) }
        #expect(criticality(server, NID_basic_constraints) == 1)
        #expect(criticality(server, NID_key_usage) == 1)
        #expect(criticality(server, NID_ext_key_usage) == 0)
        #expect(criticality(server, NID_subject_alt_name) == 0)
        #expect(criticality(server, NID_subject_key_identifier) == 0)
        #expect(criticality(server, NID_authority_key_identifier) == 0)
        #expect(X509_check_ca(server) == 0)
        #expect(X509_get_version(server) == 2)
    }

    @Test func serial_numbers_differ_and_keys_match_their_certificates() throws {
        let identities = [
            certificates.server, certificates.expiredServer, certificates.notYetValidServer,
            certificates.wrongNameServer, certificates.untrustedServer, certificates.client,
            certificates.untrustedClient,
        ]
        var serials: Set<String> = []
        for identity in identities {
            let certificate = try #require(x509(identity.certificate))
            defer { X509_free(certificate) }
            let key = try #require(privateKey(identity.key))
            defer { EVP_PKEY_free(key) }
            #expect(X509_check_private_key(certificate, key) == 1)
            let text = i2s_ASN1_INTEGER(nil, X509_get_serialNumber(certificate))
            serials.insert(String(cString: try #require(text)))
            CRYPTO_free(text, nil, 0)
        }
        #expect(serials.count == identities.count)
        #expect(serials.allSatisfy { !$0.hasPrefix("-") })
    }

    @Test(arguments: [
        CertificateSubject.server(names: ["a,DNS:evil.test"], addresses: []),
        .server(names: [""], addresses: []),
        .server(names: ["name with space"], addresses: []),
        .server(names: [], addresses: ["127.0.0.1,DNS:evil.test"]),
        .server(names: [], addresses: ["localhost"]),
        .server(names: [], addresses: []),
    ])
    func what_is_no_name_is_refused(_ subject: CertificateSubject) {
        #expect(throws: CertificateError.self) { try certificates.authority.issue(subject) }
    }

    @Test func a_name_longer_than_a_Common_Name_may_be_still_works() throws {
        let name = String(repeating: "long-label.", count: 12) + "test"
        let identity = try certificates.authority.issue(.server(names: [name], addresses: []))
        #expect(try verdict(identity, host: name) == X509_V_OK)
    }

    @Test func files_hold_the_certificates_and_keys_are_private() throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }

        let files = try certificates.write(to: directory.path)
        let again = try certificates.write(to: directory.path)

        #expect(files == again)
        #expect(
            try String(contentsOfFile: files.authority, encoding: .utf8) == certificates.authority.certificate
        )
        #expect(
            try String(contentsOfFile: files.server.certificate, encoding: .utf8)
                == certificates.server.certificate)
        #expect(try String(contentsOfFile: files.client.key, encoding: .utf8) == certificates.client.key)
        for key in [files.server.key, files.client.key, files.expiredServer.key] {
            let mode = try FileManager.default.attributesOfItem(atPath: key)[.posixPermissions] as? Int
            #expect(mode == 0o600)
        }
        #expect(throws: CertificateError.self) { try certificates.write(to: directory.path + "/missing") }
    }

    @Test func a_key_is_not_shown_by_printing() {
        #expect(!"\(certificates.server)".contains("PRIVATE KEY"))
        #expect(!String(reflecting: certificates.server).contains("PRIVATE KEY"))
        #expect(!"\(certificates)".contains("PRIVATE KEY"))
        var dumped = ""
        dump(certificates, to: &dumped)
        #expect(!dumped.contains("PRIVATE KEY"))
    }

    /// X509_verify_cert's answer.
    private func verdict(
        _ identity: CertificateIdentity, trusting authority: CertificateAuthority? = nil,
        purpose: Int32 = X509_PURPOSE_SSL_SERVER, host: String? = nil, address: String? = nil
    ) throws -> Int32 {
        let root = try #require(x509((authority ?? certificates.authority).certificate))
        defer { X509_free(root) }
        let leaf = try #require(x509(identity.certificate))
        defer { X509_free(leaf) }
        let store = try #require(X509_STORE_new())
        defer { X509_STORE_free(store) }
        #expect(X509_STORE_add_cert(store, root) == 1)
        let context = try #require(X509_STORE_CTX_new())
        defer { X509_STORE_CTX_free(context) }
        #expect(X509_STORE_CTX_init(context, store, leaf, nil) == 1)
        #expect(X509_STORE_CTX_set_purpose(context, purpose) == 1)
        let parameters = X509_STORE_CTX_get0_param(context)
        X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_X509_STRICT))
        if let host { #expect(X509_VERIFY_PARAM_set1_host(parameters, host, host.utf8.count) == 1) }
        if let address { #expect(X509_VERIFY_PARAM_set1_ip_asc(parameters, address) == 1) }
        X509_verify_cert(context)
        return X509_STORE_CTX_get_error(context)
    }

    private func x509(_ pem: String) -> OpaquePointer? {
        reading(pem) { PEM_read_bio_X509($0, nil, nil, nil) }
    }

    private func privateKey(_ pem: String) -> OpaquePointer? {
        reading(pem) { PEM_read_bio_PrivateKey($0, nil, nil, nil) }
    }

    /// The BIO reads the text where it stands, so the text has to outlive it.
    private func reading(_ pem: String, _ read: (OpaquePointer?) -> OpaquePointer?) -> OpaquePointer? {
        pem.withCString { text in
            let bio = BIO_new_mem_buf(text, -1)
            defer { BIO_free(bio) }
            return read(bio)
        }
    }

    /// 1 critical, 0 not critical, -1 absent.
    private func criticality(_ certificate: OpaquePointer, _ nid: Int32) -> Int32 {
        X509_EXTENSION_get_critical(
            X509_get_ext(certificate, X509_get_ext_by_NID(certificate, nid, -1)))
    }
}
