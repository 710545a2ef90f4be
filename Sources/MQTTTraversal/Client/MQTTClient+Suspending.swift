extension MQTTClient {
    /// Does without a connection until `resume()`, as an app that goes to the background: DISCONNECT, so that the will
    /// isn't published, and nothing is tried again. Returns when the connection is closed.
    ///
    /// Subscriptions, their sequences and calls that wait stay; what is published goes out after `resume()`. Under 5.0
    /// the server keeps the session for `sessionExpiry`, under 3.1.1 where `cleanStart` is false; else subscriptions are
    /// made again by `resume()`. A `connect()` under way fails with `client.disconnected`.
    ///
    /// - Parameters:
    ///   - status: published first where there is a connection, since a DISCONNECT discards the will; such as a retained
    ///     `away`.
    ///   - limit: how long its acknowledgement is waited for.
    public func suspend(status: WillMessage? = nil, within limit: Duration = .seconds(2)) async {
        guard case .success(let engine) = engine else { return }
        if let status { await say(status, within: limit) }
        await withCheckedContinuation { continuation in
            engine.submit { _ in .suspend(continuation) }
        }
    }

    /// Connects again after `suspend()`: the session goes on, subscriptions hold. Where the client isn't suspended, this
    /// is `connect()`.
    ///
    /// Where a connection had stood before, failures are mended by `configuration.reconnect`.
    ///
    /// - Throws: as `connect()`.
    @discardableResult
    public func resume() async throws -> ConnectOutcome { try await connect() }

    /// As if the kernel had said that the network has changed.
    package func networkChanged() {
        if case .success(let engine) = engine { engine.submit { _ in .networkChanged } }
    }

    private func say(_ status: WillMessage, within limit: Duration) async {
        let saying = Task {
            try await publish(
                status.payload, to: status.topic, qos: status.qos, retain: status.retain,
                properties: status.properties, whileConnected: true)
        }
        let timeout = Task {
            try await Task.sleep(for: limit)
            saying.cancel()
        }
        _ = await saying.result
        timeout.cancel()
    }
}
