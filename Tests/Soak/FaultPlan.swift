/// What a relay does to one connection. All follows from the seed, the client, and the number of the connection.
struct FaultPlan: Sendable {
    /// How bytes travel as long as they do.
    enum Shaping: Sendable {
        case none
        /// In pieces of at most so many bytes, with a pause before each.
        case slices(largest: Int, pause: Duration)
        case delay(Duration)
    }

    enum Fault: Sendable {
        /// The connection ends in order, on both sides.
        case drop
        /// RST, on both sides.
        case reset
        /// Nothing passes for a while; then what has waited does.
        case stall(Duration)
        /// Nothing passes any more, not even the news that the other side has ended.
        case blackhole
    }

    /// When the fault comes: from the beginning of the connection, or once so many bytes have come, both ways together.
    enum Trigger: Sendable {
        case time(Duration)
        case bytes(Int)
    }

    var shaping = Shaping.none
    var fault: (Fault, Trigger)?

    /// Forwards, and nothing else.
    static let clean = FaultPlan()

    private init() {}

    init(seed: UInt64, client: Int, connection: Int) {
        // Far apart in the sequence, since neighbouring seeds would make neighbouring sequences.
        var random = SplitMix64(seed: seed ^ UInt64(client) &* 0xA076_1D64_78BD_642F)
        random = SplitMix64(seed: random.next() ^ UInt64(connection) &* 0xE703_7ED1_A0B4_28DB)
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<3:
            shaping = .slices(
                largest: .random(in: 16...256, using: &random),
                pause: .milliseconds(Int.random(in: 1...5, using: &random)))
        case 3..<5:
            shaping = .delay(.milliseconds(Int.random(in: 5...300, using: &random)))
        default: break
        }
        let fault: Fault =
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<3: .drop
            case 3..<6: .reset
            case 6..<8: .stall(.milliseconds(Int.random(in: 100...8000, using: &random)))
            default: .blackhole
            }
        // One of four in the opening: TLS, WebSocket, CONNECT.
        let isEarly = Int.random(in: 0..<4, using: &random) == 0
        self.fault = (
            fault,
            isEarly
                ? .bytes(.random(in: 0...4000, using: &random))
                : .time(.milliseconds(Int.random(in: 500...30_000, using: &random)))
        )
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): small, and the same everywhere for the same seed.
struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
