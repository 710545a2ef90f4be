package import MQTTTransport
package import MQTTTraversal

/// The way that is measured.
package struct MeasuredWay: Sendable {
    /// The identifier of its attempt.
    package var attempt: String
    /// With the credentials, where the way may see them.
    package var profile: ConnectionProfile
    package var version: ProtocolVersion
    /// The one that was asked for; random ones where nil.
    package var clientID: String?
    /// How long each stage, and each answer, may take.
    package var timeout: Duration
    package var resolver: Resolver

    package init(
        attempt: String, profile: ConnectionProfile, version: ProtocolVersion, clientID: String? = nil,
        timeout: Duration, resolver: Resolver = .system
    ) {
        self.attempt = attempt
        self.profile = profile
        self.version = version
        self.clientID = clientID
        self.timeout = timeout
        self.resolver = resolver
    }
}

/// A connection of its own for a measurement: no will, no session, no reconnect.
final class MeasuredConnection: Sendable {
    let client: MQTTClient
    /// Nobody else subscribes to it.
    let topic: String
    private let timeout: Duration

    init(_ way: MeasuredWay, keepAlive: Duration = .seconds(30)) {
        var random = SystemRandomNumberGenerator()
        let name = "wsprobe-" + String(random.next() | 1 << 63, radix: 16)
        var configuration = ClientConfiguration(
            version: .init(way.version), clientID: way.clientID ?? name, cleanStart: true,
            keepAlive: keepAlive, sessionExpiry: .zero, reconnect: .never,
            // What answers on the way here may be the size of what goes there.
            maximumPacketSize: UInt32(SizeMeasurement.limit) * 2)
        configuration.resolver = way.resolver
        configuration.watchesNetwork = false
        client = MQTTClient(profile: way.profile, configuration: configuration)
        topic = "wsprobe/\(name)"
        timeout = way.timeout
    }

    func connect() async throws(MeasurementFailure) -> ConnectOutcome {
        do { return try await client.connect() } catch { throw MeasurementFailure(error) }
    }

    func close() async { await client.disconnect() }

    /// Ends a connection that no goodbye would reach, as when its process had died.
    func abandon() { Task { [client] in await client.disconnect() } }

    /// - Returns: why the connection has ended; nil where it lived for this time, or the task was cancelled.
    func end(within limit: Duration) async -> MQTTError? {
        await Self.value(within: limit) { [client] in
            // They begin with where the client stands.
            for await event in client.events {
                switch event {
                case .interrupted(let error), .disconnected(let error?): return error
                case .idle, .connecting, .connected, .reconnecting, .sessionLost, .suspended, .disconnected:
                    break
                }
            }
            return nil
        }
    }

    /// Connected, and subscribed to its topic.
    func open(_ qos: QoS = .atLeastOnce) async throws(MeasurementFailure) -> (ConnectOutcome, Subscription) {
        let outcome = try await connect()
        return (outcome, try await subscribe(qos))
    }

    func subscribe(_ qos: QoS = .atLeastOnce) async throws(MeasurementFailure) -> Subscription {
        let subscription: Subscription?
        do {
            subscription = try await Self.result(within: timeout) { [client, topic] in
                try await client.subscribe(to: topic, qos: qos)
            }
            try Task.checkCancellation()
        } catch {
            throw MeasurementFailure(error)
        }
        if let subscription { return subscription }
        throw MeasurementFailure(silence("SUBSCRIBE", timeout))
    }

    /// Runs what waits for the server's answers. Where they don't come the connection is ended, which ends the waiting;
    /// so it is where the task is cancelled.
    func bounded<Value>(
        by limit: Duration, _ what: String, _ body: () async throws -> Value
    ) async throws(MeasurementFailure) -> Value {
        let start = ContinuousClock.now
        let watchdog = Task { [client] in
            try await Task.sleep(for: limit)
            await client.disconnect()
        }
        defer { watchdog.cancel() }
        do {
            return try await withTaskCancellationHandler {
                try await body()
            } onCancel: {
                abandon()
            }
        } catch {
            if Task.isCancelled { throw MeasurementFailure(CancellationError()) }
            if start.duration(to: .now) >= limit { throw MeasurementFailure(silence(what, limit)) }
            throw MeasurementFailure(error)
        }
    }

    private func silence(_ what: String, _ limit: Duration) -> Measurements.Failure {
        Measurements.Failure(code: .mqttNoEcho, evidence: "no answer to \(what) within \(limit)")
    }

    /// Publishes a message of so many bytes and waits for it to come back.
    ///
    /// - Parameter number: tells it from earlier ones that come late.
    func echo(
        _ number: Int, size: Int, through subscription: Subscription, qos: QoS = .atLeastOnce
    ) async throws(MeasurementFailure) -> Duration {
        let payload = Self.payload(number, size: size)
        let start = ContinuousClock.now
        do {
            // A slow line takes its time for much, and so does the way back.
            let limit = timeout + .milliseconds(size / 16)
            let echo = try await Self.result(within: limit) { [client, topic] in
                try await client.publish(payload, to: topic, qos: qos, whileConnected: true)
                for try await message in subscription where message.payload == payload {
                    return start.duration(to: .now)
                }
                return nil
            }
            if let echo { return echo }
            try Task.checkCancellation()
            throw MeasurementFailure(
                Measurements.Failure(
                    code: .mqttNoEcho,
                    evidence: "a message of \(size) bytes to \(topic) didn't come back within \(limit)"))
        } catch {
            // Why the connection has ended says more than that there is none.
            if (error as? MQTTError)?.code == .clientNotConnected,
                let end = await end(within: .milliseconds(100))
            {
                throw MeasurementFailure(end)
            }
            throw MeasurementFailure(error)
        }
    }

    static func payload(_ number: Int, size: Int) -> [UInt8] {
        (0..<size).map { index in
            index < 8
                ? UInt8(truncatingIfNeeded: number >> (index * 8)) : UInt8(truncatingIfNeeded: index &* 131)
        }
    }

    private static func value<Value: Sendable>(
        within limit: Duration, _ body: @escaping @Sendable () async -> Value?
    ) async -> Value? {
        await withTaskGroup(of: Value?.self) { group in
            group.addTask { await body() }
            group.addTask {
                try? await Task.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    private static func result<Value: Sendable>(
        within limit: Duration, _ body: @escaping @Sendable () async throws -> Value?
    ) async throws -> Value? {
        try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                try? await Task.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }
}

/// Why a measurement has no figure.
struct MeasurementFailure: Error {
    let failure: Measurements.Failure
    /// Whether the probe was interrupted, which says nothing about the network.
    let isCancelled: Bool

    private static let interrupted = MeasurementFailure(
        Measurements.Failure(code: .clientDisconnected, evidence: "the probe was interrupted"),
        isCancelled: true)

    init(_ failure: Measurements.Failure, isCancelled: Bool = false) {
        self.failure = failure
        self.isCancelled = isCancelled
    }

    init(_ error: any Error) {
        switch error {
        case let error as MeasurementFailure: self = error
        case let error as MQTTError: self.init(Measurements.Failure(error))
        default: self = .interrupted
        }
    }
}
