/// What an attempt to connect needs to know before its first packet.
struct AttemptPreparation: Sendable {
    /// Each with a single route; the first to be tried first.
    var ways: [ConnectionProfile]
    /// The program's answer, where it was asked.
    var login: Credentials?
    /// Why the proxies of the environment make no ways; nil where they do, or where there are none.
    var environmentProblem: ProfileError?
    /// Where this machine is; nil for a profile with a single route, of which nothing is remembered.
    var network: NetworkFingerprint?
    /// When the attempt has to be over, however often it begins anew; nil before its first way, or without a ladder.
    var end: ContinuousClock.Instant?

    /// For a server whose profile has a single route, where nobody is to be asked.
    init(ways: [ConnectionProfile]) {
        self.ways = ways
    }

    /// Looks at the network, and asks whom the configuration names. Reads files, so it isn't for the loop.
    ///
    /// - Throws: `TransportError` at stage `local`.
    static func make(
        _ attempt: ConnectionAttempt, memory: RouteMemory,
        credentials: (@Sendable (ConnectionAttempt) async throws -> Credentials)?
    ) async throws(TransportError) -> AttemptPreparation {
        var preparation = AttemptPreparation(ways: [])
        do throws(ProfileError) {
            (preparation.ways, preparation.environmentProblem) = try attempt.profile.ways(
                environment: .process)
        } catch {
            throw TransportError(stage: .local, code: .clientInvalidArgument, evidence: .text("\(error)"))
        }
        if attempt.profile.ladder != nil {
            let network = NetworkFingerprint.current()
            preparation.network = network
            preparation.ways = memory.ordered(preparation.ways, host: attempt.profile.host, on: network)
        }
        guard let credentials else { return preparation }
        do {
            preparation.login = try await credentials(attempt)
        } catch {
            let reason = TransportError.Evidence.printable("\(error)")
            throw TransportError(
                stage: .local, code: .clientHookFailed,
                evidence: .text("the program's credentials: \(reason)"))
        }
        return preparation
    }
}
