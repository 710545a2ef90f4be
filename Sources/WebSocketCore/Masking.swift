/// A frame's masking key, turned to the payload byte that is next (RFC 6455 §5.3).
struct MaskingKey: Sendable {
    /// Byte 0 of the key in the low eight bits.
    private var word: UInt32

    /// - Parameter key: the first byte on the wire is the most significant one.
    init(_ key: UInt32) { word = key.byteSwapped }

    /// XORs the bytes in place, and leaves the key turned to the byte after them.
    mutating func apply(to bytes: UnsafeMutableRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        let count = bytes.count
        let wide = (UInt64(word) << 32 | UInt64(word)).littleEndian
        var index = 0
        while count &- index >= 8 {
            let masked = base.loadUnaligned(fromByteOffset: index, as: UInt64.self) ^ wide
            base.storeBytes(of: masked, toByteOffset: index, as: UInt64.self)
            index &+= 8
        }
        // Whole words leave the key where it was, so the tail begins with key byte 0.
        var rest = word
        while index < count {
            let masked = base.load(fromByteOffset: index, as: UInt8.self) ^ UInt8(truncatingIfNeeded: rest)
            base.storeBytes(of: masked, toByteOffset: index, as: UInt8.self)
            rest = rest &>> 8
            if index & 3 == 3 { rest = word }
            index &+= 1
        }
        let turn = UInt32(truncatingIfNeeded: count & 3) * 8
        word = turn == 0 ? word : word &>> turn | word &<< (32 - turn)
    }
}
