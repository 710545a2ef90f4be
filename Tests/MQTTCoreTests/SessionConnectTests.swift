import MQTTConformance
import MQTTCore
import Testing

@Suite("Session: CONNECT, CONNACK, DISCONNECT")
struct SessionConnectTests {
    @Test(
        .mqtt311("3.1.0-1", "3.1.2-1", "3.1.2-2"))
    func first_packet_is_connect_3_1_1() {
        var harness = SessionHarness(SessionConfiguration(version: .v3_1_1, clientIdentifier: "c"))
        harness.open()
        #expect(harness.take().bytes == hex("10 0D 00 04 4D 51 54 54 04 02 00 1E 00 01 63"))
    }

    @Test(
        .mqtt5("3.1.0-1", "3.1.2-1", "3.1.2-2"))
    func connect_5_0_announces_limits_that_differ_from_the_defaults() {
        var harness = SessionHarness(
            SessionConfiguration(
                clientIdentifier: "c", sessionExpiryInterval: 3600, receiveMaximum: 10,
                maximumPacketSize: 256, topicAliasMaximum: 5))
        harness.open()
        #expect(
            harness.take().bytes
                == hex(
                    "10 1E 00 04 4D 51 54 54 05 02 00 1E 10 11 00 00 0E 10 21 00 0A 27 00 00 01 00 22 00 05"
                        + " 00 01 63"))
    }

    @Test func clean_start_is_spent_by_the_first_accepted_connect_5_0() {
        var harness = SessionHarness(SessionConfiguration(clientIdentifier: "c"))
        harness.open()
        #expect(harness.take().bytes[9] == 0x02)
        harness.receive(.connack(Connack(sessionPresent: false, reasonCode: .serverBusy)))
        harness.close()
        harness.open()
        #expect(harness.output.bytes[9] == 0x02)
        harness.receive(.connack(Connack(sessionPresent: false)))
        harness.close()
        _ = harness.take()
        harness.open()
        #expect(harness.take().bytes[9] == 0x00)
    }

    @Test func clean_session_3_1_1_is_as_configured_each_time() {
        for cleanSession in [true, false] {
            var harness = SessionHarness(connected: .v3_1_1) { $0.cleanStart = cleanSession }
            harness.close()
            _ = harness.take()
            harness.open()
            #expect(harness.take().bytes[9] == (cleanSession ? 0x02 : 0x00))
        }
    }

    @Test(arguments: ProtocolVersion.allCases)
    func connack_establishes(version: ProtocolVersion) {
        var harness = SessionHarness(SessionConfiguration(version: version, clientIdentifier: "c"))
        harness.open()
        _ = harness.take()
        let connack = Connack(sessionPresent: false)
        harness.receive(.connack(connack))
        #expect(harness.actions() == [.established(connack, resumed: false)])
        #expect(harness.session.state == .established)
    }

    @Test(
        .mqtt5("detect-connack-refused", "4.13.2-1"))
    func refused_connack_leaves_the_session_untouched() {
        var harness = SessionHarness(connected: .v5)
        harness.publish()
        _ = harness.packets()
        harness.close()
        harness.open()
        _ = harness.take()
        let refusal = Connack(sessionPresent: false, reasonCode: .serverUnavailable)
        harness.receive(.connack(refusal))
        let output = harness.take()
        #expect(output.actions == [.refused(refusal), .close(.refused(.serverUnavailable))])
        #expect(output.bytes.isEmpty)
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets() == hex(["3A 07 00 01 74 00 01 00 61"]))
    }

    @Test(
        .mqtt311("3.1.2-2", "detect-connack-refused"),
        arguments: [1, 2, 3, 4, 5] as [UInt8])
    func return_codes_of_3_1_1_refuse(code: UInt8) {
        var harness = SessionHarness(SessionConfiguration(version: .v3_1_1, clientIdentifier: "c"))
        harness.open()
        _ = harness.take()
        let refusal = Connack(sessionPresent: false, reasonCode: ReasonCode(rawValue: code))
        harness.receive(.connack(refusal))
        #expect(harness.actions() == [.refused(refusal), .close(.refused(refusal.reasonCode))])
    }

    @Test(
        .mqtt311("detect-packet-before-connack"), .mqtt5("detect-packet-before-connack"),
        arguments: ProtocolVersion.allCases)
    func packets_before_connack_end_the_connection(version: ProtocolVersion) {
        let packets: [ControlPacket] = [
            .publish(Publish(topicName: "t", payload: [])), .pingresp, .disconnect(Disconnect()),
            .suback(Suback(packetIdentifier: 1, reasonCodes: [])),
        ]
        for packet in packets {
            var harness = SessionHarness(SessionConfiguration(version: version, clientIdentifier: "c"))
            harness.open()
            _ = harness.take()
            harness.receive(packet)
            let output = harness.take()
            #expect(output.actions == [.close(.violation(.packetBeforeConnack))])
            #expect(output.bytes.isEmpty)
        }
    }

    @Test(
        .mqtt5("detect-second-connack"))
    func second_connack_is_a_protocol_error() {
        var harness = SessionHarness(connected: .v5)
        harness.receive(.connack(Connack(sessionPresent: false)))
        let output = harness.take()
        #expect(output.bytes.starts(with: hex("E0")) && output.bytes.contains(0x82))
        #expect(output.actions == [.close(.violation(.secondConnack))])
    }

    @Test(
        .mqtt311("detect-session-present-unexpected"), .mqtt5("detect-session-present-unexpected"),
        arguments: ProtocolVersion.allCases)
    func session_present_after_clean_start_ends_the_connection(version: ProtocolVersion) {
        var harness = SessionHarness(SessionConfiguration(version: version, clientIdentifier: "c"))
        harness.open()
        _ = harness.take()
        harness.receive(.connack(Connack(sessionPresent: true)))
        #expect(harness.actions() == [.close(.violation(.sessionPresentAfterCleanStart))])
    }

    @Test(
        .mqtt311("detect-session-present-unexpected"), .mqtt5("3.2.2-4", "detect-session-present-unexpected"),
        arguments: ProtocolVersion.allCases)
    func session_present_without_a_local_session_closes_and_then_starts_clean(version: ProtocolVersion) {
        var harness = SessionHarness(
            SessionConfiguration(version: version, clientIdentifier: "c", cleanStart: false))
        harness.open()
        #expect(harness.take().bytes[9] == 0x00)
        harness.receive(.connack(Connack(sessionPresent: true)))
        #expect(harness.actions() == [.close(.violation(.sessionPresentWithoutSession))])
        harness.close()
        harness.open()
        #expect(harness.take().bytes[9] == 0x02)
    }

    @Test(arguments: ProtocolVersion.allCases)
    func a_session_of_the_server_is_adopted_where_configured(version: ProtocolVersion) {
        var harness = SessionHarness(
            SessionConfiguration(
                version: version, clientIdentifier: "c", cleanStart: false, adoptsServerSession: true))
        harness.open()
        _ = harness.take()
        let connack = Connack(sessionPresent: true)
        harness.receive(.connack(connack))
        #expect(harness.actions() == [.established(connack, resumed: true)])
    }

    @Test func unknown_success_code_is_a_violation() {
        var harness = SessionHarness(SessionConfiguration(clientIdentifier: "c"))
        harness.open()
        _ = harness.take()
        harness.receive(.connack(Connack(sessionPresent: false, reasonCode: .grantedQoS2)))
        #expect(harness.actions() == [.close(.violation(.connackReasonCode(.grantedQoS2)))])
    }

    @Test(
        .mqtt5("3.1.3-2"))
    func assigned_client_identifier_is_used_from_then_on() {
        var harness = SessionHarness(SessionConfiguration(clientIdentifier: ""))
        harness.connect(connack: Properties([.assignedClientIdentifier("srv-1")]))
        #expect(harness.session.clientIdentifier == "srv-1")
        harness.close()
        _ = harness.take()
        harness.open()
        #expect(harness.take().bytes.suffix(7) == hex("00 05 73 72 76 2D 31")[...])
    }

    @Test(
        .mqtt5("detect-client-identifier-assigned"))
    func client_identifier_has_to_be_assigned_and_not_replaced() {
        for (own, assigned, violation) in [
            ("", nil, SessionViolation.clientIdentifierNotAssigned),
            ("c", "d", .clientIdentifierReplaced),
        ] {
            var harness = SessionHarness(SessionConfiguration(clientIdentifier: own))
            harness.open()
            _ = harness.take()
            let properties = Properties(assigned.map { [.assignedClientIdentifier($0)] } ?? [])
            harness.receive(.connack(Connack(sessionPresent: false, properties: properties)))
            #expect(harness.actions() == [.close(.violation(violation))])
        }
    }

    @Test(
        .mqtt5("detect-authentication-unasked"))
    func authentication_that_nobody_asked_for_is_a_protocol_error() {
        var harness = SessionHarness(SessionConfiguration(clientIdentifier: "c"))
        harness.open()
        _ = harness.take()
        harness.receive(
            .connack(Connack(sessionPresent: false, properties: Properties([.authenticationMethod("x")]))))
        #expect(harness.actions() == [.close(.violation(.unexpectedAuthenticationMethod))])
        harness = SessionHarness(connected: .v5)
        harness.receive(.auth(Auth(reasonCode: .continueAuthentication)))
        #expect(harness.actions() == [.close(.violation(.unexpectedAuth))])
    }

    @Test(
        .mqtt311("detect-silence"), .mqtt5("detect-connack-missing"),
        arguments: ProtocolVersion.allCases)
    func missing_connack_ends_the_connection_at_the_deadline(version: ProtocolVersion) {
        var harness = SessionHarness(SessionConfiguration(version: version, clientIdentifier: "c"))
        harness.open()
        _ = harness.take()
        #expect(harness.session.nextDeadline == harness.now + .seconds(10))
        harness.advance(.seconds(10) - .nanoseconds(1))
        harness.deadline()
        #expect(harness.actions().isEmpty)
        harness.advance(.nanoseconds(1))
        harness.deadline()
        #expect(harness.actions() == [.close(.connackTimeout)])
    }

    @Test func limits_are_of_one_connection() {
        var harness = SessionHarness(
            connected: .v5,
            connack: Properties([
                .receiveMaximum(7), .maximumQoS(1), .retainAvailable(0), .maximumPacketSize(99),
                .topicAliasMaximum(3), .wildcardSubscriptionAvailable(0),
                .subscriptionIdentifierAvailable(0), .sharedSubscriptionAvailable(0), .serverKeepAlive(9),
                .sessionExpiryInterval(60),
            ]))
        let limits = harness.session.limits
        #expect(limits.receiveMaximum == 7 && limits.maximumQoS == .atLeastOnce)
        #expect(!limits.retainAvailable && limits.maximumPacketSize == 99 && limits.topicAliasMaximum == 3)
        #expect(!limits.wildcardSubscriptionsAvailable && !limits.subscriptionIdentifiersAvailable)
        #expect(!limits.sharedSubscriptionsAvailable && limits.serverKeepAlive == 9)
        #expect(limits.sessionExpiryInterval == 60)
        harness.reconnect(sessionPresent: true)
        #expect(harness.session.limits == NegotiatedLimits())
    }

    @Test(
        .mqtt5("3.14.1-1", "3.14.4-1", "3.14.4-2"))
    func disconnect_5_0_ends_the_session_and_nothing_follows_it() {
        var harness = SessionHarness(connected: .v5)
        harness.publish()
        harness.session.disconnect(now: harness.now, into: &harness.output)
        harness.encode()
        harness.deliver(qos: .atLeastOnce, id: 1)
        harness.receive(.pubrec(acknowledgement(9)))
        let output = harness.take()
        #expect(output.bytes == hex("E0 07 00 05 11 00 00 00 00"))
        #expect(output.actions == [.close(nil)])
        #expect(harness.session.nextDeadline == nil)
    }

    @Test(
        .mqtt311("3.14.1-1"))
    func disconnect_3_1_1_has_no_body() {
        var harness = SessionHarness(connected: .v3_1_1)
        harness.session.disconnect(now: harness.now, into: &harness.output)
        #expect(harness.take().bytes == hex("E0 00"))
    }

    @Test(
        .mqtt5("detect-session-expiry-raised"))
    func disconnect_never_raises_a_session_expiry_of_zero() {  // section 3.14.2.2.2
        var harness = SessionHarness(connected: .v5) {
            $0.sessionExpiryInterval = 0
            $0.sessionExpiryAfterDisconnect = 100
        }
        harness.session.disconnect(
            properties: Properties([.sessionExpiryInterval(5)]), now: harness.now, into: &harness.output)
        #expect(harness.take().bytes == hex("E0 00"))
    }

    @Test(
        .mqtt5("3.14.2-3", "3.14.2-4"))
    func disconnect_drops_what_is_too_large_for_the_server() {
        var harness = SessionHarness(connected: .v5, connack: Properties([.maximumPacketSize(12)]))
        harness.session.disconnect(
            properties: Properties([
                .reasonString("going away for good"),
                .userProperty(UserProperty(name: "since", value: "yesterday")),
            ]), now: harness.now,
            into: &harness.output)
        #expect(harness.take().bytes == hex("E0 07 00 05 11 00 00 00 00"))
    }

    @Test(.mqtt5("3.2.2-15"))
    func a_disconnect_is_bare_where_the_server_takes_no_more() {
        var harness = SessionHarness(connected: .v5, connack: Properties([.maximumPacketSize(8)]))
        harness.session.disconnect(now: harness.now, into: &harness.output)
        let output = harness.take()
        #expect(output.bytes == hex("E0 00"))
        #expect(output.actions == [.close(nil)])
    }

    @Test(
        .mqtt5("4.13.2-1"))
    func server_disconnect_is_reported() {
        var harness = SessionHarness(connected: .v5)
        let disconnect = Disconnect(reasonCode: .sessionTakenOver)
        harness.receive(.disconnect(disconnect))
        let output = harness.take()
        #expect(
            output.actions
                == [.serverDisconnected(disconnect), .close(.serverDisconnected(.sessionTakenOver))])
        #expect(output.bytes.isEmpty)
    }

    @Test(
        .mqtt311("4.8.0-1", "detect-client-packet-or-malformed"))
    func disconnect_from_a_3_1_1_server_just_closes() {
        var harness = SessionHarness(connected: .v3_1_1)
        harness.receive(.disconnect(Disconnect()))
        let output = harness.take()
        #expect(output.actions == [.close(.violation(.clientPacketFromServer))])
        #expect(output.bytes.isEmpty)
    }

    @Test(
        .mqtt311("4.8.0-1"), .mqtt5("detect-client-packet"),
        arguments: ProtocolVersion.allCases)
    func packets_only_a_client_sends_end_the_connection(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.receive(.pingreq)
        let output = harness.take()
        #expect(output.actions == [.close(.violation(.clientPacketFromServer))])
        #expect(output.bytes.isEmpty == (version == .v3_1_1))
    }

    @Test(arguments: ProtocolVersion.allCases)
    func abandon_fails_every_operation_once(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let inFlight = harness.publish()
        let subscribed = harness.subscribe("a")
        harness.encode()
        let queued = harness.publish()
        let requested = harness.unsubscribe("b")
        _ = harness.take()
        harness.session.abandon(.disconnected, into: &harness.output)
        harness.session.abandon(.disconnected, into: &harness.output)
        let failed = harness.actions()
        #expect(failed.count == 4)
        for token in [inFlight, subscribed, queued, requested] {
            #expect(failed.contains(.failed(token, .disconnected)))
        }
        #expect(harness.session.queuedCount == 0)
    }
}
