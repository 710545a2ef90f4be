import MQTTConformance
import MQTTCore
import Testing

@Suite("Rules of the session")
struct SessionRules {
    @Test(.mqtt311("3.1.0-2"), .mqtt5("3.1.0-2"), arguments: ProtocolVersion.allCases)
    func connect_is_sent_once_on_a_connection(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version) { $0.keepAlive = 1 }
        harness.publish(qos: .exactlyOnce)
        harness.subscribe("t")
        var packets = harness.packets()
        harness.receive(.pubrec(acknowledgement(1)))
        harness.receive(.suback(Suback(packetIdentifier: 2, reasonCodes: [.success])))
        harness.advance(.seconds(1))
        harness.deadline()
        harness.session.disconnect(now: harness.now, into: &harness.output)
        packets += harness.takePackets()
        #expect(packets.map { $0[0] } == [0x34, 0x82, 0x62, 0xC0, 0xE0])
        // To open again is to have a further connection: the session closes the one before.
        harness.open()
        #expect(harness.packets().map { $0[0] } == [0x10])
        #expect(harness.session.state != .established)
    }

    @Test(.mqtt311("3.1.2-4", "4.1.0-1"), .mqtt5("3.1.2-23", "4.1.0-1"), arguments: ProtocolVersion.allCases)
    func the_state_outlives_the_connection(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version) { $0.sessionExpiryInterval = 1 }
        harness.publish("1")
        harness.publish("2", qos: .exactlyOnce)
        _ = harness.packets()
        harness.receive(.pubrec(acknowledgement(2)))
        harness.deliver(qos: .exactlyOnce, id: 9)
        harness.acknowledge(harness.take().tokens[0])
        harness.close()
        _ = harness.take()
        harness.advance(.seconds(100_000))
        harness.connect(sessionPresent: true)
        harness.deliver(qos: .exactlyOnce, id: 9, duplicate: true)
        harness.encode()
        let output = harness.take()
        #expect(output.tokens.isEmpty)
        #expect(
            output.bytes
                == hex("62 02 00 02 50 02 00 09")
                + version.of("3A 06 00 01 74 00 01 31", "3A 07 00 01 74 00 01 00 31"))
    }

    @Test(
        .mqtt311("3.1.2-6", "4.1.0-1", "4.1.0-2"), .mqtt5("4.1.0-1"),
        arguments: ProtocolVersion.allCases, [true, false])
    func no_state_is_dropped_while_connected(version: ProtocolVersion, isClean: Bool) {
        // Clean Session, and an expiry of 0, count from the end of the connection on.
        var harness = SessionHarness(connected: version) {
            $0.cleanStart = isClean
            $0.sessionExpiryInterval = isClean ? 0 : 1
            $0.keepAlive = 0
        }
        let token = harness.publish(qos: .exactlyOnce)
        _ = harness.packets()
        harness.deliver(qos: .exactlyOnce, id: 9)
        harness.acknowledge(harness.take().tokens[0])
        _ = harness.take()
        harness.advance(.seconds(100_000))
        harness.deadline()
        harness.deliver(qos: .exactlyOnce, id: 9, duplicate: true)
        harness.receive(.pubrec(acknowledgement(1)))
        harness.receive(.pubcomp(acknowledgement(1)))
        let output = harness.take()
        #expect(output.bytes == hex("50 02 00 09 62 02 00 01"))
        #expect(output.actions == [.published(token, .success, Properties())])
    }

    @Test(.mqtt5("3.1.2-4"))
    func a_clean_start_drops_the_stored_session() {
        var harness = SessionHarness(SessionConfiguration(clientIdentifier: "c", cleanStart: true))
        harness.session.restore(.began(.v5))
        harness.session.restore(
            .queued(Publish(topicName: "t", payload: [], qos: .exactlyOnce), stamp: 1))
        harness.session.restore(.outgoingStored(1, stamp: 1))
        harness.session.restore(.outgoingReleased(1))
        harness.session.restore(.incomingStored(9))
        harness.open()
        #expect(harness.take().bytes[9] == 0x02)
        harness.receive(.connack(Connack(sessionPresent: false)))
        harness.deliver(qos: .exactlyOnce, id: 9)
        harness.encode()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.tokens.count == 1)
    }

    @Test(.mqtt311("3.1.3-2"), .mqtt5("3.1.3-2"), arguments: ProtocolVersion.allCases)
    func a_session_is_resumed_under_its_client_identifier(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version) { $0.clientIdentifier = "sensor-1" }
        for _ in 1...3 {
            harness.close()
            _ = harness.take()
            harness.open()
            let connect = harness.take().bytes
            #expect(connect.suffix(10) == wire("0008'sensor-1'")[...])
            #expect(connect[9] & 0b10 == 0)
            harness.receive(.connack(Connack(sessionPresent: true)))
        }
    }

    @Test(
        .mqtt311("3.14.4-1", "3.14.4-2"), .mqtt5("3.14.4-1", "3.14.4-2"), arguments: ProtocolVersion.allCases)
    func nothing_follows_a_disconnect_but_the_end(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version) { $0.sessionExpiryInterval = 0 }
        harness.publish()
        harness.session.disconnect(now: harness.now, into: &harness.output)
        harness.publish(qos: .exactlyOnce)
        harness.subscribe("t")
        harness.encode()
        harness.deliver(qos: .exactlyOnce, id: 1)
        harness.receive(.pubrec(acknowledgement(9)))
        harness.receive(.pubrel(acknowledgement(9)))
        harness.advance(.seconds(1000))
        harness.deadline()
        let output = harness.take()
        #expect(output.bytes == hex("E0 00"))
        #expect(output.actions == [.close(nil)])
    }

    @Test(.mqtt5("4.3.3-1"), arguments: ProtocolVersion.allCases)
    func an_identifier_in_use_is_given_to_no_other_message(version: ProtocolVersion) {
        var harness = SessionHarness(connected: version)
        harness.publish(qos: .exactlyOnce)
        _ = harness.packets()
        harness.receive(.pubrec(acknowledgement(1)))
        _ = harness.take()
        var seen: Set<[UInt8]> = []
        for _ in 1...66_000 {
            harness.publish("", qos: .exactlyOnce)
            guard let packet = harness.packets().first else { break }
            let id = PacketIdentifier(packet[5]) << 8 | PacketIdentifier(packet[6])
            seen.insert(Array(packet[5...6]))
            harness.receive(.pubrec(acknowledgement(id)))
            harness.receive(.pubcomp(acknowledgement(id)))
            _ = harness.take()
        }
        #expect(!seen.contains([0, 1]) && !seen.contains([0, 0]) && seen.count > 60)
    }

    @Test(arguments: ProtocolVersion.allCases)
    func without_a_free_identifier_a_publish_waits_or_fails_as_configured(version: ProtocolVersion) {
        for fails in [false, true] {
            var harness = SessionHarness(connected: version) { $0.failsWithoutPacketIdentifier = fails }
            for _ in 1...65_535 { harness.publish("") }
            harness.encode(upTo: .max)
            _ = harness.take()
            let late = harness.publish("")
            let atMostOnce = harness.publish("", qos: .atMostOnce)
            harness.encode()
            let failed: [SessionAction] = [
                .failed(late, .packetIdentifiersExhausted), .published(atMostOnce, .success, Properties()),
            ]
            #expect(harness.actions() == (fails ? failed : []))
            harness.receive(.puback(acknowledgement(7)))
            harness.publish("")
            #expect(harness.packets().first?.dropFirst(5).prefix(2) == [0, 7])
            #expect(harness.session.queuedCount == (fails ? 0 : 1))
        }
    }

    @Test(.mqtt5("4.3.3-7"))
    func a_message_that_was_sent_does_not_expire_at_the_client() {
        var harness = SessionHarness(connected: .v5)
        harness.publish(qos: .exactlyOnce, properties: Properties([.messageExpiryInterval(1)]))
        #expect(harness.packets().count == 1)
        harness.advance(.seconds(1000))
        harness.deadline()
        harness.reconnect(sessionPresent: true)
        #expect(harness.packets() == [wire("3C 0C 0001't' 0001 05 02 00000001 'a'")])
        harness.receive(.pubrec(acknowledgement(1)))
        #expect(harness.takePackets() == hex(["62 02 00 01"]))
    }

    @Test(.mqtt5("4.3.3-13"))
    func the_handshake_of_an_expired_message_is_finished() {
        var harness = SessionHarness(connected: .v5)
        let publish = Publish(
            topicName: "t", payload: [], qos: .exactlyOnce, packetIdentifier: 3,
            properties: Properties([.messageExpiryInterval(1)]))
        harness.receive(.publish(publish))
        let tokens = harness.take().tokens
        harness.advance(.seconds(1000))
        harness.acknowledge(tokens[0])
        harness.receive(.pubrel(acknowledgement(3)))
        #expect(harness.takePackets() == hex(["50 02 00 03", "70 02 00 03"]))
    }

    @Test(arguments: ProtocolVersion.allCases, [SessionConfiguration.LostSessionPolicy.requeue, .fail])
    func a_lost_session_never_stops_publishing(
        version: ProtocolVersion, policy: SessionConfiguration.LostSessionPolicy
    ) {
        let connack = version == .v5 ? Properties([.receiveMaximum(2)]) : Properties()
        var harness = SessionHarness(connected: version, connack: connack) { $0.onSessionLost = policy }
        for round in 1...5 {
            for _ in 1...3 { harness.publish(qos: round % 2 == 0 ? .atLeastOnce : .exactlyOnce) }
            _ = harness.packets()
            harness.reconnect(sessionPresent: false, connack: connack)
        }
        var answered = 0
        while let packet = harness.packets().first(where: { $0[0] & 0xF0 == 0x30 }) {
            // At most the server's two at once; each answer makes room for the next.
            var packets = [packet] + harness.packets().filter { $0[0] & 0xF0 == 0x30 }
            while let next = packets.popLast() {
                let id = PacketIdentifier(next[5]) << 8 | PacketIdentifier(next[6])
                if next[0] & 0b0110 == 0b0010 {
                    harness.receive(.puback(acknowledgement(id)))
                } else {
                    harness.receive(.pubrec(acknowledgement(id)))
                    harness.receive(.pubcomp(acknowledgement(id)))
                }
                answered += 1
                packets += harness.packets().filter { $0[0] & 0xF0 == 0x30 }
            }
        }
        #expect(answered > 0 || policy == .fail)
        #expect(harness.session.queuedCount == 0)
        _ = harness.take()
        let token = harness.publish()
        #expect(harness.packets().count == 1 && token.rawValue == 16)
    }
}
