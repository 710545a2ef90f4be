import MQTTConformance
import MQTTCore
import Testing

@Suite("Session: keep-alive")
struct SessionKeepAliveTests {
    private func connected(
        _ version: ProtocolVersion = .v5, keepAlive: UInt16, server: UInt16? = nil,
        timeout: Duration = .seconds(10)
    ) -> SessionHarness {
        SessionHarness(connected: version, connack: Properties(server.map { [.serverKeepAlive($0)] } ?? [])) {
            $0.keepAlive = keepAlive
            $0.pingResponseTimeout = timeout
        }
    }

    @Test(
        .mqtt311("3.1.2-23"), .mqtt5("3.1.2-20"),
        arguments: ProtocolVersion.allCases, [1, 30, 65_535] as [UInt16])
    func an_idle_connection_is_pinged_once_per_interval(version: ProtocolVersion, keepAlive: UInt16) {
        var harness = connected(version, keepAlive: keepAlive)
        for _ in 1...3 {
            #expect(harness.session.nextDeadline == harness.now + .seconds(Int(keepAlive)))
            harness.advance(.seconds(Int(keepAlive)) - .nanoseconds(1))
            harness.deadline()
            #expect(harness.take().bytes.isEmpty)
            harness.advance(.nanoseconds(1))
            harness.deadline()
            #expect(harness.take().bytes == hex("C0 00"))
            harness.flush()
            harness.receive(.pingresp)
        }
        #expect(harness.actions().isEmpty)
    }

    @Test func zero_switches_it_off() {
        var harness = connected(keepAlive: 0)
        #expect(harness.session.nextDeadline == nil)
        harness.advance(.seconds(1_000_000))
        harness.deadline()
        let output = harness.take()
        #expect(output.bytes.isEmpty && output.actions.isEmpty)
    }

    @Test(
        .mqtt5("3.1.2-21", "3.2.2-21"),
        arguments: [(20, 2), (20, 40), (0, 7)] as [(UInt16, UInt16)])
    func the_servers_value_replaces_ours(own: UInt16, server: UInt16) {
        let harness = connected(keepAlive: own, server: server)
        #expect(harness.session.nextDeadline == harness.now + .seconds(Int(server)))
    }

    @Test func the_server_can_switch_it_off() {
        #expect(connected(keepAlive: 20, server: 0).session.nextDeadline == nil)
    }

    @Test func the_deadline_of_the_answer_starts_when_pingreq_has_left_our_buffer() {
        var harness = connected(keepAlive: 30)
        harness.advance(.seconds(30))
        harness.deadline()
        #expect(harness.take().bytes == hex("C0 00"))
        harness.advance(.seconds(5))
        harness.flush()
        #expect(harness.session.nextDeadline == harness.now + .seconds(10))
        harness.advance(.seconds(10) - .nanoseconds(1))
        harness.deadline()
        #expect(harness.take().actions.isEmpty)
        harness.advance(.nanoseconds(1))
        harness.deadline()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.actions == [.close(.pingResponseTimeout)])
    }

    @Test func a_pingreq_that_never_leaves_our_buffer_is_noticed_too() {
        var harness = connected(keepAlive: 30)
        harness.advance(.seconds(30))
        harness.deadline()
        harness.advance(.seconds(20))
        harness.session.sentBytes(now: harness.now)
        harness.advance(.seconds(39))
        harness.deadline()
        #expect(harness.take().actions.isEmpty)
        harness.advance(.seconds(1))
        harness.deadline()
        #expect(harness.take().actions == [.close(.pingResponseTimeout)])
    }

    @Test func parts_of_a_packet_are_life() {
        var harness = connected(keepAlive: 30)
        harness.advance(.seconds(30))
        harness.deadline()
        harness.flush()
        for _ in 1...3 {
            harness.advance(.seconds(9))
            harness.session.receivedBytes(now: harness.now)
            harness.deadline()
        }
        #expect(harness.take().actions.isEmpty)
        // The server still counts what we send: after another interval it gets a further PINGREQ.
        harness.advance(.seconds(3))
        harness.deadline()
        #expect(harness.take().bytes == hex("C0 00"))
    }

    @Test func outgoing_traffic_does_not_hide_a_dead_peer() {
        var harness = connected(keepAlive: 30)
        var pings = 0
        for second in 1...40 {
            harness.advance(.seconds(1))
            harness.publish(qos: .atMostOnce)
            harness.encode()
            harness.deadline()
            let output = harness.take()
            pings += output.bytes.suffix(2) == hex("C0 00")[...] ? 1 : 0
            harness.flush()
            #expect(output.actions.contains(.close(.pingResponseTimeout)) == (second == 40))
        }
        #expect(pings == 1)
        #expect(harness.session.state == .closing)
    }

    @Test func incoming_traffic_alone_does_not_spare_the_ping() {  // [MQTT-3.1.2-20]
        var harness = connected(keepAlive: 30)
        for _ in 1...30 {
            harness.advance(.seconds(1))
            harness.deliver(qos: .atMostOnce, id: 0)
        }
        _ = harness.take()
        harness.deadline()
        #expect(harness.take().bytes == hex("C0 00"))
    }

    @Test func traffic_both_ways_needs_no_ping() {
        var harness = connected(keepAlive: 2)
        for _ in 1...20 {
            harness.advance(.seconds(1))
            harness.publish(qos: .atMostOnce)
            harness.encode()
            harness.flush()
            harness.deliver(qos: .atMostOnce, id: 0)
            harness.deadline()
            #expect(harness.take().packetEnds.count == 1)
        }
    }

    @Test(
        .mqtt311("detect-silence"), .mqtt5("detect-pingresp-missing"),
        arguments: ProtocolVersion.allCases)
    func a_dead_peer_gets_one_pingreq_and_is_given_up_in_time(version: ProtocolVersion) {
        var harness = connected(version, keepAlive: 2, timeout: .seconds(2))
        let start = harness.now
        var packets = 0
        while let deadline = harness.session.nextDeadline {
            harness.now = deadline
            harness.deadline()
            packets += harness.output.packetEnds.count
            if let last = harness.take().actions.last { #expect(last == .close(.pingResponseTimeout)) }
            harness.flush()
        }
        #expect(packets == 1)
        #expect(harness.now - start == .seconds(4))
    }

    @Test func deadlines_always_move_on() {
        var harness = connected(keepAlive: 1)
        for _ in 1...20 {
            guard let deadline = harness.session.nextDeadline else { return }
            #expect(deadline > harness.now)
            harness.now = deadline
            harness.deadline()
            if harness.session.state == .established, let next = harness.session.nextDeadline {
                #expect(next > harness.now)
            }
        }
        Issue.record("the dead peer was not given up")
    }

    // MARK: Idle time

    @Test func a_learned_limit_shortens_the_interval_of_the_next_connection_and_not_what_connect_says() {
        var harness = connected(keepAlive: 300)
        harness.session.pingInterval = .seconds(45)
        harness.close()
        harness.open()
        // Keep Alive, behind the protocol's name and level and the Connect Flags (3.1.2.10).
        #expect(harness.take().bytes.dropFirst(2 + 8).prefix(2).elementsEqual([0x01, 0x2C]))
        harness.receive(.connack(Connack(sessionPresent: true)))
        #expect(harness.session.nextDeadline == harness.now + .seconds(45))
    }

    @Test func a_limit_switches_nothing_on() {
        var harness = connected(keepAlive: 0)
        harness.session.pingInterval = .seconds(45)
        harness.reconnect(sessionPresent: true)
        #expect(harness.session.nextDeadline == nil)
    }

    @Test func the_idle_time_is_since_anything_passed() {
        var harness = connected(keepAlive: 300)
        harness.advance(.seconds(60))
        #expect(harness.session.idleTime(now: harness.now) == (.whileIdle, .seconds(60)))
        harness.session.receivedBytes(now: harness.now)
        harness.advance(.seconds(7))
        #expect(harness.session.idleTime(now: harness.now) == (.whileIdle, .seconds(7)))
    }

    @Test func where_pingreq_gets_no_answer_the_idle_time_is_that_before_it() {
        var harness = connected(keepAlive: 300)
        harness.advance(.seconds(300))
        harness.deadline()
        harness.flush()
        harness.advance(.seconds(10))
        #expect(harness.session.idleTime(now: harness.now) == (.whenWeSpoke, .seconds(300)))
    }

    @Test func a_message_into_a_dead_connection_is_told_from_one_that_wants_no_answer() {
        var harness = connected(keepAlive: 300)
        harness.advance(.seconds(100))
        harness.publish("x", qos: .atMostOnce)
        harness.encode()
        harness.flush()
        harness.advance(.seconds(1))
        #expect(harness.session.idleTime(now: harness.now) == (.whenWeSpoke, .seconds(100)))
        harness.advance(.seconds(59))
        #expect(harness.session.idleTime(now: harness.now) == (.whileIdle, .seconds(60)))
    }
}
