/// Request/Response (MQTT 5.0, section 4.10).
extension MQTTClient {
    /// Publishes a request and waits for the answer. Any number may wait at once: their answers share one
    /// subscription, made with the first of them, and are told apart by Correlation Data.
    ///
    /// Waits through reconnects; a QoS 0 request needs a connection. Cancelling stops the waiting: what was sent
    /// may still be carried out, and a late answer is dropped (``LogEvent/lateResponse(topic:)``).
    ///
    /// - Parameters:
    ///   - payload: as for `publish`.
    ///   - topic: as for `publish`.
    ///   - qos: of the request. Answers come at QoS 1 at most.
    ///   - timeout: how long the answer may take, a reconnect and the first subscription included.
    ///   - properties: of PUBLISH, without Response Topic and Correlation Data, which are set here.
    /// - Returns: the first answer.
    /// - Throws: `MQTTError`: `mqtt.request_timeout`; `mqtt.no_responder` where the server knows that nobody
    ///   subscribes to the topic; `CancellationError`.
    public func request(
        _ payload: some Sequence<UInt8>, to topic: String, qos: QoS = .atLeastOnce,
        timeout: Duration = .seconds(10), properties: Properties = Properties()
    ) async throws -> Message {
        let engine = try engine.get()
        let publish = try makeRequest(Array(payload), topic, qos, properties)
        return try await engine.perform { .request(publish, timeout: timeout, $0, $1) }
    }

    /// Requests with text.
    public func request(
        _ payload: some StringProtocol, to topic: String, qos: QoS = .atLeastOnce,
        timeout: Duration = .seconds(10), properties: Properties = Properties()
    ) async throws -> Message {
        try await request(payload.utf8, to: topic, qos: qos, timeout: timeout, properties: properties)
    }

    /// Publishes the answer to a request: to its Response Topic, with its Correlation Data.
    ///
    /// - Parameters:
    ///   - request: a message with a Response Topic. Whoever sent it chose where the answer goes.
    ///   - payload: as for `publish`.
    ///   - qos: that of the request where nil.
    ///   - properties: of PUBLISH; Correlation Data is set here.
    /// - Throws: `MQTTError`; `client.invalid_argument` where the message is no request.
    @discardableResult
    public func reply(
        to request: Message, with payload: some Sequence<UInt8>, qos: QoS? = nil,
        properties: Properties = Properties()
    ) async throws -> PublishOutcome {
        guard let topic = request.properties.responseTopic else {
            throw MQTTError(.clientInvalidArgument, "the message has no Response Topic, so it is no request")
        }
        var properties = properties
        properties.correlationData = request.properties.correlationData
        return try await publish(payload, to: topic, qos: qos ?? request.qos, properties: properties)
    }

    /// Answers with text.
    @discardableResult
    public func reply(
        to request: Message, with payload: some StringProtocol, qos: QoS? = nil,
        properties: Properties = Properties()
    ) async throws -> PublishOutcome {
        try await reply(to: request, with: payload.utf8, qos: qos, properties: properties)
    }

    /// Answers requests until the task is cancelled or the client ends.
    ///
    /// Messages without a Response Topic are passed over. An answer that can't be published is told to the log
    /// (``LogEvent/replyFailed(topic:error:)``) and stops nothing.
    ///
    /// - Parameters:
    ///   - topicFilter: as for `subscribe`; `$share/group/filter` shares the work among responders.
    ///   - qos: of the subscription.
    ///   - concurrency: how many requests are worked on at once, from 1. Further ones wait in the
    ///     subscription's buffer.
    ///   - answer: called for each request, in tasks of their own; nil leaves it without an answer.
    /// - Throws: `MQTTError`; `CancellationError` when the task is cancelled.
    public func respond(
        to topicFilter: String, qos: QoS = .atLeastOnce, concurrency: Int = 64,
        _ answer: @escaping @Sendable (Message) async -> Reply?
    ) async throws {
        let requests = try await subscribe(to: topicFilter, qos: qos)
        try await withThrowingTaskGroup(of: Void.self) { group in
            var running = 0
            for try await request in requests where request.properties.responseTopic != nil {
                if running >= concurrency {
                    try await group.next()
                    running -= 1
                }
                running += 1
                group.addTask { [self] in await self.answer(request, by: answer) }
            }
            try await group.waitForAll()
        }
        try Task.checkCancellation()
    }

    private func answer(_ request: Message, by answer: @Sendable (Message) async -> Reply?) async {
        guard let reply = await answer(request) else { return }
        do {
            try await self.reply(to: request, with: reply.payload, properties: reply.properties)
        } catch let error as MQTTError {
            configuration.report(
                .warning,
                .replyFailed(topic: request.properties.responseTopic ?? "", error: error))
        } catch {
            // Cancelled, and so is everything that waits here.
        }
    }
}

/// What a responder answers.
public struct Reply: Sendable, Hashable {
    public var payload: [UInt8]
    /// Of PUBLISH; Correlation Data is the request's.
    public var properties: Properties

    public init(_ payload: some Sequence<UInt8>, properties: Properties = Properties()) {
        self.payload = Array(payload)
        self.properties = properties
    }

    public init(_ text: some StringProtocol, properties: Properties = Properties()) {
        self.init(text.utf8, properties: properties)
    }
}
