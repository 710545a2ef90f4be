internal import CTraversalShims
internal import Glibc

/// Work that may block, one piece after the other, on a thread that lasts as long as there is some.
package final class WorkThread: Sendable {
    package typealias Work = @Sendable () -> Void

    private struct State {
        var waiting: [Work] = []
        var isRunning = false
    }

    private let name: String
    private let state = Lock(State())

    /// - Parameter name: for debuggers; at most 15 bytes.
    package init(name: String) {
        self.name = name
    }

    /// - Returns: whether there is a thread for it; false where the system gives none.
    package func run(_ work: @escaping Work) -> Bool {
        let mustStart = state.withLock { state in
            state.waiting.append(work)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        guard mustStart else { return true }
        var thread = pthread_t()
        let pointer = Unmanaged.passRetained(self).toOpaque()
        let result = pthread_create(
            &thread, nil,
            { pointer in
                guard let pointer else { return nil }
                Unmanaged<WorkThread>.fromOpaque(pointer).takeRetainedValue().work()
                return nil
            }, pointer)
        guard result != 0 else {
            pthread_detach(thread)
            return true
        }
        Unmanaged<WorkThread>.fromOpaque(pointer).release()
        state.withLock { $0 = State() }
        return false
    }

    private func work() {
        traversal_name_thread(name)
        while let work = next() { work() }
    }

    private func next() -> Work? {
        state.withLock { state in
            if state.waiting.isEmpty {
                state.isRunning = false
                return nil
            }
            return state.waiting.removeFirst()
        }
    }
}
