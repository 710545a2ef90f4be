import MQTTConformance
import MQTTCore
import Testing

@Suite("Session: subscriptions")
struct SessionSubscriptionTests {
    @Test(arguments: ProtocolVersion.allCases)
    func subscribe_and_unsubscribe(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let subscribed = harness.subscribe("a", "b", qos: .atLeastOnce)
        #expect(
            harness.packets() == [
                version.of("82 0A 00 01 00 01 61 01 00 01 62 01", "82 0B 00 01 00 00 01 61 01 00 01 62 01")
            ])
        let suback = Suback(
            packetIdentifier: 1, reasonCodes: [.grantedQoS1, ReasonCode(rawValue: 0x80)])
        harness.receive(.suback(suback))
        #expect(harness.actions() == [.subscribed(subscribed, suback)])
        let unsubscribed = harness.unsubscribe("a")
        #expect(harness.packets() == [version.of("A2 05 00 02 00 01 61", "A2 06 00 02 00 00 01 61")])
        let unsuback = Unsuback(packetIdentifier: 2, reasonCodes: version == .v5 ? [.success] : [])
        harness.receive(.unsuback(unsuback))
        #expect(harness.actions() == [.unsubscribed(unsubscribed, unsuback)])
    }

    @Test(
        .mqtt311("detect-suback-count"), .mqtt5("detect-suback-count"),
        arguments: ProtocolVersion.allCases)
    func wrong_suback_count(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.subscribe("a", "b")
        _ = harness.packets()
        harness.receive(.suback(Suback(packetIdentifier: 1, reasonCodes: [.success])))
        let output = harness.take()
        #expect(output.actions == [.close(.violation(.subackCount(expected: 2, received: 1)))])
        #expect(output.bytes == (version == .v5 ? hex("E0 01 82") : []))
    }

    @Test(
        .mqtt5("detect-suback-count"))
    func wrong_unsuback_count() {
        var harness = SessionHarness(connected: .v5)
        harness.unsubscribe("a", "b")
        _ = harness.packets()
        harness.receive(.unsuback(Unsuback(packetIdentifier: 1, reasonCodes: [.success])))
        #expect(harness.actions() == [.close(.violation(.unsubackCount(expected: 2, received: 1)))])
    }

    @Test(
        .mqtt311("detect-unknown-suback"), .mqtt5("detect-unknown-suback"),
        arguments: ProtocolVersion.allCases)
    func answers_nobody_waits_for(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.unsubscribe("a")
        _ = harness.packets()
        harness.receive(.suback(Suback(packetIdentifier: 1, reasonCodes: [.success])))
        #expect(harness.actions() == [.close(.violation(.unknownSuback(1)))])
        harness = SessionHarness(connected: version)
        harness.publish()
        _ = harness.packets()
        harness.receive(.unsuback(Unsuback(packetIdentifier: 1, reasonCodes: [.success])))
        #expect(harness.actions() == [.close(.violation(.unknownUnsuback(1)))])
    }

    @Test(arguments: ProtocolVersion.allCases)
    func an_unanswered_request_is_made_again_on_the_next_connection(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        let token = harness.subscribe("a")
        _ = harness.packets()
        harness.reconnect(sessionPresent: true)
        #expect(
            harness.packets() == [version.of("82 06 00 02 00 01 61 00", "82 07 00 02 00 00 01 61 00")])
        let suback = Suback(packetIdentifier: 2, reasonCodes: [.success])
        harness.receive(.suback(suback))
        #expect(harness.actions() == [.subscribed(token, suback)])
    }

    @Test(arguments: ProtocolVersion.allCases)
    func subscriptions_are_restored_once_when_the_session_was_lost(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.subscribe("a", qos: .atLeastOnce)
        harness.subscribe("b")
        harness.subscribe("refused")
        _ = harness.packets()
        for (id, code) in [(1, 1), (2, 0), (3, 0x80)] as [(UInt16, UInt8)] {
            harness.receive(
                .suback(Suback(packetIdentifier: id, reasonCodes: [ReasonCode(rawValue: code)])))
        }
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets().isEmpty)
        harness.publish()
        harness.reconnect(sessionPresent: false)
        let restored = harness.packets()
        #expect(
            restored.first
                == version.of(
                    "82 0A 00 04 00 01 61 01 00 01 62 00", "82 0B 00 04 00 00 01 61 01 00 01 62 00"))
        #expect(restored.count == 2 && restored.last?.first == 0x32)
        // Lost before the SUBACK: the same request again, whether or not the new session is there.
        harness.reconnect(sessionPresent: false)
        #expect(harness.packets().map { $0[0] } == [0x82, 0x32])
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets().map { $0[0] } == [0x82, 0x3A])
    }

    @Test(arguments: ProtocolVersion.allCases)
    func a_subscription_without_its_SUBACK_goes_before_later_messages_that_are_sent_again(
        version: ProtocolVersion
    ) {
        var harness = SessionHarness(connected: version)
        harness.publish("before")
        harness.subscribe("t")
        harness.publish("after")
        _ = harness.packets()
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets().map { $0[0] } == [0x3A, 0x82, 0x3A])
    }

    @Test func restored_subscriptions_are_reported_and_refused_ones_forgotten() {
        var harness = SessionHarness(connected: .v5)
        harness.subscribe("a", "b")
        _ = harness.packets()
        harness.receive(.suback(Suback(packetIdentifier: 1, reasonCodes: [.success, .success])))
        harness.reconnect(sessionPresent: false)
        _ = harness.packets()
        let suback = Suback(packetIdentifier: 2, reasonCodes: [.success, .notAuthorized])
        harness.receive(.suback(suback))
        let options = SubscriptionOptions(qos: .atMostOnce)
        #expect(
            harness.actions() == [
                .subscriptionsRestored(
                    [
                        Subscribe.Subscription(topicFilter: "a", options: options),
                        Subscribe.Subscription(topicFilter: "b", options: options),
                    ], suback)
            ])
        harness.reconnect(sessionPresent: false)
        #expect(harness.packets() == hex(["82 07 00 03 00 00 01 61 00"]))
    }

    @Test func unsubscribed_filters_are_not_restored_and_identifiers_are() {
        var harness = SessionHarness(connected: .v5)
        harness.subscribe("a", identifier: 1)
        harness.subscribe("b", identifier: 2)
        harness.subscribe("c")
        _ = harness.packets()
        for id: UInt16 in 1...3 {
            harness.receive(.suback(Suback(packetIdentifier: id, reasonCodes: [.success])))
        }
        harness.unsubscribe("a")
        _ = harness.packets()
        harness.receive(.unsuback(Unsuback(packetIdentifier: 4, reasonCodes: [.success])))
        harness.reconnect(sessionPresent: false)
        #expect(
            harness.packets()
                == hex(["82 09 00 05 02 0B 02 00 01 62 00", "82 07 00 06 00 00 01 63 00"]))
    }

    @Test func restoring_can_be_left_to_the_application() {
        var harness = SessionHarness(connected: .v5) { $0.restoresSubscriptions = false }
        harness.subscribe("a")
        _ = harness.packets()
        harness.receive(.suback(Suback(packetIdentifier: 1, reasonCodes: [.success])))
        harness.reconnect(sessionPresent: false)
        let output = harness.take()
        #expect(output.actions == [.sessionLost])
        #expect(harness.packets().isEmpty)
    }

    @Test(
        .mqtt5("detect-unavailable-subscription"))
    func what_the_server_lacks_is_not_asked_for() {  // sections 3.2.2.3.11 to 3.2.2.3.13
        var harness = SessionHarness(
            connected: .v5,
            connack: Properties([
                .wildcardSubscriptionAvailable(0), .subscriptionIdentifierAvailable(0),
                .sharedSubscriptionAvailable(0),
            ]))
        let wildcard = harness.subscribe("a/#")
        let identifier = harness.subscribe("a", identifier: 3)
        let shared = harness.subscribe("$share/g/a")
        harness.encode()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(
            output.actions == [
                .failed(wildcard, .wildcardSubscriptionsNotAvailable),
                .failed(identifier, .subscriptionIdentifiersNotAvailable),
                .failed(shared, .sharedSubscriptionsNotAvailable),
            ])
    }

    @Test func subscription_identifiers_need_5_0() {
        var harness = SessionHarness(connected: .v3_1_1)
        let token = harness.subscribe("a", identifier: 3)
        #expect(harness.actions() == [.failed(token, .requiresVersion5)])
    }

    @Test(
        .mqtt5("3.8.3-2"))
    func an_empty_subscribe_fails_locally() {
        var harness = SessionHarness(connected: .v5)
        let token = harness.subscribe()
        harness.encode()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.actions == [.failed(token, .notEncodable(.emptyList(.subscribe)))])
    }

    @Test func `an optional identifier is left out where the server has none, and kept for one that has`() {
        let none = Properties([.subscriptionIdentifierAvailable(0)])
        var harness = SessionHarness(connected: .v5, connack: none)
        let token = harness.makeToken()
        harness.session.subscribe(
            [Subscribe.Subscription(topicFilter: "t", options: SubscriptionOptions(qos: .atMostOnce))],
            subscriptionIdentifier: 7, isIdentifierOptional: true, token: token, now: harness.now,
            into: &harness.output)
        #expect(harness.packets() == hex(["82 07 00 01 00 00 01 74 00"]))
        harness.receive(.suback(Suback(packetIdentifier: 1, reasonCodes: [.success])))
        _ = harness.take()
        harness.reconnect(sessionPresent: false)
        #expect(harness.packets() == hex(["82 09 00 02 02 0B 07 00 01 74 00"]))
        harness.receive(.suback(Suback(packetIdentifier: 2, reasonCodes: [.success])))
        harness.reconnect(sessionPresent: false, connack: none)
        _ = harness.actions()
        #expect(harness.packets() == hex(["82 07 00 03 00 00 01 74 00"]))
    }

    /// What ended an attempt after its CONNECT.
    enum Silence: CaseIterable {
        case lostConnection
        case connackTimeout
        case decodeError
    }

    /// The unanswered CONNECT may have made the session that the next CONNACK speaks of.
    @Test(arguments: ProtocolVersion.allCases, Silence.allCases)
    func subscriptions_are_made_again_in_a_session_that_an_unanswered_connect_may_have_made(
        _ version: ProtocolVersion, _ silence: Silence
    ) {
        var harness = SessionHarness(connected: version) { $0.cleanStart = false }
        harness.subscribe("f", qos: .atLeastOnce)
        _ = harness.packets()
        harness.receive(.suback(Suback(packetIdentifier: 1, reasonCodes: [.grantedQoS1])))
        harness.close()
        harness.open()
        switch silence {
        case .lostConnection: break
        case .connackTimeout:
            harness.advance(.seconds(10))
            harness.deadline()
        case .decodeError: harness.receive(bytes: [0xF5, 0x00])
        }
        harness.close()
        // Attempts that end before their CONNECT change nothing.
        harness.close()
        _ = harness.take()
        harness.connect(sessionPresent: true)
        // Retain Handling 1 under 5.0: the messages that are known already aren't wanted again.
        let options: UInt8 = version == .v5 ? 0x11 : 0x01
        let packets = harness.packets()
        #expect(packets.map(\.first) == [0x82])
        #expect(packets.first?.last == options)
        harness.receive(.suback(Suback(packetIdentifier: 2, reasonCodes: [.grantedQoS1])))
        // Once is enough.
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets().isEmpty)
        harness.reconnect(sessionPresent: false)
        #expect(harness.packets().first?.last == 0x01)
    }

    @Test(arguments: ProtocolVersion.allCases)
    func a_refused_connect_leaves_no_doubt_about_the_session(_ version: ProtocolVersion) {
        var harness = SessionHarness(connected: version) { $0.cleanStart = false }
        harness.subscribe("f")
        _ = harness.packets()
        harness.receive(.suback(Suback(packetIdentifier: 1, reasonCodes: [.success])))
        harness.close()
        harness.open()
        harness.receive(
            .connack(
                Connack(
                    sessionPresent: false,
                    reasonCode: version == .v5 ? .serverBusy : ReasonCode(rawValue: 3))))
        harness.close()
        _ = harness.take()
        harness.connect(sessionPresent: true)
        #expect(harness.packets().isEmpty)
    }
}
