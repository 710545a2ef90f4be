import MQTTCore

/// Bytes from hexadecimal digits, with ASCII text in single quotes: `30 05 0001'a' 'hi'`.
func wire(_ text: String) -> [UInt8] {
    var bytes: [UInt8] = []
    for (index, part) in text.split(separator: "'", omittingEmptySubsequences: false).enumerated() {
        if index % 2 == 1 {
            bytes += part.utf8
        } else {
            let digits = part.filter { !$0.isWhitespace }.compactMap(\.hexDigitValue)
            for pair in stride(from: 0, to: digits.count - 1, by: 2) {
                bytes.append(UInt8(digits[pair] * 16 + digits[pair + 1]))
            }
        }
    }
    return bytes
}

/// A decoder that can be used inside an expectation, where values can't change.
final class TestDecoder {
    private(set) var decoder: PacketDecoder

    init(
        role: PacketDecoder.Role, version: ProtocolVersion = .v5,
        maximumPacketSize: UInt32 = WireFormat.maximumPacketSize
    ) {
        decoder = PacketDecoder(role: role, version: version, maximumPacketSize: maximumPacketSize)
    }

    var hasPartialPacket: Bool { decoder.hasPartialPacket }
    var bufferedCapacity: Int { decoder.bufferedCapacity }
    var version: ProtocolVersion { decoder.version }

    func next(in input: inout ArraySlice<UInt8>) throws(DecodeError) -> ControlPacket? {
        try decoder.next(in: &input)
    }

    func packets(in bytes: [UInt8]) throws(DecodeError) -> [ControlPacket] {
        try decoder.packets(in: bytes)
    }
}

/// A decoder that is past CONNECT, whichever end it plays.
func readyDecoder(_ role: PacketDecoder.Role, _ version: ProtocolVersion) throws -> TestDecoder {
    let decoder = TestDecoder(role: role, version: version)
    if role == .server {
        let connect = wire(
            version == .v5
                ? "10 0E 0004'MQTT' 05 02 0000 00 0001'c'" : "10 0D 0004'MQTT' 04 02 0000 0001'c'")
        _ = try decoder.packets(in: connect)
    }
    return decoder
}

extension PacketDecoder {
    /// All packets that `bytes` complete.
    mutating func packets(in bytes: [UInt8]) throws(DecodeError) -> [ControlPacket] {
        var rest = bytes[...]
        var packets: [ControlPacket] = []
        while let packet = try next(in: &rest) { packets.append(packet) }
        return packets
    }
}
