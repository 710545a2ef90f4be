/// DISCONNECT (section 3.14). On 3.1.1 it carries nothing.
package struct Disconnect: Sendable, Hashable {
    package var reasonCode: ReasonCode
    package var properties: Properties

    package init(reasonCode: ReasonCode = .normalDisconnection, properties: Properties = Properties()) {
        self.reasonCode = reasonCode
        self.properties = properties
    }
}

/// AUTH (5.0, section 3.15).
package struct Auth: Sendable, Hashable {
    package var reasonCode: ReasonCode
    package var properties: Properties

    package init(reasonCode: ReasonCode = .success, properties: Properties = Properties()) {
        self.reasonCode = reasonCode
        self.properties = properties
    }
}
