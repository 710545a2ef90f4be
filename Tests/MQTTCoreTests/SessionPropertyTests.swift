import MQTTCore
import Testing

/// Random acknowledgement orders, drops and resumptions against a small model of a server.
@Suite("Session: exactly once, at least once")
struct SessionPropertyTests {
    @Test(arguments: ProtocolVersion.allCases, 1...40)
    func every_message_arrives_as_its_qos_promises(version: ProtocolVersion, seed: Int) throws {
        var world = World(version: version, seed: UInt64(seed))
        for _ in 0..<600 { try world.step() }
        try world.finish()
        #expect(world.violations.isEmpty, "seed \(seed)")
        #expect(world.drops > 0 && world.server.received.count > 20 && world.delivered.count > 20)
        for (payload, qos) in world.publishedByClient {
            let count = world.server.received[payload] ?? 0
            #expect(qos == .exactlyOnce ? count == 1 : count >= 1, "to server, \(payload), seed \(seed)")
        }
        for (payload, qos) in world.publishedByServer {
            let count = world.delivered[payload] ?? 0
            #expect(qos == .exactlyOnce ? count == 1 : count >= 1, "to client, \(payload), seed \(seed)")
        }
        #expect(world.completed.count == world.publishedByClient.count, "seed \(seed)")
        #expect(world.session.inFlightCount == 0 && world.session.queuedCount == 0, "seed \(seed)")
        #expect(world.server.firstArrivals == world.server.firstArrivals.sorted(), "seed \(seed)")
    }
}

private struct World {
    var session: ClientSession
    var server: ModelServer
    var random: SplitMix64
    var now = ContinuousClock.now
    var output = SessionOutput()
    var decoder: PacketDecoder
    var toServer: [ControlPacket] = []
    var toClient: [ControlPacket] = []
    var owed: [IncomingToken] = []
    var delivered: [Int: Int] = [:]
    var completed: Set<OperationToken> = []
    var publishedByClient: [Int: QoS] = [:]
    var publishedByServer: [Int: QoS] = [:]
    var drops = 0
    var violations: [String] = []
    var hasConnected = false
    let version: ProtocolVersion

    init(version: ProtocolVersion, seed: UInt64) {
        var configuration = SessionConfiguration(version: version, clientIdentifier: "c", cleanStart: false)
        configuration.receiveMaximum = 8
        session = ClientSession(configuration: configuration)
        server = ModelServer()
        random = SplitMix64(state: seed)
        decoder = PacketDecoder(role: .server)
        self.version = version
    }

    mutating func step() throws {
        if session.state == .closed { try connect() }
        switch random.next() % 16 {
        case 0, 1, 2: publish()
        case 3, 4: serverPublishes()
        case 5, 6, 7: try pump(1)
        case 8, 9: serverReads(1)
        case 10, 11: try clientReads(1)
        case 12, 13: serverAnswers()
        case 14: try acknowledge()
        default: if random.next() % 4 == 0 { try drop() }
        }
    }

    /// Lets everything run to its end without further drops.
    mutating func finish() throws {
        for _ in 0..<2000 {
            if session.state == .closed { try connect() }
            try pump(65536)
            serverReads(100)
            while !server.answers.isEmpty { serverAnswers() }
            server.sendQueued(maximum: 8)
            try clientReads(100)
            while !owed.isEmpty { try acknowledge() }
            try collect()
        }
    }

    private mutating func connect() throws {
        decoder = PacketDecoder(role: .server)
        session.open(userName: nil, password: nil, now: now, connackTimeout: .seconds(1), into: &output)
        try collect()
        toServer = []
        let properties: Properties = version == .v5 ? Properties([.receiveMaximum(5)]) : Properties()
        session.receive(
            .connack(Connack(sessionPresent: hasConnected, properties: properties)), now: now, into: &output)
        hasConnected = true
        server.resume()
        try collect()
    }

    private mutating func drop() throws {
        drops += 1
        // A part of what is under way still arrives.
        serverReads(Int(random.next() % 3))
        try clientReads(Int(random.next() % 3))
        session.closed(now: now, into: &output)
        try collect()
        toServer = []
        toClient = []
        server.answers = []
        server.outbox = []
    }

    private mutating func publish() {
        let number = publishedByClient.count + 1
        let qos: QoS = random.next() % 2 == 0 ? .atLeastOnce : .exactlyOnce
        publishedByClient[number] = qos
        session.publish(
            Publish(topicName: "t", payload: Array(String(number).utf8), qos: qos),
            token: OperationToken(rawValue: UInt64(number)), now: now, into: &output)
    }

    private mutating func serverPublishes() {
        let number = publishedByServer.count + 1
        let qos: QoS = random.next() % 2 == 0 ? .atLeastOnce : .exactlyOnce
        publishedByServer[number] = qos
        server.queued.append((number, qos))
        server.sendQueued(maximum: 8)
    }

    private mutating func pump(_ limit: Int) throws {
        session.encodePending(upTo: limit, now: now, into: &output)
        try collect()
    }

    private mutating func serverReads(_ count: Int) {
        for _ in 0..<min(count, toServer.count) {
            violations += server.receive(toServer.removeFirst(), limit: version == .v5 ? 5 : .max)
        }
    }

    /// Answers go out in any order.
    private mutating func serverAnswers() {
        guard !server.answers.isEmpty else { return }
        server.outbox.append(server.answers.remove(at: Int(random.next() % UInt64(server.answers.count))))
    }

    private mutating func clientReads(_ count: Int) throws {
        toClient += server.outbox
        server.outbox = []
        for _ in 0..<min(count, toClient.count) {
            let packet = toClient.removeFirst()
            if case .puback(let answer) = packet { server.finished(answer.packetIdentifier) }
            if case .pubcomp(let answer) = packet { server.finished(answer.packetIdentifier) }
            session.receive(packet, now: now, into: &output)
            try collect()
        }
    }

    private mutating func acknowledge() throws {
        guard !owed.isEmpty else { return }
        let token = owed.remove(at: Int(random.next() % UInt64(owed.count)))
        session.acknowledge(token, into: &output)
        try collect()
    }

    private mutating func collect() throws {
        var input = output.bytes[...]
        while let packet = try decoder.next(in: &input) { toServer.append(packet) }
        for action in output.actions {
            switch action {
            case .deliver(let publish, let token):
                delivered[publish.number, default: 0] += 1
                if let token { owed.append(token) }
            case .published(let token, _, _):
                if !completed.insert(token).inserted { violations.append("completed twice: \(token)") }
            case .established, .subscribed, .unsubscribed, .subscriptionsRestored: break
            case .refused, .failed, .sessionLost, .persist, .serverDisconnected, .close:
                violations.append("\(action)")
            }
        }
        output.removeAll()
    }
}

/// A server's half of section 4.3 with an ideal store.
private struct ModelServer {
    var received: [Int: Int] = [:]
    var firstArrivals: [Int] = []
    var answers: [ControlPacket] = []
    var outbox: [ControlPacket] = []
    var queued: [(number: Int, qos: QoS)] = []
    private var inFlight: Set<PacketIdentifier> = []
    private var held: Set<PacketIdentifier> = []
    private var sent: [Sent] = []
    private var lastIdentifier: PacketIdentifier = 0

    private struct Sent {
        var identifier: PacketIdentifier
        var number: Int
        var qos: QoS
        var isReleased = false
    }

    mutating func sendQueued(maximum: Int) {
        while sent.count < maximum, !queued.isEmpty {
            let (number, qos) = queued.removeFirst()
            repeat {
                lastIdentifier = lastIdentifier % 12 + 1
            } while sent.contains { $0.identifier == lastIdentifier }
            sent.append(Sent(identifier: lastIdentifier, number: number, qos: qos))
            outbox.append(publish(sent[sent.count - 1], duplicate: false))
        }
    }

    mutating func resume() {
        inFlight = []
        for message in sent {
            outbox.append(
                message.isReleased
                    ? .pubrel(acknowledgement(message.identifier)) : publish(message, duplicate: true))
        }
    }

    mutating func finished(_ identifier: PacketIdentifier) { inFlight.remove(identifier) }

    mutating func receive(_ packet: ControlPacket, limit: Int) -> [String] {
        var violations: [String] = []
        switch packet {
        case .publish(let publish):
            guard let identifier = publish.packetIdentifier else { return ["no identifier"] }
            inFlight.insert(identifier)
            if inFlight.count > limit { violations.append("\(inFlight.count) in flight") }
            if publish.qos == .exactlyOnce {
                if held.contains(identifier), !publish.isDuplicate { violations.append("identifier reused") }
                if held.insert(identifier).inserted { take(publish) }
                answers.append(.pubrec(acknowledgement(identifier)))
            } else {
                take(publish)
                answers.append(.puback(acknowledgement(identifier)))
            }
        case .pubrel(let release):
            held.remove(release.packetIdentifier)
            answers.append(.pubcomp(acknowledgement(release.packetIdentifier)))
        case .puback(let answer), .pubcomp(let answer):
            sent.removeAll { $0.identifier == answer.packetIdentifier }
        case .pubrec(let answer):
            if let index = sent.firstIndex(where: { $0.identifier == answer.packetIdentifier }) {
                sent[index].isReleased = true
            }
            answers.append(.pubrel(acknowledgement(answer.packetIdentifier)))
        case .connect: break
        default: violations.append("unexpected \(packet)")
        }
        return violations
    }

    private mutating func take(_ publish: Publish) {
        if received[publish.number] == nil { firstArrivals.append(publish.number) }
        received[publish.number, default: 0] += 1
    }

    private func publish(_ message: Sent, duplicate: Bool) -> ControlPacket {
        .publish(
            Publish(
                topicName: "t", payload: Array(String(message.number).utf8), qos: message.qos,
                isDuplicate: duplicate, packetIdentifier: message.identifier))
    }
}

extension Publish {
    fileprivate var number: Int { Int(String(decoding: payload, as: UTF8.self)) ?? 0 }
}
