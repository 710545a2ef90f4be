extension ClientSession {
    /// Takes in a change that a durable store kept, in the order in which they were reported, before the
    /// first `open`. What was in flight is then sent again as by the process that reported it.
    ///
    /// A change that fits nothing, since another one got lost, changes nothing.
    package mutating func restore(_ change: SessionChange) {
        switch change {
        case .began(let version):
            dropStoredSession()
            configuration.version = version
            session.isActive = true
            session.mustStartClean = false
            // Subscription Identifiers of earlier subscriptions aren't stored.
            session.isAdopted = true
        case .ended: dropStoredSession()
        case .mustStartClean: session.mustStartClean = true
        case .clientIdentifierAssigned(let identifier):
            session.assignedClientIdentifier = identifier
        case .queued(let publish, let stamp): pending.restore(publish, stamp: stamp)
        case .dequeued(let stamp): _ = pending.remove(stamp: stamp)
        case .outgoingStored(let identifier, let stamp):
            guard identifier != 0, let queued = pending.remove(stamp: stamp), let publish = queued.publish
            else { return }
            restoreOutgoing(publish, identifier, stamp: stamp)
        case .outgoingReleased(let identifier):
            restoreRelease(of: identifier)
        case .outgoingCompleted(let identifier):
            session.outgoing.remove(identifier)
            session.identifiers.free(identifier)
        case .incomingStored(let identifier):
            session.incoming[identifier] = SessionState.IncomingRecord(
                token: IncomingToken(rawValue: .max), answer: .success, connection: 0)
        case .incomingReleased(let identifier):
            session.incoming[identifier] = nil
        case .subscribed(let subscription):
            session.subscriptions[subscription.topicFilter] = subscription
            pending.raiseStamp(above: subscription.order)
            if let used = subscription.subscriptionIdentifier {
                session.subscriptionIdentifiers.insert(used)
            }
        case .unsubscribed(let topicFilter):
            session.subscriptions[topicFilter] = nil
        }
    }

    /// All that the store kept has been taken in: a session that it holds is resumed, whatever Clean Start was to be.
    ///
    /// - Returns: whether there is one.
    package mutating func resumeStored() -> Bool {
        if session.isActive {
            configuration.cleanStart = false
            // The process may have ended between a CONNECT and its CONNACK.
            session.unansweredConnects = 1
        }
        return session.isActive
    }

    /// The fewest changes that lead to what a store has to keep of this session.
    package var storedChanges: [SessionChange] {
        var changes: [SessionChange] = []
        if let assigned = session.assignedClientIdentifier {
            changes.append(.clientIdentifierAssigned(assigned))
        }
        for subscription in session.subscriptions.values.sorted(by: { $0.order < $1.order }) {
            changes.append(.subscribed(subscription))
        }
        if session.isActive { changes.append(.began(configuration.version)) }
        if session.mustStartClean { changes.append(.mustStartClean) }
        for identifier in session.incoming.keys.sorted() { changes.append(.incomingStored(identifier)) }
        for (identifier, _) in session.outgoing.messages(from: session.outgoing.released) {
            changes.append(.outgoingReleased(identifier))
        }
        for (identifier, message) in session.outgoing.messages(from: session.outgoing.unacknowledged) {
            var publish = message.publish
            publish.packetIdentifier = nil
            changes.append(.queued(publish, stamp: message.stamp))
            changes.append(.outgoingStored(identifier, stamp: message.stamp))
        }
        for pending in pending.lastingPublishes {
            if let publish = pending.publish { changes.append(.queued(publish, stamp: pending.stamp)) }
        }
        return changes
    }

    private mutating func restoreOutgoing(_ publish: Publish, _ identifier: PacketIdentifier, stamp: UInt64) {
        var publish = publish
        publish.packetIdentifier = identifier
        // Its end was lost, or the identifier wouldn't have been given again.
        session.outgoing.remove(identifier)
        session.identifiers.take(identifier)
        session.outgoing.append(
            OutgoingPublish(
                publish: publish, token: nil, stamp: stamp,
                stage: publish.qos == .exactlyOnce ? .awaitingPubrec : .awaitingPuback, storedBy: 0,
                // Whether it has been sent isn't stored; DUP 1 on a first PUBLISH does no harm.
                wasSent: true, connection: 0),
            identifier: identifier)
    }

    /// PUBREL goes on whether the message is still known or not.
    private mutating func restoreRelease(of identifier: PacketIdentifier) {
        guard identifier != 0 else { return }
        if session.outgoing.stage(of: identifier) != .awaitingPubrec {
            restoreOutgoing(
                Publish(topicName: "", payload: [], qos: .exactlyOnce), identifier, stamp: pending.makeStamp()
            )
        }
        session.outgoing.release(identifier, storedBy: 0)
    }

    /// As by the process that reported the end: messages in flight are queued again or dropped, as configured.
    private mutating func dropStoredSession() {
        guard session.isActive else { return }
        var output = SessionOutput()
        endSession(into: &output)
    }
}
