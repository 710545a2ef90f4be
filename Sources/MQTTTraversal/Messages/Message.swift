/// A message as it arrived.
public struct Message: Sendable, Hashable {
    public var topic: String
    public var payload: [UInt8]
    /// The QoS at which this server sent it.
    public var qos: QoS
    /// Whether it is a retained message, sent because the subscription is new (3.3.1.3).
    public var retain: Bool
    /// Whether it is a retained message that comes once more because the subscription had to be made again: the
    /// session was lost with the last connection, so the client repeated the SUBSCRIBE, and the server answers as it
    /// does for a new one. The topic's retained message may be the one that came then, or one published meanwhile:
    /// the topic and the payload tell.
    ///
    /// False for the first retained messages of a subscription, for live ones, and with Retain As Published (5.0), where
    /// RETAIN doesn't tell the two apart.
    public var isRetainedRepetition: Bool
    /// The DUP flag: the server may have sent it before. QoS 2 messages are never handed out twice.
    public var isDuplicate: Bool
    /// What came with it under 5.0: content type, response topic, user properties …; empty under 3.1.1.
    public var properties: Properties
    var pendingAcknowledgement = PendingAcknowledgement()

    /// A message made by hand, for a program's own tests.
    public init(
        topic: String, payload: [UInt8], qos: QoS = .atMostOnce, retain: Bool = false,
        isRetainedRepetition: Bool = false, isDuplicate: Bool = false,
        properties: Properties = Properties()
    ) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.isRetainedRepetition = isRetainedRepetition
        self.isDuplicate = isDuplicate
        self.properties = properties
    }

    init(_ publish: Publish) {
        self.init(
            topic: publish.topicName, payload: publish.payload, qos: publish.qos, retain: publish.retain,
            isDuplicate: publish.isDuplicate, properties: publish.properties)
    }

    /// Acknowledges a message of a subscription with ``AcknowledgementMode/manual``: PUBACK, or PUBREC, goes out
    /// once all messages before it are acknowledged too [MQTT-4.6.0-2]. Repeating it does nothing, and neither does
    /// it where there is nothing to acknowledge, or not any more.
    public func acknowledge() {
        guard let token = pendingAcknowledgement.token else { return }
        pendingAcknowledgement.buffer?.acknowledge(token)
    }

    /// Whether the server waits for `acknowledge()`. False after a lost connection for QoS 1: the message comes again.
    public var awaitsAcknowledgement: Bool {
        guard let token = pendingAcknowledgement.token, let buffer = pendingAcknowledgement.buffer else {
            return false
        }
        return !buffer.isAcknowledged(token)
    }

    /// The payload as text.
    ///
    /// - Throws: `MQTTError` (`client.invalid_argument`) where it isn't UTF-8.
    public var text: String {
        get throws(MQTTError) {
            guard let text = String(validating: payload, as: UTF8.self) else {
                throw MQTTError(.clientInvalidArgument, stage: .established, "the payload isn't UTF-8")
            }
            return text
        }
    }
}

/// The way back to the client. What a message says doesn't depend on it.
struct PendingAcknowledgement: Sendable, Hashable {
    /// nil where the client acknowledges by itself.
    var token: IncomingToken?
    /// nil as long as the message is in it.
    var buffer: MessageBuffer?

    static func == (one: PendingAcknowledgement, other: PendingAcknowledgement) -> Bool { true }
    func hash(into hasher: inout Hasher) {}
}
