// Messages and other packets from the server: section 4.3 as a receiver, 4.6, 4.9.
extension ClientSession {
    mutating func receiveEstablished(
        _ packet: ControlPacket, now: Instant, into output: inout SessionOutput
    ) {
        switch packet {
        case .publish, .puback, .pubrec: connection.hasCarriedMessages = true
        default: break
        }
        switch packet {
        case .publish(let publish): receivePublish(publish, into: &output)
        case .puback(let answer): receivePuback(answer, into: &output)
        case .pubrec(let answer): receivePubrec(answer, into: &output)
        case .pubrel(let release): receivePubrel(release, into: &output)
        case .pubcomp(let answer): receivePubcomp(answer, into: &output)
        case .suback(let answer): receiveSuback(answer, into: &output)
        case .unsuback(let answer): receiveUnsuback(answer, into: &output)
        case .pingresp: connection.keepAlive.answered()
        case .disconnect(let disconnect): receiveDisconnect(disconnect, into: &output)
        case .auth(let auth): receiveAuth(auth, into: &output)
        case .connack: fail(.secondConnack, into: &output)
        case .connect, .subscribe, .unsubscribe, .pingreq: fail(.clientPacketFromServer, into: &output)
        }
    }

    /// The driver has the message safely in a buffer, or rejects it (5.0: a reason of 0x80 or more).
    ///
    /// PUBACKs and PUBRECs go out in the order in which the messages came [MQTT-4.6.0-2],
    /// [MQTT-4.6.0-3]: one that is withheld holds up those after it. It is owed across connections: a QoS 2
    /// message isn't delivered a second time, and its repetition waits for this same token.
    package mutating func acknowledge(
        _ token: IncomingToken, reason: ReasonCode = .success, into output: inout SessionOutput
    ) {
        // 3.1.1 has no way to say no.
        let reason = configuration.version == .v5 ? reason : .success
        if connection.acknowledgements.contains(sequence: token.rawValue) {
            connection.acknowledgements[token.rawValue].answer = reason
            let entry = connection.acknowledgements[token.rawValue]
            if entry.qos == .exactlyOnce, session.incoming[entry.identifier]?.token == token {
                session.incoming[entry.identifier]?.answer = reason
            }
        } else if let identifier = session.carriedOver.removeValue(forKey: token) {
            session.incoming[identifier]?.answer = reason
            guard let sequence = connection.repetitions.removeValue(forKey: token) else { return }
            connection.acknowledgements[sequence].answer = reason
        } else {
            return
        }
        sendAcknowledgements(into: &output)
    }

    /// Deliveries that are still owed an acknowledgement when the connection goes: the server sends QoS 1
    /// again, and of QoS 2 we must know that it was delivered.
    mutating func carryOverDeliveries() {
        for (identifier, record) in session.incoming where record.answer == nil {
            session.carriedOver[record.token] = identifier
        }
    }

    private mutating func receivePublish(_ publish: Publish, into output: inout SessionOutput) {
        var publish = publish
        if configuration.version == .v5, !publish.properties.isEmpty || publish.topicName.isEmpty {
            if let violation = resolve(&publish) {
                fail(violation, into: &output)
                return
            }
        }
        switch publish.qos {
        case .atMostOnce:
            output.actions.append(.deliver(publish, nil))
        case .atLeastOnce:
            guard let identifier = publish.packetIdentifier, countIncoming(into: &output) else { return }
            let sequence = connection.acknowledgements.append(
                IncomingAcknowledgement(identifier: identifier, qos: .atLeastOnce, answer: nil))
            output.actions.append(.deliver(publish, IncomingToken(rawValue: sequence)))
        case .exactlyOnce:
            receiveExactlyOnce(publish, into: &output)
        }
    }

    private mutating func receiveExactlyOnce(_ publish: Publish, into output: inout SessionOutput) {
        guard let identifier = publish.packetIdentifier else { return }
        if session.incoming[identifier]?.isDoubtful == true { settle(identifier, by: publish) }
        guard let record = session.incoming[identifier] else {
            guard countIncoming(into: &output) else { return }
            let sequence = connection.acknowledgements.append(
                IncomingAcknowledgement(identifier: identifier, qos: .exactlyOnce, answer: nil))
            let token = IncomingToken(rawValue: sequence)
            session.incoming[identifier] = SessionState.IncomingRecord(
                token: token, answer: nil, connection: connection.number)
            output.actions.append(.deliver(publish, token))
            return
        }
        // A repetition is answered, not delivered [MQTT-4.3.3-10]. While the driver owes an answer for the
        // delivery, so does the repetition.
        if record.connection != connection.number {
            guard countIncoming(into: &output) else { return }
            session.incoming[identifier]?.connection = connection.number
        }
        let isOwed = session.carriedOver[record.token] != nil
        let sequence = connection.acknowledgements.append(
            IncomingAcknowledgement(
                identifier: identifier, qos: .exactlyOnce, answer: isOwed ? nil : record.answer ?? .success))
        if isOwed { connection.repetitions[record.token] = sequence }
        sendAcknowledgements(into: &output)
    }

    /// The server sends what it has sent before with DUP 1 [MQTT-3.3.1-1]: with DUP 0 the message is one of a session
    /// that doesn't know the earlier one. With DUP 1 it may be either; then it isn't delivered twice.
    private mutating func settle(_ identifier: PacketIdentifier, by publish: Publish) {
        session.incoming[identifier]?.isDoubtful = false
        guard !publish.isDuplicate, let record = session.incoming.removeValue(forKey: identifier) else {
            return
        }
        session.carriedOver[record.token] = nil
    }

    private mutating func receivePubrel(_ release: Acknowledgement, into output: inout SessionOutput) {
        let identifier = release.packetIdentifier
        guard let record = session.incoming.removeValue(forKey: identifier) else {
            let reason: ReasonCode = configuration.version == .v5 ? .packetIdentifierNotFound : .success
            send(
                .pubcomp(Acknowledgement(packetIdentifier: identifier, reasonCode: reason)), into: &output)
            return
        }
        session.carriedOver[record.token] = nil
        if record.connection == connection.number { connection.incomingInFlight -= 1 }
        let stored = persist(.incomingReleased(identifier), into: &output)
        send(.pubcomp(Acknowledgement(packetIdentifier: identifier)), after: stored, into: &output)
    }

    private mutating func sendAcknowledgements(into output: inout SessionOutput) {
        while phase == .established, let first = connection.acknowledgements.first, let answer = first.answer
        {
            _ = connection.acknowledgements.popFirst()
            let packet = Acknowledgement(packetIdentifier: first.identifier, reasonCode: answer)
            switch first.qos {
            case .atMostOnce: break
            case .atLeastOnce:
                connection.incomingInFlight -= 1
                send(.puback(packet), into: &output)
            case .exactlyOnce:
                sendPubrec(packet, into: &output)
            }
        }
    }

    private mutating func sendPubrec(_ packet: Acknowledgement, into output: inout SessionOutput) {
        if packet.reasonCode.isError {
            // The identifier is free again, and what comes under it is new [MQTT-4.3.3-9].
            if session.incoming.removeValue(forKey: packet.packetIdentifier) != nil {
                connection.incomingInFlight -= 1
            }
            send(.pubrec(packet), into: &output)
            return
        }
        guard session.incoming[packet.packetIdentifier] != nil else {
            send(.pubrec(packet), into: &output)
            return
        }
        let stored = persist(.incomingStored(packet.packetIdentifier), into: &output)
        send(.pubrec(packet), after: stored, into: &output)
    }

    /// Counts against our own Receive Maximum [MQTT-3.3.4-9]; false when it is exceeded.
    private mutating func countIncoming(into output: inout SessionOutput) -> Bool {
        if configuration.version == .v5, connection.incomingInFlight >= Int(configuration.receiveMaximum) {
            fail(.receiveMaximumExceeded, into: &output)
            return false
        }
        connection.incomingInFlight += 1
        return true
    }

    /// Puts the Topic Name in place of a Topic Alias (section 3.3.2.3.4) and checks Subscription
    /// Identifiers.
    private mutating func resolve(_ publish: inout Publish) -> SessionViolation? {
        var alias: UInt16?
        for property in publish.properties.entries {
            if case .topicAlias(let value) = property { alias = value }
            if case .subscriptionIdentifier(let value) = property, !session.isAdopted,
                !session.subscriptionIdentifiers.contains(value)
            {
                return .subscriptionIdentifierUnknown(value)
            }
        }
        guard let alias else { return publish.topicName.isEmpty ? .topicNameMissing : nil }
        guard alias > 0, alias <= configuration.topicAliasMaximum else { return .topicAliasInvalid(alias) }
        let index = Int(alias)
        if publish.topicName.isEmpty {
            guard index < connection.incomingAliases.count, let name = connection.incomingAliases[index]
            else {
                return .topicAliasUnknown(alias)
            }
            publish.topicName = name
        } else {
            let missing = index + 1 - connection.incomingAliases.count
            if missing > 0 {
                connection.incomingAliases.append(contentsOf: repeatElement(nil, count: missing))
            }
            connection.incomingAliases[index] = publish.topicName
        }
        // An alias means nothing beyond its connection.
        publish.properties.entries.removeAll { if case .topicAlias = $0 { true } else { false } }
        return nil
    }

    private mutating func receiveDisconnect(_ disconnect: Disconnect, into output: inout SessionOutput) {
        switch configuration.version {
        case .v3_1_1:
            fail(.clientPacketFromServer, into: &output)
        case .v5:
            output.actions.append(.serverDisconnected(disconnect))
            end(.serverDisconnected(disconnect.reasonCode), reason: nil, into: &output)
        }
    }
}
