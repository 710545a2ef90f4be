internal import MQTTTraversal

/// Measures what was asked for on a way that works, one after another.
package struct MeasurementRunner: Sendable {
    private let way: MeasuredWay

    package init(_ way: MeasuredWay) { self.way = way }

    /// Cancelling the task ends it soon, with what is known.
    ///
    /// - Parameter progress: hears what is being measured, in a few words.
    package func run(
        _ options: MeasurementOptions, progress: @Sendable (String) -> Void = { _ in }
    ) async -> Measurements {
        var results = Measurements(attempt: way.attempt)
        if options.echo {
            progress("a message there and back")
            results.echo = await echo()
        }
        if options.size {
            progress("the largest message that comes back")
            results.size = await SizeMeasurement(way).run(progress)
        }
        if options.throughput {
            progress("bytes per second")
            results.throughput = await ThroughputMeasurement(way).run()
        }
        if let count = options.repetitions {
            results.repetition = await RepetitionMeasurement(way).run(count, progress)
        }
        if let limit = options.watch {
            progress("an echo each second for \(limit)")
            results.watch = await WatchMeasurement(way).run(for: limit)
        }
        if let limit = options.idle {
            progress("silent connections for up to \(limit)")
            results.idle = await IdleMeasurement(way).run(within: limit, progress)
        }
        return results
    }

    private func echo() async -> Measurements.Echo? {
        let connection = MeasuredConnection(way)
        do throws(MeasurementFailure) {
            let (_, subscription) = try await connection.open()
            let duration = try await connection.echo(0, size: SizeSearch.smallest, through: subscription)
            await connection.close()
            return Measurements.Echo(milliseconds: duration.milliseconds)
        } catch {
            await connection.close()
            return error.isCancelled ? nil : Measurements.Echo(failure: error.failure)
        }
    }
}

/// Finds the largest message that comes back.
struct SizeMeasurement {
    let way: MeasuredWay

    /// The largest that is tried. No broker's default is above it but mosquitto's, which has no limit.
    static let limit = 4 << 20
    /// Topic, identifier and header of PUBLISH, under any version.
    private static let overhead = 64

    init(_ way: MeasuredWay) { self.way = way }

    func run(_ progress: @Sendable (String) -> Void) async -> Measurements.Size? {
        var result = Measurements.Size(largestPassed: 0)
        var connection = MeasuredConnection(way)
        var search = SizeSearch(limit: Self.limit)
        do throws(MeasurementFailure) {
            var (outcome, subscription) = try await connection.open()
            if let maximum = outcome.limits.maximumPacketSize {
                result.serverMaximum = Int(maximum)
                // What the server's own word rules out says nothing of the network.
                search = SizeSearch(limit: min(Self.limit, Int(maximum) - Self.overhead))
            }
            var number = 0
            while let size = search.next {
                progress("the largest message that comes back: \(size) bytes")
                number += 1
                do throws(MeasurementFailure) {
                    _ = try await connection.echo(number, size: size, through: subscription)
                    search.passed(size)
                } catch {
                    if error.isCancelled { throw error }
                    if search.failed(size) { result.failure = error.failure }
                    connection.abandon()
                    connection = MeasuredConnection(way)
                    (outcome, subscription) = try await connection.open()
                }
            }
        } catch {
            if !error.isCancelled { result.failure = error.failure }
        }
        await connection.close()
        result.largestPassed = search.largestPassed
        result.smallestFailed = search.smallestFailed
        return result.largestPassed == 0 && result.failure == nil ? nil : result
    }
}

/// Sends as much as goes for a short time, there and back.
struct ThroughputMeasurement {
    let way: MeasuredWay

    private static let duration = Duration.seconds(2)
    private static let messageSize = 16 << 10
    private static let window = 64

    init(_ way: MeasuredWay) { self.way = way }

    func run() async -> Measurements.Throughput? {
        var result = Measurements.Throughput()
        let connection = MeasuredConnection(way)
        do throws(MeasurementFailure) {
            _ = try await connection.connect()
            let limit = Self.duration + way.timeout
            result.up = try await connection.bounded(by: limit, "PUBLISH") { try await up(connection) }
            result.down = try await connection.bounded(by: limit + way.timeout, "PUBLISH") {
                try await down(connection)
            }
        } catch {
            if error.isCancelled, result.up == nil { return nil }
            if !error.isCancelled { result.failure = error.failure }
        }
        await connection.close()
        return result
    }

    /// Nobody subscribes yet: only acknowledgements come back.
    private func up(_ connection: MeasuredConnection) async throws -> Double {
        let payload = MeasuredConnection.payload(0, size: Self.messageSize)
        let start = ContinuousClock.now
        var receipts: [PublishReceipt] = []
        var acknowledged = 0
        do {
            while start.duration(to: .now) < Self.duration {
                try Task.checkCancellation()
                while receipts.count < Self.window {
                    receipts.append(
                        try connection.client.enqueue(payload, to: connection.topic, whileConnected: true))
                }
                _ = try await receipts.removeFirst().outcome
                acknowledged += 1
            }
            let rate = Self.rate(acknowledged, since: start)
            for receipt in receipts { _ = try await receipt.outcome }
            return rate
        } catch {
            throw MeasurementFailure(error)
        }
    }

    private func down(_ connection: MeasuredConnection) async throws -> Double {
        let subscription = try await connection.subscribe()
        do {
            let payload = MeasuredConnection.payload(0, size: Self.messageSize)
            func send() throws {
                _ = try connection.client.enqueue(payload, to: connection.topic, whileConnected: true)
            }
            for _ in 0..<Self.window { try send() }
            let start = ContinuousClock.now
            var received = 0
            for try await _ in subscription {
                try Task.checkCancellation()
                received += 1
                if start.duration(to: .now) >= Self.duration { break }
                try send()
            }
            return Self.rate(received, since: start)
        } catch {
            throw MeasurementFailure(error)
        }
    }

    private static func rate(_ messages: Int, since start: ContinuousClock.Instant) -> Double {
        let seconds = start.duration(to: .now).milliseconds / 1000
        return (Double(messages * messageSize) / max(seconds, 0.001)).rounded()
    }
}

/// Connects again and again.
struct RepetitionMeasurement {
    let way: MeasuredWay

    init(_ way: MeasuredWay) { self.way = way }

    func run(_ count: Int, _ progress: @Sendable (String) -> Void) async -> Measurements.Repetition? {
        var latencies: [Duration] = []
        var failures: [String: Int] = [:]
        var attempts = 0
        for number in 1...count where !Task.isCancelled {
            progress("connection \(number) of \(count)")
            let connection = MeasuredConnection(way)
            let start = ContinuousClock.now
            do throws(MeasurementFailure) {
                _ = try await connection.connect()
                latencies.append(start.duration(to: .now))
            } catch {
                if error.isCancelled { break }
                failures[error.failure.code.rawValue, default: 0] += 1
            }
            attempts += 1
            await connection.close()
        }
        if attempts == 0 { return nil }
        return Measurements.Repetition(
            attempts: attempts, succeeded: latencies.count, latency: Latency(latencies), failures: failures)
    }
}
