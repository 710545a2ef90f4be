/// The Control Packet types (section 2.1.2).
package enum PacketType: UInt8, Sendable, Hashable, CaseIterable {
    case connect = 1
    case connack = 2
    case publish = 3
    case puback = 4
    case pubrec = 5
    case pubrel = 6
    case pubcomp = 7
    case subscribe = 8
    case suback = 9
    case unsubscribe = 10
    case unsuback = 11
    case pingreq = 12
    case pingresp = 13
    case disconnect = 14
    /// 5.0 only; reserved in 3.1.1.
    case auth = 15

    /// The name as the specification writes it.
    package var specificationName: String {
        switch self {
        case .connect: "CONNECT"
        case .connack: "CONNACK"
        case .publish: "PUBLISH"
        case .puback: "PUBACK"
        case .pubrec: "PUBREC"
        case .pubrel: "PUBREL"
        case .pubcomp: "PUBCOMP"
        case .subscribe: "SUBSCRIBE"
        case .suback: "SUBACK"
        case .unsubscribe: "UNSUBSCRIBE"
        case .unsuback: "UNSUBACK"
        case .pingreq: "PINGREQ"
        case .pingresp: "PINGRESP"
        case .disconnect: "DISCONNECT"
        case .auth: "AUTH"
        }
    }

    /// The fixed header's lower four bits, or nil where they carry meaning (section 2.1.3).
    @inline(__always)
    var requiredFlags: UInt8? {
        switch self {
        case .publish: nil
        case .pubrel, .subscribe, .unsubscribe: 0b0010
        case .connect, .connack, .puback, .pubrec, .pubcomp, .suback, .unsuback, .pingreq, .pingresp,
            .disconnect, .auth:
            0
        }
    }

    /// Whether a peer in the other role may send this type (Table 2-1).
    func isReceived(by role: PacketDecoder.Role, version: ProtocolVersion) -> Bool {
        switch self {
        case .publish, .puback, .pubrec, .pubrel, .pubcomp: true
        case .connect, .subscribe, .unsubscribe, .pingreq: role == .server
        case .connack, .suback, .unsuback, .pingresp: role == .client
        case .disconnect: role == .server || version == .v5
        case .auth: version == .v5
        }
    }
}

extension ControlPacket {
    package var type: PacketType {
        switch self {
        case .connect: .connect
        case .connack: .connack
        case .publish: .publish
        case .puback: .puback
        case .pubrec: .pubrec
        case .pubrel: .pubrel
        case .pubcomp: .pubcomp
        case .subscribe: .subscribe
        case .suback: .suback
        case .unsubscribe: .unsubscribe
        case .unsuback: .unsuback
        case .pingreq: .pingreq
        case .pingresp: .pingresp
        case .disconnect: .disconnect
        case .auth: .auth
        }
    }
}
