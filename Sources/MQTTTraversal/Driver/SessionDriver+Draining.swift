// Leaving once what is under way has arrived.

extension SessionDriver {
    struct Drain {
        var deadline: ContinuousClock.Instant
        var waiting: [CheckedContinuation<DrainOutcome, Never>]
    }

    func drain(within limit: Duration, _ continuation: CheckedContinuation<DrainOutcome, Never>) {
        let deadline = loop.now + limit
        if let drain {
            self.drain = Drain(
                deadline: min(drain.deadline, deadline), waiting: drain.waiting + [continuation])
        } else {
            drain = Drain(deadline: deadline, waiting: [continuation])
        }
        scheduleTurnEnd()
    }

    /// Ends the connection as soon as nothing is left, or nothing more may be waited for.
    func checkDrain() {
        guard let drain else { return }
        let isOver =
            switch lifecycle.phase {
            case .connecting, .connected, .waiting: left.isEmpty || loop.now >= drain.deadline
            // Nothing gets anywhere until somebody calls.
            case .idle, .suspending, .suspended, .disconnecting, .ended: true
            }
        guard isOver else { return }
        endDrain()
        perform(lifecycle.disconnect())
    }

    /// Tells what is left at this moment.
    func endDrain() {
        guard let drain else { return }
        let left = left
        self.drain = nil
        // No QoS 0 message is accepted for a connection that ends now.
        inbox.setAcceptance(nil)
        inbox.drainEnded()
        for continuation in drain.waiting { continuation.resume(returning: left) }
    }

    private var left: DrainOutcome {
        DrainOutcome(
            unsent: session.queuedCount, unconfirmed: session.inFlightCount,
            unacknowledged: session.owedCount)
    }
}
