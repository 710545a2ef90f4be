import MQTTConformance
import MQTTCore
import MQTTTraversal
import Testing

@Suite("Scenarios against mosquitto")
struct MosquittoPresence {
    @Test(.enabled(if: BrokerKind.underTest.contains(.mosquitto), "needs the Debian package mosquitto"))
    func mosquitto_is_installed() async throws {
        let broker = try await Mosquitto.shared
        #expect(broker.log.contains("mosquitto version"))
    }
}

/// Messages on their way through a broker.
@Suite(.timeLimit(.minutes(1)))
struct DeliveryScenarios {
    @Test(.serialized, arguments: Scenario.matrix)
    func connecting_tells_what_was_reached(_ scenario: Scenario) async throws {
        let client = try await scenario.client { $0.clientID = "" }
        if scenario.version == .v3_1_1 {
            let named = try await scenario.client()
            let outcome = try await named.connectInTime()
            #expect(outcome.clientID.hasPrefix("client-"))
            try await named.disconnectInTime()
        }
        let outcome = try await client.connectInTime()
        #expect(outcome.profile == client.profile)
        #expect(!outcome.sessionPresent)
        #expect(outcome.limits.maximumQoS == .exactlyOnce)
        #expect(outcome.limits.retainAvailable)
        // 3.2.2.3.7: a server that gets an empty identifier says which one it has given.
        if scenario.version == .v5 { #expect(!outcome.clientID.isEmpty) }
        let again = try await client.connectInTime()
        #expect(again == outcome)
        try await client.disconnectInTime()
    }

    @Test(
        .mqtt311("7.0.0-2"),
        .serialized, arguments: Scenario.matrix)
    func every_QoS_arrives_at_the_lower_of_both_sides(_ scenario: Scenario) async throws {
        let sender = try await scenario.connected()
        let receiver = try await scenario.connected()
        let base = Names.unique("qos")
        let sendable = QoS.allCases.filter { $0 <= scenario.kind.capabilities.maximumQoS }
        for wanted in QoS.allCases {
            let subscription = try await receiver.subscribeInTime(
                to: "\(base)/\(wanted.rawValue)", qos: wanted)
            let granted = min(wanted, scenario.kind.capabilities.maximumQoS)
            #expect(subscription.grantedQoS == granted)
            for sent in sendable {
                try await sender.publishInTime(
                    "at \(sent.rawValue)", to: "\(base)/\(wanted.rawValue)", qos: sent)
            }
            let messages = try await subscription.next(sendable.count)
            let arrived = try Dictionary(messages.map { (try $0.text, $0.qos) }) { first, _ in first }
            let expected = Dictionary(
                uniqueKeysWithValues: sendable.map {
                    ("at \($0.rawValue)", scenario.kind.delivered($0, granted: granted))
                })
            #expect(arrived == expected)
            #expect(messages.allSatisfy { !$0.retain && !$0.isDuplicate })
        }
        try await sender.disconnectInTime()
        try await receiver.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func a_retained_message_waits_for_subscribers_until_it_is_cleared(_ scenario: Scenario) async throws {
        let client = try await scenario.connected()
        let topic = Names.unique("retained")
        try await client.publishInTime("first", to: topic, retain: true)

        let early = try await client.subscribeInTime(to: topic)
        let first = try await early.next()
        #expect(try first.text == "first")
        #expect(first.retain)
        try await client.publishInTime("second", to: topic, retain: true)
        let second = try await early.next()
        #expect(try second.text == "second")
        // [MQTT-3.3.1-9], [MQTT-3.3.1-12]: not retained for a subscription that stood before.
        #expect(!second.retain)

        try await client.publishInTime("", to: topic, retain: true)
        #expect(try await early.next().payload.isEmpty)
        let other = try await scenario.connected()
        let late = try await other.subscribeInTime(to: topic)
        try await client.publishInTime("marker", to: topic)
        #expect(try await late.next().text == "marker")
        try await client.disconnectInTime()
        try await other.disconnectInTime()
    }

    // A 3.1.1 server may send a copy for each, and nothing tells which is whose (3.3.5).
    @Test(.serialized, arguments: Scenario.transports.able(.version5))
    func `overlapping subscriptions get each message once`(_ scenario: Scenario) async throws {
        let client = try await scenario.connected()
        let base = Names.unique("overlap")
        let wide = try await client.subscribeInTime(to: "\(base)/#")
        let narrow = try await client.subscribeInTime(to: "\(base)/a")
        let same = try await client.subscribeInTime(to: "\(base)/a", qos: .exactlyOnce)
        // mosquitto sends a copy for each of the two subscriptions that it has, the loopback broker one for both.
        for number in 0..<20 { try await client.publishInTime("\(number)", to: "\(base)/a") }
        for subscription in [wide, narrow, same] {
            let texts = try await subscription.next(20).map { try $0.text }
            #expect(texts == (0..<20).map(String.init))
        }
        try await client.publishInTime("end", to: "\(base)/a")
        for subscription in [wide, narrow, same] {
            #expect(try await subscription.next().text == "end")
        }
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func wildcards_match_levels_and_leave_dollar_topics_out(_ scenario: Scenario) async throws {
        let sender = try await scenario.connected()
        let base = Names.unique("wild")
        // A client for each, since a broker may send one message for each of a client's matching filters.
        var filters: [String: [String]] = [
            "\(base)/+/t": ["\(base)/a/t", "\(base)/b/t", "\(base)//t"],
            "\(base)/#": [base, "\(base)/a/t", "\(base)/b/t", "\(base)/a/x", "\(base)//t"],
            "\(base)/+": [],
            "+/\(base)/t": ["plain/\(base)/t"],
        ]
        var topics = [base, "\(base)/a/t", "\(base)/b/t", "\(base)/a/x", "\(base)//t", "plain/\(base)/t"]
        if scenario.kind.capabilities.carriesDollarTopics {
            filters["$other/\(base)/t"] = ["$other/\(base)/t"]
            topics.append("$other/\(base)/t")
        }
        var receivers: [(MQTTClient, Subscription, [String])] = []
        for (filter, expected) in filters {
            let receiver = try await scenario.connected()
            let subscription = try await receiver.subscribeInTime(to: filter)
            receivers.append((receiver, subscription, expected))
        }
        for topic in topics { try await sender.publishInTime(topic, to: topic) }
        for (receiver, subscription, expected) in receivers {
            // What ends each list: it matches, and was sent last.
            let last =
                subscription.topicFilter.split(separator: "/", omittingEmptySubsequences: false)
                .map { $0 == "+" || $0 == "#" ? "end" : String($0) }.joined(separator: "/")
            try await sender.publishInTime("end", to: last)
            // The ends of other lists may match too.
            var arrived: [String] = []
            while true {
                let message = try await subscription.next()
                let isEnd = try message.text == "end"
                if isEnd, message.topic == last { break }
                if !isEnd { arrived.append(message.topic) }
            }
            #expect(arrived == expected.inOrder(of: topics))
            try await receiver.disconnectInTime()
        }
        try await sender.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func payloads_of_all_length_forms_arrive_byte_by_byte(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.peaceful
        let client = try await scenario.connected(to: broker)
        let pacemaker = try await Pacemaker(scenario, broker)
        defer { pacemaker.stop() }
        let topic = Names.unique("size")
        let events = EventRecorder(client)
        let subscription = try await client.subscribeInTime(to: topic, qos: .exactlyOnce)
        defer { #expect(events.interruptions == []) }
        let bound = scenario.transport.isWebSocket ? scenario.kind.capabilities.maximumWebSocketMessage : .max
        for size in [0, 1, 125, 126, 127, 65535, 65536, 70000, 4 << 20] where size <= bound {
            let payload = Self.pattern(size)
            for qos in QoS.allCases where qos <= subscription.grantedQoS {
                try await client.publishInTime(payload, to: topic, qos: qos)
                var message = try await subscription.next()
                // mosquitto 2.0.11 sends a QoS 0 message twice when its socket was full; its log shows it.
                while scenario.kind == .mosquitto, qos > .atMostOnce, message.qos == .atMostOnce {
                    message = try await subscription.next()
                }
                let delivered = scenario.kind.delivered(qos, granted: subscription.grantedQoS)
                #expect(message.qos == delivered, "\(size) bytes")
                #expect(message.payload.count == size)
                #expect(message.payload == payload, "\(size) bytes at QoS \(qos.rawValue)")
            }
        }
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func unsubscribing_ends_the_sequence_and_the_delivery(_ scenario: Scenario) async throws {
        let client = try await scenario.connected()
        let base = Names.unique("unsubscribe")
        let given = try await client.subscribeInTime(to: "\(base)/given")
        let kept = try await client.subscribeInTime(to: "\(base)/kept")
        try await client.publishInTime("before", to: "\(base)/given")
        #expect(try await given.next().text == "before")
        _ = try await within("unsubscribe") { try await client.unsubscribe(given) }
        try await client.publishInTime("after", to: "\(base)/given")
        try await client.publishInTime("after", to: "\(base)/kept")
        #expect(try await kept.next().text == "after")
        #expect(try await given.next(1).isEmpty)
        try await client.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix)
    func an_aborted_connection_publishes_the_will(_ scenario: Scenario) async throws {
        let broker = try await scenario.kind.shared
        let topic = Names.unique("will")
        let watcher = try await scenario.connected()
        let wills = try await watcher.subscribeInTime(to: topic)
        let relay = try Relay(to: broker.port(Door(transport: scenario.transport)))
        let doomed = scenario.client(try scenario.profile(broker, through: relay)) {
            $0.will = WillMessage(topic: topic, payload: "offline", qos: .atLeastOnce, retain: true)
            $0.reconnect = .never
        }
        let events = EventRecorder(doomed)
        try await doomed.connectInTime()
        await relay.cut()
        let will = try await wills.next()
        #expect(try will.text == "offline")
        #expect(will.qos == .atLeastOnce)
        try await events.wait(for: "connected", "interrupted", "disconnected")
        #expect(events.interruptions.first?.code == .tcpReset)
        // Retained, as the will asked.
        let late = try await scenario.connected()
        let filter = scenario.kind.capabilities.retainsForWildcards ? "\(topic)/#" : topic
        let retained = try await late.subscribeInTime(to: filter)
        #expect(try await retained.next().retain)
        try await late.disconnectInTime()
        try await watcher.publishInTime("", to: topic, retain: true)
        try await watcher.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.matrix.able(.discardsWill))
    func a_clean_disconnect_discards_the_will(_ scenario: Scenario) async throws {
        let topic = Names.unique("will")
        let watcher = try await scenario.connected()
        let wills = try await watcher.subscribeInTime(to: topic)
        let leaving = try await scenario.connected {
            $0.will = WillMessage(topic: topic, payload: "offline", qos: .atLeastOnce)
        }
        try await leaving.disconnectInTime()
        try await watcher.publishInTime("marker", to: topic)
        #expect(try await wills.next().text == "marker")
        try await watcher.disconnectInTime()
    }

    @Test(.serialized, arguments: Scenario.transports.able(.bothVersions))
    func both_versions_of_MQTT_talk_to_each_other(_ scenario: Scenario) async throws {
        var older = scenario
        older.version = .v3_1_1
        let new = try await scenario.connected()
        let old = try await older.connected()
        let base = Names.unique("versions")
        let toNew = try await new.subscribeInTime(to: "\(base)/new", qos: .exactlyOnce)
        let toOld = try await old.subscribeInTime(to: "\(base)/old", qos: .exactlyOnce)
        for qos in QoS.allCases {
            let properties = Properties([.userProperty(UserProperty(name: "name", value: "value"))])
            _ = try await within("publish") {
                try await new.publish("new \(qos)", to: "\(base)/old", qos: qos, properties: properties)
            }
            try await old.publishInTime("old \(qos)", to: "\(base)/new", qos: qos)
            let atOld = try await toOld.next()
            #expect(try atOld.text == "new \(qos)")
            #expect(atOld.qos == qos)
            #expect(atOld.properties == Properties())
            let atNew = try await toNew.next()
            #expect(try atNew.text == "old \(qos)")
            #expect(atNew.qos == qos)
        }
        try await new.disconnectInTime()
        try await old.disconnectInTime()
    }

    /// No two neighbours, and no two pieces of a power-of-two size, are alike.
    static func pattern(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            var state: UInt32 = 0x9E37_79B9 ^ UInt32(truncatingIfNeeded: count)
            for index in 0..<count {
                state = state &* 1_664_525 &+ 1_013_904_223
                buffer[index] = UInt8(truncatingIfNeeded: state >> 24)
            }
            initialized = count
        }
    }
}

/// Keeps mosquitto awake while it sends large messages over WebSocket: it writes them in pieces of 4 KiB, and
/// sleeps for 100 ms after each when nothing else happens (2.0.11).
private struct Pacemaker {
    private let task: Task<Void, any Error>?

    init(_ scenario: Scenario, _ broker: any BrokerUnderTest) async throws {
        switch (scenario.kind, scenario.transport) {
        case (.mosquitto, .webSocket), (.mosquitto, .webSocketSecure): break
        default:
            task = nil
            return
        }
        let client = try await Scenario(kind: .mosquitto, transport: .tcp, version: .v5).connected(to: broker)
        let topic = Names.unique("pace")
        task = Task {
            while !Task.isCancelled { try await client.publish("", to: topic, qos: .atLeastOnce) }
            await client.disconnect()
        }
    }

    func stop() { task?.cancel() }
}

extension [String] {
    fileprivate func inOrder(of all: [String]) -> [String] { all.filter(contains) }
}
