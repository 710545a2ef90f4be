/// Reads the fields of one packet's body; every read is bounded by the packet's end.
struct FieldReader {
    /// What has not been read yet.
    private(set) var rest: UnsafeRawBufferPointer
    /// The packet, for errors.
    let type: PacketType

    init(_ body: UnsafeRawBufferPointer, of type: PacketType) {
        rest = body
        self.type = type
    }

    @inline(__always)
    var isAtEnd: Bool { rest.isEmpty }

    @inline(__always)
    mutating func byte() throws(DecodeError) -> UInt8 {
        guard rest.count >= 1 else { throw .missingField(type) }
        let value = rest[0]
        skip(1)
        return value
    }

    @inline(__always)
    mutating func uint16() throws(DecodeError) -> UInt16 {
        guard rest.count >= 2 else { throw .missingField(type) }
        let value = UInt16(bigEndian: rest.loadUnaligned(as: UInt16.self))
        skip(2)
        return value
    }

    @inline(__always)
    mutating func uint32() throws(DecodeError) -> UInt32 {
        guard rest.count >= 4 else { throw .missingField(type) }
        let value = UInt32(bigEndian: rest.loadUnaligned(as: UInt32.self))
        skip(4)
        return value
    }

    /// A Variable Byte Integer inside a packet: these exist in 5.0 only, which demands the minimal form.
    mutating func variableByteInteger() throws(DecodeError) -> UInt32 {
        var value: UInt32 = 0
        for index in 0..<4 {
            let byte = try byte()
            value |= UInt32(byte & 0x7F) << UInt32(7 * index)
            if byte < 0x80 {
                // [MQTT-1.5.5-1]
                guard byte != 0 || index == 0 else { throw .variableByteIntegerNotMinimal }
                return value
            }
        }
        throw .variableByteIntegerTooLong
    }

    /// The bytes of a field that starts with its length (sections 1.5.4 and 1.5.6).
    @inline(__always)
    mutating func field() throws(DecodeError) -> UnsafeRawBufferPointer {
        let length = Int(try uint16())
        guard length <= rest.count else { throw .fieldOverrun(type) }
        let field = UnsafeRawBufferPointer(rebasing: rest[0..<length])
        skip(length)
        return field
    }

    mutating func binary() throws(DecodeError) -> [UInt8] {
        [UInt8](try field())
    }

    mutating func string() throws(DecodeError) -> String {
        try Self.string(try field(), in: type)
    }

    /// A non-zero packet identifier (section 2.2.1).
    @inline(__always)
    mutating func packetIdentifier() throws(DecodeError) -> PacketIdentifier {
        let identifier = try uint16()
        guard identifier != 0 else { throw .packetIdentifierZero(type) }
        return identifier
    }

    /// A reader of the next `length` bytes, which this one skips; nil if there are fewer.
    mutating func section(_ length: UInt32) -> FieldReader? {
        guard let length = Int(exactly: length), length <= rest.count else { return nil }
        let section = FieldReader(UnsafeRawBufferPointer(rebasing: rest[0..<length]), of: type)
        skip(length)
        return section
    }

    /// Everything up to the packet's end.
    @inline(__always)
    mutating func remaining() -> [UInt8] {
        let bytes = [UInt8](rest)
        skip(rest.count)
        return bytes
    }

    func expectEnd() throws(DecodeError) {
        guard rest.isEmpty else { throw .trailingBytes(type) }
    }

    /// Checks [MQTT-1.5.4-1] and [MQTT-1.5.4-2]; U+FEFF stays where it is [MQTT-1.5.4-3].
    static func string(
        _ bytes: UnsafeRawBufferPointer, in type: PacketType
    ) throws(DecodeError) -> String {
        guard !WireFormat.containsNull(bytes) else { throw .nullCharacter(type) }
        // Much faster than String(validating:as:), which makes no use of a buffer's contiguity.
        guard let utf8 = try? UTF8Span(validating: bytes.assumingMemoryBound(to: UInt8.self).span) else {
            throw .illFormedUTF8(type)
        }
        return String(copying: utf8)
    }

    @inline(__always)
    private mutating func skip(_ count: Int) {
        rest = UnsafeRawBufferPointer(rebasing: rest[count...])
    }
}
