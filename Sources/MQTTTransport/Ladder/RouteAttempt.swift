/// What became of one of the ways to the broker in one attempt to connect.
public struct RouteAttempt: Sendable, Hashable {
    /// The way.
    public var profile: ConnectionProfile
    public var outcome: Outcome

    public enum Outcome: Sendable, Hashable {
        /// Its turn didn't come.
        case notTried
        /// It was left in this stage: another way was faster, or the time was up.
        case unfinished(ConnectionStage)
        case failed(TransportError)
        /// The broker has accepted the connection here.
        case connected
    }

    public init(profile: ConnectionProfile, outcome: Outcome) {
        self.profile = profile
        self.outcome = outcome
    }
}

extension RouteAttempt: CustomStringConvertible {
    /// `wss://broker.example:443/mqtt through http://proxy.example:3128`
    package var way: String { profile.proxy.map { "\(profile) through \($0)" } ?? "\(profile)" }

    /// `mqtts://broker.example:8883: tcp.timeout at tcp (203.0.113.5:8883): …`
    public var description: String {
        switch outcome {
        case .notTried: "\(way): not tried"
        case .unfinished(let stage): "\(way): not finished, at \(stage.rawValue)"
        case .failed(let error): "\(way): \(error)"
        case .connected: "\(way): connected"
        }
    }
}

extension [RouteAttempt] {
    /// The failure that says most about the whole: of the way that got furthest, or of the better one of several.
    ///
    /// - Parameter deadline: the attempt's own, which has passed where no way has failed.
    package func decisiveFailure(deadline: Duration) -> TransportError {
        var decisive: TransportError?
        for case .failed(let error) in lazy.map(\.outcome)
        where error.stage.order > (decisive?.stage.order ?? -1) {
            decisive = error
        }
        if let decisive { return decisive }
        var furthest = ConnectionStage.resolve
        for case .unfinished(let stage) in lazy.map(\.outcome) where stage.order > furthest.order {
            furthest = stage
        }
        return TransportError(stage: furthest, code: furthest.timeoutCode, evidence: .deadline(deadline))
    }
}

extension ConnectionStage {
    /// Its place on the way to the broker.
    package var order: Int {
        switch self {
        case .local: 0
        case .resolve: 1
        case .tcp: 2
        case .proxy: 3
        case .tls: 4
        case .webSocket: 5
        case .mqttConnect: 6
        case .established: 7
        }
    }
}
