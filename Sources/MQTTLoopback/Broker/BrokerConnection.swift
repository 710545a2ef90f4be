import MQTTCore

/// Names a connection at the broker for as long as the broker lives: slots are reused, generations aren't.
package struct ConnectionID: Sendable, Hashable {
    let slot: Int
    let generation: UInt64
}

/// What the broker keeps for one network connection; it dies with it.
///
/// A class, as is the session: ContinuousClock.Instant's layout is known at run time only, and copying a
/// structure that holds one costs more than all else in a fan-out. For the same reason instants stand in
/// indirect cases and in the last stored properties.
final class BrokerConnection {
    enum Phase {
        /// CONNECT is to come, before the deadline.
        indirect case awaitingConnect(deadline: ContinuousClock.Instant)
        /// CONNECT waits for the end of an exchange of AUTH packets (5.0, section 4.12), before the deadline.
        indirect case authenticating(Connect, SCRAMServer, deadline: ContinuousClock.Instant)
        /// Between the accepted CONNECT and the end.
        case connected(Link)
        /// Nothing more is read; what is left to write is written, then the connection closes.
        case closing
    }

    /// An accepted CONNECT's consequences.
    struct Link {
        let session: Int
        let version: ProtocolVersion
        /// One and a half times Keep Alive [MQTT-3.1.2-22]; `nil` where it is off.
        let keepAliveLimit: Duration?
        /// What the user may use; `nil` permits all topics.
        let allowedTopics: [TopicFilter]?
        let will: Will?
        /// Who has authenticated by SCRAM, and may do so again.
        let scramUser: String?
    }

    let generation: UInt64
    var phase: Phase
    /// What the client's Topic Aliases stand for (5.0, section 3.3.2.3.4).
    var topicAliases: [UInt16: String] = [:]
    /// A re-authentication under way.
    var reauthentication: SCRAMServer?
    var output: [UInt8] = []
    /// Whether the connection stands in the list of those that have something to write.
    var isDirty = false
    var lastReceived: ContinuousClock.Instant

    init(generation: UInt64, connectDeadline: ContinuousClock.Instant, now: ContinuousClock.Instant) {
        self.generation = generation
        phase = .awaitingConnect(deadline: connectDeadline)
        lastReceived = now
    }
}

extension BrokerCore {
    /// Whether nothing more is read from the connection.
    func isClosing(_ id: ConnectionID) -> Bool {
        if case .closing? = phase(of: id) { return true }
        return false
    }

    /// The connection that a client has, if it has one.
    func connection(ofClient clientIdentifier: String) -> ConnectionID? {
        sessionsByClientIdentifier[ExactString(clientIdentifier)].flatMap { sessions[$0]?.connection }
    }

    /// The client identifiers that have a connection, in no order.
    var connectedClients: [String] {
        sessionsByClientIdentifier.compactMap { sessions[$0.value]?.connection == nil ? nil : $0.key.string }
    }
}
