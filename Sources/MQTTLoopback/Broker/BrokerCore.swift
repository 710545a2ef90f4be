package import MQTTCore

/// The loopback broker's logic over all its clients, without sockets, clocks or random sources.
///
/// For tests and demos; it isn't a production broker: nothing survives the process, passwords are compared
/// as they are, and one thread serves everybody.
///
/// A driver opens a connection for each transport, hands in packets as they arrive, and then, for each
/// connection that `nextOutput()` names, takes what is to be written with `takeOutput(of:now:into:)`. When
/// a transport has ended, for whatever reason, it calls `close(_:now:)`. `advance(now:)` is due at
/// `nextDeadline`.
package final class BrokerCore {
    package let configuration: BrokerConfiguration
    /// QoS 1 and 2 messages dropped at a limit, too large for their client, or expired, and QoS 0 messages
    /// dropped since their client doesn't read.
    package internal(set) var droppedMessages: UInt64 = 0

    /// Where clients that connect are sent to (5.0, section 4.11); nil lets them in.
    package var redirection: LoopbackBroker.Redirection?

    let maximumOutputBytes: Int
    /// That many unpredictable bytes.
    let random: (Int) -> [UInt8]
    var connections: [BrokerConnection?] = []
    var freeConnections: [Int] = []
    var connectionCount = 0
    var sessions: [BrokerSession?] = []
    var freeSessions: [Int] = []
    var sessionsByClientIdentifier: [ExactString: Int] = [:]
    var subscriptions = SubscriptionTable()
    var retained: RetainedMessages
    var fanOutScratch = FanOutScratch()
    /// Connections that can't go on, since their client doesn't read or can't be answered: ended when the
    /// present input has been dealt with.
    private var failed: [ConnectionID] = []

    private var dirty: [ConnectionID] = []
    private var lastGeneration: UInt64 = 0
    private var assignedIdentifiers: UInt64 = 0
    /// No deadline lies before this: a lower bound, so that traffic, which moves deadlines back, costs
    /// nothing.
    private var earliestDeadline: ContinuousClock.Instant?

    package init(
        configuration: BrokerConfiguration = BrokerConfiguration(), random: @escaping (Int) -> [UInt8]
    ) {
        self.configuration = configuration
        self.random = random
        maximumOutputBytes = configuration.maximumOutputBytes
        retained = RetainedMessages(limit: configuration.maximumRetainedMessages)
    }

    // MARK: Input

    /// A transport is ready; its CONNECT is awaited from now on.
    package func open(now: ContinuousClock.Instant) -> ConnectionID {
        lastGeneration += 1
        let deadline = now + configuration.connectTimeout
        let connection = BrokerConnection(
            generation: lastGeneration, connectDeadline: deadline, now: now)
        watch(deadline)
        connectionCount += 1
        let slot: Int
        if let free = freeConnections.popLast() {
            slot = free
            connections[slot] = connection
        } else {
            slot = connections.count
            connections.append(connection)
        }
        return ConnectionID(slot: slot, generation: lastGeneration)
    }

    /// A packet has arrived. Packets for a connection that is closing or gone are ignored.
    package func receive(
        _ packet: ControlPacket, from id: ConnectionID, now: ContinuousClock.Instant
    ) {
        guard let phase = phase(of: id) else { return }
        switch phase {
        case .closing: return
        case .awaitingConnect(let deadline):
            // The first packet is CONNECT, or the connection ends without an answer [MQTT-3.1.0-1].
            guard case .connect(let connect) = packet else {
                beginClosing(id)
                return
            }
            accept(connect, on: id, before: deadline, now: now)
        case .authenticating(let connect, let exchange, _):
            authenticate(packet, from: id, connect, exchange, now: now)
        case .connected(let link):
            connections[id.slot]!.lastReceived = now
            dispatch(packet, from: id, link, now: now)
        }
        settle(now: now)
    }

    /// What arrived is no acceptable packet.
    package func reject(
        _ error: DecodeError, from id: ConnectionID, now: ContinuousClock.Instant
    ) {
        guard let phase = phase(of: id) else { return }
        switch phase {
        case .closing: return
        case .awaitingConnect:
            switch error {
            case .unsupportedProtocolLevel(let level) where level < 5:
                // 3.1.1's return code 1, in the form a 3.1.1 client reads [MQTT-3.1.2-2].
                let code = ReasonCode(rawValue: 1)
                send(.connack(Connack(sessionPresent: false, reasonCode: code)), to: id, .v3_1_1)
            case .unsupportedProtocolLevel:
                let code = ReasonCode.unsupportedProtocolVersion
                send(.connack(Connack(sessionPresent: false, reasonCode: code)), to: id, .v5)
            default:
                // Without a readable CONNECT nobody knows in which version to answer.
                break
            }
            beginClosing(id)
        case .authenticating: beginClosing(id)
        case .connected:
            end(id, because: error.reasonCode, now: now)
        }
        settle(now: now)
    }

    /// The transport has ended, by whichever side. To be called once for each opened connection.
    package func close(_ id: ConnectionID, now: ContinuousClock.Instant) {
        guard let phase = phase(of: id) else { return }
        if case .connected(let link) = phase { leave(link, publishesWill: true, now: now) }
        connections[id.slot] = nil
        freeConnections.append(id.slot)
        connectionCount -= 1
        settle(now: now)
    }

    /// Ends what is overdue: connections without CONNECT, connections that have been silent for one and a
    /// half times their Keep Alive, sessions whose expiry interval and wills whose delay has passed.
    package func advance(now: ContinuousClock.Instant) {
        guard let due = earliestDeadline, due <= now else { return }
        earliestDeadline = nil
        for slot in connections.indices {
            guard let connection = connections[slot] else { continue }
            let id = ConnectionID(slot: slot, generation: connection.generation)
            switch connection.phase {
            case .awaitingConnect(let deadline), .authenticating(_, _, let deadline):
                if deadline <= now { beginClosing(id) } else { watch(deadline) }
            case .connected(let link):
                guard let limit = link.keepAliveLimit else { continue }
                let deadline = connection.lastReceived + limit
                if deadline <= now {
                    end(id, because: .keepAliveTimeout, now: now)
                } else {
                    watch(deadline)
                }
            case .closing: continue
            }
        }
        for slot in sessions.indices {
            guard let session = sessions[slot] else { continue }
            if let pending = session.pendingWill {
                if pending.dueAt <= now {
                    sessions[slot]?.pendingWill = nil
                    publish(pending.will, allowedTopics: pending.allowedTopics, from: slot, now: now)
                } else {
                    watch(pending.dueAt)
                }
            }
            guard case .disconnected(let expiresAt?) = session.presence else { continue }
            if expiresAt <= now { endSession(slot, now: now) } else { watch(expiresAt) }
        }
        settle(now: now)
    }

    /// When `advance(now:)` is due; it may find nothing to do.
    package var nextDeadline: ContinuousClock.Instant? { earliestDeadline }

    /// A message from the broker's owner, to all whose subscriptions match.
    package func publish(_ publish: Publish, now: ContinuousClock.Instant) {
        let message = BrokerMessage(
            topicName: publish.topicName, payload: publish.payload, qos: publish.qos,
            retain: publish.retain, properties: publish.properties, now: now)
        if message.retain { _ = retained.store(message) }
        _ = fanOut(message, from: nil, now: now)
        settle(now: now)
    }

    /// Ends one client's connection with DISCONNECT, as an administrator would. Its will is published.
    package func disconnect(
        clientIdentifier: String, because reason: ReasonCode = .administrativeAction,
        _ properties: Properties = Properties(), now: ContinuousClock.Instant
    ) {
        guard let slot = sessionsByClientIdentifier[ExactString(clientIdentifier)],
            let id = sessions[slot]?.connection
        else { return }
        end(id, because: reason, properties, now: now)
        settle(now: now)
    }

    /// Ends all connections with DISCONNECT 0x8B.
    package func shutDown(now: ContinuousClock.Instant) {
        for slot in connections.indices {
            guard let connection = connections[slot] else { continue }
            let id = ConnectionID(slot: slot, generation: connection.generation)
            switch connection.phase {
            case .awaitingConnect, .authenticating: beginClosing(id)
            case .connected: end(id, because: .serverShuttingDown, now: now)
            case .closing: break
            }
        }
        settle(now: now)
    }

    // MARK: Output

    /// A connection that has something to write or is to be closed. Each is named once until it has
    /// something new.
    package func nextOutput() -> ConnectionID? {
        while let id = dirty.popLast() {
            guard phase(of: id) != nil else { continue }
            connections[id.slot]?.isDirty = false
            return id
        }
        return nil
    }

    /// What becomes of a connection when the output taken has been written.
    package enum AfterOutput: Sendable, Hashable {
        case goOn
        /// Close the transport, then call `close(_:now:)`.
        case close
    }

    /// Moves the connection's waiting bytes to the end of `buffer`.
    ///
    /// The driver leaves them where they are while it has written too little: that is how the broker learns
    /// that a client doesn't read.
    package func takeOutput(
        of id: ConnectionID, now: ContinuousClock.Instant, into buffer: inout [UInt8]
    ) -> AfterOutput {
        guard let phase = phase(of: id) else { return .close }
        let connection = connections[id.slot]!
        if buffer.isEmpty {
            swap(&buffer, &connection.output)
        } else {
            buffer.append(contentsOf: connection.output)
            connection.output.removeAll(keepingCapacity: true)
        }
        switch phase {
        case .awaitingConnect, .authenticating: return .goOn
        case .closing: return .close
        case .connected(let link):
            // There may be room now for what waited.
            pump(link.session, now: now)
            return .goOn
        }
    }

    // MARK: What all parts use

    /// `nil` once the connection is gone.
    func phase(of id: ConnectionID) -> BrokerConnection.Phase? {
        guard let connection = connections[id.slot], connection.generation == id.generation else {
            return nil
        }
        return connection.phase
    }

    /// Appends a packet to the connection's output.
    func send(_ packet: ControlPacket, to id: ConnectionID, _ version: ProtocolVersion) {
        if connections[id.slot]!.output.append(packet, for: version) {
            noteOutput(id)
        } else {
            // The client would wait for it in vain.
            failed.append(id)
        }
    }

    func noteOutput(_ id: ConnectionID) {
        let connection = connections[id.slot]!
        if !connection.isDirty {
            connection.isDirty = true
            dirty.append(id)
        }
        if connection.output.count > 2 * maximumOutputBytes { failed.append(id) }
    }

    func watch(_ deadline: ContinuousClock.Instant) {
        earliestDeadline = min(earliestDeadline ?? deadline, deadline)
    }

    func assignClientIdentifier() -> String {
        repeat {
            assignedIdentifiers += 1
        } while sessionsByClientIdentifier[ExactString("loopback-\(assignedIdentifiers)")] != nil
        return "loopback-\(assignedIdentifiers)"
    }

    /// Sends what the session's window and the connection's output have room for.
    func pump(_ slot: Int, now: ContinuousClock.Instant) {
        guard let session = sessions[slot], case .connected(let id, let limits) = session.presence,
            !session.outbound.isIdle
        else { return }
        let connection = connections[id.slot]!
        let before = connection.output.count
        droppedMessages += UInt64(
            session.outbound.pump(
                limits: limits, outputLimit: maximumOutputBytes, now: now, into: &connection.output))
        if connection.output.count != before { noteOutput(id) }
    }

    /// Ends a connection that was accepted: DISCONNECT with the reason to a 5.0 client [MQTT-4.13.1-1],
    /// nothing to a 3.1.1 client, and the will for all others.
    func end(
        _ id: ConnectionID, because reason: ReasonCode, _ properties: Properties = Properties(),
        now: ContinuousClock.Instant
    ) {
        guard case .connected(let link)? = phase(of: id) else { return }
        if link.version == .v5 {
            send(.disconnect(Disconnect(reasonCode: reason, properties: properties)), to: id, .v5)
        }
        beginClosing(id)
        leave(link, publishesWill: true, now: now)
    }

    /// No more input; the driver writes what is left and closes.
    func beginClosing(_ id: ConnectionID) {
        connections[id.slot]!.phase = .closing
        noteOutput(id)
    }

    private func settle(now: ContinuousClock.Instant) {
        while let id = failed.popLast() {
            guard case .connected(let link)? = phase(of: id) else { continue }
            connections[id.slot]!.output = []
            beginClosing(id)
            leave(link, publishesWill: true, now: now)
        }
    }
}
