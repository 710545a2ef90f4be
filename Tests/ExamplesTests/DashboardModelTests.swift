import MQTTExampleSupport
import MQTTTransport
import MQTTTraversal
import Observation
import Testing

@MainActor @Suite struct DashboardModelTests {
    private let model = DashboardModel(prefix: "p/q")
    private let start = ContinuousClock.now
    private let refused = MQTTError(.tcpRefused, stage: .tcp, "Connection refused")
    private let lost = MQTTError(.tcpReset, stage: .established, "the peer reset the connection")

    @Test func the_connection_is_shown_with_its_last_error() throws {
        model.receive(.idle, now: start)
        #expect(model.connection == .connecting(attempt: 1))
        model.receive(.connecting(attempt: 1), now: start)
        #expect(model.connection == .connecting(attempt: 1))
        try connect()
        #expect(model.connection == .connected(to: "mqtts://h:8883"))
        #expect(model.outage == nil)
        model.receive(.interrupted(lost), now: start + .seconds(1))
        #expect(model.connection == .disconnected)
        #expect(model.outage?.since == start + .seconds(1))
        #expect(model.outage?.cause == lost)
        model.receive(
            .reconnecting(attempt: 1, delay: .milliseconds(1500), error: lost), now: start + .seconds(1))
        #expect(model.connection == .waiting(attempt: 1, until: start + .milliseconds(2500)))
        model.receive(.connecting(attempt: 1), now: start + .milliseconds(2500))
        #expect(model.connection == .connecting(attempt: 1))
        // The loss is as old as before, and its cause the newest.
        model.receive(
            .reconnecting(attempt: 2, delay: .seconds(4), error: refused), now: start + .seconds(3))
        #expect(model.connection == .waiting(attempt: 2, until: start + .seconds(7)))
        #expect(model.outage?.since == start + .seconds(1))
        #expect(model.outage?.cause == refused)
        model.receive(.connecting(attempt: 2), now: start + .seconds(7))
        try connect()
        #expect(model.outage == nil)
        #expect(model.lastError == nil)
        model.receive(.interrupted(lost), now: start + .seconds(60))
        model.receive(.disconnected(refused), now: start + .seconds(60))
        #expect(model.connection == .disconnected)
        #expect(model.outage == nil)
        #expect(model.lastError == refused.description)
    }

    @Test func sensors_are_found_and_sorted() {
        receive("office/temperature", "21.4")
        receive("kitchen/status", "online")
        receive("attic/temperature", "-3")
        receive("kitchen/temperature", " 22.8\n")
        receive("office/status", "offline")
        #expect(model.sensors.map(\.name) == ["attic", "kitchen", "office"])
        #expect(model.sensors.map(\.temperature) == [-3, 22.8, 21.4])
        #expect(model.sensors.map(\.isOnline) == [nil, true, false])
    }

    @Test(arguments: ["nan", "inf", "0x1p4", "warm", "", "1e3"])
    func a_payload_that_is_no_plain_decimal_changes_nothing(_ payload: String) {
        receive("kitchen/temperature", payload)
        #expect(model.sensors.isEmpty)
        receive("kitchen/temperature", "22.8")
        receive("kitchen/temperature", payload)
        #expect(model.sensors.map(\.temperature) == [22.8])
    }

    @Test(arguments: ["", "ONLINE", "on", "on line", "offline offline"])
    func a_status_that_is_neither_word_changes_nothing(_ payload: String) {
        receive("kitchen/status", payload)
        #expect(model.sensors.isEmpty)
    }

    @Test func bytes_that_are_no_text_and_other_topics_change_nothing() {
        model.receive(Message(topic: "p/q/sensors/kitchen/temperature", payload: [0xFF]))
        receive("kitchen/humidity", "40")
        receive("/temperature", "20")
        #expect(model.sensors.isEmpty)
    }

    @Test func names_that_only_look_alike_are_two_sensors() {
        receive("caf\u{E9}/temperature", "1")
        receive("cafe\u{301}/temperature", "2")
        receive("caf\u{E9}/temperature", "3")
        #expect(model.sensors.map(\.temperature) == [2, 3])
    }

    @Test func the_fan_is_toggled_only_while_connected() throws {
        #expect(model.toggleFan() == nil)
        try connect()
        #expect(model.toggleFan() == "ON")
        #expect(model.fan == .switching(on: true))
        // The first one isn't through yet.
        #expect(model.toggleFan() == nil)
        model.fanCommandAccepted(nobodyListens: false)
        #expect(model.fan == .on)
        #expect(model.toggleFan() == "OFF")
        model.fanCommandAccepted(nobodyListens: true)
        #expect(model.fan == .off)
        #expect(model.fanIsMissing)
        model.receive(.interrupted(lost), now: start)
        #expect(model.toggleFan() == nil)
        model.receive(.reconnecting(attempt: 1, delay: .seconds(1), error: lost), now: start)
        #expect(model.toggleFan() == nil)
        model.receive(.connecting(attempt: 1), now: start)
        #expect(model.toggleFan() == nil)
        #expect(model.fan == .off)
    }

    @Test func a_failed_command_leaves_the_fan_as_it_was_and_says_why() throws {
        try connect()
        #expect(model.toggleFan() == "ON")
        model.fanCommandFailed("refused")
        #expect(model.fan == .off)
        #expect(model.lastError == "refused")
        #expect(model.toggleFan() == "ON")
        #expect(model.lastError == nil)
    }

    @Test func an_observer_hears_of_a_change() async {
        await confirmation { changed in
            withObservationTracking {
                _ = model.sensors
            } onChange: {
                changed()
            }
            receive("kitchen/temperature", "22.8")
        }
    }

    private func connect() throws {
        model.receive(
            .connected(ConnectOutcome(profile: try ConnectionProfile.tls(host: "h"), clientID: "me")),
            now: start)
    }

    private func receive(_ topic: String, _ payload: String) {
        model.receive(Message(topic: "p/q/sensors/\(topic)", payload: Array(payload.utf8)))
    }
}
