import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

struct DeadlinePassed: Error, CustomStringConvertible {
    let description: String
}

/// How long anything may take that nothing stands in the way of: machines are busy, so this is generous.
let patience = Duration.seconds(30)

/// Runs `body`, and gives it up after `limit`, even if it ignores being cancelled.
func within<Value: Sendable>(
    _ limit: Duration, _ what: String, _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    let first = First<Value>()
    let work = Task {
        do { first.resolve(.success(try await body())) } catch { first.resolve(.failure(error)) }
    }
    let timer = Task {
        try await Task.sleep(for: limit)
        first.resolve(.failure(DeadlinePassed(description: "not within \(limit): \(what)")))
    }
    defer {
        work.cancel()
        timer.cancel()
    }
    return try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { first.wait($0) }
    } onCancel: {
        first.resolve(.failure(CancellationError()))
    }
}

/// Runs `body`, and gives it up when patience ends.
func within<Value: Sendable>(
    _ what: String, _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await within(patience, what, body)
}

/// Looks until something holds that nobody announces.
func eventually(
    _ what: String, within limit: Duration = patience, _ holds: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !holds() {
        guard ContinuousClock.now < deadline else {
            throw DeadlinePassed(description: "not within \(limit): \(what)")
        }
        try await Task.sleep(for: .milliseconds(5))
    }
}

/// The error that `body` throws, and how long that took.
func failure(
    within limit: Duration = patience, _ what: String, _ body: @escaping @Sendable () async throws -> Void
) async throws -> (error: MQTTError, after: Duration) {
    let start = ContinuousClock.now
    let error = try await within(limit, what) { () -> MQTTError? in
        do {
            try await body()
            return nil
        } catch let error as MQTTError {
            return error
        }
    }
    return (try #require(error, "\(what) succeeded"), ContinuousClock.now - start)
}

/// The first of several results; later ones are dropped.
private final class First<Value: Sendable>: Sendable {
    private enum State {
        case empty
        case waiting(CheckedContinuation<Value, any Error>)
        case done(Result<Value, any Error>)
        case taken
    }

    private let state = Lock(State.empty)

    func resolve(_ result: Result<Value, any Error>) {
        let waiting = state.withLock { state -> CheckedContinuation<Value, any Error>? in
            switch state {
            case .empty:
                state = .done(result)
                return nil
            case .waiting(let continuation):
                state = .taken
                return continuation
            case .done, .taken:
                return nil
            }
        }
        waiting?.resume(with: result)
    }

    func wait(_ continuation: CheckedContinuation<Value, any Error>) {
        let done = state.withLock { state -> Result<Value, any Error>? in
            if case .done(let result) = state {
                state = .taken
                return result
            }
            state = .waiting(continuation)
            return nil
        }
        if let done { continuation.resume(with: done) }
    }
}

enum Names {
    /// A topic level or client identifier that no other scenario uses.
    static func unique(_ name: String) -> String {
        let bits = UInt32.random(in: .min ... .max)
        return "\(name)-" + String(bits, radix: 16)
    }
}

extension MQTTClient {
    @discardableResult
    func connectInTime(_ limit: Duration = patience) async throws -> ConnectOutcome {
        try await within(limit, "connect to \(profile)") { try await self.connect() }
    }

    @discardableResult
    func publishInTime(
        _ payload: [UInt8], to topic: String, qos: QoS = .atLeastOnce, retain: Bool = false
    ) async throws -> PublishOutcome {
        try await within(patience, "publish \(payload.count) bytes at QoS \(qos.rawValue)") {
            try await self.publish(payload, to: topic, qos: qos, retain: retain)
        }
    }

    @discardableResult
    func publishInTime(
        _ payload: String, to topic: String, qos: QoS = .atLeastOnce, retain: Bool = false
    ) async throws -> PublishOutcome {
        try await publishInTime(Array(payload.utf8), to: topic, qos: qos, retain: retain)
    }

    func subscribeInTime(to filter: String, qos: QoS = .atLeastOnce) async throws -> Subscription {
        try await within(patience, "subscribe to \(filter)") {
            try await self.subscribe(to: filter, qos: qos)
        }
    }

    func disconnectInTime(_ limit: Duration = .seconds(10)) async throws {
        try await within(limit, "disconnect from \(profile)") { await self.disconnect() }
    }
}

extension Subscription {
    /// The next messages, so many of them.
    func next(_ count: Int, within limit: Duration = patience) async throws -> [Message] {
        let taken = Watched<[Message]>([])
        do {
            return try await within(limit, "\(count) messages of \(topicFilter)") {
                var iterator = self.makeAsyncIterator()
                while taken.value.count < count, let message = try await iterator.next() {
                    taken.update { $0.append(message) }
                }
                return taken.value
            }
        } catch let error as DeadlinePassed {
            throw DeadlinePassed(description: "\(error), only \(taken.value.count) came")
        }
    }

    func next() async throws -> Message {
        try #require(try await next(1).first, "\(topicFilter) has ended")
    }

    /// The texts of the next messages.
    func texts(_ count: Int) async throws -> [String] {
        try await next(count).map { try $0.text }
    }
}

/// Remembers the events of a client, from its present state on.
final class EventRecorder: Sendable {
    private let watched = Watched<[ClientEvent]>([])
    private let task: Task<Void, Never>

    init(_ client: MQTTClient) {
        let events = client.events
        task = Task { [watched] in
            for await event in events { watched.update { $0.append(event) } }
        }
    }

    deinit { task.cancel() }

    var names: [String] { watched.value.map(\.name) }

    /// Waits until events with these names have come, in this order, others between them.
    func wait(for names: String...) async throws {
        do {
            _ = try await within(patience, "events \(names)") { [watched] in
                await watched.first { events in
                    var rest = names[...]
                    for event in events where event.name == rest.first { rest.removeFirst() }
                    return rest.isEmpty
                }
            }
        } catch let error as DeadlinePassed {
            throw DeadlinePassed(description: "\(error), but \(self.names)")
        }
    }

    var outcomes: [ConnectOutcome] {
        watched.value.compactMap { if case .connected(let outcome) = $0 { outcome } else { nil } }
    }

    var interruptions: [MQTTError] {
        watched.value.compactMap { if case .interrupted(let error) = $0 { error } else { nil } }
    }

    /// The reason of the end; nil before the end, and for one that was asked for.
    var endError: MQTTError? {
        for case .disconnected(let error) in watched.value { return error }
        return nil
    }
}

extension ClientEvent {
    var name: String {
        switch self {
        case .idle: "idle"
        case .connecting: "connecting"
        case .connected: "connected"
        case .interrupted: "interrupted"
        case .reconnecting: "reconnecting"
        case .sessionLost: "sessionLost"
        case .suspended: "suspended"
        case .disconnected: "disconnected"
        }
    }
}

/// When stages began and ended, by the loop itself: a test's own clock measures the machine's load too.
struct StageRecorder: Sendable {
    private let observations = Lock<[StageObservation]>([])

    var log: @Sendable (LogLevel, LogEvent) -> Void {
        { [observations] _, event in
            if case .stage(let observation, _) = event { observations.withLock { $0.append(observation) } }
        }
    }

    func all(_ stage: ConnectionStage) -> [StageObservation] {
        observations.withLock { $0.filter { $0.stage == stage } }
    }

    func duration(of stage: ConnectionStage) -> Duration? { all(stage).last?.duration }
}
