/// Finds how long a silence a connection survives, within a given time: many connections fall silent at once, each is
/// spoken to after a time of its own, and what is left of the time goes into the gap between the longest that lived and
/// the shortest that died.
struct IdleSearch: Sendable {
    /// The longest silence after which a connection answered.
    private(set) var survived = Duration.zero
    /// The shortest at which one was dead.
    private(set) var died: Duration?
    /// Whether the end was seen when it came, so that there is nothing to narrow down.
    private var isExact = false
    private let width: Int
    /// How long it takes to see that nobody answers.
    private let patience: Duration

    /// - Parameter width: how many connections may be open at once.
    init(width: Int, patience: Duration) {
        self.width = width
        self.patience = patience
    }

    /// The silences to try next, at once, within the time that is left; none where nothing more can be found out.
    func round(within left: Duration) -> [Duration] {
        if isExact { return [] }
        let longest = left - patience
        guard let died else {
            guard longest > survived else { return [] }
            return (1...width).map { survived + (longest - survived) * $0 / width }
        }
        guard died - survived > max(.seconds(1), died / 20) else { return [] }
        return (1...width).map { survived + (died - survived) * $0 / (width + 1) }.filter { $0 <= longest }
    }

    mutating func answered(after silence: Duration) {
        // The later word: what died at a shorter silence died of something else.
        if died.map({ silence < $0 }) ?? true { survived = max(survived, silence) }
    }

    /// - Parameter isSeen: whether the end came by itself, and not as silence to what we said.
    mutating func ended(after silence: Duration, isSeen: Bool) {
        guard died.map({ silence < $0 }) ?? true else { return }
        died = silence
        isExact = isSeen
        survived = min(survived, silence)
    }
}
