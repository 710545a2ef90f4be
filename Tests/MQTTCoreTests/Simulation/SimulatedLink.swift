import MQTTCore

/// A client session and a server, joined by a link that carries bytes and may break behind any of them: what
/// was sent before that and hasn't been read is lost on both sides. Nothing is reordered.
struct SimulatedLink {
    private(set) var session: ClientSession
    private(set) var server: ModelServer
    private(set) var violations: [String] = []
    private(set) var drops = 0
    private(set) var published: [Message] = []
    private(set) var publishedByServer: [Message] = []
    /// How often each message of the server was delivered, by its number, and in which order.
    private(set) var delivered: [Int: Int] = [:]
    private(set) var deliveries: [Int] = []
    private(set) var ended: Set<OperationToken> = []
    private var random: SplitMix64
    private var now = ContinuousClock.now
    private var output = SessionOutput()
    private var owed: [IncomingToken] = []
    private let version: ProtocolVersion
    // Of one connection.
    private var toServer: [UInt8] = []
    private var toClient: [UInt8] = []
    private var serverDecoder = PacketDecoder(role: .server)
    private var clientDecoder: PacketDecoder
    /// Sees what the client sends when it sends it.
    private var tap = PacketDecoder(role: .server)
    /// Identifiers that the client uses, by what its bytes said and what it has read.
    private var used: [PacketIdentifier: Int] = [:]
    private static let receiveMaximum = 8

    init(version: ProtocolVersion, seed: UInt64) {
        var configuration = SessionConfiguration(version: version, clientIdentifier: "c", cleanStart: false)
        configuration.receiveMaximum = UInt16(Self.receiveMaximum)
        configuration.automaticTopicAliases = 2
        configuration.keepAlive = 10
        session = ClientSession(configuration: configuration)
        server = ModelServer(version: version)
        random = SplitMix64(state: seed)
        clientDecoder = PacketDecoder(role: .client, version: version)
        self.version = version
    }

    /// Both ends at work over a breaking link, then everything to its end over a good one.
    mutating func run(steps: Int) throws {
        // A session of which the client heard nothing would have to go: that is another test's.
        try connect()
        try settle(rounds: 2)
        for _ in 0..<steps { try step() }
        try settle(rounds: 400)
    }

    private mutating func step() throws {
        if session.state == .closed { try connect() }
        switch random.next() % 16 {
        case 0, 1, 2: try publish()
        case 3: serverPublishes()
        case 4, 5, 6: try pump(Int(random.next() % 200))
        case 7, 8, 9: try serverReads(Int(random.next() % 60))
        case 10, 11, 12: try clientReads(Int(random.next() % 60))
        case 13: serverAnswers()
        case 14: try acknowledge()
        default: if random.next() % 3 == 0 { try drop() } else { try pass(.seconds(Int(random.next() % 9))) }
        }
    }

    private mutating func settle(rounds: Int) throws {
        for _ in 0..<rounds {
            if session.state == .closed { try connect() }
            try pump(65536)
            try serverReads(.max)
            while !server.answers.isEmpty { serverAnswers() }
            server.sendQueued(window: Self.receiveMaximum)
            try clientReads(.max)
            while !owed.isEmpty { try acknowledge() }
            if isIdle { return }
        }
    }

    private var isIdle: Bool {
        server.isIdle && toServer.isEmpty && toClient.isEmpty && session.state == .established
            && session.queuedCount + session.inFlightCount == 0
    }

    private mutating func connect() throws {
        serverDecoder = PacketDecoder(role: .server)
        tap = PacketDecoder(role: .server)
        clientDecoder = PacketDecoder(role: .client, version: version)
        session.open(userName: nil, password: nil, now: now, connackTimeout: .seconds(5), into: &output)
        try collect()
    }

    private mutating func drop() throws {
        drops += 1
        session.closed(now: now, into: &output)
        // What the session still wrote has no connection to go to.
        output.bytes = []
        try collect()
        toServer = []
        toClient = []
        server.disconnected()
    }

    private mutating func pass(_ duration: Duration) throws {
        now += duration
        if let deadline = session.nextDeadline, deadline <= now {
            session.deadlineReached(now: now, into: &output)
            try collect()
        }
    }

    private mutating func publish() throws {
        let qos = QoS.allCases[Int(random.next() % 3)]
        let message = Message(number: published.count + 1, qos: qos)
        published.append(message)
        session.publish(
            message.publish(nil, isDuplicate: false), token: OperationToken(rawValue: UInt64(message.number)),
            now: now, into: &output)
        try collect()
    }

    private mutating func serverPublishes() {
        let qos: QoS = random.next() % 2 == 0 ? .atLeastOnce : .exactlyOnce
        let message = Message(number: publishedByServer.count + 1, qos: qos)
        publishedByServer.append(message)
        server.publish(message, window: Self.receiveMaximum)
    }

    private mutating func pump(_ limit: Int) throws {
        session.encodePending(upTo: limit, now: now, into: &output)
        try collect()
    }

    private mutating func serverReads(_ count: Int) throws {
        var input = toServer.prefix(count)
        toServer.removeFirst(input.count)
        while let packet = try serverDecoder.next(in: &input) { server.receive(packet) }
    }

    /// Answers go out in any order.
    private mutating func serverAnswers() {
        guard !server.answers.isEmpty else { return }
        server.outbox.append(server.answers.remove(at: Int(random.next() % UInt64(server.answers.count))))
    }

    private mutating func clientReads(_ count: Int) throws {
        for packet in server.outbox { try packet.encode(for: version, into: &toClient) }
        server.outbox = []
        var input = toClient.prefix(count)
        toClient.removeFirst(input.count)
        if !input.isEmpty { session.receivedBytes(now: now) }
        while let packet = try clientDecoder.next(in: &input) {
            switch packet {
            case .puback(let answer), .pubcomp(let answer):
                server.answerArrived(for: answer.packetIdentifier)
                used[answer.packetIdentifier] = nil
            default: break
            }
            session.receive(packet, now: now, into: &output)
            try collect()
        }
    }

    private mutating func acknowledge() throws {
        guard !owed.isEmpty else { return }
        session.acknowledge(owed.remove(at: Int(random.next() % UInt64(owed.count))), into: &output)
        try collect()
    }

    private mutating func collect() throws {
        var input = output.bytes[...]
        while let packet = try tap.next(in: &input) {
            guard case .publish(let publish) = packet, let identifier = publish.packetIdentifier else {
                continue
            }
            if let other = used[identifier], other != publish.number {
                violations.append("\(identifier) for \(other) and \(publish.number)")
            }
            if used[identifier] != nil, !publish.isDuplicate {
                violations.append("no DUP: \(publish.number)")
            }
            used[identifier] = publish.number
        }
        toServer += output.bytes
        session.flushed(now: now)
        let actions = output.actions
        output.removeAll()
        for action in actions { try perform(action) }
    }

    private mutating func perform(_ action: SessionAction) throws {
        switch action {
        case .deliver(let publish, let token):
            if delivered[publish.number] == nil { deliveries.append(publish.number) }
            delivered[publish.number, default: 0] += 1
            if publish.topicName != Message.topic(publish.number) { violations.append("\(action)") }
            if let token { owed.append(token) }
        case .published(let token, _, _):
            if !ended.insert(token).inserted { violations.append("ended twice: \(token)") }
        case .failed(let token, let error):
            if !ended.insert(token).inserted { violations.append("ended twice: \(token)") }
            if published[Int(token.rawValue) - 1].qos != .atMostOnce { violations.append("\(error)") }
        case .close(let error):
            switch error {
            case .pingResponseTimeout, .connackTimeout: try drop()
            default: violations.append("\(action)")
            }
        case .established: break
        case .refused, .sessionLost, .persist, .stored, .discarded, .serverDisconnected, .subscribed,
            .unsubscribed,
            .subscriptionsRestored, .authenticate, .reauthenticated:
            violations.append("\(action)")
        }
    }
}
