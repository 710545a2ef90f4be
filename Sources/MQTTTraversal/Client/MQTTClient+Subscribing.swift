/// One of several Topic Filters to subscribe to at once.
public struct SubscriptionWish: Sendable, Hashable {
    public var topicFilter: String
    public var options: SubscriptionOptions
    public var overflow: OverflowPolicy
    public var acknowledgement: AcknowledgementMode

    public init(
        _ topicFilter: String, options: SubscriptionOptions = SubscriptionOptions(),
        overflow: OverflowPolicy = .withholdAcknowledgements,
        acknowledgement: AcknowledgementMode = .automatic
    ) {
        self.topicFilter = topicFilter
        self.options = options
        self.overflow = overflow
        self.acknowledgement = acknowledgement
    }

    public init(
        _ topicFilter: String, qos: QoS, overflow: OverflowPolicy = .withholdAcknowledgements,
        acknowledgement: AcknowledgementMode = .automatic
    ) {
        self.init(
            topicFilter, options: SubscriptionOptions(qos: qos), overflow: overflow,
            acknowledgement: acknowledgement)
    }
}

extension MQTTClient {
    /// Subscribes to several Topic Filters by one SUBSCRIBE; returns when the server has answered.
    ///
    /// Where the filters overlap each other and the server sends a copy of a message for each, as some do, each of
    /// their sequences gets each copy: filters of one SUBSCRIBE share one Subscription Identifier. Separate calls
    /// keep them apart.
    ///
    /// - Parameter wishes: at least one.
    /// - Returns: for each wish, in its place, the subscription or the `MQTTError` (`mqtt.operation_refused`) by
    ///   which the server refused it. One that fails doesn't touch the others.
    /// - Throws: `MQTTError` where no SUBSCRIBE could be sent or answered; `CancellationError`.
    public func subscribe(to wishes: [SubscriptionWish]) async throws -> [Result<Subscription, MQTTError>] {
        let engine = try engine.get()
        if wishes.isEmpty { throw MQTTError(.clientInvalidArgument, "there is no Topic Filter") }
        let entries = try wishes.map { wish throws(MQTTError) in try entry(for: wish, engine) }
        let suback = try await engine.perform { token, continuation in
            .subscribe(
                ClientInbox.SubscribeRequest(
                    entries: entries, properties: Properties(), token: token, continuation: continuation))
        }
        return zip(entries, suback.reasonCodes).map { entry, code in
            if code.isError { return .failure(MQTTError(refused: code, suback.properties)) }
            return .success(
                Subscription(
                    topicFilter: entry.filter.string,
                    grantedQoS: QoS(rawValue: code.rawValue) ?? entry.options.qos,
                    properties: suback.properties, buffer: entry.buffer
                ) { [self] buffer in
                    release(buffer)
                })
        }
    }

    private func entry(
        for wish: SubscriptionWish, _ engine: ClientEngine
    ) throws(MQTTError) -> ClientInbox.SubscribeRequest.Entry {
        let filter: TopicFilter
        do {
            filter = try TopicFilter(wish.topicFilter)
        } catch {
            throw MQTTError(.clientInvalidArgument, "the Topic Filter \"\(wish.topicFilter)\": \(error)")
        }
        if configuration.version == .v3_1_1, wish.options != SubscriptionOptions(qos: wish.options.qos) {
            throw MQTTError(.clientInvalidArgument, "Subscription Options other than QoS need MQTT 5.0")
        }
        var acknowledged: (@Sendable (IncomingToken) -> Void)?
        switch wish.acknowledgement {
        case .automatic: break
        case .manual: acknowledged = { token in engine.submit { _ in .acknowledge(token) } }
        }
        let buffer = MessageBuffer(
            capacity: configuration.subscriptionCapacity,
            byteCapacity: configuration.subscriptionByteLimit / 2, policy: wish.overflow,
            acknowledged: acknowledged
        ) { buffer in
            engine.submit { _ in .roomMade(buffer) }
        }
        return ClientInbox.SubscribeRequest.Entry(filter: filter, options: wish.options, buffer: buffer)
    }
}
