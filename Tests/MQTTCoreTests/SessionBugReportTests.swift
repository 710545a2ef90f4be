import MQTTCore
import Testing

/// What has gone wrong between other clients and their servers: the server's bytes as they were, and what has to
/// leave the client.
@Suite("Session: bug reports")
struct SessionBugReportTests {
    private func connected(
        _ version: ProtocolVersion, _ connack: String,
        _ change: (inout SessionConfiguration) -> Void = { _ in }
    ) -> SessionHarness {
        var configuration = SessionConfiguration(
            version: version, clientIdentifier: "c", cleanStart: version == .v5)
        change(&configuration)
        var harness = SessionHarness(configuration)
        harness.reopen(connack)
        return harness
    }

    @Test func a_publish_is_not_sent_again_once_pubrec_has_come() {
        var harness = connected(.v3_1_1, "20 02 00 00")
        for _ in 1...44 { harness.publish(qos: .atLeastOnce) }
        _ = harness.packets()
        for id: PacketIdentifier in 1...43 { harness.receive(.puback(acknowledgement(id))) }
        harness.publish(qos: .exactlyOnce)
        #expect(harness.packets() == [wire("34 06 0001't' 002D 'a'")])
        harness.receive(bytes: wire("40 02 002C 50 02 002D"))
        _ = harness.take()
        harness.reopen("20 02 01 00")
        #expect(harness.packets() == [wire("62 02 002D")])
    }

    @Test func a_failing_pubrec_fails_the_publish_and_frees_quota_and_identifier() {
        var harness = connected(.v5, "20 06 00 00 03 21 0001")
        let token = harness.publish(qos: .exactlyOnce)
        _ = harness.packets()
        harness.receive(bytes: wire("50 03 0001 87"))
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.actions == [.published(token, .notAuthorized, Properties())])
        #expect(harness.session.inFlightCount == 0)
        harness.publish()
        #expect(harness.packets().count == 1)
    }

    @Test func a_message_that_comes_twice_before_pubrel_is_delivered_once() {
        var harness = connected(.v5, "20 03 00 00 00")
        let publish = wire("34 06 0001't' 0007 00")
        harness.receive(bytes: publish)
        let tokens = harness.take().tokens
        #expect(tokens.count == 1)
        harness.acknowledge(tokens[0])
        harness.receive(bytes: publish + wire("62 02 0007"))
        let output = harness.take()
        #expect(output.tokens.isEmpty)
        #expect(output.bytes == wire("50 02 0007 50 02 0007 70 02 0007"))
        harness.receive(bytes: wire("62 02 0007"))
        #expect(harness.take().bytes == wire("70 03 0007 92"))
    }

    @Test(arguments: ProtocolVersion.allCases)
    func what_was_published_offline_leaves_in_its_order_behind_what_is_sent_again(version: ProtocolVersion) {
        let accepted = version == .v5 ? "20 03 00 00 00" : "20 02 00 00"
        var harness = SessionHarness(
            SessionConfiguration(version: version, clientIdentifier: "c", cleanStart: version == .v5))
        for number in 1...9 { harness.publish("\(number)") }
        harness.reopen(accepted)
        #expect(harness.packets().map { $0.last } == Array("123456789".utf8))
        harness.receive(.puback(acknowledgement(2)))
        harness.close()
        harness.publish("new")
        harness.reopen(version == .v5 ? "20 03 01 00 00" : "20 02 01 00")
        let packets = harness.packets()
        #expect(packets.map { $0.last } == Array("13456789w".utf8))
        #expect(packets.map { $0[0] } == [UInt8](repeating: 0x3A, count: 8) + [0x32])
        #expect(packets.map { $0[6] } == [1, 3, 4, 5, 6, 7, 8, 9, 10])
    }

    @Test func a_broker_that_lost_the_session_is_subscribed_to_again() {
        var harness = connected(.v3_1_1, "20 02 00 00")
        harness.subscribe("f", qos: .atLeastOnce)
        _ = harness.packets()
        harness.receive(bytes: wire("90 03 0001 01"))
        _ = harness.take()
        harness.reopen("20 02 00 00")
        harness.encode()
        let output = harness.take()
        #expect(output.bytes == wire("82 06 0002 0001'f' 01"))
        #expect(output.actions.contains(.sessionLost))
    }

    @Test func after_a_reconnect_the_servers_receive_maximum_holds_for_what_is_sent_again() {
        var harness = connected(.v5, "20 03 00 00 00")
        for _ in 1...10 { harness.publish() }
        _ = harness.packets()
        harness.close()
        harness.reopen("20 06 01 00 03 21 0002")
        #expect(harness.packets().map { $0[6] } == [1, 2])
        harness.receive(bytes: wire("40 02 0001"))
        #expect(harness.packets().map { $0[6] } == [3])
    }

    @Test func an_oversized_publish_costs_nothing_and_the_limit_goes_with_its_connection() {
        var harness = connected(.v5, "20 08 00 00 05 27 00000014")
        let token = harness.publish(String(repeating: "x", count: 30))
        harness.publish("y")
        harness.encode()
        let output = harness.take()
        #expect(output.bytes == wire("32 07 0001't' 0001 00 'y'"))
        #expect(output.actions == [.failed(token, .packetTooLarge(size: 38, limit: 20))])
        harness.receive(bytes: wire("40 02 0001"))
        harness.close()
        harness.reopen("20 03 01 00 00")
        harness.publish(String(repeating: "x", count: 30))
        #expect(harness.packets().map(\.count) == [38])
    }

    @Test func an_assigned_client_identifier_resumes_the_session() {
        var harness = connected(.v5, "20 0B 00 00 08 12 0005 'srv-1'") { $0.clientIdentifier = "" }
        harness.close()
        _ = harness.take()
        harness.open()
        let connect = harness.take().bytes
        #expect(connect.suffix(7) == wire("0005'srv-1'")[...] && connect[9] & 0b10 == 0)
    }

    @Test(arguments: [(20, "0002", 2), (2, "0014", 20)] as [(UInt16, String, Int)])
    func the_servers_keep_alive_is_kept(own: UInt16, value: String, seconds: Int) {
        var harness = connected(.v5, "20 06 00 00 03 13 \(value)") { $0.keepAlive = own }
        harness.advance(.seconds(seconds) - .nanoseconds(1))
        harness.deadline()
        #expect(harness.take().bytes.isEmpty)
        harness.advance(.nanoseconds(1))
        harness.deadline()
        #expect(harness.take().bytes == wire("C0 00"))
    }

    @Test(arguments: ["31 04 0001't' 'v'", "33 06 0001't' 0001 'v'", "35 06 0001't' 0001 'v'"])
    func the_retain_flag_reaches_the_program(bytes: String) {
        var harness = connected(.v3_1_1, "20 02 00 00")
        harness.receive(bytes: wire(bytes))
        guard case .deliver(let publish, _) = harness.actions().first else {
            Issue.record("not delivered")
            return
        }
        #expect(publish.retain)
    }

    @Test func all_subscription_options_reach_the_wire() {
        var harness = connected(.v5, "20 03 00 00 00")
        let options = SubscriptionOptions(qos: .atLeastOnce, noLocal: true)
        harness.session.subscribe(
            [.init(topicFilter: "f", options: options)], token: harness.makeToken(), now: harness.now,
            into: &harness.output)
        #expect(harness.packets() == [wire("82 07 0001 00 0001'f' 05")])
    }

    @Test func a_shared_filter_is_matched_without_its_group() throws {
        let filter = try TopicFilter("$share/g/+/b")
        #expect(filter.matches("a/b"))
        #expect(!filter.matches("$share/g/a/b"))
    }

    @Test(arguments: ["90 04 0001 00 87", "90 09 0001 05 1F 0002'no' 87"])
    func a_refused_subscription_is_reported_and_costs_no_connection(suback: String) {
        var harness = connected(.v5, "20 03 00 00 00")
        let token = harness.subscribe("f")
        _ = harness.packets()
        harness.receive(bytes: wire(suback))
        guard case .subscribed(token, let answer) = harness.actions().first else {
            Issue.record("not reported")
            return
        }
        #expect(answer.reasonCodes == [.notAuthorized])
        #expect(harness.session.state == .established)
    }

    @Test func an_unsuback_of_3_1_1_is_a_success() {
        var harness = connected(.v3_1_1, "20 02 00 00")
        let token = harness.unsubscribe("f")
        _ = harness.packets()
        harness.receive(bytes: wire("B0 02 0001"))
        #expect(harness.actions() == [.unsubscribed(token, Unsuback(packetIdentifier: 1))])
    }

    @Test func a_will_without_a_delay_is_sent_without_the_property() {
        var harness = SessionHarness(
            SessionConfiguration(
                clientIdentifier: "c", will: Will(topicName: "w", payload: wire("'x'")),
                sessionExpiryInterval: 0))
        harness.open()
        #expect(harness.take().bytes == wire("10 15 0004'MQTT' 05 06 001E 00 0001'c' 00 0001'w' 0001'x'"))
    }
}

extension SessionHarness {
    /// A connection whose CONNACK has these bytes.
    fileprivate mutating func reopen(_ connack: String) {
        close()
        open()
        _ = take()
        receive(bytes: wire(connack))
        output.actions.removeAll { if case .established = $0 { true } else { false } }
    }
}
