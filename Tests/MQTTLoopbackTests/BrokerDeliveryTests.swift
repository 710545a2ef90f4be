import MQTTCore
import MQTTLoopback
import Testing

/// QoS 1 and 2 in both directions, flow control, limits.
@Suite struct BrokerDeliveryTests {
    // MARK: From clients

    @Test func a_QoS_1_message_is_acknowledged() {
        let table = BrokerTable()
        let new = table.client("new")
        let old = table.client("old", .v3_1_1)
        old.bytes = []
        new.publish("t", "x", qos: .atLeastOnce, packetIdentifier: 7)
        #expect(new.taken() == [.puback(ack(7, .noMatchingSubscribers))])
        new.subscribe("t", SubscriptionOptions(qos: .atMostOnce))
        new.publish("t", "x", qos: .atLeastOnce, packetIdentifier: 8)
        #expect(Set(new.taken()).contains(.puback(ack(8))))
        old.publish("t", "x", qos: .atLeastOnce, packetIdentifier: 0x0102)
        #expect(old.bytes == [0x40, 0x02, 0x01, 0x02])
    }

    @Test func a_QoS_2_message_is_passed_on_once_however_often_it_is_sent() {
        let table = BrokerTable()
        let subscriber = table.client("s")
        subscriber.subscribe("t", SubscriptionOptions(qos: .atMostOnce))
        let publisher = table.client("p", expiry: 100)
        publisher.publish("t", "1", qos: .exactlyOnce, packetIdentifier: 5)
        publisher.publish("t", "1", qos: .exactlyOnce, isDuplicate: true, packetIdentifier: 5)
        #expect(publisher.taken() == [.pubrec(ack(5)), .pubrec(ack(5))])
        publisher.drop()
        let again = table.client("p", cleanStart: false, expiry: 100)
        again.publish("t", "1", qos: .exactlyOnce, isDuplicate: true, packetIdentifier: 5)
        again.send(.pubrel(ack(5)))
        #expect(again.taken() == [.pubrec(ack(5)), .pubcomp(ack(5))])
        again.send(.pubrel(ack(5)))
        #expect(again.taken() == [.pubcomp(ack(5, .packetIdentifierNotFound))])
        again.publish("t", "2", qos: .exactlyOnce, packetIdentifier: 5)
        #expect(subscriber.payloads() == ["1", "2"])
    }

    @Test func more_than_Receive_Maximum_ends_the_connection() {
        var configuration = BrokerConfiguration()
        configuration.receiveMaximum = 2
        let client = BrokerTable(configuration).client("p")
        client.publish("t", "x", qos: .exactlyOnce, packetIdentifier: 1)
        client.publish("t", "x", qos: .exactlyOnce, packetIdentifier: 2)
        client.publish("t", "x", qos: .exactlyOnce, isDuplicate: true, packetIdentifier: 2)
        client.publish("t", "x", qos: .atLeastOnce, packetIdentifier: 3)
        #expect(!client.isClosed)
        _ = client.taken()
        client.publish("t", "x", qos: .exactlyOnce, packetIdentifier: 4)
        #expect(client.taken() == [.disconnect(Disconnect(reasonCode: .receiveMaximumExceeded))])
        #expect(client.isClosed)
    }

    @Test func topic_aliases_stand_for_topics() {
        let table = BrokerTable()
        let subscriber = table.client("s")
        subscriber.subscribe("#", SubscriptionOptions(qos: .atMostOnce))
        let publisher = table.client("p")
        publisher.publish("a", "1", properties: [.topicAlias(1)])
        publisher.publish("", "2", properties: [.topicAlias(1)])
        publisher.publish("b", "3", properties: [.topicAlias(1)])
        publisher.publish("", "4", properties: [.topicAlias(1)])
        let messages = subscriber.messages()
        #expect(messages.map(\.topicName) == ["a", "a", "b", "b"])
        #expect(messages.allSatisfy { $0.properties.isEmpty })
    }

    @Test(arguments: [
        ("a", [Property.topicAlias(65)], ReasonCode.topicAliasInvalid),
        ("a", [.topicAlias(0)], .topicAliasInvalid),
        ("", [.topicAlias(2)], .protocolError),
        ("", [], .protocolError),
        ("a", [.subscriptionIdentifier(1)], .protocolError),
    ])
    func an_unacceptable_PUBLISH_ends_the_connection(
        _ topic: String, _ properties: [Property], _ reason: ReasonCode
    ) {
        let client = BrokerTable().client("p")
        client.publish(topic, "x", properties: properties)
        #expect(client.taken() == [.disconnect(Disconnect(reasonCode: reason))])
        #expect(client.isClosed)
    }

    @Test func any_QoS_and_RETAIN_beyond_what_was_told_end_a_5_0_connection() {
        var configuration = BrokerConfiguration()
        configuration.maximumQoS = .atMostOnce
        configuration.retainAvailable = false
        let table = BrokerTable(configuration)
        let one = table.client("one")
        one.publish("t", "x", qos: .atLeastOnce, packetIdentifier: 1)
        #expect(one.taken() == [.disconnect(Disconnect(reasonCode: .qosNotSupported))])
        let two = table.client("two")
        two.publish("t", "x", retain: true)
        #expect(two.taken() == [.disconnect(Disconnect(reasonCode: .retainNotSupported))])
        let will = Will(topicName: "w", payload: [], qos: .atLeastOnce)
        let three = table.connecting(Connect(clientIdentifier: "three", will: will))
        #expect(three.bytes == [0x20, 0x03, 0x00, 0x9B, 0x00])
        let retained = Will(topicName: "w", payload: [], retain: true)
        let four = table.connecting(Connect(clientIdentifier: "four", will: retained))
        #expect(four.bytes == [0x20, 0x03, 0x00, 0x9A, 0x00])
    }

    // MARK: To clients

    @Test func a_QoS_2_message_to_a_client_runs_its_four_steps() {
        let table = BrokerTable()
        let subscriber = table.client("s")
        subscriber.subscribe("t")
        table.client("p").publish("t", "x", qos: .exactlyOnce, packetIdentifier: 77)
        #expect(
            subscriber.messages() == [
                Publish(topicName: "t", payload: [0x78], qos: .exactlyOnce, packetIdentifier: 1)
            ])
        subscriber.send(.pubrec(ack(1)))
        #expect(subscriber.taken() == [.pubrel(ack(1))])
        subscriber.send(.pubrec(ack(1)))
        #expect(subscriber.taken() == [.pubrel(ack(1))])
        subscriber.send(.pubcomp(ack(1)))
        subscriber.send(.pubrec(ack(1)))
        #expect(subscriber.taken() == [.pubrel(ack(1, .packetIdentifierNotFound))])
    }

    @Test func what_is_unacknowledged_is_sent_again_in_order_and_before_the_rest() {
        let table = BrokerTable()
        let subscriber = table.client("s", expiry: 100)
        subscriber.subscribe("t")
        let publisher = table.client("p")
        for number in 1...3 {
            publisher.publish("t", "\(number)", qos: .exactlyOnce, packetIdentifier: UInt16(number))
        }
        publisher.publish("t", "4", qos: .atLeastOnce, packetIdentifier: 4)
        _ = subscriber.taken()
        subscriber.send(.pubrec(ack(2)))
        subscriber.drop()
        publisher.publish("t", "5", qos: .atLeastOnce, packetIdentifier: 5)
        publisher.publish("t", "QoS 0 isn't kept")

        let again = table.client("s", cleanStart: false, expiry: 100)
        #expect(again.connack.sessionPresent)
        func publish(_ number: UInt8, _ qos: QoS, _ isDuplicate: Bool) -> ControlPacket {
            .publish(
                Publish(
                    topicName: "t", payload: [0x30 + number], qos: qos, isDuplicate: isDuplicate,
                    packetIdentifier: UInt16(number)))
        }
        #expect(
            again.taken() == [
                publish(1, .exactlyOnce, true), .pubrel(ack(2)), publish(3, .exactlyOnce, true),
                publish(4, .atLeastOnce, true), publish(5, .atLeastOnce, false),
            ])
        again.send(.pubrec(ack(1)), .pubcomp(ack(1)), .pubcomp(ack(2)), .puback(ack(4)), .puback(ack(5)))
        again.drop()
        let third = table.client("s", cleanStart: false)
        #expect(third.taken() == [publish(3, .exactlyOnce, true)])
    }

    @Test func the_Receive_Maximum_of_the_client_is_kept() {
        let table = BrokerTable()
        let subscriber = table.client("s", properties: [.receiveMaximum(2)])
        subscriber.subscribe("t")
        let publisher = table.client("p")
        for number in 1...5 {
            publisher.publish("t", "\(number)", qos: .exactlyOnce, packetIdentifier: UInt16(number))
        }
        #expect(subscriber.payloads() == ["1", "2"])
        subscriber.send(.pubrec(ack(1)))
        #expect(subscriber.taken() == [.pubrel(ack(1))])
        subscriber.send(.pubcomp(ack(1)))
        #expect(subscriber.payloads() == ["3"])
        subscriber.send(.pubrec(ack(2, .unspecifiedError)))
        #expect(subscriber.payloads() == ["4"])
        subscriber.send(.puback(ack(3)))
        #expect(subscriber.taken().isEmpty, "PUBACK doesn't answer a QoS 2 message")
    }

    @Test func the_Receive_Maximum_holds_for_what_is_sent_again() {
        let table = BrokerTable()
        let subscriber = table.client("s", expiry: 100)
        subscriber.subscribe("t")
        let publisher = table.client("p")
        for number in 1...3 {
            publisher.publish("t", "\(number)", qos: .atLeastOnce, packetIdentifier: UInt16(number))
        }
        subscriber.drop()
        let again = table.client("s", cleanStart: false, properties: [.receiveMaximum(1)])
        #expect(again.payloads() == ["1"])
        again.send(.puback(ack(1)))
        #expect(again.payloads() == ["2"])
        again.send(.puback(ack(3)))
        #expect(again.taken().isEmpty, "3 hasn't been sent on this connection")
        again.send(.puback(ack(2)))
        #expect(again.payloads() == ["3"])
    }

    @Test func a_PUBREL_sent_again_does_not_widen_the_window() {
        let table = BrokerTable()
        let subscriber = table.client("s", expiry: 100)
        subscriber.subscribe("t")
        let publisher = table.client("p")
        for number in 1...5 {
            publisher.publish("t", "\(number)", qos: .exactlyOnce, packetIdentifier: UInt16(number))
        }
        subscriber.send(.pubrec(ack(2)))
        subscriber.drop()
        let again = table.client("s", cleanStart: false, properties: [.receiveMaximum(2)])
        #expect(again.taken().map(\.packetIdentifier) == [1, 2, 3])
        again.send(.pubcomp(ack(2)))
        #expect(again.taken().isEmpty)
        again.send(.pubrec(ack(1)), .pubcomp(ack(1)))
        #expect(again.taken().map(\.packetIdentifier) == [1, 4])
    }

    @Test func the_Maximum_Packet_Size_of_the_client_is_kept() {
        let table = BrokerTable()
        let subscriber = table.client("s", properties: [.maximumPacketSize(20)])
        let other = table.client("o")
        subscriber.subscribe("t")
        other.subscribe("t")
        let publisher = table.client("p")
        // 2 bytes of fixed header, 3 of Topic Name, 1 of Property Length, at QoS 1 a packet identifier.
        let (fits, fitsNot) = (String(repeating: "f", count: 14), String(repeating: "n", count: 15))
        publisher.publish("t", fits)
        publisher.publish("t", fitsNot)
        #expect(subscriber.payloads() == [fits])
        #expect(other.payloads() == [fits, fitsNot])
        publisher.publish("t", String(repeating: "n", count: 13), qos: .atLeastOnce, packetIdentifier: 1)
        publisher.publish("t", String(repeating: "f", count: 12), qos: .atLeastOnce, packetIdentifier: 2)
        #expect(subscriber.payloads() == [String(repeating: "f", count: 12)])
        #expect(table.core.droppedMessages == 2)
    }

    @Test func the_queue_of_a_session_is_limited() {
        var configuration = BrokerConfiguration()
        configuration.maximumQueuedMessages = 2
        configuration.maximumInFlight = 1
        let table = BrokerTable(configuration)
        let subscriber = table.client("s")
        subscriber.subscribe("t")
        let publisher = table.client("p")
        for number in 1...5 {
            publisher.publish("t", "\(number)", qos: .atLeastOnce, packetIdentifier: UInt16(number))
        }
        for number in 1...3 {
            #expect(subscriber.payloads() == ["\(number)"])
            subscriber.send(.puback(ack(UInt16(number))))
        }
        #expect(subscriber.taken().isEmpty)
        #expect(table.core.droppedMessages == 2)
    }

    @Test func the_bytes_queued_for_a_session_are_limited() {
        var configuration = BrokerConfiguration()
        configuration.maximumQueuedBytes = 10
        let table = BrokerTable(configuration)
        let subscriber = table.client("s", expiry: 100)
        subscriber.subscribe("t")
        subscriber.drop()
        let publisher = table.client("p")
        for (number, size) in [(1, 100), (2, 1)] {
            publisher.publish(
                "t", String(repeating: "x", count: size), qos: .atLeastOnce,
                packetIdentifier: UInt16(number))
        }
        let again = table.client("s", cleanStart: false)
        #expect(again.messages().map(\.payload.count) == [100])
    }

    @Test func expired_messages_are_not_sent_from_the_queue() {
        let table = BrokerTable()
        let subscriber = table.client("s", expiry: 100)
        subscriber.subscribe("t")
        subscriber.drop()
        let publisher = table.client("p")
        publisher.publish(
            "t", "1", qos: .atLeastOnce, packetIdentifier: 1, properties: [.messageExpiryInterval(5)])
        publisher.publish(
            "t", "2", qos: .atLeastOnce, packetIdentifier: 2, properties: [.messageExpiryInterval(50)])
        table.pass(.seconds(5))
        let again = table.client("s", cleanStart: false)
        let messages = again.messages()
        #expect(messages.map(\.payload) == [[0x32]])
        #expect(messages.map(\.properties.entries) == [[.messageExpiryInterval(45)]])
    }

    @Test func a_client_that_does_not_read_loses_QoS_0_and_gets_the_rest_later() {
        var configuration = BrokerConfiguration()
        configuration.maximumOutputBytes = 100
        let table = BrokerTable(configuration)
        let subscriber = table.client("s")
        subscriber.subscribe("t")
        let publisher = table.client("p")
        subscriber.isReading = false
        for number in 1...20 {
            publisher.publish("t", "QoS 0 of twenty bytes")
            publisher.publish("t", "\(number)", qos: .atLeastOnce, packetIdentifier: UInt16(number))
        }
        subscriber.isReading = true
        subscriber.send(.pingreq)
        let kept = subscriber.taken().compactMap { packet -> [UInt8]? in
            guard case .publish(let publish) = packet, publish.qos == .atLeastOnce else { return nil }
            return publish.payload
        }
        #expect(kept == (1...20).map { Array("\($0)".utf8) })
        #expect(table.core.droppedMessages > 10)
        #expect(!subscriber.isClosed)
    }

    @Test func a_client_that_asks_but_never_reads_is_ended() {
        var configuration = BrokerConfiguration()
        configuration.maximumOutputBytes = 100
        let table = BrokerTable(configuration)
        let will = Will(topicName: "w", payload: [1])
        let client = table.client("a", will: will)
        let watcher = table.client("watcher")
        watcher.subscribe("w")
        client.isReading = false
        for _ in 0..<150 { client.send(.pingreq) }
        #expect(watcher.messages().count == 1)
        client.isReading = true
        table.core.receive(.pingreq, from: client.id, now: table.now)
        var bytes: [UInt8] = []
        #expect(table.core.takeOutput(of: client.id, now: table.now, into: &bytes) == .close)
        #expect(bytes.isEmpty)
    }

    @Test func packet_identifiers_go_round_without_meeting_one_in_use() {
        let table = BrokerTable()
        let subscriber = table.client("s")
        subscriber.subscribe("t")
        let publisher = table.client("p")
        func next() -> UInt16? {
            publisher.publish("t", "x", qos: .atLeastOnce, packetIdentifier: 1)
            _ = publisher.taken()
            return subscriber.messages().first?.packetIdentifier
        }
        #expect(next() == 1)
        for expected in UInt16(2)...65535 {
            guard next() == expected else {
                Issue.record("expected \(expected)")
                return
            }
            subscriber.send(.puback(ack(expected)))
        }
        #expect(next() == 2, "1 is still in use")
    }
}

extension ControlPacket {
    fileprivate var packetIdentifier: UInt16? {
        switch self {
        case .publish(let publish): publish.packetIdentifier
        case .pubrel(let pubrel): pubrel.packetIdentifier
        default: nil
        }
    }
}
