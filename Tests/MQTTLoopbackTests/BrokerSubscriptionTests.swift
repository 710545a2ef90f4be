import MQTTCore
import MQTTLoopback
import Testing

@Suite struct BrokerSubscriptionTests {
    @Test func a_PUBLISH_at_QoS_0_is_passed_on_byte_for_byte() {
        let table = BrokerTable()
        let old = table.client("old", .v3_1_1)
        let new = table.client("new")
        old.subscribe("a/b")
        new.subscribe("a/b")
        (old.bytes, new.bytes) = ([], [])
        new.publish(
            "a/b", "hi", properties: [.contentType("t"), .topicAlias(1), .payloadFormatIndicator(1)])
        #expect(old.bytes == [0x30, 0x07, 0x00, 0x03, 0x61, 0x2F, 0x62, 0x68, 0x69])
        #expect(
            new.bytes == [
                0x30, 0x0E, 0x00, 0x03, 0x61, 0x2F, 0x62, 0x06, 0x03, 0x00, 0x01, 0x74, 0x01, 0x01, 0x68,
                0x69,
            ])
    }

    @Test(arguments: [
        ("a/+/c", ["a/b/c": true, "a/c": false, "a/b/d/c": false]),
        ("a/#", ["a": true, "a/b": true, "a/b/c": true, "b": false]),
        ("#", ["a": true, "/": true, "$SYS/x": false]),
        ("+/x", ["a/x": true, "$SYS/x": false, "/x": true]),
        ("$SYS/#", ["$SYS/x": true, "a": false]),
        ("+", ["a": true, "": false, "a/b": false]),
    ])
    func wildcards_match_as_section_4_7_says(_ filter: String, _ topics: [String: Bool]) {
        let table = BrokerTable()
        let subscriber = table.client("s")
        let publisher = table.client("p")
        subscriber.subscribe(filter)
        for (topic, matches) in topics where !topic.isEmpty {
            publisher.publish(topic, topic)
            #expect(subscriber.payloads() == (matches ? [topic] : []))
        }
    }

    @Test(arguments: [
        (QoS.atMostOnce, QoS.exactlyOnce, QoS.atMostOnce), (.atLeastOnce, .exactlyOnce, .atLeastOnce),
        (.exactlyOnce, .exactlyOnce, .exactlyOnce), (.exactlyOnce, .atLeastOnce, .atLeastOnce),
        (.exactlyOnce, .atMostOnce, .atMostOnce),
    ])
    func the_lower_QoS_of_publisher_and_subscription_counts(
        _ published: QoS, _ granted: QoS, _ expected: QoS
    ) {
        let table = BrokerTable()
        let subscriber = table.client("s")
        subscriber.subscribe("t", SubscriptionOptions(qos: granted))
        table.client("p").publish(
            "t", "x", qos: published, packetIdentifier: published == .atMostOnce ? nil : 1)
        #expect(subscriber.messages().map(\.qos) == [expected])
    }

    @Test func overlapping_subscriptions_give_one_copy_with_all_identifiers() {
        let table = BrokerTable()
        let subscriber = table.client("s")
        subscriber.subscribe("a/#", SubscriptionOptions(qos: .atMostOnce), identifier: 7)
        subscriber.subscribe("a/b", SubscriptionOptions(qos: .atLeastOnce), identifier: 8)
        subscriber.subscribe("+/b", SubscriptionOptions(qos: .atMostOnce))
        table.client("p").publish("a/b", "x", qos: .exactlyOnce, packetIdentifier: 1)
        let messages = subscriber.messages()
        #expect(messages.map(\.qos) == [.atLeastOnce])
        let identifiers = messages.flatMap(\.properties.entries).compactMap { property -> UInt32? in
            guard case .subscriptionIdentifier(let identifier) = property else { return nil }
            return identifier
        }
        #expect(identifiers.sorted() == [7, 8])
    }

    @Test func subscribing_again_replaces_the_subscription() {
        let table = BrokerTable()
        let subscriber = table.client("s")
        subscriber.subscribe("t", SubscriptionOptions(qos: .exactlyOnce))
        subscriber.subscribe("t", SubscriptionOptions(qos: .atMostOnce))
        table.client("p").publish("t", "x", qos: .atLeastOnce, packetIdentifier: 1)
        #expect(subscriber.messages().map(\.qos) == [.atMostOnce])
    }

    @Test func the_No_Local_option_keeps_a_clients_own_messages_away() {
        let table = BrokerTable()
        let one = table.client("one")
        let two = table.client("two")
        one.subscribe("t", SubscriptionOptions(qos: .atMostOnce, noLocal: true))
        one.publish("t", "own")
        two.publish("t", "other")
        #expect(one.payloads() == ["other"])
    }

    @Test func an_UNSUBSCRIBE_ends_a_subscription() {
        let table = BrokerTable()
        let subscriber = table.client("s")
        let publisher = table.client("p")
        subscriber.subscribe("a/#")
        subscriber.subscribe("a/b")
        subscriber.send(
            .unsubscribe(Unsubscribe(packetIdentifier: 5, topicFilters: ["a/#", "a/b", "none", "a#"])))
        #expect(
            subscriber.taken() == [
                .unsuback(
                    Unsuback(
                        packetIdentifier: 5,
                        reasonCodes: [.success, .success, .noSubscriptionExisted, .topicFilterInvalid]))
            ])
        publisher.publish("a/b", "x")
        #expect(subscriber.taken().isEmpty)
        let old = table.client("old", .v3_1_1)
        old.bytes = []
        old.send(.unsubscribe(Unsubscribe(packetIdentifier: 5, topicFilters: ["none"])))
        #expect(old.bytes == [0xB0, 0x02, 0x00, 0x05])
    }

    @Test(arguments: ["a/#/b", "a#", "+a", "$share/g", "$share//t", "$share/g/", "$share/g+/t"])
    func an_invalid_filter_is_refused_by_itself(_ filter: String) {
        let table = BrokerTable()
        func subscribe(_ client: TableClient) {
            client.send(
                .subscribe(
                    Subscribe(
                        packetIdentifier: 1,
                        subscriptions: [
                            .init(topicFilter: filter, options: SubscriptionOptions(qos: .atMostOnce)),
                            .init(topicFilter: "ok", options: SubscriptionOptions(qos: .atLeastOnce)),
                        ])))
        }
        let new = table.client("new")
        subscribe(new)
        #expect(
            new.taken() == [
                .suback(Suback(packetIdentifier: 1, reasonCodes: [.topicFilterInvalid, .grantedQoS1]))
            ])
        let old = table.client("old", .v3_1_1)
        old.bytes = []
        subscribe(old)
        #expect(old.bytes == [0x90, 0x04, 0x00, 0x01, 0x80, 0x01])
    }

    @Test func what_is_not_available_is_refused_with_its_reason() {
        var configuration = BrokerConfiguration()
        configuration.maximumQoS = .atLeastOnce
        configuration.wildcardSubscriptionsAvailable = false
        configuration.sharedSubscriptionsAvailable = false
        configuration.subscriptionIdentifiersAvailable = false
        configuration.maximumSubscriptionsPerSession = 1
        let client = BrokerTable(configuration).client("s")
        client.send(
            .subscribe(
                Subscribe(
                    packetIdentifier: 1,
                    subscriptions: ["t", "t/+", "$share/g/t", "u", "t"].map {
                        .init(topicFilter: $0, options: SubscriptionOptions(qos: .exactlyOnce))
                    })))
        #expect(
            client.taken() == [
                .suback(
                    Suback(
                        packetIdentifier: 1,
                        reasonCodes: [
                            .grantedQoS1, .wildcardSubscriptionsNotSupported,
                            .sharedSubscriptionsNotSupported, .quotaExceeded, .grantedQoS1,
                        ]))
            ])
        client.send(
            .subscribe(
                Subscribe(
                    packetIdentifier: 2,
                    subscriptions: [.init(topicFilter: "t", options: SubscriptionOptions())],
                    properties: Properties([.subscriptionIdentifier(1)]))))
        #expect(
            client.taken() == [.disconnect(Disconnect(reasonCode: .subscriptionIdentifiersNotSupported))])
    }

    // MARK: Shared subscriptions (section 4.8.2)

    @Test func a_shared_subscription_goes_round() {
        let table = BrokerTable()
        let members = ["a", "b", "c"].map { table.client($0) }
        for member in members { member.subscribe("$share/g/t/+") }
        let other = table.client("other")
        other.subscribe("$share/h/t/+")
        let publisher = table.client("p")
        for number in 0..<6 { publisher.publish("t/x", "\(number)") }
        #expect(members.map { $0.payloads() } == [["0", "3"], ["1", "4"], ["2", "5"]])
        #expect(other.payloads() == ["0", "1", "2", "3", "4", "5"])
    }

    @Test func a_member_that_is_away_is_passed_over_while_another_is_there() {
        let table = BrokerTable()
        let away = table.client("away", expiry: 100)
        let here = table.client("here", expiry: 100)
        away.subscribe("$share/g/t")
        here.subscribe("$share/g/t")
        away.drop()
        let publisher = table.client("p")
        for number in 1...3 {
            publisher.publish("t", "\(number)", qos: .atLeastOnce, packetIdentifier: UInt16(number))
        }
        #expect(here.payloads() == ["1", "2", "3"])
        here.drop()
        publisher.publish("t", "4", qos: .atLeastOnce, packetIdentifier: 4)
        publisher.publish("t", "lost")
        let again = table.client("away", cleanStart: false)
        #expect(again.payloads() == ["4"])
    }

    @Test func a_No_Local_option_on_a_shared_subscription_is_a_protocol_error() {
        let client = BrokerTable().client("a")
        client.send(
            .subscribe(
                Subscribe(
                    packetIdentifier: 1,
                    subscriptions: [
                        .init(
                            topicFilter: "$share/g/t",
                            options: SubscriptionOptions(qos: .atMostOnce, noLocal: true))
                    ])))
        #expect(client.taken() == [.disconnect(Disconnect(reasonCode: .protocolError))])
    }

    // MARK: Retained messages (section 3.3.1.3)

    @Test func retained_messages_reach_new_subscribers() {
        let table = BrokerTable()
        let publisher = table.client("p")
        publisher.publish("r/1", "one", qos: .exactlyOnce, retain: true, packetIdentifier: 1)
        publisher.publish("r/2", "old", retain: true)
        publisher.publish("r/2", "two", retain: true)
        publisher.publish("r/3", "not retained")
        for version in ProtocolVersion.allCases {
            let subscriber = table.client("s", version)
            subscriber.subscribe("r/+", SubscriptionOptions(qos: .atLeastOnce), identifier: 3)
            let messages = subscriber.messages()
            #expect(messages.map { String(decoding: $0.payload, as: UTF8.self) } == ["one", "two"])
            #expect(messages.map(\.retain) == [true, true])
            #expect(messages.map(\.qos) == [.atLeastOnce, .atMostOnce])
            let identified = messages.map { $0.properties.entries == [.subscriptionIdentifier(3)] }
            #expect(identified == (version == .v5 ? [true, true] : [false, false]))
        }
    }

    @Test func an_empty_payload_deletes_the_retained_message() {
        let table = BrokerTable()
        let publisher = table.client("p")
        let here = table.client("here")
        here.subscribe("t", SubscriptionOptions(qos: .atMostOnce, retainAsPublished: true))
        publisher.publish("t", "x", retain: true)
        publisher.publish("t", "", retain: true)
        #expect(here.messages().map(\.payload) == [[0x78], []])
        let later = table.client("later")
        later.subscribe("t")
        #expect(later.taken().isEmpty)
    }

    @Test func the_RETAIN_flag_is_kept_only_where_asked_for() {
        let table = BrokerTable()
        let plain = table.client("plain")
        let asPublished = table.client("as published")
        let old = table.client("old", .v3_1_1)
        plain.subscribe("t", SubscriptionOptions(qos: .atMostOnce))
        old.subscribe("t", SubscriptionOptions(qos: .atMostOnce))
        asPublished.subscribe("t", SubscriptionOptions(qos: .atMostOnce, retainAsPublished: true))
        plain.publish("t", "x", retain: true)
        plain.publish("t", "y")
        #expect(plain.messages().map(\.retain) == [false, false])
        #expect(old.messages().map(\.retain) == [false, false])
        #expect(asPublished.messages().map(\.retain) == [true, false])
    }

    @Test func the_Retain_Handling_option_says_when_retained_messages_are_sent() {
        let table = BrokerTable()
        table.client("p").publish("t", "x", retain: true)
        let client = table.client("s")
        client.subscribe("t", SubscriptionOptions(qos: .atMostOnce, retainHandling: .doNotSend))
        #expect(client.payloads() == [])
        client.subscribe("t", SubscriptionOptions(qos: .atMostOnce, retainHandling: .sendIfNewSubscription))
        #expect(client.payloads() == [])
        client.subscribe("t", SubscriptionOptions(qos: .atMostOnce, retainHandling: .sendAtSubscribe))
        #expect(client.payloads() == ["x"])
        client.subscribe("#", SubscriptionOptions(qos: .atMostOnce, retainHandling: .sendIfNewSubscription))
        #expect(client.payloads() == ["x"])
        client.subscribe("$share/g/t", SubscriptionOptions(qos: .atMostOnce))
        #expect(client.payloads() == [])
    }

    @Test func messages_expire() {
        let table = BrokerTable()
        let publisher = table.client("p")
        publisher.publish("t", "x", retain: true, properties: [.messageExpiryInterval(10)])
        table.pass(.seconds(4))
        let client = table.client("s")
        client.subscribe("t")
        #expect(client.messages().map(\.properties.entries) == [[.messageExpiryInterval(6)]])
        table.pass(.seconds(6))
        client.subscribe("t")
        client.subscribe("#")
        #expect(client.taken().isEmpty)
    }

    @Test func retained_messages_are_limited() {
        var configuration = BrokerConfiguration()
        configuration.maximumRetainedMessages = 1
        let client = BrokerTable(configuration).client("a")
        client.publish("a", "x", qos: .atLeastOnce, retain: true, packetIdentifier: 1)
        client.publish("b", "x", qos: .atLeastOnce, retain: true, packetIdentifier: 2)
        client.publish("a", "y", qos: .atLeastOnce, retain: true, packetIdentifier: 3)
        #expect(
            client.taken() == [
                .puback(ack(1, .noMatchingSubscribers)), .puback(ack(2, .quotaExceeded)),
                .puback(ack(3, .noMatchingSubscribers)),
            ])
    }

    @Test func the_owner_publishes_too() {
        let table = BrokerTable()
        let client = table.client("a")
        client.subscribe("t")
        table.core.publish(Publish(topicName: "t", payload: [1], retain: true), now: table.now)
        table.deliver()
        #expect(client.messages() == [Publish(topicName: "t", payload: [1])])
    }

    /// "é" as one character and as "e" with a combining accent: equal for Swift, different for MQTT
    /// [MQTT-4.7.3-4].
    @Test func names_that_differ_in_bytes_are_different() {
        let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
        let table = BrokerTable()
        let one = table.client(composed)
        let two = table.client(decomposed)
        #expect(!one.isClosed)
        one.publish(composed, "1", retain: true)
        two.publish(decomposed, "2", retain: true)
        one.subscribe(composed)
        #expect(one.payloads() == ["1"])
        one.subscribe(decomposed)
        #expect(one.payloads() == ["2"])
        one.send(.unsubscribe(Unsubscribe(packetIdentifier: 1, topicFilters: [composed])))
        _ = one.taken()
        two.publish(composed, "3")
        two.publish(decomposed, "4")
        #expect(one.payloads() == ["4"])
    }
}
