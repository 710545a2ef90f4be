// The application's authentication handler, in tasks of its own (MQTT 5.0, section 4.12).

extension SessionDriver {
    func reauthenticate(
        _ timeout: Duration, _ token: OperationToken, _ continuation: UnsafeContinuation<Void, any Error>
    ) {
        guard case .connected = lifecycle.phase else {
            continuation.resume(throwing: notConnected)
            return
        }
        reauthentications[token] = continuation
        session.reauthenticate(token: token, timeout: timeout, now: loop.now, into: &output)
    }

    /// Puts the session's question to the handler; its answer comes back to the loop.
    func authenticate(_ token: AuthenticationToken, _ step: AuthenticationStep) {
        // The session asks only where CONNECT has named the handler's method.
        guard let handler = configuration.authentication else { return }
        if case .start = step { exchange = nil }
        let begun = exchange
        let bound = LoopBound(WeakDriver(driver: self), on: loop)
        // A deadline runs: ahead of work that has none.
        authenticating = Task(priority: .high) {
            do {
                var exchange: any AuthenticationExchange
                if let begun { exchange = begun } else { exchange = try await handler.begin() }
                var data: [UInt8]?
                switch step {
                case .start: data = try await exchange.start()
                case .respond(let challenge): data = try await exchange.respond(to: challenge ?? [])
                case .finish(let last): try await exchange.finish(with: last)
                }
                bound.execute { [exchange, data] in
                    $0.driver?.authenticationAnswered(token, exchange, data)
                }
            } catch {
                bound.execute { $0.driver?.authenticationFailed(token, error) }
            }
        }
    }

    private func authenticationAnswered(
        _ token: AuthenticationToken, _ exchange: any AuthenticationExchange, _ data: [UInt8]?
    ) {
        // The handler of an earlier connection may answer when another exchange is under way.
        guard session.isAsking(token) else { return }
        self.exchange = exchange
        session.authenticationAnswered(token, data: data, now: loop.now, into: &output)
        scheduleTurnEnd()
    }

    private func authenticationFailed(_ token: AuthenticationToken, _ error: any Error) {
        session.authenticationFailed(token, reason: "\(error)", into: &output)
        scheduleTurnEnd()
    }

    /// The connection is gone; nil where that was wanted.
    func authenticationEnded(_ cause: MQTTError?) {
        authenticating?.cancel()
        authenticating = nil
        exchange = nil
        let waiting = reauthentications
        reauthentications = [:]
        for continuation in waiting.values { continuation.resume(throwing: cause ?? disconnectedByCall) }
    }
}
