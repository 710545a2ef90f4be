/// UTF-8 as it arrives in pieces (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
struct UTF8Validator: Sendable {
    /// Continuation bytes the current character still needs.
    private var needed: UInt8 = 0
    /// Where the next continuation byte must lie: narrower than 80…BF after E0, ED, F0 and F4.
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    /// Whether the bytes so far end between two characters.
    var isComplete: Bool { needed == 0 }

    /// - Returns: the index of the first byte that no continuation can make valid, or nil.
    mutating func firstInvalid(in bytes: UnsafeRawBufferPointer) -> Int? {
        var index = 0
        let count = bytes.count
        while index < count {
            if needed == 0 {
                while count &- index >= 8,
                    bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
                {
                    index &+= 8
                }
                guard index < count else { return nil }
            }
            guard accept(bytes[index]) else { return index }
            index &+= 1
        }
        return nil
    }

    private mutating func accept(_ byte: UInt8) -> Bool {
        if needed > 0 {
            guard lowest...highest ~= byte else { return false }
            needed &-= 1
            lowest = 0x80
            highest = 0xBF
            return true
        }
        switch byte {
        case 0x00...0x7F: break
        case 0xC2...0xDF: needed = 1
        case 0xE0...0xEF:
            needed = 2
            if byte == 0xE0 { lowest = 0xA0 }
            if byte == 0xED { highest = 0x9F }
        case 0xF0...0xF4:
            needed = 3
            if byte == 0xF0 { lowest = 0x90 }
            if byte == 0xF4 { highest = 0x8F }
        default: return false
        }
        return true
    }
}
