/// The client's side of MQTT without sockets, clocks or threads.
///
/// Inputs are method calls with the present time; outputs are bytes and actions appended to a
/// `SessionOutput` that the driver reuses. The session outlives connections: `open` starts one on a fresh
/// network connection, `closed` says that it is gone.
package struct ClientSession: Sendable {
    package internal(set) var configuration: SessionConfiguration
    /// Whether Request Problem Information was 1, its default (section 3.1.2.11.7).
    private let takesProblemInformation: Bool

    // Without payloads: an enum that holds an Instant has its layout worked out at run time, and taking a
    // connection's state out of a case and back for each packet costs more than handling a QoS 0 message.
    var phase = Phase.closed
    var session = SessionState()
    var connection: ConnectionState
    var pending = PendingOperations()
    var ledger = PersistenceLedger()
    var clock = MessageClock()
    /// When a message that waits may have expired, in milliseconds of `clock`; 0 while none can.
    var nextExpiry: Int64 = 0
    /// How long the next connections may go without a PINGREQ, if not as long as the keep-alive says; nil where they may.
    package var pingInterval: Duration?

    package init(configuration: SessionConfiguration) {
        self.configuration = configuration
        takesProblemInformation = configuration.connectProperties.requestProblemInformation != false
        connection = ConnectionState(
            keepAlive: KeepAlive(seconds: 0, responseTimeout: .zero, now: Instant.now))
    }

    package var state: SessionPhase {
        switch phase {
        case .closed: .closed
        case .awaitingConnack: .awaitingConnack(deadline: connection.connackDeadline)
        case .established: .established
        case .closing: .closing
        }
    }

    package var limits: NegotiatedLimits { connection.limits }

    /// The client identifier in use: the server's choice when ours is empty.
    package var clientIdentifier: String {
        configuration.clientIdentifier.isEmpty
            ? session.assignedClientIdentifier ?? "" : configuration.clientIdentifier
    }

    /// Publishes not yet encoded.
    package var queuedCount: Int { pending.queuedPublishes }
    /// Their payloads and topic names.
    package var queuedBytes: Int { pending.queuedBytes }
    /// Whether the server has sent a message on this connection, or an answer to one.
    package var hasCarriedMessages: Bool { connection.hasCarriedMessages }
    /// Whether there is a session that the server may hold too.
    package var holdsSession: Bool { session.isActive }

    /// QoS 1 and 2 messages that the server has not finished.
    package var inFlightCount: Int { session.outgoing.count }
    /// QoS 1 and 2 messages of the server for which this connection owes PUBACK or PUBREC.
    package var owedCount: Int { connection.acknowledgements.count }

    package mutating func receive(
        _ packet: ControlPacket, now: Instant, into output: inout SessionOutput
    ) {
        if !takesProblemInformation, packet.hasProblemInformation {
            fail(.problemInformationNotRequested(packet.type), into: &output)
            return
        }
        switch phase {
        case .established: receiveEstablished(packet, now: now, into: &output)
        case .awaitingConnack:
            if !hold(packet, into: &output) { receiveFirst(packet, now: now, into: &output) }
        case .closed, .closing: break
        }
    }

    /// Any bytes have arrived, be it a part of a packet: life for keep-alive. Called before `receive`.
    package mutating func receivedBytes(now: Instant) { connection.keepAlive.received(now: now) }

    /// Some bytes have left our buffer, others wait: a slow line is told from a dead one.
    package mutating func sentBytes(now: Instant) { connection.keepAlive.progressed(now: now) }

    /// All that was encoded so far has left our buffer.
    package mutating func flushed(now: Instant) { connection.keepAlive.flushed(now: now) }

    /// How long the established connection has been idle, or had been when we spoke last.
    package func idleTime(now: Instant) -> (IdleLimit.End, Duration) {
        connection.keepAlive.idleTime(now: now)
    }

    /// The decoder refused what arrived [MQTT-4.8.0-1], 5.0: section 4.13.
    package mutating func decodeFailed(
        _ error: DecodeError, now: Instant, into output: inout SessionOutput
    ) {
        end(.malformed(error), reason: error.reasonCode, into: &output)
    }

    /// Speaks this version from the next CONNECT on. Where a session exists, nothing changes: it belongs to the
    /// version that it began with.
    package mutating func speak(_ version: ProtocolVersion) {
        guard phase == .closed, !session.isActive else { return }
        configuration.version = version
    }

    /// Takes an operation out of the queue.
    ///
    /// False when it isn't there: on the wire its packet identifier stays taken until the server answers.
    package mutating func cancel(_ token: OperationToken, into output: inout SessionOutput) -> Bool {
        let publish = pending.publish(of: token)
        guard pending.cancel(token) else { return false }
        if let publish, publish.publish?.qos != .atMostOnce {
            _ = persist(.dequeued(stamp: publish.stamp), into: &output)
        }
        return true
    }

    /// The terminal end: every operation fails with the error. What a store holds stays there, to be sent on a later
    /// connection.
    package mutating func abandon(_ error: SessionError, into output: inout SessionOutput) {
        let tokens =
            switch configuration.durability {
            case .inMemory: pending.removePublishes { _ in true }.compactMap(\.token)
            case .durable: pending.disown()
            }
        for token in tokens { output.actions.append(.failed(token, error)) }
        let requests = pending.requests.elements + connection.requests.values
        for request in requests.sorted(by: { $0.stamp < $1.stamp }) {
            if let token = request.token { output.actions.append(.failed(token, error)) }
        }
        pending.requests.replaceAll(with: pending.requests.elements.filter(\.isRestoring))
        for identifier in connection.requests.keys {
            connection.requests[identifier]?.token = nil
        }
        failReauthentication(with: error, into: &output)
        failInFlight(with: error, into: &output)
    }

    package mutating func persisted(
        _ token: PersistenceToken, now: Instant, into output: inout SessionOutput
    ) {
        ledger.persisted = max(ledger.persisted, token.rawValue)
        while let first = ledger.accepted.first, first.storedBy <= ledger.persisted {
            _ = ledger.accepted.popFirst()
            output.actions.append(.stored(first.token))
        }
        guard phase == .established else { return }
        releaseHeld(into: &output)
    }

    /// Sends PINGREQ now, since the connection may be dead: the network has changed. Has no effect without one.
    package mutating func probe(within timeout: Duration, now: Instant, into output: inout SessionOutput) {
        guard phase == .established, connection.keepAlive.probe(within: timeout, now: now) else { return }
        send(.pingreq, into: &output)
    }

    package var nextDeadline: Instant? {
        let ofConnection: Instant? =
            switch phase {
            case .awaitingConnack: connection.connackDeadline
            case .established: earlier(connection.keepAlive.nextDeadline, reauthenticationDeadline)
            case .closed, .closing: nil
            }
        return earlier(ofConnection, expiryDeadline)
    }

    package mutating func deadlineReached(now: Instant, into output: inout SessionOutput) {
        expiryDeadlineReached(now: now, into: &output)
        switch phase {
        case .awaitingConnack:
            if now >= connection.connackDeadline { connackDeadlineReached(into: &output) }
        case .established:
            reauthenticationDeadlineReached(now: now, into: &output)
            guard phase == .established else { return }
            switch connection.keepAlive.deadlineReached(now: now) {
            case .nothing: break
            case .sendPing: send(.pingreq, into: &output)
            // No DISCONNECT: 0x8D is the server's to send, and nobody would read it.
            case .peerIsDead: end(.pingResponseTimeout, reason: nil, into: &output)
            }
        case .closed, .closing: break
        }
    }
}

/// Where the connection of a session stands.
package enum SessionPhase: Sendable, Hashable {
    /// No network connection.
    case closed
    /// CONNECT is encoded; CONNACK has to come before the deadline.
    case awaitingConnack(deadline: Instant)
    case established
    /// Nothing is sent or read any more; `closed` is awaited.
    case closing
}

extension ClientSession {
    enum Phase: UInt8, Sendable {
        case closed
        case awaitingConnack
        case established
        case closing
    }
}

/// Which changes have been handed to a store and which of them are stored.
struct PersistenceLedger: Sendable {
    var last: UInt64 = 0
    var persisted: UInt64 = 0
    /// Messages whose acceptance hasn't been reported yet.
    var accepted = FIFO<Accepted>()

    struct Accepted: Sendable {
        var storedBy: UInt64
        var token: OperationToken
    }
}

extension ClientSession {
    /// Encodes a packet that has to go out as it is.
    mutating func send(_ packet: ControlPacket, into output: inout SessionOutput) {
        let start = output.bytes.count
        do {
            try output.append(packet, for: configuration.version)
        } catch {
            end(.notEncodable(error), reason: nil, into: &output)
            return
        }
        if let error = excess(output, from: start) {
            // A server that can't take the bare packet can't be served [MQTT-3.2.2-15].
            output.removeLastPacket(from: start)
            end(error, reason: nil, into: &output)
            return
        }
        connection.keepAlive.encodedBytes()
    }

    /// The error for a last packet, begun at `start`, above the server's Maximum Packet Size [MQTT-3.2.2-15].
    func excess(_ output: borrowing SessionOutput, from start: Int) -> SessionError? {
        let size = output.bytes.count - start
        guard let limit = connection.limits.maximumPacketSize, size > Int(limit) else { return nil }
        return .packetTooLarge(size: size, limit: limit)
    }

    /// Sends the packet as soon as the store holds what it depends on.
    mutating func send(
        _ packet: ControlPacket, after token: UInt64, into output: inout SessionOutput
    ) {
        if token <= ledger.persisted {
            send(packet, into: &output)
        } else {
            connection.held.append(HeldPacket(token: token, content: .acknowledgement(packet)))
        }
    }

    mutating func persist(_ change: SessionChange, into output: inout SessionOutput) -> UInt64 {
        switch configuration.durability {
        case .inMemory: return 0
        case .durable:
            ledger.last += 1
            output.actions.append(.persist(PersistenceToken(rawValue: ledger.last), change))
            return ledger.last
        }
    }

    mutating func fail(_ violation: SessionViolation, into output: inout SessionOutput) {
        end(.violation(violation), reason: violation.reasonCode, into: &output)
    }

    /// Ends the connection: 5.0 says why once CONNACK has come; 3.1.1 just closes, since its DISCONNECT
    /// would suppress the Will Message.
    mutating func end(_ error: SessionError, reason: ReasonCode?, into output: inout SessionOutput) {
        switch phase {
        case .closed, .closing: return
        case .established:
            if let reason, configuration.version == .v5 {
                let start = output.bytes.count
                do { try output.append(.disconnect(Disconnect(reasonCode: reason)), for: .v5) } catch {
                    // A DISCONNECT without properties can always be written.
                }
                // Closing says enough where even that is too much for the server.
                if excess(output, from: start) != nil { output.removeLastPacket(from: start) }
            }
        case .awaitingConnack:
            if let reason { sendDisconnectWhileAuthenticating(reason, into: &output) }
        }
        phase = .closing
        output.actions.append(.close(error))
    }

    private mutating func releaseHeld(into output: inout SessionOutput) {
        while phase == .established, let first = connection.held.first, first.token <= ledger.persisted {
            _ = connection.held.popFirst()
            switch first.content {
            case .publish(let identifier): sendStored(identifier, into: &output)
            case .acknowledgement(let packet): send(packet, into: &output)
            }
        }
    }
}

extension SessionOutput {
    /// Appends the packet; when it throws, nothing.
    mutating func append(_ packet: ControlPacket, for version: ProtocolVersion) throws(EncodeError) {
        try packet.encode(for: version, into: &bytes)
        packetEnds.append(bytes.count)
    }
}
