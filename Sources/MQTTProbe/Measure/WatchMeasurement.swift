internal import MQTTTraversal

/// Sends an echo each second for a while, and sees what becomes of it and of the connection.
struct WatchMeasurement {
    let way: MeasuredWay

    private static let interval = Duration.seconds(1)

    init(_ way: MeasuredWay) { self.way = way }

    func run(for limit: Duration) async -> Measurements.Watch? {
        let start = ContinuousClock.now
        var sent = 0
        var latencies: [Duration] = []
        var outages: [Measurements.Outage] = []
        var connection = MeasuredConnection(way)
        var subscription: Subscription?
        while start.duration(to: .now) < limit, !Task.isCancelled {
            let turn = ContinuousClock.now
            do throws(MeasurementFailure) {
                if subscription == nil {
                    subscription = try await connection.open(.atMostOnce).1
                    if let last = outages.last, last.lastedSeconds == nil {
                        let lasted = Self.seconds(since: start) - last.atSeconds
                        outages[outages.count - 1].lastedSeconds = (lasted * 10).rounded() / 10
                    }
                }
                guard let subscription else { break }
                sent += 1
                latencies.append(
                    try await connection.echo(
                        sent, size: SizeSearch.smallest, through: subscription, qos: .atMostOnce))
            } catch {
                if error.isCancelled {
                    if subscription != nil { sent -= 1 }
                    break
                }
                // An echo that is late is a loss; a connection that has ended is an outage too.
                if subscription == nil || error.failure.code != .mqttNoEcho {
                    if outages.last.map({ $0.lastedSeconds != nil }) ?? true {
                        outages.append(
                            Measurements.Outage(atSeconds: Self.seconds(since: start), failure: error.failure)
                        )
                    }
                    connection.abandon()
                    connection = MeasuredConnection(way)
                    subscription = nil
                }
            }
            try? await Task.sleep(until: min(turn + Self.interval, start + limit))
        }
        await connection.close()
        return Measurements.Watch(
            seconds: Self.seconds(since: start), sent: sent, returned: latencies.count,
            latency: Latency(latencies), outages: outages)
    }

    private static func seconds(since start: ContinuousClock.Instant) -> Double {
        (start.duration(to: .now).milliseconds / 100).rounded() / 10
    }
}
