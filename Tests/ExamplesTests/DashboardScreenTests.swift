import MQTTExampleSupport
import MQTTTransport
import MQTTTraversal
import Testing

@MainActor @Suite struct DashboardScreenTests {
    private let model = DashboardModel(prefix: "connectmq/demo/1a2b3c4d")
    private let now = ContinuousClock.now
    private let plain = DashboardScreen(isStyled: false, showsKeys: false)

    @Test func before_the_first_reading_it_waits() {
        #expect(
            plain.lines(model, now: now) == [
                "Connection  connecting…",
                "Prefix      connectmq/demo/1a2b3c4d",
                "Last error  none",
                "",
                "Waiting for data…",
                "",
                "Fan         OFF",
            ])
    }

    @Test func readings_stand_under_each_other_and_offline_ones_are_grey() throws {
        fill()
        model.receive(
            .connected(ConnectOutcome(profile: try ConnectionProfile.tls(host: "h"), clientID: "me")),
            now: now)
        let styled = DashboardScreen(isStyled: true, showsKeys: true)
        #expect(
            styled.lines(model, now: now) == [
                "\u{1B}[1mConnection  connected to mqtts://h:8883\u{1B}[0m",
                "Prefix      connectmq/demo/1a2b3c4d",
                "\u{1B}[90mLast error  none\u{1B}[0m",
                "",
                "attic      -3.3 °C",
                "kitchen    22.8 °C  online",
                "\u{1B}[90moffice     21.4 °C  offline\u{1B}[0m",
                "shed             –  online",
                "",
                "Fan         OFF",
                "",
                "\u{1B}[90mf toggles the fan, q quits\u{1B}[0m",
            ])
    }

    @Test func without_style_there_is_no_escape_and_offline_is_still_said() {
        fill()
        let lines = plain.lines(model, now: now)
        #expect(lines.contains("office     21.4 °C  offline"))
        #expect(lines.allSatisfy { !$0.contains("\u{1B}") })
    }

    @Test func long_lines_are_cut_and_sensors_without_room_are_counted() {
        fill()
        let lines = plain.lines(model, now: now, columns: 20, rows: 9)
        #expect(
            lines == [
                "Connection  connect…", "Prefix      connect…", "Last error  none", "",
                "attic      -3.3 °C", "kitchen    22.8 °C …", "and 2 more",
                "", "Fan         OFF",
            ])
    }

    @Test func an_error_is_told_to_its_end() {
        let error = MQTTError(.tcpReset, stage: .established, "Connection reset by peer")
        model.receive(.disconnected(error), now: now)
        #expect(plain.lines(model, now: now)[2] == "Last error  \(error)")
        let lines = plain.lines(model, now: now, columns: 50)
        #expect(lines[2] == "Last error  tcp.reset at established: Connection")
        #expect(lines[3].hasPrefix("            reset by peer. "))
        #expect(lines.allSatisfy { $0.count <= 50 && !$0.contains("…") || $0 == "Waiting for data…" })
    }

    @Test func an_outage_shows_its_cause_what_to_do_and_the_seconds_to_the_next_attempt() throws {
        fill()
        let lost = MQTTError(.tcpReset, stage: .established, "Connection reset by peer")
        let refused = MQTTError(.tcpRefused, stage: .tcp, "Connection refused")
        model.receive(
            .connected(ConnectOutcome(profile: try ConnectionProfile.tls(host: "h"), clientID: "me")),
            now: now)
        model.receive(.interrupted(lost), now: now)
        model.receive(.reconnecting(attempt: 1, delay: .milliseconds(1500), error: lost), now: now)
        #expect(
            plain.lines(model, now: now).prefix(4) == [
                "Connection  lost for 0 s, attempt 1 in 2 s",
                "Prefix      connectmq/demo/1a2b3c4d",
                "Cause       tcp.reset at established",
                "Advice      \(lost.advice)",
            ])
        #expect(plain.lines(model, now: now + .seconds(1))[0] == "Connection  lost for 1 s, attempt 1 in 1 s")
        model.receive(.connecting(attempt: 1), now: now + .milliseconds(1500))
        #expect(plain.lines(model, now: now + .seconds(2))[0] == "Connection  lost for 2 s, attempt 1…")
        model.receive(
            .reconnecting(attempt: 2, delay: .seconds(4), error: refused), now: now + .seconds(2))
        let lines = plain.lines(model, now: now + .seconds(9))
        // Late, the loop is about to begin.
        #expect(lines[0] == "Connection  lost for 9 s, attempt 2 in 0 s")
        #expect(lines[2] == "Cause       tcp.refused at tcp")
        // What was known last stays on the screen.
        #expect(lines.contains("kitchen    22.8 °C  online"))
        model.receive(
            .connected(ConnectOutcome(profile: try ConnectionProfile.tls(host: "h"), clientID: "me")),
            now: now + .seconds(9))
        #expect(plain.lines(model, now: now + .seconds(9))[2] == "Last error  none")
    }

    @Test func names_from_the_network_cannot_move_the_cursor() {
        receive("\u{1B}[2J\u{7}\u{202E}x/status", "online")
        #expect(plain.lines(model, now: now)[4] == "\u{FFFD}[2J\u{FFFD}\u{FFFD}x          –  online")
    }

    @Test func a_file_gets_the_lines_that_are_new() {
        let before = plain.lines(model, now: now)
        receive("kitchen/temperature", "22.8")
        let after = plain.lines(model, now: now)
        #expect(DashboardScreen.news(in: before, since: []).first == "Connection  connecting…")
        #expect(DashboardScreen.news(in: after, since: before) == ["kitchen    22.8 °C"])
        #expect(DashboardScreen.news(in: after, since: after) == [])
    }

    private func fill() {
        receive("kitchen/temperature", "22.8")
        receive("kitchen/status", "online")
        receive("office/temperature", "21.4")
        receive("office/status", "offline")
        receive("attic/temperature", "-3.26")
        receive("shed/status", "online")
    }

    private func receive(_ topic: String, _ payload: String) {
        model.receive(
            Message(topic: "connectmq/demo/1a2b3c4d/sensors/\(topic)", payload: Array(payload.utf8)))
    }
}
