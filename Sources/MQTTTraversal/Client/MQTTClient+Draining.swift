extension MQTTClient {
    /// Ends the connection in order and for good, once what is under way has arrived: publishes that wait or aren't
    /// confirmed yet, and acknowledgements that are owed to the server. Reconnects where that is needed meanwhile.
    ///
    /// From the call on, new publishes, subscriptions and requests fail with `client.disconnected`, and sequences go on
    /// until the end. When nothing is left, or the time is up, this is `disconnect()`: calls that still wait fail with
    /// `client.disconnected`, and a server that doesn't read holds it up for 2 s at most. It doesn't throw, since the
    /// connection ends in any case; what was left is what it returns. Cancelling the task stops the waiting and
    /// disconnects at once.
    ///
    /// - Parameter limit: how long that is waited for; zero or less is `disconnect()` that says what was left.
    /// - Returns: what had not arrived when DISCONNECT was sent, or the client ended otherwise.
    @discardableResult
    public func disconnect(drain limit: Duration) async -> DrainOutcome {
        guard case .success(let engine) = engine else { return DrainOutcome() }
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                engine.submit { _ in .drain(within: limit, continuation) }
            }
        } onCancel: {
            engine.submit { _ in .disconnect(nil) }
        }
        await disconnect()
        return outcome
    }
}

/// What ``MQTTClient/disconnect(drain:)`` left behind.
public struct DrainOutcome: Sendable, Hashable {
    /// Publishes that were never sent. With a ``SessionStore/directory(_:fsync:)`` those of QoS 1 and 2 stay there, as
    /// do the unconfirmed ones.
    public var unsent = 0
    /// QoS 1 and 2 publishes that were sent, and of which the server hasn't said the last word.
    public var unconfirmed = 0
    /// Messages from the server that weren't acknowledged, since nobody read them or the program didn't acknowledge
    /// them; it sends those of QoS 1 again to a session that lives.
    public var unacknowledged = 0

    public init(unsent: Int = 0, unconfirmed: Int = 0, unacknowledged: Int = 0) {
        self.unsent = unsent
        self.unconfirmed = unconfirmed
        self.unacknowledged = unacknowledged
    }

    /// Whether all has arrived.
    public var isEmpty: Bool { self == DrainOutcome() }
}
