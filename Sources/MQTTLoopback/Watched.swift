import MQTTTransport

/// A value that event loops change and tests wait on.
package final class Watched<Value: Sendable>: Sendable {
    private struct State {
        var value: Value
        var waiters: [(isMet: @Sendable (Value) -> Bool, continuation: CheckedContinuation<Value, Never>)] = []
    }

    private let state: Lock<State>

    package init(_ value: Value) {
        state = Lock(State(value: value))
    }

    package var value: Value { state.withLock { $0.value } }

    /// Changes the value, and resumes those whose condition it now meets.
    package func update(_ change: (inout Value) -> Void) {
        let (value, met) = state.withLock { state in
            change(&state.value)
            guard !state.waiters.isEmpty else { return (nil as Value?, [CheckedContinuation<Value, Never>]()) }
            var met: [CheckedContinuation<Value, Never>] = []
            state.waiters.removeAll { waiter in
                guard waiter.isMet(state.value) else { return false }
                met.append(waiter.continuation)
                return true
            }
            return (met.isEmpty ? nil : state.value, met)
        }
        guard let value else { return }
        for continuation in met { continuation.resume(returning: value) }
    }

    /// The value as soon as it meets a condition; waits for ever if it never does.
    package func first(where isMet: @escaping @Sendable (Value) -> Bool) async -> Value {
        await withCheckedContinuation { continuation in
            let value = state.withLock { state -> Value? in
                if isMet(state.value) { return state.value }
                state.waiters.append((isMet, continuation))
                return nil
            }
            if let value { continuation.resume(returning: value) }
        }
    }
}
