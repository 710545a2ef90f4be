internal import MQTTTransport

// What a change of the network means: look whether the connection lives, or try again now.

extension SessionDriver {
    /// How long the answer to a PINGREQ may take then; `pingTimeout` where that is shorter.
    private static let probeTimeout = Duration.seconds(5)

    func watchNetwork() {
        guard configuration.watchesNetwork, networkRegistration == nil else { return }
        let bound = LoopBound(WeakDriver(driver: self), on: loop)
        networkRegistration = NetworkWatcher.shared?.add { bound.execute { $0.driver?.networkChanged() } }
    }

    func stopWatchingNetwork() {
        if let registration = networkRegistration { NetworkWatcher.shared?.remove(registration) }
        networkRegistration = nil
    }

    func networkChanged() {
        networkChanges.networkChanged(now: loop.now)
        scheduleTurnEnd()
    }

    func checkNetwork() {
        if configuration.watchesNetwork {
            networkChanges.clocksRead(asleep: NetworkWatcher.timeAsleep, now: loop.now)
        }
        guard networkChanges.deadlineReached(now: loop.now) else { return }
        configuration.report(.notice, .networkChanged)
        session.probe(within: Self.probeTimeout, now: loop.now, into: &output)
        perform(lifecycle.networkChanged())
    }
}
