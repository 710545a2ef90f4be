internal import MQTTTransport
internal import MQTTTraversal

/// What all clients go through: counts for the table, and what must not be.
final class Findings: Sendable {
    private struct State {
        var losses: [String: Int] = [:]
        var failures: [String: Int] = [:]
        var violations: [String] = []
    }

    private let state = Lock(State())

    var violations: [String] { state.withLock { $0.violations } }
    /// Connections that were lost, by code.
    var losses: [String: Int] { state.withLock { $0.losses } }
    /// Attempts to connect that failed, by code.
    var failures: [String: Int] { state.withLock { $0.failures } }

    func lost(_ error: MQTTError) { state.withLock { $0.losses[error.code.rawValue, default: 0] += 1 } }

    func failed(_ error: MQTTError) { state.withLock { $0.failures[error.code.rawValue, default: 0] += 1 } }

    /// Says so at once, since a run may be long.
    func violated(_ text: String) {
        state.withLock { $0.violations.append(text) }
        say("VIOLATION: \(text)")
    }
}
