// Messages to the server: section 4.3 as a sender, 4.4, 4.9.
extension ClientSession {
    /// Encodes what is sent again first, then new operations in their order, until the output holds
    /// `byteLimit` bytes or nothing more may be sent. The last packet may exceed the limit.
    package mutating func encodePending(
        upTo byteLimit: Int, now: Instant, into output: inout SessionOutput
    ) {
        while phase == .established, output.bytes.count < byteLimit {
            guard encodeNext(now: now, into: &output) else { return }
        }
    }

    private mutating func encodeNext(now: Instant, into output: inout SessionOutput) -> Bool {
        if connection.resendNext != 0, canResend, !requestPrecedesResent {
            resendNext(now: now, into: &output)
            return true
        }
        // A used-up quota holds up publishes only [MQTT-3.3.4-8]; QoS 0 keeps its place behind them.
        let publish = connection.resendNext == 0 ? pending.nextPublish : nil
        let request = canSendRequest ? pending.requests.first : nil
        if let publish, canSendNew(publish.qos) || mustFail(publish.qos, isAwaited: publish.isAwaited),
            request.map({ publish.stamp < $0.stamp }) ?? true
        {
            guard let next = pending.popPublish(), var message = next.publish else { return false }
            if hasExpired(&message, next.life, now: now) {
                giveUp(next, message.qos, .messageExpired, into: &output)
                return true
            }
            sendNew(message, token: next.token, stamp: next.stamp, life: next.life, into: &output)
            return true
        }
        guard request != nil, let next = pending.requests.popFirst() else { return false }
        sendRequest(next, into: &output)
        return true
    }

    /// A subscription whose SUBACK got lost comes before the messages that were published after it: the server would
    /// acknowledge these, and have nobody to pass them on to.
    private var requestPrecedesResent: Bool {
        guard canSendRequest, let request = pending.requests.first,
            let message = session.outgoing[connection.resendNext]
        else { return false }
        return request.stamp < message.stamp
    }

    private var canResend: Bool {
        hasSendQuota(for: session.outgoing.qos(of: connection.resendNext) ?? .atLeastOnce)
    }

    private func canSendNew(_ qos: QoS) -> Bool {
        qos == .atMostOnce || hasSendQuota(for: qos) && !session.identifiers.isExhausted
    }

    /// Without a packet identifier, and not to wait for one. What comes from a store has nobody to fail for.
    private func mustFail(_ qos: QoS, isAwaited: Bool) -> Bool {
        configuration.failsWithoutPacketIdentifier && isAwaited && qos != .atMostOnce
            && session.identifiers.isExhausted
    }

    private func hasSendQuota(for qos: QoS) -> Bool {
        if qos == .exactlyOnce, configuration.version == .v3_1_1,
            connection.exactlyOnceInFlight >= Self.exactlyOnceWindow
        {
            return false
        }
        return connection.inFlight < Int(connection.limits.receiveMaximum)
    }

    /// 3.1.1 has no Receive Maximum, and yet brokers have one: mosquitto 2.0 holds 20 QoS 2 messages of a client
    /// by default, answers the next with a PUBREC that doesn't tell success from failure, closes, and has lost
    /// that message.
    private static let exactlyOnceWindow = 20
    private var canSendRequest: Bool { !pending.requests.isEmpty && !session.identifiers.isExhausted }

    private mutating func sendNew(
        _ message: consuming Publish, token: OperationToken?, stamp: UInt64, life: MessageLife,
        into output: inout SessionOutput
    ) {
        // One by one: chosen by `?:`, their being methods would cost a copy of the session for each message.
        if let error = refusal(of: message) {
            refuse(message.qos, message.topicName, token, stamp, error, into: &output)
            return
        }
        if token != nil, mustFail(message.qos, isAwaited: true) {
            refuse(message.qos, message.topicName, token, stamp, .packetIdentifiersExhausted, into: &output)
            return
        }
        // DUP says nothing but that this very packet is sent again [MQTT-3.3.1-3].
        message.isDuplicate = false
        let qos = message.qos
        message.packetIdentifier = qos == .atMostOnce ? nil : session.identifiers.next()
        let isStoredFirst = isStored(qos, life)
        let start = output.bytes.count
        do {
            if isStoredFirst || !appendAliased(message, into: &output) {
                try output.append(.publish(message), for: configuration.version)
            }
        } catch {
            refuse(qos, message.topicName, token, stamp, .notEncodable(error), into: &output)
            return
        }
        if let error = excess(output, from: start) {
            output.removeLastPacket(from: start)
            refuse(qos, message.topicName, token, stamp, error, into: &output)
            return
        }
        guard let identifier = message.packetIdentifier else {
            connection.keepAlive.encodedBytes()
            if let token { output.actions.append(.published(token, .success, Properties())) }
            return
        }
        var storedBy: UInt64 = 0
        if isStoredFirst {
            output.removeLastPacket(from: start)
            storedBy = persist(.outgoingStored(identifier, stamp: stamp), into: &output)
            connection.held.append(HeldPacket(token: storedBy, content: .publish(identifier)))
        } else {
            connection.keepAlive.encodedBytes()
        }
        session.identifiers.take(identifier)
        connection.began(qos)
        session.outgoing.append(
            OutgoingPublish(
                publish: message, token: token, stamp: stamp,
                stage: qos == .atLeastOnce ? .awaitingPuback : .awaitingPubrec, storedBy: storedBy,
                wasSent: !isStoredFirst, connection: connection.number, life: life),
            identifier: identifier)
    }

    /// Gives up a message that this connection can't carry, before it had a packet identifier.
    private mutating func refuse(
        _ qos: QoS, _ topicName: String, _ token: OperationToken?, _ stamp: UInt64, _ error: SessionError,
        into output: inout SessionOutput
    ) {
        if qos != .atMostOnce { _ = persist(.dequeued(stamp: stamp), into: &output) }
        output.actions.append(token.map { .failed($0, error) } ?? .discarded(topicName: topicName, error))
    }

    /// Appends the message with a Topic Alias, which stays out of what is stored: on a further connection it
    /// would mean nothing [MQTT-3.3.2-7]. False where there is no alias for it.
    private mutating func appendAliased(_ message: Publish, into output: inout SessionOutput) -> Bool {
        guard let candidate = connection.outgoingAliases.candidate(for: message.topicName) else {
            return false
        }
        var aliased = message
        aliased.properties.entries.append(.topicAlias(candidate.alias))
        if candidate.isKnown { aliased.topicName = "" }
        let start = output.bytes.count
        do { try output.append(.publish(aliased), for: configuration.version) } catch { return false }
        // Giving out an alias costs three bytes, which may be too many.
        guard excess(output, from: start) == nil else {
            output.removeLastPacket(from: start)
            return false
        }
        connection.outgoingAliases.use(candidate)
        return true
    }

    private func refusal(of message: borrowing Publish) -> SessionError? {
        if message.qos > connection.limits.maximumQoS {
            return .qosNotSupported(maximum: connection.limits.maximumQoS)
        }
        if message.retain, !connection.limits.retainAvailable { return .retainNotAvailable }
        for property in message.properties.entries {
            if case .topicAlias = property { return .topicAliasNotAvailable }
            if case .subscriptionIdentifier = property { return .subscriptionIdentifierNotAllowed }
        }
        return nil
    }

    // MARK: Sending again

    /// Session Present is 1: PUBRELs go out at once, unacknowledged PUBLISHes by `encodePending`
    /// [MQTT-4.4.0-1].
    mutating func resumeOutgoing(into output: inout SessionOutput) {
        for (identifier, message) in session.outgoing.messages(from: session.outgoing.released) {
            session.outgoing.update(identifier) {
                $0.connection = connection.number
                $0.isRecovering = true
            }
            connection.began(.exactlyOnce)
            send(
                .pubrel(Acknowledgement(packetIdentifier: identifier)), after: message.storedBy,
                into: &output)
        }
        connection.resendNext = session.outgoing.unacknowledged.first
    }

    private mutating func resendNext(now: Instant, into output: inout SessionOutput) {
        let identifier = connection.resendNext
        connection.resendNext = session.outgoing.next(after: identifier)
        guard var message = session.outgoing[identifier] else { return }
        // Sent again whatever its age [MQTT-4.4.0-1]: the server may hold it.
        _ = hasExpired(&message.publish, message.life, now: now)
        session.outgoing.update(identifier) {
            $0.connection = connection.number
            $0.publish = message.publish
        }
        connection.began(message.publish.qos)
        if message.storedBy > ledger.persisted {
            connection.held.append(HeldPacket(token: message.storedBy, content: .publish(identifier)))
        } else {
            sendStored(identifier, into: &output)
        }
    }

    /// Sends the PUBLISH of a message that has its identifier, with DUP 1 if it was sent before
    /// [MQTT-3.3.1-1].
    mutating func sendStored(_ identifier: PacketIdentifier, into output: inout SessionOutput) {
        guard let message = session.outgoing[identifier], message.stage != .awaitingPubcomp else { return }
        var publish = message.publish
        publish.isDuplicate = message.wasSent
        let start = output.bytes.count
        do {
            try output.append(.publish(publish), for: configuration.version)
        } catch {
            drop(identifier, with: .notEncodable(error), into: &output)
            return
        }
        if let error = refusal(of: publish) ?? excess(output, from: start) {
            output.removeLastPacket(from: start)
            drop(identifier, with: error, into: &output)
        } else {
            connection.keepAlive.encodedBytes()
            session.outgoing.update(identifier) { $0.wasSent = true }
        }
    }

    /// Gives up a message that this connection may not carry. If it has been sent, its identifier stays
    /// taken, since the server may hold it: a new QoS 2 message would look like its repetition.
    private mutating func drop(
        _ identifier: PacketIdentifier, with error: SessionError, into output: inout SessionOutput
    ) {
        guard let message = session.outgoing.remove(identifier) else { return }
        if message.connection == connection.number { connection.finished(message.publish.qos) }
        if !message.wasSent { session.identifiers.free(identifier) }
        _ = persist(.outgoingCompleted(identifier), into: &output)
        if let token = message.token {
            output.actions.append(.failed(token, error))
        } else if !message.isAbandoned {
            output.actions.append(.discarded(topicName: message.publish.topicName, error))
        }
    }

    // MARK: Answers

    mutating func receivePuback(_ answer: Acknowledgement, into output: inout SessionOutput) {
        switch session.outgoing.stage(of: answer.packetIdentifier) {
        case .awaitingPuback: complete(answer, into: &output)
        // RabbitMQ 3.10 does this; who waits for PUBREC waits for ever.
        case .awaitingPubrec: complete(answer, failing: .exactlyOnceNotKept, into: &output)
        // A late second answer.
        case .awaitingPubcomp, nil: break
        }
    }

    mutating func receivePubrec(_ answer: Acknowledgement, into output: inout SessionOutput) {
        let identifier = answer.packetIdentifier
        switch session.outgoing.stage(of: identifier) {
        case .awaitingPubrec:
            if configuration.version == .v5, answer.reasonCode.isError {
                // That was the last of it [MQTT-4.4.0-2]: no PUBREL.
                complete(answer, into: &output)
                return
            }
            skipResending(identifier)
            let stored = persist(.outgoingReleased(identifier), into: &output)
            session.outgoing.release(identifier, storedBy: stored)
            send(.pubrel(Acknowledgement(packetIdentifier: identifier)), after: stored, into: &output)
        case .awaitingPubcomp:
            let stored = session.outgoing[identifier]?.storedBy ?? 0
            send(.pubrel(Acknowledgement(packetIdentifier: identifier)), after: stored, into: &output)
        case .awaitingPuback:
            break
        case nil:
            let reason: ReasonCode = configuration.version == .v5 ? .packetIdentifierNotFound : .success
            if configuration.version == .v5, answer.reasonCode.isError { return }
            send(
                .pubrel(Acknowledgement(packetIdentifier: identifier, reasonCode: reason)), into: &output)
        }
    }

    mutating func receivePubcomp(_ answer: Acknowledgement, into output: inout SessionOutput) {
        let identifier = answer.packetIdentifier
        guard session.outgoing.stage(of: identifier) == .awaitingPubcomp else { return }
        if answer.reasonCode == .packetIdentifierNotFound, session.outgoing[identifier]?.isRecovering == true
        {
            // No error during recovery (3.7.2.1): the PUBCOMP of an earlier connection got lost.
            complete(Acknowledgement(packetIdentifier: identifier), into: &output)
        } else {
            complete(answer, into: &output)
        }
    }

    private mutating func complete(
        _ answer: Acknowledgement, failing error: SessionError? = nil, into output: inout SessionOutput
    ) {
        let identifier = answer.packetIdentifier
        skipResending(identifier)
        guard let message = session.outgoing.remove(identifier) else { return }
        session.identifiers.free(identifier)
        // One of an earlier connection that this one hasn't carried yet costs it nothing.
        if message.connection == connection.number { connection.finished(message.publish.qos) }
        _ = persist(.outgoingCompleted(identifier), into: &output)
        if let token = message.token {
            output.actions.append(
                error.map { .failed(token, $0) }
                    ?? .published(token, answer.reasonCode, answer.properties))
        }
    }

    private mutating func skipResending(_ identifier: PacketIdentifier) {
        if connection.resendNext == identifier {
            connection.resendNext = session.outgoing.next(after: identifier)
        }
    }

    mutating func failInFlight(with error: SessionError, into output: inout SessionOutput) {
        let outgoing = session.outgoing
        let all =
            outgoing.messages(from: outgoing.unacknowledged) + outgoing.messages(from: outgoing.released)
        for (identifier, message) in all {
            guard let token = message.token else { continue }
            session.outgoing.update(identifier) {
                $0.token = nil
                // The store's are published anew in any case.
                $0.isAbandoned = configuration.durability == .inMemory
            }
            output.actions.append(.failed(token, error))
        }
    }
}

extension SessionOutput {
    mutating func removeLastPacket(from start: Int) {
        bytes.removeSubrange(start...)
        packetEnds.removeLast()
    }
}
