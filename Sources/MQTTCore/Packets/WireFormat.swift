/// Sizes and primitive encodings of section 1.5, which encoder and decoder share.
package enum WireFormat {
    /// The greatest Variable Byte Integer, and so the greatest Remaining Length (section 1.5.5).
    package static let maximumRemainingLength: UInt32 = 268_435_455
    /// The greatest packet: its first byte, four bytes of Remaining Length and what these count.
    package static let maximumPacketSize: UInt32 = 268_435_460
    /// The longest string or binary field, in bytes (sections 1.5.4 and 1.5.6).
    package static let maximumFieldLength = 65_535

    /// How many bytes `value` takes as a Variable Byte Integer in its one minimal form [MQTT-1.5.5-1].
    @inline(__always)
    static func variableByteIntegerSize(_ value: Int) -> Int {
        value < 128 ? 1 : value < 16_384 ? 2 : value < 2_097_152 ? 3 : 4
    }

    /// Whether any byte is 0. In UTF-8 that byte means U+0000 and nothing else.
    @inline(__always)
    static func containsNull(_ bytes: UnsafeRawBufferPointer) -> Bool {
        // No early exit: strings are short and the loop vectorises.
        var found = false
        for byte in bytes { found = found || byte == 0 }
        return found
    }

    /// Whether any byte is `+` or `#`.
    @inline(__always)
    static func containsWildcard(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var found = false
        for byte in bytes { found = found || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "#") }
        return found
    }
}

extension [UInt8] {
    @inline(__always)
    mutating func append(bigEndian value: UInt16) {
        append(UInt8(truncatingIfNeeded: value >> 8))
        append(UInt8(truncatingIfNeeded: value))
    }

    @inline(__always)
    mutating func append(bigEndian value: UInt32) {
        append(bigEndian: UInt16(truncatingIfNeeded: value >> 16))
        append(bigEndian: UInt16(truncatingIfNeeded: value))
    }

    /// `value` has been checked to be at most 268,435,455.
    @inline(__always)
    mutating func append(variableByteInteger value: Int) {
        var rest = UInt32(truncatingIfNeeded: value)
        while rest >= 128 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }

    /// `string` has been checked to take at most 65,535 bytes.
    @inline(__always)
    mutating func append(field string: String) {
        let utf8 = string.utf8
        append(bigEndian: UInt16(truncatingIfNeeded: utf8.count))
        append(contentsOf: utf8)
    }

    /// `bytes` has been checked to be at most 65,535 bytes long.
    @inline(__always)
    mutating func append(field bytes: [UInt8]) {
        append(bigEndian: UInt16(truncatingIfNeeded: bytes.count))
        append(contentsOf: bytes)
    }
}
