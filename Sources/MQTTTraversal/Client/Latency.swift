/// How long something took, over all times that it was measured: count, bounds, mean, and a histogram.
///
/// A percentile is exact to a quarter of its power of two, 25 % at most; times below 4 µs are exact to 1 µs. They
/// are measured by the client's loop, so a program that keeps its loop busy is part of them.
public struct Latency: Sendable, Hashable {
    public private(set) var count: UInt64 = 0
    /// nil before the first measurement, as the others.
    public private(set) var minimum: Duration?
    public private(set) var maximum: Duration?
    private var sum = Duration.zero
    /// One bucket for each microsecond below 4, then four for each power of two; only up to the last that is used.
    private var counts: [UInt64] = []

    /// One of the intervals into which times are sorted.
    public struct Bucket: Sendable, Hashable {
        public var from: Duration
        /// Itself not a part. The last bucket, from 9 h on, holds all that is longer too.
        public var to: Duration
        public var count: UInt64
    }

    public init() {}

    public var mean: Duration? { count == 0 ? nil : sum / Double(count) }

    /// Those that hold anything, in order.
    public var buckets: [Bucket] {
        counts.indices.compactMap { index in
            if counts[index] == 0 { return nil }
            return Bucket(
                from: .microseconds(Self.lowerBound(index)), to: .microseconds(Self.lowerBound(index + 1)),
                count: counts[index])
        }
    }

    /// The time within which this share of the measurements lay: the upper bound of its bucket, or the maximum.
    ///
    /// - Parameter percentage: 0 to 100, such as 99; what lies outside is taken for the nearer bound.
    /// - Returns: nil before the first measurement.
    public func percentile(_ percentage: Double) -> Duration? {
        guard let maximum else { return nil }
        let share = min(max(percentage, 0), 100) / 100
        let rank = max(1, UInt64((share * Double(count)).rounded(.up)))
        var seen: UInt64 = 0
        for (index, count) in counts.enumerated() {
            seen += count
            // The last bucket has no end.
            if seen >= rank, index < Self.lastIndex {
                return min(.microseconds(Self.lowerBound(index + 1)), maximum)
            }
        }
        return maximum
    }

    mutating func record(_ time: Duration) {
        let time = max(time, .zero)
        count += 1
        sum += time
        minimum = min(minimum ?? time, time)
        maximum = max(maximum ?? time, time)
        let (seconds, attoseconds) = time.components
        let microseconds = UInt64(seconds) &* 1_000_000 &+ UInt64(attoseconds) / 1_000_000_000_000
        let index = min(Self.index(microseconds), Self.lastIndex)
        if counts.count <= index {
            counts.append(contentsOf: repeatElement(0, count: index + 1 - counts.count))
        }
        counts[index] += 1
    }

    /// Of 9 hours, and of all that is longer.
    private static let lastIndex = index(1 << 35)

    private static func index(_ microseconds: UInt64) -> Int {
        if microseconds < 4 { return Int(microseconds) }
        let power = 63 - microseconds.leadingZeroBitCount
        return 4 * (power - 1) + Int(microseconds >> UInt64(power - 2) & 3)
    }

    private static func lowerBound(_ index: Int) -> UInt64 {
        if index < 4 { return UInt64(index) }
        return UInt64(4 + index % 4) << UInt64(index / 4 - 1)
    }
}
