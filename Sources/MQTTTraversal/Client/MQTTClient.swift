/// An MQTT client. Any number of tasks may call it at once.
///
/// ```swift
/// let client = MQTTClient(profile: try .webSocketSecure(host: "broker.connectmq.com"))
/// try await client.connect()
/// let readings = try await client.subscribe(to: "home/+/temperature")
/// try await client.publish("ON", to: "home/fan/set", qos: .atLeastOnce)
/// for try await reading in readings { print(reading.topic, try reading.text) }
/// ```
///
/// Once `connect()` has returned, a lost connection is made again by itself: subscriptions come back,
/// unacknowledged messages are sent again, calls that wait go on waiting. `disconnect()` ends that, and so does
/// letting go of the client and its subscriptions.
public final class MQTTClient: Sendable {
    public let profile: ConnectionProfile

    let configuration: ClientConfiguration
    private let hub = EventHub()
    private let board = MetricsBoard()
    /// Or why there can be none: a configuration that can't be sent, a process without descriptors.
    let engine: Result<ClientEngine, MQTTError>

    /// Makes a client; nothing happens before `connect()`.
    public init(profile: ConnectionProfile, configuration: ClientConfiguration = ClientConfiguration()) {
        self.profile = profile
        self.configuration = configuration
        engine = ClientEngine.make(profile, configuration, hub, board)
    }

    deinit {
        if case .success(let engine) = engine { engine.submit { _ in .disconnect(nil) } }
        hub.finish()
    }

    /// Connects, or joins an attempt under way; where a connection stands, returns at once.
    ///
    /// Later losses are mended by `configuration.reconnect`; this first attempt is made once.
    ///
    /// - Throws: `MQTTError` with the stage that failed; `CancellationError` when the task is cancelled, which
    ///   gives the attempt up.
    @discardableResult
    public func connect() async throws -> ConnectOutcome {
        let engine = try engine.get()
        return try await engine.perform { .connect($0, $1) }
    }

    /// Publishes a message, and waits: for QoS 0 until it is on its way, for QoS 1 until PUBACK, for QoS 2 until
    /// PUBCOMP. Waits through reconnects (QoS 1 and 2), within the bounds of `publishQueue`.
    ///
    /// Cancelling takes the message back if it hasn't been sent; else it may still arrive.
    ///
    /// - Parameters:
    ///   - payload: up to what the server's Maximum Packet Size leaves, 268 MB at most.
    ///   - topic: 1 to 65535 bytes of UTF-8 without `+`, `#` and U+0000.
    ///   - qos: at most the server's Maximum QoS.
    ///   - retain: whether the server keeps the message for later subscribers; an empty payload removes it.
    ///   - properties: of PUBLISH (5.0); ignored under 3.1.1, but for Message Expiry Interval: what expires before it
    ///     could be sent fails with `client.message_expired`.
    ///   - whileConnected: whether the message must not go out late: without a connection it fails at once with
    ///     `client.not_connected`, and so it does when the connection is lost before it is sent.
    /// - Throws: `MQTTError`; `mqtt.operation_refused` carries the server's Reason Code.
    @discardableResult
    public func publish(
        _ payload: some Sequence<UInt8>, to topic: String, qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties(), whileConnected: Bool = false
    ) async throws -> PublishOutcome {
        let engine = try engine.get()
        let publish = try Self.makePublish(Array(payload), topic, qos, retain, properties)
        if qos == .atMostOnce, !whileConnected, engine.accept(publish) {
            return PublishOutcome(reasonCode: .success, properties: Properties())
        }
        return try await engine.perform {
            .publish(publish, $0, .continuation($1), whileConnected: whileConnected)
        }
    }

    /// Publishes text.
    @discardableResult
    public func publish(
        _ payload: some StringProtocol, to topic: String, qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties(), whileConnected: Bool = false
    ) async throws -> PublishOutcome {
        try await publish(
            payload.utf8, to: topic, qos: qos, retain: retain, properties: properties,
            whileConnected: whileConnected)
    }

    /// Publishes without waiting: the receipt tells later what became of it.
    ///
    /// Messages go out in the order of the calls. The queue is bounded by `publishQueue`.
    ///
    /// - Throws: `MQTTError` for an argument that can't be sent.
    @discardableResult
    public func enqueue(
        _ payload: some Sequence<UInt8>, to topic: String, qos: QoS = .atLeastOnce, retain: Bool = false,
        properties: Properties = Properties(), whileConnected: Bool = false
    ) throws(MQTTError) -> PublishReceipt {
        let engine = try engine.get()
        let publish = try Self.makePublish(Array(payload), topic, qos, retain, properties)
        let isStored = configuration.isDurable && qos != .atMostOnce && !whileConnected
        let receipt = PublishReceipt(isStored: isStored)
        engine.submit { .publish(publish, $0, .receipt(receipt), whileConnected: whileConnected) }
        return receipt
    }

    /// Publishes text without waiting.
    @discardableResult
    public func enqueue(
        _ payload: some StringProtocol, to topic: String, qos: QoS = .atLeastOnce, retain: Bool = false,
        properties: Properties = Properties(), whileConnected: Bool = false
    ) throws(MQTTError) -> PublishReceipt {
        try enqueue(
            payload.utf8, to: topic, qos: qos, retain: retain, properties: properties,
            whileConnected: whileConnected)
    }

    /// Subscribes to a Topic Filter; returns when the server has granted it.
    ///
    /// - Parameters:
    ///   - topicFilter: `+` stands for one level, a last `#` for all that follow; `$share/group/filter` shares the
    ///     messages among a group (5.0).
    ///   - options: QoS, and under 5.0 No Local, Retain As Published and Retain Handling.
    ///   - overflow: what happens when nobody reads fast enough.
    ///   - acknowledgement: whether the client acknowledges messages, or the program does.
    /// - Throws: `MQTTError`; `mqtt.operation_refused` carries the server's Reason Code.
    public func subscribe(
        to topicFilter: String, options: SubscriptionOptions = SubscriptionOptions(),
        overflow: OverflowPolicy = .withholdAcknowledgements,
        acknowledgement: AcknowledgementMode = .automatic
    ) async throws -> Subscription {
        let wish = SubscriptionWish(
            topicFilter, options: options, overflow: overflow, acknowledgement: acknowledgement)
        return try await subscribe(to: [wish])[0].get()
    }

    /// Subscribes to a Topic Filter at a QoS.
    public func subscribe(
        to topicFilter: String, qos: QoS, overflow: OverflowPolicy = .withholdAcknowledgements,
        acknowledgement: AcknowledgementMode = .automatic
    ) async throws -> Subscription {
        try await subscribe(
            to: topicFilter, options: SubscriptionOptions(qos: qos), overflow: overflow,
            acknowledgement: acknowledgement)
    }

    /// Gives a subscription back: its sequence ends, and the server is told when no other uses the filter.
    ///
    /// - Returns: what UNSUBACK said.
    /// - Throws: `MQTTError` where the server refuses.
    @discardableResult
    public func unsubscribe(_ subscription: Subscription) async throws -> UnsubscribeOutcome {
        let engine = try engine.get()
        return try await engine.perform { .unsubscribe(subscription.buffer, $0, $1) }
    }

    /// Authenticates anew on the connection that stands, by `configuration.authentication` (5.0, section 4.12.1): for
    /// credentials that expire. Messages flow on meanwhile. Returns when the server has accepted.
    ///
    /// A failure ends the connection, as the protocol demands, and the next one authenticates from the start;
    /// only where the handler fails before anything is sent does the connection live on. Cancelling stops the
    /// waiting, not the exchange.
    ///
    /// - Parameter timeout: how long the whole exchange may take, above zero.
    /// - Throws: `MQTTError`.
    public func reauthenticate(timeout: Duration = .seconds(10)) async throws {
        let engine = try engine.get()
        try await engine.perform { .reauthenticate(timeout: timeout, $0, $1) }
    }

    /// Ends the connection in order and for good: DISCONNECT, over WebSocket the closing handshake, over TLS
    /// close_notify. Calls that wait fail with `client.disconnected`; sequences end.
    public func disconnect() async {
        guard case .success(let engine) = engine else { return }
        await withCheckedContinuation { continuation in
            engine.submit { _ in .disconnect(continuation) }
        }
    }

    /// What this client does at this moment; costs no more than a short lock, on any thread. ``events`` tells when it
    /// changes.
    public var state: ClientState { hub.state }

    /// What happens to this client, from its present state on.
    public var events: ClientEvents { hub.subscribe() }

    /// What this client has counted since it was made; costs a short lock and a copy, on any thread.
    public var metrics: ClientMetrics { board.snapshot() }

    func release(_ buffer: MessageBuffer) {
        if case .success(let engine) = engine { engine.submit { .unsubscribe(buffer, $0, nil) } }
    }
}

extension MQTTClient {
    /// Connects, runs `body`, and disconnects, however `body` ends.
    public static func withConnection<Result: Sendable>(
        profile: ConnectionProfile, configuration: ClientConfiguration = ClientConfiguration(),
        _ body: (MQTTClient) async throws -> Result
    ) async throws -> Result {
        let client = MQTTClient(profile: profile, configuration: configuration)
        try await client.connect()
        do {
            let result = try await body(client)
            await client.disconnect()
            return result
        } catch {
            await client.disconnect()
            throw error
        }
    }

    func makeRequest(
        _ payload: [UInt8], _ topic: String, _ qos: QoS, _ properties: Properties
    ) throws(MQTTError) -> Publish {
        if configuration.version == .v3_1_1 {
            throw MQTTError(.clientInvalidArgument, "requests need MQTT 5.0")
        }
        if properties.responseTopic != nil || properties.correlationData != nil {
            throw MQTTError(
                .clientInvalidArgument,
                "Response Topic and Correlation Data of a request are set by the client")
        }
        return try Self.makePublish(payload, topic, qos, false, properties)
    }

    private static func makePublish(
        _ payload: [UInt8], _ topic: String, _ qos: QoS, _ retain: Bool, _ properties: Properties
    ) throws(MQTTError) -> Publish {
        do {
            return Publish(
                topicName: try TopicName(topic).string, payload: payload, qos: qos, retain: retain,
                properties: properties)
        } catch {
            throw MQTTError(.clientInvalidArgument, "the Topic Name \"\(topic)\": \(error)")
        }
    }
}
