import Synchronization

/// The published metrics, written to by the loop and read anywhere.
///
/// What each turn changes is in atomics, which the loop alone writes to; what changes seldom is behind a lock.
final class MetricsBoard: Sendable {
    let received = Traffic()
    let sent = Traffic()
    private let waiting = Atomic(0)
    private let waitingBytes = Atomic(0)
    private let inFlight = Atomic(0)

    final class Traffic: Sendable {
        private let bytes = Atomic<UInt64>(0)
        private let packets = Atomic<UInt64>(0)
        private let atMostOnce = Atomic<UInt64>(0)
        private let atLeastOnce = Atomic<UInt64>(0)
        private let exactlyOnce = Atomic<UInt64>(0)
        private let duplicates = Atomic<UInt64>(0)

        func add(_ traffic: ClientMetrics.Traffic) {
            add(traffic.bytes, to: bytes)
            add(traffic.packets, to: packets)
            add(traffic.atMostOnce, to: atMostOnce)
            add(traffic.atLeastOnce, to: atLeastOnce)
            add(traffic.exactlyOnce, to: exactlyOnce)
            add(traffic.duplicates, to: duplicates)
        }

        var present: ClientMetrics.Traffic {
            var traffic = ClientMetrics.Traffic()
            traffic.bytes = bytes.load(ordering: .relaxed)
            traffic.packets = packets.load(ordering: .relaxed)
            traffic.atMostOnce = atMostOnce.load(ordering: .relaxed)
            traffic.atLeastOnce = atLeastOnce.load(ordering: .relaxed)
            traffic.exactlyOnce = exactlyOnce.load(ordering: .relaxed)
            traffic.duplicates = duplicates.load(ordering: .relaxed)
            return traffic
        }

        /// Without a read-modify-write, since only the loop writes.
        private func add(_ count: UInt64, to counter: borrowing Atomic<UInt64>) {
            if count == 0 { return }
            counter.store(counter.load(ordering: .relaxed) &+ count, ordering: .relaxed)
        }
    }

    private struct Content {
        var metrics = ClientMetrics()
        var connection: Connection?
    }

    /// The one that stands: added to its way's numbers at its end, and for each reader.
    private struct Connection {
        let route: String
        let since: ContinuousClock.Instant
        /// What had passed before it.
        let received: UInt64
        let sent: UInt64
    }

    /// Ways beyond these aren't told apart: redirects could lead anywhere.
    private static let routeLimit = 64

    private let content = Lock(Content())

    func snapshot() -> ClientMetrics {
        var metrics = content.withLock { content in
            var copy = content
            end(&copy, now: .now)
            return copy.metrics
        }
        metrics.received = received.present
        metrics.sent = sent.present
        metrics.queue = ClientMetrics.Queue(
            waiting: waiting.load(ordering: .relaxed), waitingBytes: waitingBytes.load(ordering: .relaxed),
            inFlight: inFlight.load(ordering: .relaxed))
        return metrics
    }

    func setQueue(_ queue: ClientMetrics.Queue) {
        waiting.store(queue.waiting, ordering: .relaxed)
        waitingBytes.store(queue.waitingBytes, ordering: .relaxed)
        inFlight.store(queue.inFlight, ordering: .relaxed)
    }

    func update(_ change: (inout ClientMetrics) -> Void) { content.withLock { change(&$0.metrics) } }

    func count(_ routes: [RouteAttempt]) {
        content.withLock { content in
            for attempt in routes {
                let isConnected: Bool
                switch attempt.outcome {
                case .notTried: continue
                case .unfinished, .failed: isConnected = false
                case .connected: isConnected = true
                }
                Self.change(attempt.way, of: &content) { route in
                    route.attempts += 1
                    if isConnected { route.connects += 1 }
                }
            }
        }
    }

    func connected(on route: String, after connackTime: Duration, now: ContinuousClock.Instant) {
        let (received, sent) = (received.present.bytes, sent.present.bytes)
        content.withLock { content in
            content.metrics.connects += 1
            content.metrics.connackTime.record(connackTime)
            content.connection = Connection(route: route, since: now, received: received, sent: sent)
        }
    }

    func connectionEnded(now: ContinuousClock.Instant) {
        content.withLock { end(&$0, now: now) }
    }

    private func end(_ content: inout Content, now: ContinuousClock.Instant) {
        guard let connection = content.connection else { return }
        content.connection = nil
        let (received, sent) = (received.present.bytes, sent.present.bytes)
        Self.change(connection.route, of: &content) { route in
            route.timeConnected += connection.since.duration(to: now)
            route.bytesReceived += received - connection.received
            route.bytesSent += sent - connection.sent
        }
    }

    private static func change(
        _ route: String, of content: inout Content, _ change: (inout RouteMetrics) -> Void
    ) {
        let routes = content.metrics.routes
        let key = routes[route] != nil || routes.count < routeLimit ? route : "others"
        change(&content.metrics.routes[key, default: RouteMetrics()])
    }
}
