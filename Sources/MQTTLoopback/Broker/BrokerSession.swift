import MQTTCore

/// What the broker keeps for one Client Identifier, connected or not (Session State, section 4.1), and the
/// machine that sends it QoS 1 and 2 messages.
final class BrokerSession {
    /// Whether there is a connection now.
    enum Presence {
        case connected(ConnectionID, ReceiverLimits)
        indirect case disconnected(expiresAt: ContinuousClock.Instant?)
    }

    /// A Will whose Will Delay Interval is running (section 3.1.3.2.2).
    struct PendingWill {
        let will: Will
        let dueAt: ContinuousClock.Instant
        let allowedTopics: [TopicFilter]?
    }

    let clientIdentifier: String
    var presence = Presence.disconnected(expiresAt: nil)
    /// Session Expiry Interval in seconds: 0 ends the session with its connection, 0xFFFFFFFF never
    /// (section 3.1.2.11.2).
    var expiry: UInt32 = 0
    var subscriptions: Set<TopicFilter> = []
    /// QoS 2 messages received and not yet released: PUBREL is still to come.
    var received: Set<PacketIdentifier> = []
    var outbound = OutboundMessages()
    /// Marks the fan-out that has already found this session, and where.
    var fanOut: (number: UInt64, position: Int) = (0, 0)

    var pendingWill: PendingWill?

    init(clientIdentifier: String) { self.clientIdentifier = clientIdentifier }

    var connection: ConnectionID? {
        switch presence {
        case .connected(let connection, _): connection
        case .disconnected: nil
        }
    }
}

/// A message for one session, with what its subscriptions made of it.
struct OutboundMessage {
    let message: BrokerMessage
    let qos: QoS
    let retain: Bool
    let subscriptionIdentifiers: [UInt32]
}

/// What the client on the other end permits.
struct ReceiverLimits {
    let version: ProtocolVersion
    /// In-flight messages: the client's Receive Maximum or the broker's own limit.
    let window: Int
    /// Maximum Packet Size in bytes.
    let maximumPacketSize: Int
}

/// QoS 1 and 2 messages to one client: queued, in flight, and sent again after a reconnect (section 4.4).
struct OutboundMessages {
    private enum Step {
        /// PUBLISH awaits its PUBACK or PUBREC.
        case publish(OutboundMessage)
        /// PUBREL awaits its PUBCOMP.
        case release
    }

    private struct InFlight {
        /// Counts the identifiers given out: the message has the identifier `serial % 65535 + 1`.
        let serial: UInt64
        var step: Step
        /// Whether it was sent as PUBLISH on the present connection: a resent PUBREL takes nothing from
        /// the window, so its PUBCOMP gives nothing back (section 4.9).
        var occupiesWindow = false

        var packetIdentifier: PacketIdentifier { PacketIdentifier(serial % 65535 + 1) }
    }

    private var queue: [OutboundMessage] = []
    /// Where the queue begins; what precedes it has been taken.
    private var queueStart = 0
    private(set) var queuedBytes = 0
    /// In the order in which the messages were first sent [MQTT-4.6.0-1].
    private var inFlight: [InFlight] = []
    /// How many of `inFlight`, from the start, were sent on the present connection.
    private var sent = 0
    /// Messages that count against the window (section 4.9).
    private var windowUsed = 0
    private var nextSerial: UInt64 = 0

    var queuedMessages: Int { queue.count - queueStart }
    var isIdle: Bool { queuedMessages == 0 && sent == inFlight.count }

    mutating func enqueue(_ message: OutboundMessage) {
        queue.append(message)
        queuedBytes += message.message.payload.count
    }

    /// A new connection: everything unacknowledged is to be sent again, in order [MQTT-4.4.0-1].
    mutating func resume() {
        sent = 0
        windowUsed = 0
        for index in inFlight.indices { inFlight[index].occupiesWindow = false }
    }

    /// Appends as many packets as the window and `outputLimit` permit; returns the number of messages that
    /// were given up, because they had expired or are larger than the client accepts [MQTT-3.1.2-25].
    mutating func pump(
        limits: ReceiverLimits, outputLimit: Int, now: ContinuousClock.Instant, into output: inout [UInt8]
    ) -> Int {
        var dropped = 0
        while output.count < outputLimit {
            if sent < inFlight.count {
                switch inFlight[sent].step {
                case .release:
                    let pubrel = Acknowledgement(packetIdentifier: inFlight[sent].packetIdentifier)
                    output.append(.pubrel(pubrel), for: limits.version)
                    sent += 1
                case .publish(let message):
                    guard windowUsed < limits.window else { return dropped }
                    let packetIdentifier = inFlight[sent].packetIdentifier
                    if send(message, packetIdentifier, isDuplicate: true, limits, now, &output) {
                        inFlight[sent].occupiesWindow = true
                        windowUsed += 1
                        sent += 1
                    } else {
                        inFlight.remove(at: sent)
                        dropped += 1
                    }
                }
            } else {
                guard queuedMessages > 0, windowUsed < limits.window else { return dropped }
                let message = takeFirstQueued()
                guard !message.message.isExpired(at: now) else {
                    dropped += 1
                    continue
                }
                var new = InFlight(serial: takeSerial(), step: .publish(message))
                if send(message, new.packetIdentifier, isDuplicate: false, limits, now, &output) {
                    new.occupiesWindow = true
                    windowUsed += 1
                    inFlight.append(new)
                    sent += 1
                } else {
                    dropped += 1
                }
            }
        }
        return dropped
    }

    /// PUBACK: the message is delivered. An unknown identifier is ignored.
    mutating func acknowledged(_ packetIdentifier: PacketIdentifier) {
        guard let index = index(of: packetIdentifier), case .publish(let message) = inFlight[index].step,
            message.qos == .atLeastOnce
        else { return }
        remove(at: index)
    }

    /// PUBREC: the client has the message, or refuses it. Returns whether the identifier is known.
    mutating func received(_ packetIdentifier: PacketIdentifier, refused: Bool) -> Bool {
        guard let index = index(of: packetIdentifier) else { return false }
        if case .publish(let message) = inFlight[index].step, message.qos != .exactlyOnce { return false }
        if refused {
            remove(at: index)
        } else {
            inFlight[index].step = .release
        }
        return true
    }

    /// PUBCOMP: the message is done with. An unknown identifier is ignored.
    mutating func completed(_ packetIdentifier: PacketIdentifier) {
        guard let index = index(of: packetIdentifier), case .release = inFlight[index].step else { return }
        remove(at: index)
    }

    private func index(of packetIdentifier: PacketIdentifier) -> Int? {
        // Only what went out on this connection can be answered on it; the answers mostly keep the order.
        inFlight[..<sent].firstIndex { $0.packetIdentifier == packetIdentifier }
    }

    private mutating func remove(at index: Int) {
        if inFlight.remove(at: index).occupiesWindow { windowUsed -= 1 }
        sent -= 1
    }

    private mutating func takeFirstQueued() -> OutboundMessage {
        let message = queue[queueStart]
        queueStart += 1
        queuedBytes -= message.message.payload.count
        if queueStart == queue.count {
            queue.removeAll(keepingCapacity: queueStart <= 1024)
            queueStart = 0
        } else if queueStart >= 1024 && queueStart * 2 >= queue.count {
            queue.removeFirst(queueStart)
            queueStart = 0
        }
        return message
    }

    /// Skips identifiers that are in use [MQTT-2.2.1-4]; the window never takes all 65,535.
    private mutating func takeSerial() -> UInt64 {
        defer { nextSerial += 1 }
        // `inFlight` is in the order of serials, so within 65,535 of its first there can be no clash.
        guard let first = inFlight.first, nextSerial - first.serial >= 65535 else { return nextSerial }
        while inFlight.contains(where: { ($0.serial % 65535) == nextSerial % 65535 }) { nextSerial += 1 }
        return nextSerial
    }

    /// Whether the message fits the client's Maximum Packet Size; otherwise nothing is appended.
    private mutating func send(
        _ message: OutboundMessage, _ packetIdentifier: PacketIdentifier, isDuplicate: Bool,
        _ limits: ReceiverLimits, _ now: ContinuousClock.Instant, _ output: inout [UInt8]
    ) -> Bool {
        let start = output.count
        let publish = message.message.publish(
            qos: message.qos, retain: message.retain, isDuplicate: isDuplicate,
            packetIdentifier: packetIdentifier, subscriptionIdentifiers: message.subscriptionIdentifiers,
            now: now)
        guard output.append(.publish(publish), for: limits.version),
            output.count - start <= limits.maximumPacketSize
        else {
            output.removeSubrange(start...)
            return false
        }
        return true
    }
}

extension [UInt8] {
    /// Appends the packet; returns whether it can be written at all. Otherwise nothing is appended.
    @discardableResult
    mutating func append(_ packet: ControlPacket, for version: ProtocolVersion) -> Bool {
        do {
            try packet.encode(for: version, into: &self)
            return true
        } catch {
            return false
        }
    }
}
