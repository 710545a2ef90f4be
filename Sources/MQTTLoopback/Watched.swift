import MQTTTransport

/// A value that event loops change and tests wait on.
package final class Watched<Value: Sendable>: Sendable {
    private struct Waiter {
        let identifier: Int
        let isMet: @Sendable (Value) -> Bool
        let continuation: CheckedContinuation<Value, Never>
    }

    private struct State {
        var value: Value
        var waiters: [Waiter] = []
        var lastIdentifier = 0
        /// Cancelled before they began to wait.
        var cancelled: Set<Int> = []
    }

    private let state: Lock<State>

    package init(_ value: Value) {
        state = Lock(State(value: value))
    }

    package var value: Value { state.withLock { $0.value } }

    /// Changes the value, and resumes those whose condition it now meets.
    package func update(_ change: (inout Value) -> Void) {
        let (value, met) = state.withLock { state -> (Value?, [Waiter]) in
            change(&state.value)
            if state.waiters.isEmpty { return (nil, []) }
            let met = state.waiters.filter { $0.isMet(state.value) }
            if met.isEmpty { return (nil, []) }
            state.waiters.removeAll { waiter in met.contains { $0.identifier == waiter.identifier } }
            return (state.value, met)
        }
        guard let value else { return }
        for waiter in met { waiter.continuation.resume(returning: value) }
    }

    /// The value as soon as it meets a condition, or as it is when the task is cancelled: a test that has run
    /// into its time limit then fails instead of hanging.
    package func first(where isMet: @escaping @Sendable (Value) -> Bool) async -> Value {
        let identifier = state.withLock { state in
            state.lastIdentifier += 1
            return state.lastIdentifier
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waiter = Waiter(identifier: identifier, isMet: isMet, continuation: continuation)
                let value = state.withLock { state -> Value? in
                    if isMet(state.value) || state.cancelled.contains(identifier) { return state.value }
                    state.waiters.append(waiter)
                    return nil
                }
                if let value { continuation.resume(returning: value) }
            }
        } onCancel: {
            let (value, waiter) = state.withLock { state -> (Value, Waiter?) in
                let index = state.waiters.firstIndex { $0.identifier == identifier }
                if index == nil { state.cancelled.insert(identifier) }
                return (state.value, index.map { state.waiters.remove(at: $0) })
            }
            waiter?.continuation.resume(returning: value)
        }
    }
}
