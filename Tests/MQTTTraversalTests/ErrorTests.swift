import MQTTConformance
import MQTTCore
import MQTTTransport
import Testing

@testable import MQTTTraversal

/// One error: whose fault, at which stage, a stable code, what to do next.
@Suite struct ErrorTests {
    @Test(arguments: FailureCode.allCases)
    func every_code_has_advice(code: FailureCode) {
        let advice = FailureAdvice(code: code).text
        #expect(advice.hasSuffix("."))
        #expect(advice.count > 15)
    }

    /// A hop that ends an idle WebSocket sends no Close frame.
    @Test func an_end_without_a_close_frame_is_not_blamed_on_the_server() {
        func error(clean: Bool) -> MQTTError {
            MQTTError(
                TransportError(
                    stage: .established, code: .wsClosed,
                    evidence: .webSocketClose(code: clean ? 1001 : 1006, reason: "", clean: clean)))
        }
        #expect(error(clean: true).fault == .server)
        #expect(error(clean: false).fault == .networkOrServer)
        #expect(error(clean: false).advice == FailureAdvice(code: .tcpClosed).text)
    }

    @Test func a_text_frame_and_a_wrong_extension_have_advice_of_their_own() {
        #expect(FailureAdvice(code: .wsTextFrame).fault == .server)
        #expect(FailureAdvice(code: .wsExtensionUnrequested).text.contains("WebSocketOptions.compression"))
    }

    /// A captive portal redirects every request, or answers it with its page.
    @Test(arguments: [FailureCode.wsRedirected, .wsUpgradeStripped])
    func what_came_in_place_of_the_upgrade_may_be_a_login_page(_ code: FailureCode) {
        let advice = FailureAdvice(code: code, stage: .webSocket)
        #expect(advice.fault == .networkOrServer)
        #expect(advice.text.contains("login page"))
    }

    @Test(arguments: [FailureCode.tlsIntercepted, .tlsInterceptedTrusted])
    func `advice on inspection says for what to ask an exception`(code: FailureCode) {
        for (hop, asked) in [
            ("203.0.113.5:8883", "for 203.0.113.5:8883"),
            ("broker.example:8883 through 192.0.2.1:3128", "for broker.example:8883"),
            (nil, "for the broker's host and port"),
        ] {
            let error = MQTTError(TransportError(stage: .tls, code: code, hop: hop, evidence: .none))
            #expect(error.fault == .network)
            #expect(error.advice.contains("exception from inspection \(asked)"))
        }
        #expect(FailureAdvice(code: .tlsIntercepted).text.contains("`Trust.systemAnd(files:)`"))
        #expect(FailureAdvice(code: .tlsNotYetValid).text.contains("this machine's clock"))
    }

    @Test(arguments: [FailureCode.tcpClosed, .tcpReset, .tlsUntrusted, .tlsTimeout])
    func `what fails between us and the proxy is the proxy's`(code: FailureCode) {
        let advice = FailureAdvice(code: code, stage: .proxy)
        #expect(advice.fault == .proxy)
        #expect(advice.text.contains("proxy"))
    }

    @Test(arguments: [FailureCode.proxyAuthFailed, .proxyAuthRequired, .proxySOCKSMethod])
    func `a login at a proxy isn't repeated`(code: FailureCode) {
        let error = TransportError(stage: .proxy, code: code, evidence: .none)
        #expect(ConnectionFailure(error) == .refusedByServer)
    }

    /// A modem that is unplugged for a minute must not end a client for good; a wrong argument does.
    @Test(arguments: [
        (ConnectionStage.tcp, ConnectionFailure.transient), (.resolve, .transient),
        (.local, .refusedByServer),
    ])
    func an_interface_that_is_missing_is_waited_for(stage: ConnectionStage, kind: ConnectionFailure) {
        let error = TransportError(stage: stage, code: .clientInvalidArgument, evidence: .none)
        #expect(ConnectionFailure(error) == kind)
    }

    @Test(arguments: FailureCode.allCases)
    func codes_are_written_stage_dot_name(code: FailureCode) {
        let parts = code.rawValue.split(separator: ".")
        #expect(parts.count == 2)
        #expect(["dns", "tcp", "proxy", "tls", "http", "ws", "mqtt", "idle", "client"].contains(code.prefix))
    }

    @Test(
        arguments: [
            (ProtocolVersion.v5, 0x86, FailureCode.mqttRefused, "0x86 Bad User Name or Password"),
            (.v5, 0x84, .mqttVersionUnsupported, "0x84 Unsupported Protocol Version"),
            (.v5, 0x9D, .mqttRedirect, "0x9D Server moved"),
            (.v3_1_1, 1, .mqttVersionUnsupported, "0x01 unacceptable protocol version"),
            (.v3_1_1, 4, .mqttRefused, "0x04 bad user name or password"),
            (.v3_1_1, 5, .mqttRefused, "0x05 not authorized"),
        ] as [(ProtocolVersion, UInt8, FailureCode, String)])
    func a_refusing_connack_keeps_its_reason(
        version: ProtocolVersion, reason: UInt8, code: FailureCode, words: String
    ) {
        let connack = Connack(sessionPresent: false, reasonCode: ReasonCode(rawValue: reason))
        let error = MQTTError(TransportError(refusal: connack, version: version))
        #expect(error.code == code)
        #expect(error.stage == .mqttConnect)
        #expect(error.reasonCode == ReasonCode(rawValue: reason))
        #expect(error.description.contains(words))
    }

    /// By default the client doesn't follow: the program decides whom it trusts with its credentials.
    @Test(.mqtt5("detect-server-reference"), arguments: [ReasonCode.useAnotherServer, .serverMoved])
    func a_redirection_names_the_other_server(reason: ReasonCode) {
        let properties = Properties([.serverReference("b.example:8883"), .reasonString("full")])
        for error in [
            TransportError(
                refusal: Connack(sessionPresent: false, reasonCode: reason, properties: properties),
                version: .v5),
            TransportError(disconnect: Disconnect(reasonCode: reason, properties: properties)),
        ] {
            let error = MQTTError(error)
            #expect(error.code == .mqttRedirect)
            #expect(error.description.contains("b.example:8883") && error.description.contains("full"))
        }
    }

    @Test(.mqtt311("3.1.3-7"))
    func a_3_1_1_session_that_lasts_needs_a_client_identifier() {
        let configuration = ClientConfiguration(version: .v3_1_1, clientID: "", cleanStart: false)
        let error = #expect(throws: MQTTError.self) { try configuration.sessionConfiguration() }
        #expect(error?.code == .clientInvalidArgument)
    }

    @Test func a_5_0_client_names_a_3_1_1_servers_version_refusal() {
        let error = TransportError(
            session: .malformed(.reasonCodeNotValid(.connack, 1)), isEstablished: false)
        #expect(error.code == .mqttVersionUnsupported)
    }

    @Test func a_first_answer_that_is_no_mqtt_is_named_so() {
        #expect(
            TransportError(session: .malformed(.reservedPacketType(0)), isEstablished: false).code
                == .mqttNotMQTT)
        #expect(
            TransportError(session: .malformed(.reservedPacketType(0)), isEstablished: true).code
                == .mqttMalformed)
    }

    @Test(arguments: [
        (FailureCode.tlsUntrusted, ConnectionFailure.certificate), (.tlsExpired, .certificate),
        (.tcpRefused, .transient), (.dnsNXDomain, .transient), (.tlsBadCredentials, .refusedByServer),
    ])
    func certificate_failures_are_told_from_transient_ones(code: FailureCode, kind: ConnectionFailure) {
        #expect(ConnectionFailure(TransportError(stage: .tls, code: code, evidence: .none)) == kind)
    }

    @Test(arguments: [
        (ClientConfiguration(keepAlive: .milliseconds(500)), "keepAlive"),
        (ClientConfiguration(keepAlive: .seconds(65536)), "keepAlive"),
        (ClientConfiguration(keepAlive: .seconds(-1)), "keepAlive"),
        (ClientConfiguration(maximumPacketSize: 0), "maximumPacketSize"),
        (ClientConfiguration(receiveMaximum: 0), "receiveMaximum"),
        (ClientConfiguration(reconnect: .jittered(base: .zero, maximum: .seconds(1))), "reconnect"),
        (ClientConfiguration(reconnect: .jittered(base: .seconds(1), maximum: .zero)), "reconnect"),
        (ClientConfiguration(will: WillMessage(topic: "a/#", payload: "x")), "will"),
    ])
    func a_configuration_that_cannot_be_sent_is_refused_at_connect(
        configuration: ClientConfiguration, word: String
    ) async throws {
        let client = MQTTClient(profile: try .tcp(host: "127.0.0.1"), configuration: configuration)
        let error = await #expect(throws: MQTTError.self) { try await client.connect() }
        #expect(error?.code == .clientInvalidArgument)
        #expect(error?.description.contains(word) == true)
    }

    @Test func calls_before_connect_say_that_there_is_no_connection() async throws {
        let client = MQTTClient(profile: try .tcp(host: "127.0.0.1"))
        let publishing = await #expect(throws: MQTTError.self) { try await client.publish("x", to: "t") }
        #expect(publishing?.code == .clientNotConnected)
        let subscribing = await #expect(throws: MQTTError.self) { _ = try await client.subscribe(to: "t") }
        #expect(subscribing?.code == .clientNotConnected)
        await client.disconnect()
    }

    @Test(
        .mqtt311("3.3.2-2"), .mqtt5("3.3.2-2"),
        arguments: ["", "a/+", "#", "a\u{0}b"])
    func a_topic_name_that_cannot_be_sent_is_refused_before_any_bytes(topic: String) async throws {
        let client = MQTTClient(profile: try .tcp(host: "127.0.0.1"))
        let error = await #expect(throws: MQTTError.self) { try await client.publish("x", to: topic) }
        #expect(error?.code == .clientInvalidArgument)
    }

    @Test func events_begin_with_the_present_state() async throws {
        let client = MQTTClient(profile: try .tcp(host: "127.0.0.1"))
        var events = client.events.makeAsyncIterator()
        guard case .idle? = await events.next() else {
            Issue.record("the first event isn't idle")
            return
        }
    }
}
