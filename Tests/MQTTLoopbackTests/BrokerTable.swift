import MQTTCore
import MQTTLoopback
import Testing

/// A broker with its clients around it, all in memory and with a clock of its own.
final class BrokerTable {
    let core: BrokerCore
    private(set) var now = ContinuousClock.now
    private var clients: [ConnectionID: TableClient] = [:]

    init(_ configuration: BrokerConfiguration = BrokerConfiguration()) {
        core = BrokerCore(configuration: configuration) { [UInt8](repeating: 0x5A, count: $0) }
    }

    /// A transport without CONNECT.
    func open(_ version: ProtocolVersion = .v5) -> TableClient {
        let client = TableClient(self, core.open(now: now), version)
        clients[client.id] = client
        return client
    }

    /// A client that has sent CONNECT; what it got is still in `received`.
    func connecting(_ connect: Connect) -> TableClient {
        let client = open(connect.version)
        client.send(.connect(connect))
        return client
    }

    /// A client whose CONNACK has been taken.
    func client(
        _ identifier: String, _ version: ProtocolVersion = .v5, cleanStart: Bool = true,
        expiry: UInt32? = nil, keepAlive: UInt16 = 0, will: Will? = nil, properties: [Property] = []
    ) -> TableClient {
        var properties = properties
        if let expiry { properties.append(.sessionExpiryInterval(expiry)) }
        let client = connecting(
            Connect(
                version: version, clientIdentifier: identifier, cleanStart: cleanStart,
                keepAlive: keepAlive, will: will, properties: Properties(properties)))
        guard case .connack(let connack)? = client.received.first, connack.reasonCode == .success else {
            Issue.record("\(identifier) was not accepted: \(client.received)")
            return client
        }
        client.connack = connack
        client.received.removeFirst()
        return client
    }

    func pass(_ duration: Duration) {
        now += duration
        core.advance(now: now)
        deliver()
    }

    func deliver() {
        while let id = core.nextOutput() {
            guard let client = clients[id], client.isReading else { continue }
            var bytes: [UInt8] = []
            let after = core.takeOutput(of: id, now: now, into: &bytes)
            client.take(bytes)
            if after == .close { closeTransport(client) }
        }
    }

    func closeTransport(_ client: TableClient) {
        guard clients.removeValue(forKey: client.id) != nil else { return }
        client.isClosed = true
        core.close(client.id, now: now)
        deliver()
    }
}

/// A client at the table: packets in, packets out.
final class TableClient {
    let id: ConnectionID
    var connack = Connack(sessionPresent: false)
    var received: [ControlPacket] = []
    var bytes: [UInt8] = []
    var isClosed = false
    var isReading = true
    /// Keeps the table alive for tests that only hold a client.
    private let table: BrokerTable
    private var decoder: PacketDecoder

    init(_ table: BrokerTable, _ id: ConnectionID, _ version: ProtocolVersion) {
        self.table = table
        self.id = id
        decoder = PacketDecoder(role: .client, version: version)
    }

    func send(_ packets: ControlPacket...) {
        for packet in packets { table.core.receive(packet, from: id, now: table.now) }
        table.deliver()
    }

    func reject(_ error: DecodeError) {
        table.core.reject(error, from: id, now: table.now)
        table.deliver()
    }

    /// The network goes away, without DISCONNECT.
    func drop() { table.closeTransport(self) }

    /// What has arrived since the last time.
    func taken() -> [ControlPacket] {
        defer { received = [] }
        return received
    }

    /// The PUBLISH packets that have arrived since the last time; records anything else as a failure.
    func messages() -> [Publish] {
        taken().compactMap { packet in
            guard case .publish(let publish) = packet else {
                Issue.record("not a PUBLISH: \(packet)")
                return nil
            }
            return publish
        }
    }

    func payloads() -> [String] { messages().map { String(decoding: $0.payload, as: UTF8.self) } }

    /// Subscribes and takes the SUBACK, which has to grant it; retained messages stay in `received`.
    func subscribe(
        _ filter: String, _ options: SubscriptionOptions = SubscriptionOptions(qos: .exactlyOnce),
        identifier: UInt32? = nil
    ) {
        let properties = identifier.map { [Property.subscriptionIdentifier($0)] } ?? []
        send(
            .subscribe(
                Subscribe(
                    packetIdentifier: 900,
                    subscriptions: [.init(topicFilter: filter, options: options)],
                    properties: Properties(properties))))
        guard case .suback(let suback)? = received.first, suback.reasonCodes.allSatisfy({ !$0.isError })
        else {
            Issue.record("\(filter) was not granted: \(received)")
            return
        }
        received.removeFirst()
    }

    func publish(
        _ topic: String, _ payload: String, qos: QoS = .atMostOnce, retain: Bool = false,
        isDuplicate: Bool = false, packetIdentifier: UInt16? = nil, properties: [Property] = []
    ) {
        send(
            .publish(
                Publish(
                    topicName: topic, payload: Array(payload.utf8), qos: qos, retain: retain,
                    isDuplicate: isDuplicate, packetIdentifier: packetIdentifier,
                    properties: Properties(properties))))
    }

    func take(_ new: [UInt8]) {
        bytes += new
        var input = new[...]
        do {
            while let packet = try decoder.next(in: &input) { received.append(packet) }
        } catch {
            Issue.record("the broker sent what is no packet: \(error)")
        }
    }
}

func ack(_ packetIdentifier: UInt16, _ reason: ReasonCode = .success) -> Acknowledgement {
    Acknowledgement(packetIdentifier: packetIdentifier, reasonCode: reason)
}
