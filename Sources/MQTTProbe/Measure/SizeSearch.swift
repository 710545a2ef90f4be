/// Finds the largest message that comes back: four times larger each time until one fails twice, then between the two.
struct SizeSearch: Sendable {
    private(set) var largestPassed = 0
    private(set) var smallestFailed: Int?
    private var isRetry = false
    private let limit: Int

    static let smallest = 64

    /// - Parameter limit: the largest that is tried; at least `smallest`.
    init(limit: Int) { self.limit = max(Self.smallest, limit) }

    /// The size to try next; nil where the search is over.
    var next: Int? {
        guard let smallestFailed else {
            if largestPassed == limit { return nil }
            return largestPassed == 0 ? Self.smallest : min(limit, largestPassed * 4)
        }
        // As exact as a person needs it to set a limit.
        guard smallestFailed - largestPassed > max(16, largestPassed / 64) else { return nil }
        return largestPassed + (smallestFailed - largestPassed) / 2
    }

    mutating func passed(_ size: Int) {
        isRetry = false
        largestPassed = max(largestPassed, size)
    }

    /// - Returns: whether it counts: a connection may fail for another reason, so a size has to fail twice.
    mutating func failed(_ size: Int) -> Bool {
        guard isRetry else {
            isRetry = true
            return false
        }
        isRetry = false
        smallestFailed = min(smallestFailed ?? size, size)
        return true
    }
}
