/// A timer for a deadline that moves on with all traffic: it is left alone as long as it isn't too late, since
/// firing too early costs one look. On the loop only.
package struct DeadlineTimer {
    private let loop: EventLoop
    private var armed: (identifier: EventLoop.TimerIdentifier, deadline: ContinuousClock.Instant)?

    package init(on loop: EventLoop) {
        self.loop = loop
    }

    /// - Parameters:
    ///   - deadline: nil for none: the timer is given back.
    ///   - work: run at the deadline or before it, once; it calls `fired` first.
    package mutating func arm(for deadline: ContinuousClock.Instant?, _ work: @escaping () -> Void) {
        guard let deadline else { return cancel() }
        if let armed {
            if armed.deadline <= deadline { return }
            loop.cancel(armed.identifier)
        }
        armed = (loop.schedule(at: deadline, work), deadline)
    }

    package mutating func fired() {
        armed = nil
    }

    package mutating func cancel() {
        if let armed { loop.cancel(armed.identifier) }
        armed = nil
    }
}
