internal import CTraversalShims
internal import Glibc

/// Hears from the kernel when links, addresses or routes of this machine change; one for the whole process.
package final class NetworkWatcher: EventHandler, Sendable {
    package struct Registration: Sendable, Hashable {
        fileprivate let number: UInt64
    }

    private struct Listeners {
        var lastNumber: UInt64 = 0
        var reports: [UInt64: @Sendable () -> Void] = [:]
    }

    private let descriptor: Int32
    private let loop: EventLoop
    private let listeners = Lock(Listeners())

    /// nil where the system gives no such socket, as some sandboxes do: then keep-alive finds out.
    package static let shared: NetworkWatcher? = (try? EventLoop.shared()).flatMap { NetworkWatcher(on: $0) }

    /// Watches the network namespace of the calling thread.
    package init?(on loop: EventLoop) {
        descriptor = traversal_network_changes()
        self.loop = loop
        guard descriptor >= 0 else { return nil }
        loop.execute { loop.register(self.descriptor, handler: self) }
    }

    /// - Parameter report: called on the watcher's loop for each burst of changes, so it only passes them on.
    package func add(_ report: @escaping @Sendable () -> Void) -> Registration {
        listeners.withLock { listeners in
            listeners.lastNumber += 1
            listeners.reports[listeners.lastNumber] = report
            return Registration(number: listeners.lastNumber)
        }
    }

    package func remove(_ registration: Registration) {
        listeners.withLock { _ = $0.reports.removeValue(forKey: registration.number) }
    }

    package func readable() {
        // What has changed doesn't matter, and what didn't fit (ENOBUFS) has changed too.
        while recv(descriptor, loop.wireBuffer.baseAddress, loop.wireBuffer.count, 0) > 0
            || errno == ENOBUFS || errno == EINTR
        {}
        for report in listeners.withLock({ Array($0.reports.values) }) { report() }
    }

    package func writable() {}

    package func loopEnded() { close(descriptor) }

    /// How long this machine has slept since it was started.
    package static var timeAsleep: Duration { time(CLOCK_BOOTTIME) - time(CLOCK_MONOTONIC) }

    private static func time(_ clock: clockid_t) -> Duration {
        var time = timespec()
        clock_gettime(clock, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
