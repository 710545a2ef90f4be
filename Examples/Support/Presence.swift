internal import Glibc
package import MQTTTraversal

/// Tells everybody whether a program is there: a retained `online` while it is, a retained `offline` once it
/// isn't, whether it left in order or the network took it away.
///
/// The last case is the will's: the broker publishes it when a connection ends without DISCONNECT. A clean
/// DISCONNECT discards the will, so on the way out `offline` is published by the program itself.
package struct Presence: Sendable {
    package let topic: String

    package init(topic: String) { self.topic = topic }

    package var will: WillMessage {
        WillMessage(topic: topic, payload: "offline", qos: .atLeastOnce, retain: true)
    }

    /// Connects and runs `work` until it ends or `signals` brings one; then says goodbye.
    ///
    /// - Parameter onEvent: sees all events of the client.
    /// - Throws: `MQTTError` when the first connection fails or the client has ended for a reason; what `work`
    ///   throws.
    package func hold(
        _ client: MQTTClient, until signals: AsyncStream<Int32>,
        onEvent: @escaping @Sendable (ClientEvent) async -> Void,
        work: @escaping @Sendable () async throws -> Void
    ) async throws {
        // From before connect() on, so that no connection is missed.
        let events = client.events
        let result: Result<Void, any Error>
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { for await _ in signals { return } }
                group.addTask { try await announce(client, events, onEvent) }
                group.addTask {
                    try await client.connect()
                    try await work()
                }
                defer { group.cancelAll() }
                try await group.next()
            }
            result = .success(())
        } catch {
            result = .failure(error)
        }
        await leave(client)
        try result.get()
    }

    /// After each connect, reconnects included: the broker may just have published the will.
    private func announce(
        _ client: MQTTClient, _ events: ClientEvents, _ onEvent: @Sendable (ClientEvent) async -> Void
    ) async throws {
        for await event in events {
            await onEvent(event)
            switch event {
            case .connected: try client.enqueue("online", to: topic, qos: .atLeastOnce, retain: true)
            case .disconnected(let error?): throw error
            case .disconnected(nil), .idle, .connecting, .interrupted, .reconnecting, .sessionLost,
                .suspended:
                break
            }
        }
    }

    private func leave(_ client: MQTTClient) async {
        let farewell = Task {
            try await client.publish("offline", to: topic, qos: .atLeastOnce, retain: true)
        }
        // While the connection is down there is nobody to tell, and the will speaks for us.
        let limit = Task {
            try await Task.sleep(for: .seconds(2))
            farewell.cancel()
        }
        _ = await farewell.result
        limit.cancel()
        await client.disconnect()
    }
}

/// Runs a program to its end and exits: 0 when it was asked to stop, 1 when it failed.
package func runToExit(_ name: String, _ program: () async throws -> Void) async -> Never {
    do {
        try await program()
        exit(0)
    } catch {
        printError("\(name): \(error)")
        exit(1)
    }
}

extension ClientEvent {
    /// One line for a person; nil for what isn't worth one.
    package var line: String? {
        switch self {
        case .idle, .sessionLost, .suspended, .disconnected: nil
        case .connecting(let attempt): attempt == 1 ? "connecting" : "connecting, attempt \(attempt)"
        case .connected(let outcome): "connected to \(outcome.profile) as \(outcome.clientID)"
        case .interrupted(let error): "connection lost: \(error)"
        case .reconnecting(_, let delay, let error):
            "trying again in \(decimal(delay / .seconds(1))) s, since: \(error)"
        }
    }
}
