/// A message as it arrived.
public struct Message: Sendable, Hashable {
    public var topic: String
    public var payload: [UInt8]
    /// The QoS at which this server sent it.
    public var qos: QoS
    /// Whether it is a retained message, sent because the subscription is new (3.3.1.3).
    public var retain: Bool
    /// The DUP flag: the server may have sent it before. QoS 2 messages are never handed out twice.
    public var isDuplicate: Bool
    /// What came with it under 5.0: content type, response topic, user properties …; empty under 3.1.1.
    public var properties: Properties

    /// A message made by hand, for a program's own tests.
    public init(
        topic: String, payload: [UInt8], qos: QoS = .atMostOnce, retain: Bool = false,
        isDuplicate: Bool = false,
        properties: Properties = Properties()
    ) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.isDuplicate = isDuplicate
        self.properties = properties
    }

    init(_ publish: Publish) {
        self.init(
            topic: publish.topicName, payload: publish.payload, qos: publish.qos, retain: publish.retain,
            isDuplicate: publish.isDuplicate, properties: publish.properties)
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
