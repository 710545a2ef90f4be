import MQTTTraversal

extension AsyncStream<ClientEvent>.Iterator {
    /// What happens up to the next `connected`, and what that says. `sessionLost` is passed over: whether it comes
    /// before or after is of no interest here.
    mutating func untilConnected() async -> (words: [String], outcome: ConnectOutcome?) {
        var words: [String] = []
        while let event = await next(isolation: #isolation) {
            switch event {
            case .idle: words.append("idle")
            case .connecting(let attempt): words.append("connecting \(attempt)")
            case .connected(let outcome): return (words, outcome)
            case .interrupted(let error): words.append("interrupted \(error.code.rawValue)")
            case .reconnecting(let attempt, _, _): words.append("reconnecting \(attempt)")
            case .sessionLost: break
            case .suspended: words.append("suspended")
            case .disconnected(let error):
                words.append("disconnected \(error?.code.rawValue ?? "")")
                return (words, nil)
            }
        }
        return (words, nil)
    }
}
