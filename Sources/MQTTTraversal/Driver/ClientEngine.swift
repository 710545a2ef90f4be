/// A client's inbox together with the driver that empties it.
struct ClientEngine: Sendable {
    private let inbox: ClientInbox
    private let driver: LoopBound<SessionDriver>

    static func make(
        _ profile: ConnectionProfile, _ configuration: ClientConfiguration, _ hub: EventHub,
        _ board: MetricsBoard
    ) -> Result<ClientEngine, MQTTError> {
        do throws(MQTTError) {
            let session = try configuration.sessionConfiguration()
            let loop: EventLoop
            do throws(TransportError) { loop = try EventLoop.shared() } catch { throw MQTTError(error) }
            let inbox = ClientInbox()
            let driver = SessionDriver(
                loop: loop, profile: profile, configuration: configuration, sessionConfiguration: session,
                inbox: inbox, events: hub, board: board)
            return .success(ClientEngine(inbox: inbox, driver: LoopBound(driver, on: loop)))
        } catch {
            return .failure(error)
        }
    }

    func submit(_ make: (OperationToken) -> ClientInbox.Operation) {
        if inbox.append(make) { wake() }
    }

    /// Takes a QoS 0 message if it needs no waiting and no answer.
    func accept(_ publish: Publish) -> Bool {
        switch inbox.accept(publish) {
        case .takenFirst:
            wake()
            return true
        case .taken: return true
        case .mustWait: return false
        }
    }

    /// Submits an operation and waits for its end; a cancelled task stops waiting at once.
    func perform<Value: Sendable>(
        _ make: (OperationToken, UnsafeContinuation<Value, any Error>) -> ClientInbox.Operation
    ) async throws -> Value {
        let waiting = WaitingOperation()
        return try await withTaskCancellationHandler {
            try await withUnsafeThrowingContinuation { continuation in
                submit { token in
                    waiting.token = token
                    return make(token, continuation)
                }
                // A cancellation that came before the token has found nothing to cancel.
                if Task.isCancelled { cancel(waiting) }
            }
        } onCancel: {
            cancel(waiting)
        }
    }

    private func cancel(_ waiting: WaitingOperation) {
        guard let token = waiting.token else { return }
        submit { _ in .cancel(token) }
    }

    private func wake() {
        driver.execute { $0.drainInbox() }
    }
}

/// What a cancellation handler, which may run at any moment, knows of its operation.
private final class WaitingOperation: Sendable {
    private let state = Lock<OperationToken?>(nil)

    /// nil until the operation has been handed in.
    var token: OperationToken? {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}
