/// Which Reason Codes a packet may carry, whoever sends it (5.0, Tables 2-6, 3-1, 3-4 to 3-10; 3.1.1,
/// Table 3.1 and section 3.9.3).
extension ReasonCode {
    package func isValid(in type: PacketType, version: ProtocolVersion) -> Bool {
        switch version {
        case .v5: isValid5(in: type)
        case .v3_1_1: isValid3(in: type)
        }
    }

    private func isValid3(in type: PacketType) -> Bool {
        switch type {
        case .connack: rawValue <= 5
        case .suback: rawValue <= 2 || rawValue == 0x80
        case .connect, .publish, .puback, .pubrec, .pubrel, .pubcomp, .subscribe, .unsubscribe, .unsuback,
            .pingreq, .pingresp, .disconnect, .auth:
            rawValue == 0
        }
    }

    private func isValid5(in type: PacketType) -> Bool {
        switch type {
        case .connack:
            switch rawValue {
            case 0x00, 0x80...0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99...0x9D, 0x9F: true
            default: false
            }
        case .puback, .pubrec:
            switch rawValue {
            case 0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99: true
            default: false
            }
        case .pubrel, .pubcomp: rawValue == 0x00 || rawValue == 0x92
        case .suback:
            switch rawValue {
            case 0x00...0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2: true
            default: false
            }
        case .unsuback:
            switch rawValue {
            case 0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91: true
            default: false
            }
        case .disconnect:
            switch rawValue {
            case 0x00, 0x04, 0x80...0x83, 0x87, 0x89, 0x8B...0x90, 0x93...0xA2: true
            default: false
            }
        case .auth: rawValue == 0x00 || rawValue == 0x18 || rawValue == 0x19
        case .connect, .publish, .subscribe, .unsubscribe, .pingreq, .pingresp: rawValue == 0
        }
    }
}
