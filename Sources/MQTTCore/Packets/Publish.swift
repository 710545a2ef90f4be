/// PUBLISH (section 3.3).
package struct Publish: Sendable, Hashable {
    /// Empty only together with a Topic Alias (5.0, section 3.3.2.1).
    package var topicName: String
    package var payload: [UInt8]
    package var qos: QoS
    package var retain: Bool
    /// The DUP flag.
    package var isDuplicate: Bool
    /// Present exactly when `qos` is above 0.
    package var packetIdentifier: PacketIdentifier?
    package var properties: Properties

    package init(
        topicName: String, payload: [UInt8], qos: QoS = .atMostOnce, retain: Bool = false,
        isDuplicate: Bool = false, packetIdentifier: PacketIdentifier? = nil,
        properties: Properties = Properties()
    ) {
        self.topicName = topicName
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.isDuplicate = isDuplicate
        self.packetIdentifier = packetIdentifier
        self.properties = properties
    }
}

/// PUBACK, PUBREC, PUBREL and PUBCOMP, which share one form (sections 3.4 to 3.7).
package struct Acknowledgement: Sendable, Hashable {
    package var packetIdentifier: PacketIdentifier
    package var reasonCode: ReasonCode
    package var properties: Properties

    package init(
        packetIdentifier: PacketIdentifier, reasonCode: ReasonCode = .success,
        properties: Properties = Properties()
    ) {
        self.packetIdentifier = packetIdentifier
        self.reasonCode = reasonCode
        self.properties = properties
    }
}
