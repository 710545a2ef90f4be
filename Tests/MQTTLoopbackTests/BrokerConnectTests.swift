import MQTTCore
import MQTTLoopback
import Testing

@Suite struct BrokerConnectTests {
    @Test func a_CONNACK_of_3_1_1_is_four_bytes() {
        let client = BrokerTable().connecting(Connect(version: .v3_1_1, clientIdentifier: "a"))
        #expect(client.bytes == [0x20, 0x02, 0x00, 0x00])
    }

    @Test func a_CONNACK_of_5_0_tells_the_limits() {
        var configuration = BrokerConfiguration()
        configuration.receiveMaximum = 2
        configuration.maximumQoS = .atLeastOnce
        configuration.retainAvailable = false
        configuration.maximumPacketSize = 1024
        configuration.topicAliasMaximum = 3
        configuration.wildcardSubscriptionsAvailable = false
        configuration.subscriptionIdentifiersAvailable = false
        configuration.sharedSubscriptionsAvailable = false
        configuration.serverKeepAlive = 7
        let client = BrokerTable(configuration).connecting(Connect(clientIdentifier: "a"))
        #expect(
            client.bytes == [
                0x20, 0x1B, 0x00, 0x00, 0x18,
                0x21, 0x00, 0x02,  // Receive Maximum
                0x24, 0x01,  // Maximum QoS
                0x25, 0x00,  // Retain Available
                0x27, 0x00, 0x00, 0x04, 0x00,  // Maximum Packet Size
                0x22, 0x00, 0x03,  // Topic Alias Maximum
                0x28, 0x00, 0x29, 0x00, 0x2A, 0x00,  // wildcards, identifiers, shared subscriptions
                0x13, 0x00, 0x07,  // Server Keep Alive
            ])
    }

    @Test func a_client_without_identifier_is_given_one() {
        let table = BrokerTable()
        let one = table.client("")
        let two = table.client("")
        #expect(one.connack.properties.entries.contains(.assignedClientIdentifier("loopback-1")))
        #expect(two.connack.properties.entries.contains(.assignedClientIdentifier("loopback-2")))
        #expect(!one.isClosed)
    }

    @Test func a_3_1_1_client_without_identifier_needs_a_clean_session() {
        let client = BrokerTable().connecting(
            Connect(version: .v3_1_1, clientIdentifier: "", cleanStart: false))
        #expect(client.bytes == [0x20, 0x02, 0x00, 0x02])
        #expect(client.isClosed)
    }

    @Test func the_first_packet_is_CONNECT_or_the_connection_ends_in_silence() {
        let client = BrokerTable().open()
        client.send(.pingreq)
        #expect(client.isClosed)
        #expect(client.bytes.isEmpty)
    }

    @Test func the_CONNECT_has_to_come_in_time() {
        let table = BrokerTable()
        let client = table.open()
        table.pass(.milliseconds(9999))
        #expect(!client.isClosed)
        table.pass(.milliseconds(1))
        #expect(client.isClosed)
        #expect(client.bytes.isEmpty)
    }

    @Test func a_second_CONNECT_is_a_protocol_error() {
        let client = BrokerTable().client("a")
        client.send(.connect(Connect(clientIdentifier: "a")))
        #expect(client.taken() == [.disconnect(Disconnect(reasonCode: .protocolError))])
        #expect(client.isClosed)
    }

    @Test(arguments: [
        ControlPacket.auth(Auth(reasonCode: .reAuthenticate)),
        .connack(Connack(sessionPresent: false)),
        .suback(Suback(packetIdentifier: 1, reasonCodes: [.success])),
        .unsuback(Unsuback(packetIdentifier: 1, reasonCodes: [.success])),
        .pingresp,
    ])
    func what_a_client_may_not_send_ends_the_connection(_ packet: ControlPacket) {
        let client = BrokerTable().client("a")
        client.send(packet)
        #expect(client.taken() == [.disconnect(Disconnect(reasonCode: .protocolError))])
        #expect(client.isClosed)
    }

    @Test func extended_authentication_is_refused() {
        let client = BrokerTable().connecting(
            Connect(clientIdentifier: "a", properties: Properties([.authenticationMethod("SCRAM")])))
        #expect(client.bytes == [0x20, 0x03, 0x00, 0x8C, 0x00])
        #expect(client.isClosed)
    }

    // MARK: User names and passwords

    static let guarded: BrokerConfiguration = {
        var configuration = BrokerConfiguration()
        configuration.users = [.init(name: "ada", password: "lovelace")]
        configuration.allowsAnonymous = false
        return configuration
    }()

    @Test(arguments: [ProtocolVersion.v3_1_1, .v5])
    func the_right_password_is_let_in(_ version: ProtocolVersion) {
        let client = BrokerTable(Self.guarded).connecting(
            Connect(
                version: version, clientIdentifier: "a", userName: "ada",
                password: Array("lovelace".utf8)))
        #expect(client.bytes[3] == 0)
        #expect(!client.isClosed)
    }

    @Test(arguments: [
        ("ada", "wrong" as String?), ("ada", nil), ("ada", "lovelac"), ("bob", "lovelace"), ("", nil),
    ])
    func a_wrong_password_is_refused(_ name: String, _ password: String?) {
        let table = BrokerTable(Self.guarded)
        let bytes = password.map { Array($0.utf8) }
        let old = table.connecting(
            Connect(version: .v3_1_1, clientIdentifier: "a", userName: name, password: bytes))
        #expect(old.bytes == [0x20, 0x02, 0x00, 0x04])
        #expect(old.isClosed)
        let new = table.connecting(Connect(clientIdentifier: "a", userName: name, password: bytes))
        #expect(new.bytes == [0x20, 0x03, 0x00, 0x86, 0x00])
        #expect(new.isClosed)
    }

    @Test func nobody_without_a_name_is_let_in_where_names_are_asked_for() {
        let table = BrokerTable(Self.guarded)
        let old = table.connecting(Connect(version: .v3_1_1, clientIdentifier: "a"))
        #expect(old.bytes == [0x20, 0x02, 0x00, 0x05])
        let new = table.connecting(Connect(clientIdentifier: "a"))
        #expect(new.bytes == [0x20, 0x03, 0x00, 0x87, 0x00])
    }

    @Test func a_refused_CONNECT_takes_nobody_over() {
        var configuration = Self.guarded
        configuration.allowsAnonymous = true
        let table = BrokerTable(configuration)
        let first = table.client("a")
        let second = table.connecting(Connect(clientIdentifier: "a", userName: "ada"))
        #expect(second.isClosed)
        #expect(!first.isClosed)
    }

    @Test func a_user_stays_within_the_allowed_topics() {
        var configuration = BrokerConfiguration()
        configuration.users = [.init(name: "u", password: "p", allowedTopics: ["own/#", "shared/+"])]
        let table = BrokerTable(configuration)
        let all = table.client("all")
        all.subscribe("#")
        let user = table.connecting(
            Connect(clientIdentifier: "u", userName: "u", password: Array("p".utf8)))
        _ = user.taken()
        let filters = ["own/#", "own/a", "shared/x", "shared/+", "shared/#", "#", "other", "+/x"]
        user.send(
            .subscribe(
                Subscribe(
                    packetIdentifier: 1,
                    subscriptions: filters.map {
                        .init(topicFilter: $0, options: SubscriptionOptions(qos: .atMostOnce))
                    })))
        #expect(
            user.taken() == [
                .suback(
                    Suback(
                        packetIdentifier: 1,
                        reasonCodes: [
                            .success, .success, .success, .success, .notAuthorized, .notAuthorized,
                            .notAuthorized, .notAuthorized,
                        ]))
            ])
        user.publish("other", "x", qos: .atLeastOnce, packetIdentifier: 1)
        user.publish("other", "x", qos: .exactlyOnce, packetIdentifier: 2)
        #expect(user.taken() == [.puback(ack(1, .notAuthorized)), .pubrec(ack(2, .notAuthorized))])
        user.publish("shared/y", "yes")
        #expect(all.payloads() == ["yes"])
    }

    // MARK: Unacceptable input

    @Test(arguments: [
        (DecodeError.publishQoS3, ReasonCode.malformedPacket),
        (.packetTooLarge(size: 9, maximum: 8), .packetTooLarge),
        (.emptyTopicName, .protocolError),
        (.propertyValueOutOfRange(.topicAlias), .topicAliasInvalid),
    ])
    func undecodable_packets_end_the_connection_with_their_reason(
        _ error: DecodeError, _ reason: ReasonCode
    ) {
        let table = BrokerTable()
        let new = table.client("new")
        new.reject(error)
        #expect(new.taken() == [.disconnect(Disconnect(reasonCode: reason))])
        #expect(new.isClosed)
        let old = table.client("old", .v3_1_1)
        old.reject(error)
        #expect(old.taken().isEmpty)
        #expect(old.isClosed)
    }

    @Test func an_unknown_protocol_level_is_refused_in_the_form_of_its_age() {
        let old = BrokerTable().open(.v3_1_1)
        old.reject(.unsupportedProtocolLevel(3))
        #expect(old.bytes == [0x20, 0x02, 0x00, 0x01])
        #expect(old.isClosed)
        let new = BrokerTable().open()
        new.reject(.unsupportedProtocolLevel(6))
        #expect(new.bytes == [0x20, 0x03, 0x00, 0x84, 0x00])
        #expect(new.isClosed)
    }

    @Test func a_CONNECT_that_cannot_be_read_gets_no_answer() {
        let client = BrokerTable().open()
        client.reject(.reservedConnectFlag)
        #expect(client.bytes.isEmpty)
        #expect(client.isClosed)
    }

    @Test func input_after_the_end_is_ignored() {
        let table = BrokerTable()
        let client = table.client("a")
        table.core.receive(.disconnect(Disconnect()), from: client.id, now: table.now)
        table.core.receive(.pingreq, from: client.id, now: table.now)
        table.core.reject(.publishQoS3, from: client.id, now: table.now)
        table.deliver()
        #expect(client.taken().isEmpty)
        #expect(client.isClosed)
        client.send(.pingreq)
        #expect(client.taken().isEmpty)
    }

    @Test func connections_and_sessions_are_limited() {
        var configuration = BrokerConfiguration()
        configuration.maximumConnections = 2
        configuration.maximumSessions = 1
        let table = BrokerTable(configuration)
        _ = table.client("a")
        let second = table.connecting(Connect(clientIdentifier: "b"))
        #expect(second.bytes == [0x20, 0x03, 0x00, 0x97, 0x00])
        _ = table.open()
        let third = table.connecting(Connect(version: .v3_1_1, clientIdentifier: "c"))
        #expect(third.bytes == [0x20, 0x02, 0x00, 0x03])
        #expect(third.isClosed)
    }

    // MARK: Keep-alive (section 3.1.2.10)

    @Test func a_silent_client_is_ended_after_one_and_a_half_times_its_keep_alive() {
        let table = BrokerTable()
        let client = table.client("a", keepAlive: 10)
        table.pass(.seconds(10))
        client.send(.pingreq)
        #expect(client.taken() == [.pingresp])
        table.pass(.milliseconds(14_999))
        #expect(!client.isClosed)
        table.pass(.milliseconds(1))
        #expect(client.taken() == [.disconnect(Disconnect(reasonCode: .keepAliveTimeout))])
        #expect(client.isClosed)
    }

    @Test func the_deadline_is_told() throws {
        let table = BrokerTable()
        _ = table.client("a", keepAlive: 10)
        table.pass(.seconds(10))
        #expect(table.core.nextDeadline == table.now + .seconds(5))
    }

    @Test func without_keep_alive_a_client_may_be_silent() {
        let table = BrokerTable()
        let client = table.client("a", keepAlive: 0)
        table.pass(.seconds(1_000_000))
        #expect(!client.isClosed)
    }

    @Test func a_Server_Keep_Alive_replaces_the_clients_own() {
        var configuration = BrokerConfiguration()
        configuration.serverKeepAlive = 2
        let table = BrokerTable(configuration)
        let new = table.client("new", keepAlive: 60)
        let old = table.client("old", .v3_1_1, keepAlive: 60)
        table.pass(.seconds(3))
        #expect(new.isClosed)
        #expect(!old.isClosed)
    }

    @Test func shut_down_tells_everybody() {
        let table = BrokerTable()
        let new = table.client("new")
        let old = table.client("old", .v3_1_1)
        let early = table.open()
        table.core.shutDown(now: table.now)
        table.deliver()
        #expect(new.taken() == [.disconnect(Disconnect(reasonCode: .serverShuttingDown))])
        #expect(old.taken().isEmpty)
        #expect(new.isClosed && old.isClosed && early.isClosed)
    }
}
