extension ReasonCode: CustomStringConvertible {
    /// The name in 5.0 (Table 2-6) with the value, such as `Not authorized (0x87)`.
    public var description: String { "\(name ?? "Unknown reason") (\(hexadecimal))" }

    /// The name of a Connect Return code of 3.1.1 (Table 3.1 there), such as `not authorized (5)`.
    package var connectReturnCodeDescription: String {
        let name =
            switch rawValue {
            case 0: "connection accepted"
            case 1: "unacceptable protocol version"
            case 2: "identifier rejected"
            case 3: "server unavailable"
            case 4: "bad user name or password"
            case 5: "not authorized"
            default: "reserved return code"
            }
        return "\(name) (\(rawValue))"
    }

    /// The name in Table 2-6, nil where the value isn't listed.
    ///
    /// 0x00 is `Success`, though DISCONNECT and SUBACK call it otherwise.
    package var name: String? {
        switch rawValue {
        case 0x00: "Success"
        case 0x01: "Granted QoS 1"
        case 0x02: "Granted QoS 2"
        case 0x04: "Disconnect with Will Message"
        case 0x10: "No matching subscribers"
        case 0x11: "No subscription existed"
        case 0x18: "Continue authentication"
        case 0x19: "Re-authenticate"
        case 0x80: "Unspecified error"
        case 0x81: "Malformed Packet"
        case 0x82: "Protocol Error"
        case 0x83: "Implementation specific error"
        case 0x84: "Unsupported Protocol Version"
        case 0x85: "Client Identifier not valid"
        case 0x86: "Bad User Name or Password"
        case 0x87: "Not authorized"
        case 0x88: "Server unavailable"
        case 0x89: "Server busy"
        case 0x8A: "Banned"
        case 0x8B: "Server shutting down"
        case 0x8C: "Bad authentication method"
        case 0x8D: "Keep Alive timeout"
        case 0x8E: "Session taken over"
        case 0x8F: "Topic Filter invalid"
        case 0x90: "Topic Name invalid"
        case 0x91: "Packet Identifier in use"
        case 0x92: "Packet Identifier not found"
        case 0x93: "Receive Maximum exceeded"
        case 0x94: "Topic Alias invalid"
        case 0x95: "Packet too large"
        case 0x96: "Message rate too high"
        case 0x97: "Quota exceeded"
        case 0x98: "Administrative action"
        case 0x99: "Payload format invalid"
        case 0x9A: "Retain not supported"
        case 0x9B: "QoS not supported"
        case 0x9C: "Use another server"
        case 0x9D: "Server moved"
        case 0x9E: "Shared Subscriptions not supported"
        case 0x9F: "Connection rate exceeded"
        case 0xA0: "Maximum connect time"
        case 0xA1: "Subscription Identifiers not supported"
        case 0xA2: "Wildcard Subscriptions not supported"
        default: nil
        }
    }

    private var hexadecimal: String {
        (rawValue < 16 ? "0x0" : "0x") + String(rawValue, radix: 16, uppercase: true)
    }
}
