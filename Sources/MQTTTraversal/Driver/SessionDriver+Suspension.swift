// Doing without a connection for a while, as an app in the background does.

extension SessionDriver {
    func suspend(_ continuation: CheckedContinuation<Void, Never>) {
        suspensions.append(continuation)
        // Who waits for an attempt under way waits for it no longer.
        failConnects(&connects, with: MQTTError(.clientDisconnected, "suspend() was called"))
        perform(lifecycle.suspend())
        switch lifecycle.phase {
        // At the end of that.
        case .suspending, .disconnecting: break
        case .idle, .connecting, .connected, .waiting, .suspended, .ended: resumeSuspensions()
        }
    }

    func suspended() {
        events.enter(.suspended, now: loop.now)
        resumeSuspensions()
        // Asked for while DISCONNECT was on its way out.
        if !connects.isEmpty { perform(lifecycle.connect()) }
    }

    func resumeSuspensions() {
        let waiting = suspensions
        suspensions = []
        for continuation in waiting { continuation.resume() }
    }
}
