/// CONNECT (section 3.1).
package struct Connect: Sendable, Hashable {
    package var version: ProtocolVersion
    package var clientIdentifier: String
    /// Clean Start in 5.0, Clean Session in 3.1.1.
    package var cleanStart: Bool
    /// Keep Alive in seconds, 0 to switch it off.
    package var keepAlive: UInt16
    package var will: Will?
    package var userName: String?
    package var password: [UInt8]?
    package var properties: Properties

    package init(
        version: ProtocolVersion = .v5, clientIdentifier: String, cleanStart: Bool = true,
        keepAlive: UInt16 = 30, will: Will? = nil, userName: String? = nil, password: [UInt8]? = nil,
        properties: Properties = Properties()
    ) {
        self.version = version
        self.clientIdentifier = clientIdentifier
        self.cleanStart = cleanStart
        self.keepAlive = keepAlive
        self.will = will
        self.userName = userName
        self.password = password
        self.properties = properties
    }
}

/// The Will Message as CONNECT carries it (sections 3.1.2.5 and 3.1.3.2).
package struct Will: Sendable, Hashable {
    package var topicName: String
    package var payload: [UInt8]
    package var qos: QoS
    package var retain: Bool
    package var properties: Properties

    package init(
        topicName: String, payload: [UInt8], qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties()
    ) {
        self.topicName = topicName
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = properties
    }
}

/// CONNACK (section 3.2).
///
/// On a 3.1.1 connection `reasonCode` holds the Connect Return code, 0 to 5 (section 3.2.2.3 there).
package struct Connack: Sendable, Hashable {
    package var sessionPresent: Bool
    package var reasonCode: ReasonCode
    package var properties: Properties

    package init(
        sessionPresent: Bool, reasonCode: ReasonCode = .success, properties: Properties = Properties()
    ) {
        self.sessionPresent = sessionPresent
        self.reasonCode = reasonCode
        self.properties = properties
    }
}
