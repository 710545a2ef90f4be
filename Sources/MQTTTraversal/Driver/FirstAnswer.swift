/// The first bytes of a peer that hasn't sent its CONNACK yet: they tell another protocol better than the rule
/// of MQTT that they happen to break.
struct FirstAnswer {
    private(set) var bytes: [UInt8] = []

    private static let capacity = 64

    mutating func append(_ more: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: more.prefix(Self.capacity - bytes.count))
    }

    /// Whether it is text, as the banner of a mail server, whose first byte may pass for that of a long PUBLISH.
    /// CONNACK never is: its third byte is 0 or 1 (3.2.2.1).
    var isText: Bool {
        bytes.count >= 4
            && bytes.prefix(4).allSatisfy { byte in
                switch byte {
                case 0x20...0x7E, UInt8(ascii: "\r"), UInt8(ascii: "\n"), UInt8(ascii: "\t"): true
                default: false
                }
            }
    }

    /// What the error of the session really means; nil where it is right as it is.
    func failure(insteadOf error: SessionError) -> TransportError? {
        guard let first = bytes.first else { return nil }
        let isConnack = first == 0x20 && !isText
        // AUTH, flags 0: an exchange before CONNACK (5.0, section 4.12).
        let isAuth = first == 0xF0
        switch error {
        case .connackTimeout where isAuth: return nil
        case .malformed where !isConnack && !isAuth:
            // A server that knows only 3.1.1 answers in its own terms, and that has a name of its own.
            let known = TransportError(session: error, isEstablished: false)
            guard known.code == .mqttNotMQTT else { return nil }
            return TransportError(stage: .mqttConnect, code: .mqttNotMQTT, evidence: .firstBytes(bytes))
        case .connackTimeout where isConnack:
            return TransportError(
                stage: .mqttConnect, code: .mqttConnackTimeout,
                evidence: .text("CONNECT was sent, and only a part of CONNACK came in time"))
        case .connackTimeout:
            return TransportError(stage: .mqttConnect, code: .mqttNotMQTT, evidence: .firstBytes(bytes))
        default: return nil
        }
    }
}
