import MQTTCore

/// A server's half of section 4.3 with an ideal store, at the far end of a link that breaks.
struct ModelServer {
    /// How often each message of the client arrived, by its number.
    private(set) var received: [Int: Int] = [:]
    private(set) var firstArrivals: [Int] = []
    private(set) var violations: [String] = []
    /// Packets to be sent, in the order of their making; the world picks from the answers.
    var answers: [ControlPacket] = []
    var outbox: [ControlPacket] = []
    private(set) var hasSession = false
    private let version: ProtocolVersion
    private let limits: Properties
    /// Of messages of the client, at once on one connection.
    private let receiveMaximum: Int
    private var queued: [Message] = []
    private var sent: [Sent] = []
    private var lastIdentifier: PacketIdentifier = 0
    /// QoS 2 messages of the client between PUBREC and PUBREL.
    private var held: Set<PacketIdentifier> = []
    // Of one connection.
    private var isConnected = false
    private var inFlight: Set<PacketIdentifier> = []
    private var aliases: [UInt16: String] = [:]

    private struct Sent {
        var identifier: PacketIdentifier
        var message: Message
        var isReleased = false
    }

    init(version: ProtocolVersion) {
        self.version = version
        receiveMaximum = version == .v5 ? 5 : .max
        limits = version == .v5 ? Properties([.receiveMaximum(5), .topicAliasMaximum(2)]) : Properties()
    }

    /// Nothing to send, and all that was sent is answered.
    var isIdle: Bool { queued.isEmpty && sent.isEmpty && answers.isEmpty && outbox.isEmpty }

    /// At most `window` at once, which is the client's Receive Maximum.
    mutating func publish(_ message: Message, window: Int) {
        queued.append(message)
        sendQueued(window: window)
    }

    mutating func sendQueued(window: Int) {
        while isConnected, sent.count < window, !queued.isEmpty {
            let message = queued.removeFirst()
            repeat {
                lastIdentifier = lastIdentifier % 12 + 1
            } while sent.contains { $0.identifier == lastIdentifier }
            sent.append(Sent(identifier: lastIdentifier, message: message))
            outbox.append(.publish(message.publish(lastIdentifier, isDuplicate: false)))
        }
    }

    mutating func disconnected() {
        isConnected = false
        answers = []
        outbox = []
        inFlight = []
        aliases = [:]
    }

    /// The client has it in writing that one of its messages is done.
    mutating func answerArrived(for identifier: PacketIdentifier) { inFlight.remove(identifier) }

    mutating func receive(_ packet: ControlPacket) {
        switch packet {
        case .connect(let connect): connected(connect)
        case .publish(let publish): receive(publish)
        case .pubrel(let release):
            held.remove(release.packetIdentifier)
            answers.append(.pubcomp(acknowledgement(release.packetIdentifier)))
        case .puback(let answer), .pubcomp(let answer):
            sent.removeAll { $0.identifier == answer.packetIdentifier }
        case .pubrec(let answer):
            if let index = sent.firstIndex(where: { $0.identifier == answer.packetIdentifier }) {
                sent[index].isReleased = true
            }
            answers.append(.pubrel(acknowledgement(answer.packetIdentifier)))
        case .pingreq: outbox.append(.pingresp)
        default: violations.append("unexpected \(packet)")
        }
    }

    private mutating func connected(_ connect: Connect) {
        if connect.cleanStart, hasSession { violations.append("a session thrown away") }
        outbox.append(.connack(Connack(sessionPresent: hasSession, properties: limits)))
        hasSession = true
        isConnected = true
        for sent in sent {
            outbox.append(
                sent.isReleased
                    ? .pubrel(acknowledgement(sent.identifier))
                    : .publish(sent.message.publish(sent.identifier, isDuplicate: true)))
        }
    }

    private mutating func receive(_ publish: Publish) {
        var topic = publish.topicName
        if let alias = publish.properties.topicAlias {
            if alias > 2 || alias == 0 { violations.append("alias \(alias)") }
            if topic.isEmpty { topic = aliases[alias] ?? "unknown" } else { aliases[alias] = topic }
        }
        let number = publish.number
        if topic != Message.topic(number) { violations.append("\(number) at \(topic)") }
        guard let identifier = publish.packetIdentifier else { return take(number) }
        inFlight.insert(identifier)
        if inFlight.count > receiveMaximum { violations.append("\(inFlight.count) in flight") }
        if publish.qos == .exactlyOnce {
            if held.contains(identifier), !publish.isDuplicate { violations.append("\(identifier) reused") }
            if held.insert(identifier).inserted { take(number) }
            answers.append(.pubrec(acknowledgement(identifier)))
        } else {
            take(number)
            answers.append(.puback(acknowledgement(identifier)))
        }
    }

    private mutating func take(_ number: Int) {
        if received[number] == nil { firstArrivals.append(number) }
        received[number, default: 0] += 1
    }
}

/// A message whose payload is its number, which also says its topic.
struct Message {
    var number: Int
    var qos: QoS

    static func topic(_ number: Int) -> String { "topic/\(number % 3)" }

    func publish(_ identifier: PacketIdentifier?, isDuplicate: Bool) -> Publish {
        Publish(
            topicName: Self.topic(number), payload: Array(String(number).utf8), qos: qos,
            isDuplicate: isDuplicate, packetIdentifier: identifier)
    }
}

extension Publish {
    var number: Int { Int(String(decoding: payload, as: UTF8.self)) ?? 0 }
}
