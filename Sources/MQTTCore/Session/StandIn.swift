package enum EncodeError: Error, Sendable, Hashable { case invalid }
extension ControlPacket {
    package func encode(for version: ProtocolVersion, into bytes: inout [UInt8]) throws(EncodeError) {
        throw .invalid
    }
    package func encodedSize(for version: ProtocolVersion) -> Int { 0 }
}
package enum DecodeError: Error, Sendable, Hashable {
    case invalid
    package var reasonCode: ReasonCode { .malformedPacket }
}
