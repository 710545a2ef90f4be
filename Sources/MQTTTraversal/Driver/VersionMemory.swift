/// The servers of this process that spoke 3.1.1 only, so that the next client needn't find out anew.
///
/// Forgotten after an hour: the server may have been renewed.
final class VersionMemory: Sendable {
    static let shared = VersionMemory()

    /// A profile as far as it says where the server is.
    private struct Server: Hashable {
        let host: String
        let port: UInt16
        let transport: ConnectionProfile.Transport
        let proxy: Proxy?

        init(_ profile: ConnectionProfile) {
            host = profile.host
            port = profile.port
            transport = profile.transport
            proxy = profile.proxy
        }
    }

    private static let lifetime = Duration.seconds(3600)
    private static let capacity = 256

    private let learned = Lock<[Server: ContinuousClock.Instant]>([:])

    /// What to speak first; 5.0 where nothing is known.
    func version(for profile: ConnectionProfile, now: ContinuousClock.Instant) -> ProtocolVersion {
        let server = Server(profile)
        return learned.withLock { learned in
            guard let time = learned[server], now - time < Self.lifetime else {
                learned[server] = nil
                return .v5
            }
            return .v3_1_1
        }
    }

    func accepted(_ version: ProtocolVersion, by profile: ConnectionProfile, now: ContinuousClock.Instant) {
        let server = Server(profile)
        learned.withLock { learned in
            switch version {
            case .v5: learned[server] = nil
            case .v3_1_1:
                if learned.count >= Self.capacity, learned[server] == nil {
                    learned = learned.filter { now - $0.value < Self.lifetime }
                    if learned.count >= Self.capacity { return }
                }
                // Not renewed: after its hour 5.0 is tried again.
                if learned[server] == nil { learned[server] = now }
            }
        }
    }
}
