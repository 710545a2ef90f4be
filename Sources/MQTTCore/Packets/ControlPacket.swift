/// Any of the fifteen MQTT Control Packets (section 2.1.2).
///
/// One model serves both protocol versions: what exists only in 5.0 (properties, reason codes) keeps
/// its neutral value on a 3.1.1 connection and is not encoded there.
package enum ControlPacket: Sendable, Hashable {
    case connect(Connect)
    case connack(Connack)
    case publish(Publish)
    case puback(Acknowledgement)
    case pubrec(Acknowledgement)
    case pubrel(Acknowledgement)
    case pubcomp(Acknowledgement)
    case subscribe(Subscribe)
    case suback(Suback)
    case unsubscribe(Unsubscribe)
    case unsuback(Unsuback)
    case pingreq
    case pingresp
    case disconnect(Disconnect)
    case auth(Auth)
}

extension ControlPacket {
    /// Whether the packet carries what only a client that asked for it gets (5.0, section 3.1.2.11.7): CONNACK,
    /// PUBLISH and DISCONNECT may carry it always.
    var hasProblemInformation: Bool {
        let properties: Properties
        switch self {
        case .puback(let packet), .pubrec(let packet), .pubrel(let packet), .pubcomp(let packet):
            properties = packet.properties
        case .suback(let packet): properties = packet.properties
        case .unsuback(let packet): properties = packet.properties
        case .auth(let packet): properties = packet.properties
        case .connect, .connack, .publish, .subscribe, .unsubscribe, .pingreq, .pingresp, .disconnect:
            return false
        }
        return properties.contains(.reasonString) || properties.contains(.userProperty)
    }
}
