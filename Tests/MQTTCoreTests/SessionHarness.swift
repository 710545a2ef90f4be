import MQTTCore

/// A session under a hand-moved clock: packets in, bytes and actions out.
struct SessionHarness {
    var session: ClientSession
    var now = ContinuousClock.now
    var output = SessionOutput()
    private var lastToken: UInt64 = 0

    init(_ configuration: SessionConfiguration) { session = ClientSession(configuration: configuration) }

    /// A session with client identifier "c" that has its first connection.
    init(
        connected version: ProtocolVersion, connack: Properties = Properties(),
        _ change: (inout SessionConfiguration) -> Void = { _ in }
    ) {
        var configuration = SessionConfiguration(version: version, clientIdentifier: "c")
        // Of 3.1.1 the sessions that outlive a connection are the more interesting ones.
        configuration.cleanStart = version == .v5
        change(&configuration)
        self.init(configuration)
        connect(connack: connack)
    }

    mutating func open(at server: String = "") {
        session.open(
            at: server, userName: nil, password: nil, now: now, connackTimeout: .seconds(10), into: &output)
    }

    /// Opens, answers CONNECT, and forgets the output so far.
    mutating func connect(
        at server: String = "", sessionPresent: Bool = false, connack properties: Properties = Properties()
    ) {
        open(at: server)
        _ = take()
        receive(.connack(Connack(sessionPresent: sessionPresent, properties: properties)))
        output.actions.removeAll { if case .established = $0 { true } else { false } }
    }

    mutating func reconnect(sessionPresent: Bool, connack properties: Properties = Properties()) {
        close()
        connect(sessionPresent: sessionPresent, connack: properties)
    }

    mutating func close() { session.closed(now: now, into: &output) }

    mutating func receive(_ packet: ControlPacket) {
        session.receivedBytes(now: now)
        session.receive(packet, now: now, into: &output)
    }

    /// What a server sent, through a decoder into the session, as the driver does it.
    mutating func receive(bytes: [UInt8]) {
        var decoder = PacketDecoder(
            role: .client, version: session.configuration.version,
            maximumPacketSize: session.configuration.maximumPacketSize ?? WireFormat.maximumPacketSize)
        do throws(DecodeError) {
            for packet in try decoder.packets(in: bytes) { receive(packet) }
        } catch {
            session.decodeFailed(error, now: now, into: &output)
        }
    }

    @discardableResult
    mutating func publish(
        _ payload: String = "a", topic: String = "t", qos: QoS = .atLeastOnce, retain: Bool = false,
        properties: Properties = Properties(), terms: PublishTerms = PublishTerms()
    ) -> OperationToken {
        let token = makeToken()
        session.publish(
            Publish(
                topicName: topic, payload: Array(payload.utf8), qos: qos, retain: retain,
                properties: properties),
            token: token, terms: terms, now: now, into: &output)
        return token
    }

    @discardableResult
    mutating func subscribe(
        _ filters: String..., qos: QoS = .atMostOnce, identifier: UInt32? = nil
    ) -> OperationToken {
        let token = makeToken()
        session.subscribe(
            filters.map { Subscribe.Subscription(topicFilter: $0, options: SubscriptionOptions(qos: qos)) },
            subscriptionIdentifier: identifier, token: token, now: now, into: &output)
        return token
    }

    @discardableResult
    mutating func unsubscribe(_ filters: String...) -> OperationToken {
        let token = makeToken()
        session.unsubscribe(filters, token: token, now: now, into: &output)
        return token
    }

    mutating func deliver(_ payload: String = "m", qos: QoS, id: PacketIdentifier, duplicate: Bool = false) {
        receive(
            .publish(
                Publish(
                    topicName: "t", payload: Array(payload.utf8), qos: qos, isDuplicate: duplicate,
                    packetIdentifier: id)))
    }

    mutating func acknowledge(_ token: IncomingToken?, reason: ReasonCode = .success) {
        guard let token else { return }
        session.acknowledge(token, reason: reason, into: &output)
    }

    mutating func encode(upTo limit: Int = 65536) {
        session.encodePending(upTo: limit, now: now, into: &output)
    }

    mutating func advance(_ duration: Duration) { now += duration }

    mutating func flush() { session.flushed(now: now) }

    mutating func deadline() { session.deadlineReached(now: now, into: &output) }

    mutating func makeToken() -> OperationToken {
        lastToken += 1
        return OperationToken(rawValue: lastToken)
    }

    /// The output since the last call.
    mutating func take() -> SessionOutput {
        defer { output = SessionOutput() }
        return output
    }

    /// Encodes what is pending and takes the bytes, packet by packet.
    mutating func packets() -> [[UInt8]] {
        encode()
        return takePackets()
    }

    mutating func takePackets() -> [[UInt8]] {
        let output = take()
        var packets: [[UInt8]] = []
        var start = 0
        for end in output.packetEnds {
            packets.append(Array(output.bytes[start..<end]))
            start = end
        }
        return packets
    }

    mutating func actions() -> [SessionAction] { take().actions }
}

extension SessionOutput {
    var tokens: [IncomingToken?] {
        actions.compactMap { if case .deliver(_, let token) = $0 { .some(token) } else { nil } }
    }
}

/// Bytes from hexadecimal digits with spaces.
func hex(_ text: String) -> [UInt8] {
    text.split(separator: " ").compactMap { UInt8($0, radix: 16) }
}

func hex(_ texts: [String]) -> [[UInt8]] { texts.map { hex($0) } }

extension ProtocolVersion {
    /// The literal for the version at hand.
    func of(_ v3: String, _ v5: String) -> [UInt8] { hex(self == .v5 ? v5 : v3) }
}

func acknowledgement(_ id: PacketIdentifier, _ reason: ReasonCode = .success) -> Acknowledgement {
    Acknowledgement(packetIdentifier: id, reasonCode: reason)
}
