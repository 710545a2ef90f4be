import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Who is let in, and whom we let ourselves be led to.
@Suite(.timeLimit(.minutes(1)))
struct SecurityScenarios {
    @Test(.serialized, arguments: Scenario.encrypted)
    func a_wrong_authority_is_refused(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        var profile = try await scenario.profile()
        profile.tls?.trust = .file(broker.certificates.wrongAuthority)
        let client = scenario.client(profile)
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == .tlsUntrusted)
        #expect(error.stage == .tls)
    }

    @Test(.serialized, arguments: Scenario.encrypted)
    func the_systems_store_knows_no_test_authority(_ scenario: Scenario) async throws {
        var profile = try await scenario.profile()
        profile.tls?.trust = .system
        let client = scenario.client(profile)
        let (error, _) = try await failure("connect") { try await client.connect() }
        // Or there is no store on this machine at all.
        #expect(error.code == .tlsUntrusted || error.code == .tlsNoTrustStore)
    }

    @Test(.serialized, arguments: Scenario.encrypted.able(.certificateByName))
    func a_certificate_for_another_name_is_refused(_ scenario: Scenario) async throws {
        let byAddress = scenario.client(try await scenario.profile(.openByName, host: "127.0.0.1"))
        let (error, _) = try await failure("connect") { try await byAddress.connect() }
        #expect(error.code == .tlsNameMismatch)
        #expect(error.stage == .tls)
        var named = try await scenario.profile(
            .openByName, host: scenario.kind == .mosquitto ? "localhost" : "127.0.0.1")
        if scenario.kind == .loopback { named.tls?.serverName = "wrong-name.invalid" }
        let byName = scenario.client(named)
        try await byName.connectInTime()
        try await byName.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.encrypted)
    func verification_is_switched_off_only_in_words(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        var profile = try await scenario.profile()
        profile.tls = TLSOptions(
            verification: .disabledAndOpenToInterception, trust: .file(broker.certificates.wrongAuthority))
        let client = scenario.client(profile)
        try await client.connectInTime()
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.encrypted.able(.clientCertificates))
    func a_missing_client_certificate_is_refused_by_an_alert(_ scenario: Scenario) async throws {
        let client = scenario.client(try await scenario.profile(.clientCertificate))
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == .tlsClientCertRequired)
        #expect(error.stage == .tls)
        // TLS 1.3: certificate_required (RFC 8446, section 6.2).
        #expect(error.evidence == .alert(116))
    }

    @Test(.enabled(if: BrokerKind.underTest.contains(.mosquitto), "needs the Debian package mosquitto"))
    func a_missing_client_certificate_is_refused_by_an_alert_of_TLS_1_2() async throws {
        let door = Door(transport: .tls, access: .clientCertificate)
        let broker = try await Mosquitto.launch(doors: [door], maximumTLSVersion: "TLSv1.2")
        let scenario = Scenario(kind: .mosquitto, transport: .tls, version: .v5)
        var profile = try scenario.profile(broker, .clientCertificate)
        let bare = scenario.client(profile)
        let (error, _) = try await failure("connect") { try await bare.connect() }
        #expect(error.code == .tlsClientCertRequired)
        #expect(error.stage == .tls)
        // handshake_failure (RFC 5246, section 7.4.6).
        #expect(error.evidence == .alert(40))

        profile.tls?.identity = broker.certificates.client.identity
        let certified = scenario.client(profile)
        try await certified.connectInTime()
        try await certified.disconnectInTime()

        profile.tls?.minimumVersion = .v1_3
        let modern = scenario.client(profile)
        let (version, _) = try await failure("connect") { try await modern.connect() }
        #expect(version.code == .tlsVersion)
    }

    @Test(.serialized, arguments: Scenario.encrypted.able(.clientCertificates))
    func the_right_client_certificate_is_let_in(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        var profile = try await scenario.profile(.clientCertificate)
        profile.tls?.identity = broker.certificates.client.identity
        let client = scenario.client(profile)
        try await client.connectInTime()
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.encrypted.able(.clientCertificates))
    func a_client_certificate_of_an_unknown_authority_is_refused(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        var profile = try await scenario.profile(.clientCertificate)
        profile.tls?.identity = broker.certificates.untrustedClient.identity
        let client = scenario.client(profile)
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.stage == .tls)
        #expect(error.code == .tlsAlert || error.code == .tlsClientCertRequired)
        // unknown_ca
        #expect(error.evidence == .alert(48))
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func a_wrong_password_is_refused_with_its_reason_code(_ scenario: Scenario) async throws {
        var profile = try await scenario.profile(.password)
        profile.userName = Credentials.userName
        profile.password = Array("wrong".utf8)
        let wrong = scenario.client(profile)
        let (error, _) = try await failure("connect") { try await wrong.connect() }
        let refusal = scenario.kind.refusal(over: scenario.transport)
        #expect(error.code == refusal)
        #expect(error.stage == .mqttConnect)
        if refusal == .mqttRefused {
            let codes: [UInt8] = scenario.version == .v3_1_1 ? [4, 5] : [0x86, 0x87]
            #expect(codes.contains(try #require(error.reasonCode).rawValue))
        }
        #expect(!"\(error)".contains("wrong"))

        profile.password = Array(Credentials.password.utf8)
        let right = scenario.client(profile)
        try await right.connectInTime()
        try await right.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func no_password_is_refused_too(_ scenario: Scenario) async throws {
        let client = scenario.client(try await scenario.profile(.password))
        let events = EventRecorder(client)
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == scenario.kind.refusal(over: scenario.transport))
        try await events.wait(for: "connecting", "disconnected")
        #expect(events.endError == error)
    }
}

extension TestCertificates.IdentityFiles {
    var identity: TLSOptions.Identity {
        TLSOptions.Identity(certificateFile: certificate, privateKeyFile: key)
    }
}
