/// The pool of packet identifiers that PUBLISH, SUBSCRIBE and UNSUBSCRIBE share (section 2.2.1).
///
/// Identifiers rotate through a window, so that a freed one rests before it is used again: a server's
/// late second answer then rarely meets a new packet. The window doubles as it gets half full, up to all
/// 65,535, which keeps the tables indexed by identifier small in a client with little in flight.
struct PacketIdentifiers: Sendable {
    /// One bit for each identifier below `window`; bit 0 stands for the identifier 0 and is always set.
    private var used: [UInt64] = [1]
    private var cursor = 1
    private(set) var inUse = 0

    static let capacity = 65_535

    private var window: Int { used.count * 64 }

    var isExhausted: Bool { inUse >= Self.capacity }

    /// The next free identifier, not yet taken; nil when all 65,535 are in use.
    mutating func next() -> PacketIdentifier? {
        if isExhausted { return nil }
        if (inUse + 1) * 2 > window, window < Self.capacity {
            used.append(contentsOf: repeatElement(0, count: used.count))
        }
        if cursor >= window { cursor = 1 }
        var word = cursor >> 6
        // Bits below the cursor in its word are looked at last, after one whole turn.
        var free = ~used[word] & (~0 << UInt64(cursor & 63))
        while free == 0 {
            word = word + 1 < used.count ? word + 1 : 0
            free = ~used[word]
        }
        cursor = word << 6 + free.trailingZeroBitCount
        return PacketIdentifier(cursor)
    }

    mutating func take(_ identifier: PacketIdentifier) {
        let index = Int(identifier)
        while index >= window { used.append(contentsOf: repeatElement(0, count: used.count)) }
        guard used[index >> 6] & (1 << UInt64(index & 63)) == 0 else { return }
        used[index >> 6] |= 1 << UInt64(index & 63)
        inUse += 1
        cursor = index + 1
    }

    mutating func free(_ identifier: PacketIdentifier) {
        let index = Int(identifier)
        guard identifier != 0, index < window, used[index >> 6] & (1 << UInt64(index & 63)) != 0 else {
            return
        }
        used[index >> 6] &= ~(1 << UInt64(index & 63))
        inUse -= 1
    }

    /// Frees all; the rotation goes on, so that the next ones aren't those just used.
    mutating func removeAll() {
        for word in used.indices { used[word] = 0 }
        used[0] = 1
        inUse = 0
    }
}
