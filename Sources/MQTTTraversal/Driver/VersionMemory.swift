/// The servers of this process that spoke 3.1.1 only, so that the next client needn't find out anew.
///
/// Forgotten after an hour: the server may have been renewed.
final class VersionMemory: Sendable {
    static let shared = VersionMemory()

    private static let lifetime = Duration.seconds(3600)
    private static let capacity = 256

    private let learned = Lock<[Route: ContinuousClock.Instant]>([:])

    /// What to speak first; 5.0 where nothing is known.
    func version(for route: Route, now: ContinuousClock.Instant) -> ProtocolVersion {
        learned.withLock { learned in
            guard let time = learned[route], now - time < Self.lifetime else {
                learned[route] = nil
                return .v5
            }
            return .v3_1_1
        }
    }

    func accepted(_ version: ProtocolVersion, by route: Route, now: ContinuousClock.Instant) {
        learned.withLock { learned in
            switch version {
            case .v5: learned[route] = nil
            case .v3_1_1:
                if learned.count >= Self.capacity, learned[route] == nil {
                    learned = learned.filter { now - $0.value < Self.lifetime }
                    if learned.count >= Self.capacity { return }
                }
                // Not renewed: after its hour 5.0 is tried again.
                if learned[route] == nil { learned[route] = now }
            }
        }
    }
}
