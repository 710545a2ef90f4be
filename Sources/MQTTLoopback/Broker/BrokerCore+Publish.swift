import MQTTCore

/// Messages in and out (sections 3.3 to 3.7, 4.3 and 4.9).
extension BrokerCore {
    func receive(
        _ publish: Publish, from id: ConnectionID, _ link: BrokerConnection.Link,
        now: ContinuousClock.Instant
    ) {
        let topicName: String
        switch resolveTopic(of: publish, from: id) {
        case .success(let resolved): topicName = resolved
        case .failure(let violation): return end(id, because: violation.reason, now: now)
        }
        // [MQTT-3.2.2-11]; a 3.1.1 client can't know, so its messages are taken as they are.
        if link.version == .v5 && publish.qos > configuration.maximumQoS {
            return end(id, because: .qosNotSupported, now: now)
        }
        if link.version == .v5 && publish.retain && !configuration.retainAvailable {
            return end(id, because: .retainNotSupported, now: now)  // [MQTT-3.2.2-14]
        }

        switch publish.qos {
        case .atMostOnce:
            _ = route(publish, to: topicName, link, now: now)
        case .atLeastOnce:
            guard let packetIdentifier = publish.packetIdentifier else {
                return end(id, because: .protocolError, now: now)
            }
            let reason = route(publish, to: topicName, link, now: now)
            acknowledge(.puback, packetIdentifier, reason, to: id, link.version)
        case .exactlyOnce:
            guard let packetIdentifier = publish.packetIdentifier else {
                return end(id, because: .protocolError, now: now)
            }
            // Sent again: it has been passed on already [MQTT-4.3.3-10].
            if sessions[link.session]!.received.contains(packetIdentifier) {
                return acknowledge(.pubrec, packetIdentifier, .success, to: id, link.version)
            }
            // Only QoS 2 stays open here: QoS 1 is acknowledged at once (section 4.9).
            if link.version == .v5
                && sessions[link.session]!.received.count >= max(1, Int(configuration.receiveMaximum))
            {
                return end(id, because: .receiveMaximumExceeded, now: now)  // [MQTT-3.3.4-9]
            }
            let reason = route(publish, to: topicName, link, now: now)
            if !reason.isError { sessions[link.session]!.received.insert(packetIdentifier) }
            acknowledge(.pubrec, packetIdentifier, reason, to: id, link.version)
        }
    }

    func receivePubrel(
        _ pubrel: Acknowledgement, from id: ConnectionID, _ link: BrokerConnection.Link
    ) {
        let known = sessions[link.session]!.received.remove(pubrel.packetIdentifier) != nil
        acknowledge(
            .pubcomp, pubrel.packetIdentifier, known ? .success : .packetIdentifierNotFound, to: id,
            link.version)
    }

    func receivePubrec(
        _ pubrec: Acknowledgement, from id: ConnectionID, _ link: BrokerConnection.Link,
        now: ContinuousClock.Instant
    ) {
        let refused = pubrec.reasonCode.isError
        let known = sessions[link.session]!.outbound.received(pubrec.packetIdentifier, refused: refused)
        if refused {
            pump(link.session, now: now)
        } else {
            acknowledge(
                .pubrel, pubrec.packetIdentifier, known ? .success : .packetIdentifierNotFound, to: id,
                link.version)
        }
    }

    /// Sends the message to all whose subscriptions match; returns whether there was anybody.
    ///
    /// Whoever has several matching subscriptions gets one copy with the highest QoS among them and with
    /// all their Subscription Identifiers [MQTT-3.3.4-2], [MQTT-3.3.4-4].
    func fanOut(
        _ message: BrokerMessage, from publisher: Int?, now: ContinuousClock.Instant
    ) -> Bool {
        // Taken out meanwhile, so that it can be changed while other parts of the core are used.
        var scratch = FanOutScratch()
        swap(&scratch, &fanOutScratch)
        scratch.begin()
        subscriptions.match(message.topicName, into: &scratch.entries)
        for entry in scratch.entries {
            for subscriber in subscriptions.entries[entry].subscribers {
                if subscriber.options.noLocal && subscriber.session == publisher { continue }
                collect(subscriber, into: &scratch)
            }
            for group in subscriptions.entries[entry].groups.indices {
                guard let member = takeTurn(entry: entry, group: group, of: message) else { continue }
                scratch.deliveries.append(FanOutScratch.Delivery(member))
            }
        }
        for delivery in scratch.deliveries {
            let qos = min(message.qos, delivery.qos)
            let retain = delivery.retainAsPublished && message.retain
            if qos == .atMostOnce && scratch.deliveries.count > 1
                && delivery.subscriptionIdentifiers.isEmpty
            {
                sendShared(message, to: delivery.session, retain: retain, &scratch, now: now)
            } else {
                deliver(
                    OutboundMessage(
                        message: message, qos: qos, retain: retain,
                        subscriptionIdentifiers: delivery.subscriptionIdentifiers),
                    to: delivery.session, now: now)
            }
        }
        let found = !scratch.deliveries.isEmpty
        swap(&scratch, &fanOutScratch)
        return found
    }

    /// Sends the message to one session now, or queues it.
    func deliver(_ outbound: OutboundMessage, to slot: Int, now: ContinuousClock.Instant) {
        guard outbound.qos == .atMostOnce else {
            enqueue(outbound, for: slot, now: now)
            return
        }
        guard let (id, limits) = readyForQoS0(slot) else { return }
        let connection = connections[id.slot]!
        let start = connection.output.count
        let publish = outbound.message.publish(
            qos: .atMostOnce, retain: outbound.retain,
            subscriptionIdentifiers: outbound.subscriptionIdentifiers, now: now)
        guard connection.output.append(.publish(publish), for: limits.version),
            connection.output.count - start <= limits.maximumPacketSize
        else {
            // As if it had been delivered [MQTT-3.1.2-25].
            connection.output.removeSubrange(start...)
            droppedMessages += 1
            return
        }
        noteOutput(id)
    }

    func permits(_ allowedTopics: [TopicFilter]?, publishingTo topicName: String) -> Bool {
        guard let allowedTopics else { return true }
        return allowedTopics.contains { $0.matches(topicName) }
    }

    // MARK: In

    private enum AcknowledgementType { case puback, pubrec, pubrel, pubcomp }

    private func acknowledge(
        _ type: AcknowledgementType, _ packetIdentifier: PacketIdentifier, _ reason: ReasonCode,
        to id: ConnectionID, _ version: ProtocolVersion
    ) {
        let acknowledgement = Acknowledgement(packetIdentifier: packetIdentifier, reasonCode: reason)
        switch type {
        case .puback: send(.puback(acknowledgement), to: id, version)
        case .pubrec: send(.pubrec(acknowledgement), to: id, version)
        case .pubrel: send(.pubrel(acknowledgement), to: id, version)
        case .pubcomp: send(.pubcomp(acknowledgement), to: id, version)
        }
    }

    private struct Violation: Error {
        let reason: ReasonCode
    }

    /// The Topic Name, found by Topic Alias if need be; registers a new alias (section 3.3.2.3.4).
    private func resolveTopic(
        of publish: Publish, from id: ConnectionID
    ) -> Result<String, Violation> {
        var alias: UInt16?
        for property in publish.properties.entries {
            switch property {
            case .topicAlias(let value): alias = value
            case .subscriptionIdentifier:
                return .failure(Violation(reason: .protocolError))  // [MQTT-3.3.4-6]
            default: break
            }
        }
        guard let alias else {
            guard !publish.topicName.isEmpty else {
                return .failure(Violation(reason: .protocolError))
            }
            return .success(publish.topicName)
        }
        guard alias > 0 && alias <= configuration.topicAliasMaximum else {
            return .failure(Violation(reason: .topicAliasInvalid))  // [MQTT-3.3.2-8], [MQTT-3.3.2-9]
        }
        if publish.topicName.isEmpty {
            guard let known = connections[id.slot]!.topicAliases[alias] else {
                return .failure(Violation(reason: .protocolError))
            }
            return .success(known)
        }
        connections[id.slot]!.topicAliases[alias] = publish.topicName
        return .success(publish.topicName)
    }

    private func route(
        _ publish: Publish, to topicName: String, _ link: BrokerConnection.Link,
        now: ContinuousClock.Instant
    ) -> ReasonCode {
        guard permits(link.allowedTopics, publishingTo: topicName) else { return .notAuthorized }
        let message = BrokerMessage(
            topicName: topicName, payload: publish.payload, qos: publish.qos,
            retain: publish.retain && configuration.retainAvailable, properties: publish.properties,
            now: now)
        let hadRoom = !message.retain || retained.store(message)
        let found = fanOut(message, from: link.session, now: now)
        guard hadRoom else { return .quotaExceeded }
        return found ? .success : .noMatchingSubscribers
    }

    // MARK: Out

    private func collect(
        _ subscriber: SubscriptionTable.Subscriber, into scratch: inout FanOutScratch
    ) {
        let session = sessions[subscriber.session]!
        let seen = session.fanOut
        if seen.number == scratch.number {
            scratch.deliveries[seen.position].merge(subscriber)
        } else {
            session.fanOut = (scratch.number, scratch.deliveries.count)
            scratch.deliveries.append(FanOutScratch.Delivery(subscriber))
        }
    }

    /// The next member in turn that is connected, or else the next that can wait for the message.
    private func takeTurn(
        entry: Int, group: Int, of message: BrokerMessage
    ) -> SubscriptionTable.Subscriber? {
        let members = subscriptions.entries[entry].groups[group].members
        let start = subscriptions.entries[entry].groups[group].next
        var waiting: Int?
        for step in 0..<members.count {
            let index = (start + step) % members.count
            if sessions[members[index].session]!.connection != nil {
                subscriptions.setTurn(entry: entry, group: group, taken: index)
                return members[index]
            }
            if waiting == nil && min(message.qos, members[index].options.qos) > .atMostOnce {
                waiting = index
            }
        }
        guard let waiting else { return nil }
        subscriptions.setTurn(entry: entry, group: group, taken: waiting)
        return members[waiting]
    }

    /// Encodes once for all receivers that get the same bytes.
    private func sendShared(
        _ message: BrokerMessage, to slot: Int, retain: Bool, _ scratch: inout FanOutScratch,
        now: ContinuousClock.Instant
    ) {
        guard let (id, limits) = readyForQoS0(slot) else { return }
        let variant = FanOutScratch.variant(limits.version, retain: retain)
        if scratch.encoded[variant].isEmpty {
            let publish = message.publish(qos: .atMostOnce, retain: retain, now: now)
            scratch.encoded[variant].append(.publish(publish), for: limits.version)
        }
        let size = scratch.encoded[variant].count
        guard size > 0 && size <= limits.maximumPacketSize else {
            droppedMessages += 1  // [MQTT-3.1.2-25]
            return
        }
        connections[id.slot]!.output.append(contentsOf: scratch.encoded[variant])
        noteOutput(id)
    }

    /// The session's connection, unless there is none or its client reads too slowly.
    private func readyForQoS0(_ slot: Int) -> (ConnectionID, ReceiverLimits)? {
        guard case .connected(let id, let limits)? = sessions[slot]?.presence else { return nil }
        guard connections[id.slot]!.output.count < maximumOutputBytes else {
            droppedMessages += 1
            return nil
        }
        return (id, limits)
    }

    private func enqueue(
        _ outbound: OutboundMessage, for slot: Int, now: ContinuousClock.Instant
    ) {
        let session = sessions[slot]!
        let queued = session.outbound.queuedMessages
        let bytes = session.outbound.queuedBytes + outbound.message.payload.count
        guard
            queued == 0
                || (queued < configuration.maximumQueuedMessages && bytes <= configuration.maximumQueuedBytes)
        else {
            droppedMessages += 1
            return
        }
        session.outbound.enqueue(outbound)
        pump(slot, now: now)
    }
}

/// What one fan-out works with, kept for the next one to save allocations.
struct FanOutScratch {
    /// What one session is to get.
    struct Delivery {
        let session: Int
        var qos: QoS
        var retainAsPublished: Bool
        var subscriptionIdentifiers: [UInt32]

        init(_ subscriber: SubscriptionTable.Subscriber) {
            session = subscriber.session
            qos = subscriber.options.qos
            retainAsPublished = subscriber.options.retainAsPublished
            subscriptionIdentifiers = subscriber.identifier.map { [$0] } ?? []
        }

        mutating func merge(_ other: SubscriptionTable.Subscriber) {
            qos = max(qos, other.options.qos)
            retainAsPublished = retainAsPublished || other.options.retainAsPublished
            if let identifier = other.identifier { subscriptionIdentifiers.append(identifier) }
        }
    }

    /// Distinguishes this fan-out from all others.
    private(set) var number: UInt64 = 0
    var entries: [Int] = []
    var deliveries: [Delivery] = []
    /// The QoS 0 packet by `variant`; empty until it is needed.
    var encoded: [[UInt8]] = []

    mutating func begin() {
        number += 1
        entries.removeAll(keepingCapacity: true)
        deliveries.removeAll(keepingCapacity: true)
        if encoded.isEmpty { encoded = [[], [], [], []] }
        for variant in encoded.indices where !encoded[variant].isEmpty {
            encoded[variant].removeAll(keepingCapacity: encoded[variant].count <= 65536)
        }
    }

    static func variant(_ version: ProtocolVersion, retain: Bool) -> Int {
        switch version {
        case .v3_1_1: retain ? 1 : 0
        case .v5: retain ? 3 : 2
        }
    }
}
