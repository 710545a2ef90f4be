import MQTTCore
import MQTTLoopback
import Testing

/// Sessions, take-over and wills.
@Suite struct BrokerSessionTests {
    // MARK: Sessions (section 4.1)

    @Test func a_5_0_session_lives_as_long_as_its_expiry_interval() {
        let table = BrokerTable()
        let client = table.client("s", expiry: 10)
        client.subscribe("t")
        client.drop()
        table.pass(.milliseconds(9999))
        let second = table.client("s", cleanStart: false, expiry: 10)
        #expect(second.connack.sessionPresent)
        table.client("p").publish("t", "x")
        #expect(second.payloads() == ["x"])
        second.drop()
        table.pass(.seconds(10))
        let third = table.client("s", cleanStart: false)
        #expect(!third.connack.sessionPresent)
        table.client("p").publish("t", "x")
        #expect(third.taken().isEmpty)
    }

    @Test func without_expiry_interval_a_5_0_session_ends_with_its_connection() {
        let table = BrokerTable()
        table.client("s").drop()
        #expect(!table.client("s", cleanStart: false).connack.sessionPresent)
    }

    @Test func an_endless_session_never_expires() {
        let table = BrokerTable()
        table.client("s", expiry: 0xFFFF_FFFF).drop()
        table.pass(.seconds(10_000_000_000))
        #expect(table.client("s", cleanStart: false).connack.sessionPresent)
    }

    @Test func a_3_1_1_session_outlives_its_connection_unless_clean() {
        let table = BrokerTable()
        table.client("kept", .v3_1_1, cleanStart: false).drop()
        table.client("clean", .v3_1_1, cleanStart: true).drop()
        #expect(table.client("kept", .v3_1_1, cleanStart: false).connack.sessionPresent)
        #expect(!table.client("clean", .v3_1_1, cleanStart: false).connack.sessionPresent)
    }

    @Test func a_Clean_Start_forgets_the_session() {
        let table = BrokerTable()
        let first = table.client("s", expiry: 100)
        first.subscribe("t")
        first.drop()
        table.client("p").publish("t", "x", qos: .atLeastOnce, packetIdentifier: 1)
        let second = table.client("s", cleanStart: true, expiry: 100)
        #expect(!second.connack.sessionPresent)
        table.client("p").publish("t", "y", qos: .atLeastOnce, packetIdentifier: 1)
        #expect(second.taken().isEmpty)
    }

    @Test func a_session_changes_version_with_its_client() {
        let table = BrokerTable()
        let old = table.client("s", .v3_1_1, cleanStart: false)
        old.subscribe("t")
        old.drop()
        table.client("p").publish(
            "t", "x", qos: .atLeastOnce, packetIdentifier: 1, properties: [.contentType("t")])
        let new = table.client("s", .v5, cleanStart: false)
        #expect(new.connack.sessionPresent)
        #expect(new.messages().map(\.properties.entries) == [[.contentType("t")]])
    }

    @Test func the_expiry_interval_granted_is_told_where_it_is_lower() {
        var configuration = BrokerConfiguration()
        configuration.maximumSessionExpiry = 5
        let table = BrokerTable(configuration)
        let client = table.client("s", expiry: 10)
        #expect(client.connack.properties.entries.contains(.sessionExpiryInterval(5)))
        client.drop()
        table.pass(.seconds(5))
        #expect(!table.client("s", cleanStart: false).connack.sessionPresent)
    }

    @Test func a_DISCONNECT_changes_the_expiry_interval() {
        let table = BrokerTable()
        let leaving = Disconnect(properties: Properties([.sessionExpiryInterval(0)]))
        let first = table.client("s", expiry: 100)
        first.send(.disconnect(leaving))
        #expect(first.isClosed)
        #expect(!table.client("s", cleanStart: false).connack.sessionPresent)
        let staying = Disconnect(properties: Properties([.sessionExpiryInterval(9)]))
        let second = table.client("t", expiry: 100)
        second.send(.disconnect(staying))
        #expect(table.client("t", cleanStart: false, expiry: 0).connack.sessionPresent)
    }

    @Test func a_DISCONNECT_may_not_revive_a_session_that_was_to_end() {
        let table = BrokerTable()
        let client = table.client("s")
        client.send(.disconnect(Disconnect(properties: Properties([.sessionExpiryInterval(9)]))))
        #expect(client.taken() == [.disconnect(Disconnect(reasonCode: .protocolError))])
        #expect(client.isClosed)
    }

    // MARK: Take-over (section 3.1.4)

    @Test func a_second_connection_takes_the_session_over() {
        let table = BrokerTable()
        let first = table.client("s", expiry: 100)
        first.subscribe("t")
        let second = table.client("s", cleanStart: false, expiry: 100)
        #expect(first.taken() == [.disconnect(Disconnect(reasonCode: .sessionTakenOver))])
        #expect(first.isClosed)
        #expect(second.connack.sessionPresent)
        table.client("p").publish("t", "x")
        #expect(second.payloads() == ["x"])
        #expect(!second.isClosed)
    }

    @Test func a_3_1_1_client_is_taken_over_in_silence() {
        let table = BrokerTable()
        let first = table.client("s", .v3_1_1)
        let second = table.client("s", .v3_1_1)
        #expect(first.taken().isEmpty)
        #expect(first.isClosed)
        #expect(!second.isClosed)
    }

    @Test func a_will_is_published_at_take_over() {
        let table = BrokerTable()
        let watcher = table.client("watcher")
        watcher.subscribe("w")
        _ = table.client("s", expiry: 100, will: Will(topicName: "w", payload: [1]))
        _ = table.client("s", cleanStart: false, expiry: 100)
        #expect(watcher.messages().map(\.payload) == [[1]])
    }

    // MARK: Wills (section 3.1.2.5)

    static let offline = Will(topicName: "w", payload: Array("off".utf8), qos: .atLeastOnce, retain: true)

    @Test(arguments: ProtocolVersion.allCases)
    func a_will_is_published_when_the_network_goes_away(_ version: ProtocolVersion) {
        let table = BrokerTable()
        let watcher = table.client("watcher")
        watcher.subscribe("w")
        table.client("s", version, will: Self.offline).drop()
        let messages = watcher.messages()
        #expect(messages.map(\.payload) == [Array("off".utf8)])
        #expect(messages.map(\.qos) == [.atLeastOnce])
        let later = table.client("later")
        later.subscribe("w")
        #expect(later.messages().map(\.retain) == [true])
    }

    @Test(arguments: ProtocolVersion.allCases)
    func a_clean_DISCONNECT_discards_the_will(_ version: ProtocolVersion) {
        let table = BrokerTable()
        let watcher = table.client("watcher")
        watcher.subscribe("w")
        let client = table.client("s", version, will: Self.offline)
        client.send(.disconnect(Disconnect()))
        #expect(client.isClosed)
        client.drop()
        #expect(watcher.taken().isEmpty)
    }

    @Test(arguments: [ReasonCode.disconnectWithWillMessage, .unspecifiedError])
    func a_DISCONNECT_with_another_reason_publishes_the_will(_ reason: ReasonCode) {
        let table = BrokerTable()
        let watcher = table.client("watcher")
        watcher.subscribe("w")
        table.client("s", will: Self.offline).send(.disconnect(Disconnect(reasonCode: reason)))
        #expect(watcher.payloads() == ["off"])
    }

    @Test func protocol_errors_and_silence_publish_the_will() {
        let table = BrokerTable()
        let watcher = table.client("watcher")
        watcher.subscribe("w")
        table.client("error", will: Self.offline).reject(.publishQoS3)
        #expect(watcher.payloads() == ["off"])
        _ = table.client("silent", keepAlive: 1, will: Self.offline)
        table.pass(.milliseconds(1500))
        #expect(watcher.payloads() == ["off"])
        _ = table.client("thrown out", will: Self.offline)
        table.core.disconnect(clientIdentifier: "thrown out", now: table.now)
        table.deliver()
        #expect(watcher.payloads() == ["off"])
    }

    static func delayed(_ seconds: UInt32) -> Will {
        Will(
            topicName: "w", payload: Array("off".utf8),
            properties: Properties([.willDelayInterval(seconds), .contentType("c")]))
    }

    @Test func a_will_waits_for_its_delay() {
        let table = BrokerTable()
        let watcher = table.client("watcher")
        watcher.subscribe("w")
        table.client("s", expiry: 100, will: Self.delayed(10)).drop()
        table.pass(.milliseconds(9999))
        #expect(watcher.taken().isEmpty)
        table.pass(.milliseconds(1))
        let messages = watcher.messages()
        #expect(messages.map(\.payload) == [Array("off".utf8)])
        #expect(messages.map(\.properties.entries) == [[.contentType("c")]])
    }

    @Test func a_delayed_will_is_published_when_the_session_ends_before() {
        let table = BrokerTable()
        let watcher = table.client("watcher")
        watcher.subscribe("w")
        table.client("expires", expiry: 5, will: Self.delayed(10)).drop()
        table.pass(.seconds(5))
        #expect(watcher.payloads() == ["off"])
        table.client("at once", will: Self.delayed(10)).drop()
        #expect(watcher.payloads() == ["off"])
        table.client("restarts", expiry: 100, will: Self.delayed(10)).drop()
        _ = table.client("restarts", cleanStart: true)
        #expect(watcher.payloads() == ["off"])
        table.pass(.seconds(100))
        #expect(watcher.taken().isEmpty)
    }

    @Test func a_client_that_comes_back_in_time_has_no_will_published() {
        let table = BrokerTable()
        let watcher = table.client("watcher")
        watcher.subscribe("w")
        table.client("s", expiry: 100, will: Self.delayed(10)).drop()
        table.pass(.seconds(9))
        let again = table.client("s", cleanStart: false, expiry: 100)
        table.pass(.seconds(50))
        #expect(watcher.taken().isEmpty)
        again.send(.disconnect(Disconnect()))
        #expect(watcher.taken().isEmpty)
    }
}
