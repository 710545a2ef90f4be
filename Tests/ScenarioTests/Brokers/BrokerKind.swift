import Foundation
import MQTTCore
import MQTTTransport

enum BrokerKind: String, Sendable, CaseIterable {
    case mosquitto
    case loopback
    case rabbitMQ = "rabbitmq"
    case ejabberd
    case amqtt

    /// Those of the environment variable `INTEROP`, separated by commas; without it those that need no minutes.
    static let underTest: [BrokerKind] = {
        guard let list = ProcessInfo.processInfo.environment["INTEROP"] else {
            return [.mosquitto, .loopback].filter(\.isInstalled)
        }
        let names = list.split(separator: ",").map(String.init)
        guard names.allSatisfy({ BrokerKind(rawValue: $0)?.isInstalled == true }) else {
            fatalError("INTEROP=\(list): not all of them are installed")
        }
        return names.compactMap(BrokerKind.init)
    }()

    var isInstalled: Bool {
        switch self {
        case .mosquitto: Mosquitto.executable != nil
        case .loopback: true
        case .rabbitMQ: RabbitMQ.executable != nil
        case .ejabberd: Ejabberd.executable != nil
        case .amqtt: AMQTT.executable != nil
        }
    }

    /// One for all scenarios that don't harm it.
    var shared: any BrokerUnderTest {
        get async throws {
            switch self {
            case .mosquitto: try await Mosquitto.shared
            case .loopback: try await Loopback.shared
            case .rabbitMQ: try await RabbitMQ.shared
            case .ejabberd: try await Ejabberd.shared
            case .amqtt: try await AMQTT.shared
            }
        }
    }

    /// One for scenarios that break no TLS connection while data is on its way.
    ///
    /// mosquitto 2.0.11 leaves OpenSSL's error of such an end in its queue ("application data after close notify")
    /// and takes it for one of the next connection that it reads from, which it closes: large transfers by others
    /// are hit.
    var peaceful: any BrokerUnderTest {
        get async throws {
            if self == .mosquitto { return try await Mosquitto.peaceful }
            return try await shared
        }
    }

    /// One for one scenario.
    func launch(_ doors: [Door] = Door.open) async throws -> any BrokerUnderTest {
        switch self {
        // Without a TCP listener mosquitto 2.0 doesn't start.
        case .mosquitto: try await Mosquitto.launch(doors: Array(Set(doors + [Door(transport: .tcp)])))
        case .loopback: try await Loopback(doors: doors)
        case .rabbitMQ: try await RabbitMQ.launch(doors: doors)
        case .ejabberd: try await Ejabberd.launch(doors: doors)
        case .amqtt: try await AMQTT.launch(doors: doors)
        }
    }
}

/// What a broker does of what MQTT leaves open to it, and what it fails to do.
struct BrokerCapabilities: Sendable {
    var versions: [ProtocolVersion] = [.v3_1_1, .v5]
    /// Granted to subscriptions, and taken from publishers.
    var maximumQoS = QoS.exactlyOnce
    var webSocketPath = "/mqtt"
    /// Whether clients may exchange messages on topics that begin with `$`; a server should prevent it (4.7.2).
    var carriesDollarTopics = true
    /// Whether retained messages are sent for a new subscription with wildcards too [MQTT-3.3.1-6]; those of
    /// RabbitMQ 3.10 are found by their topic only.
    var retainsForWildcards = true
    /// The longest WebSocket message that it takes, in bytes; of ours each holds one packet.
    var maximumWebSocketMessage = Int.max
    /// Whether it agrees to permessage-deflate.
    var compressesWebSocket = false
    /// How many messages it carries in a few seconds.
    var manyMessages = 20_000
    /// Its only doors are for users with a password.
    var wantsPassword = false
    /// Why scenarios with a need don't run against it.
    var lacks: [Need: Lack] = [:]

    /// What not every broker can do.
    enum Need: Hashable, Sendable {
        case version5
        case bothVersions
        case exactlyOnce
        /// [MQTT-4.3.3-2]: a PUBREL is answered each time.
        case answersAgain
        /// [MQTT-3.14.4-3]: after DISCONNECT the will isn't published.
        case discardsWill
        /// [MQTT-3.1.2-2]: a CONNECT of a version that it doesn't speak is refused, or at least ended.
        case refusesVersions
        /// It starts in a few seconds.
        case quickStart
        case clientCertificates
        case certificateByName
    }

    struct Lack: Sendable {
        var reason: String
        /// Where it isn't all of them.
        var applies: @Sendable (Scenario) -> Bool = { _ in true }

        init(_ reason: String, _ applies: @escaping @Sendable (Scenario) -> Bool = { _ in true }) {
            self.reason = reason
            self.applies = applies
        }
    }
}

extension BrokerKind {
    var capabilities: BrokerCapabilities {
        switch self {
        case .mosquitto, .loopback:
            BrokerCapabilities()
        case .rabbitMQ:
            BrokerCapabilities(
                versions: [.v3_1_1], maximumQoS: .atLeastOnce, webSocketPath: "/ws",
                retainsForWildcards: false,
                compressesWebSocket: true, wantsPassword: true,
                lacks: [
                    .version5: .init("speaks 3.1.1 only"),
                    .bothVersions: .init("speaks 3.1.1 only"),
                    .exactlyOnce: .init("has QoS 1 at most"),
                    .discardsWill: .init("publishes the will after DISCONNECT over WebSocket") {
                        $0.transport.isWebSocket
                    },
                    .quickStart: .init("takes 12 s to start, so this is done over TCP only") {
                        $0.transport != .tcp
                    },
                    .clientCertificates: .init("is set up without client certificates"),
                    .certificateByName: .init("is set up with one certificate"),
                ])
        case .ejabberd:
            BrokerCapabilities(
                carriesDollarTopics: false, wantsPassword: true,
                lacks: [
                    .clientCertificates: .init("is set up without client certificates"),
                    .certificateByName: .init("is set up with one certificate"),
                ])
        case .amqtt:
            BrokerCapabilities(
                versions: [.v3_1_1], carriesDollarTopics: false, maximumWebSocketMessage: 1 << 20,
                compressesWebSocket: true,
                manyMessages: 2_000,
                wantsPassword: true,
                lacks: [
                    .version5: .init("speaks 3.1.1 only"),
                    .bothVersions: .init("speaks 3.1.1 only"),
                    .refusesVersions: .init("says nothing to a CONNECT of 5.0"),
                    .answersAgain: .init("answers no PUBREL that it has answered before"),
                    .clientCertificates: .init("is set up without client certificates"),
                    .certificateByName: .init("is set up with one certificate"),
                ])
        }
    }

    /// mosquitto 2.0.11 sends as many messages as the whole Receive Maximum for each PUBACK, and so overruns any
    /// that is smaller than its queue.
    func honouredReceiveMaximum(_ wanted: UInt16) -> UInt16 {
        self == .mosquitto ? 65535 : wanted
    }

    /// The QoS at which a message arrives: the lower of both sides' [MQTT-3.8.4-8].
    ///
    /// amqtt 0.12.1 sends at the subscription's, whatever the publisher's was.
    func delivered(_ sent: QoS, granted: QoS) -> QoS {
        self == .amqtt ? granted : min(sent, granted)
    }

    /// How a refused CONNECT ends: with a CONNACK, as a server SHOULD send one (3.1.1, section 3.2.2.3).
    ///
    /// RabbitMQ 3.10 closes a WebSocket with 1002 and "unauthenticated" instead.
    func refusal(over transport: Transport) -> FailureCode {
        self == .rabbitMQ && transport.isWebSocket ? .wsClosed : .mqttRefused
    }
}
