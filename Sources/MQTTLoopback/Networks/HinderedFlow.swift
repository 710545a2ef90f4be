/// What a hindrance makes of the bytes that pass both ways; it reads no clock and no socket.
struct HinderedFlow {
    enum Action: Sendable, Hashable {
        case toServer([UInt8])
        case toClient([UInt8])
        /// In order, both sides.
        case close
        /// Both sides.
        case reset
    }

    private let hindrance: HostilePart.Hindrance?
    private var waiting: [(due: ContinuousClock.Instant, action: Action)] = []
    private var lastByte: ContinuousClock.Instant
    private var isBlackholed = false
    private var held: [UInt8] = []
    /// The end of the first head of HTTP has passed; what matches of it so far.
    private var headEnd = 0
    private var packets = PacketScanner()

    init(_ hindrance: HostilePart.Hindrance?, now: ContinuousClock.Instant) {
        self.hindrance = hindrance
        lastByte = now
    }

    /// nil where nothing is waited for.
    var nextDeadline: ContinuousClock.Instant? {
        if let first = waiting.first { return first.due }
        guard case .idle(let limit, _) = hindrance, !isBlackholed else { return nil }
        return lastByte + limit
    }

    mutating func received(
        _ bytes: [UInt8], isFromClient: Bool, now: ContinuousClock.Instant
    ) -> [Action] {
        if isBlackholed { return [] }
        lastByte = now
        switch hindrance {
        case nil, .idle?: return [Self.pass(bytes, isFromClient)]
        case .delay(let time)?:
            waiting.append((now + time, Self.pass(bytes, isFromClient)))
            return []
        case .buffers(let size)?:
            return isFromClient ? [.toServer(bytes)] : buffered(bytes, until: size)
        case .longestPacket(let limit)?:
            guard isFromClient else { return [.toClient(bytes)] }
            let scan = packets.scan(bytes)
            return scan.contains { $0.length > limit } ? [.reset] : [.toServer(bytes)]
        case .losesPublishes?:
            guard isFromClient else { return [.toClient(bytes)] }
            let kept = packets.scan(bytes).filter { $0.type != 3 }.flatMap { bytes[$0.range] }
            return kept.isEmpty ? [] : [.toServer(kept)]
        }
    }

    mutating func serverEnded(byReset: Bool, now: ContinuousClock.Instant) -> [Action] {
        if isBlackholed { return [] }
        let rest = held
        held = []
        let end = byReset ? Action.reset : .close
        if case .delay(let time)? = hindrance {
            waiting.append((now + time, end))
            return []
        }
        return (rest.isEmpty ? [] : [.toClient(rest)]) + [end]
    }

    mutating func deadlineReached(now: ContinuousClock.Instant) -> [Action] {
        if case .idle(let limit, let end) = hindrance, now >= lastByte + limit {
            switch end {
            case .fin: return [.close]
            case .reset: return [.reset]
            case .blackhole:
                isBlackholed = true
                return []
            }
        }
        let count = waiting.firstIndex { $0.due > now } ?? waiting.count
        defer { waiting.removeFirst(count) }
        return waiting[..<count].map(\.action)
    }

    private static func pass(_ bytes: [UInt8], _ isFromClient: Bool) -> Action {
        isFromClient ? .toServer(bytes) : .toClient(bytes)
    }

    private mutating func buffered(_ bytes: [UInt8], until size: Int) -> [Action] {
        let end = Array("\r\n\r\n".utf8)
        var passing = 0
        while headEnd < end.count, passing < bytes.count {
            headEnd = bytes[passing] == end[headEnd] ? headEnd + 1 : bytes[passing] == end[0] ? 1 : 0
            passing += 1
        }
        held += bytes[passing...]
        var actions: [Action] = passing > 0 ? [.toClient(Array(bytes[..<passing]))] : []
        if held.count >= size {
            actions.append(.toClient(held))
            held = []
        }
        return actions
    }
}

/// Follows the packets in a stream of MQTT by their fixed headers (section 2.1).
struct PacketScanner {
    /// A packet, or what of it is among the bytes.
    struct Piece {
        /// Of the packet.
        var type: UInt8
        /// Of the whole packet; 0 while its header isn't complete.
        var length: Int
        var range: Range<Int>
    }

    private var type: UInt8 = 0
    private var length = 0
    /// Of the Remaining Length, whose bytes still come; nil once it is complete.
    private var shift: Int?
    private var missing = 0

    mutating func scan(_ bytes: [UInt8]) -> [Piece] {
        var pieces: [Piece] = []
        var position = 0
        while position < bytes.count {
            let start = position
            if shift == nil, missing == 0 {
                type = bytes[position] >> 4
                (length, shift) = (1, 0)
                missing = 0
                position += 1
            }
            while let itsShift = shift, position < bytes.count {
                let byte = bytes[position]
                missing |= Int(byte & 0x7F) << itsShift
                length += 1
                shift = byte & 0x80 != 0 && itsShift < 21 ? itsShift + 7 : nil
                if shift == nil { length += missing }
                position += 1
            }
            if shift == nil {
                let count = min(missing, bytes.count - position)
                missing -= count
                position += count
            }
            pieces.append(Piece(type: type, length: shift == nil ? length : 0, range: start..<position))
        }
        return pieces
    }
}
