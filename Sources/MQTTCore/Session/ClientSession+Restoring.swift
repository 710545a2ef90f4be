extension ClientSession {
    /// Takes in a change that a durable store kept, in the order in which they were reported, before the
    /// first `open`. What was in flight is then sent again as by the process that reported it.
    package mutating func restore(_ change: SessionChange) {
        switch change {
        case .began:
            forgetMessages()
            session.isActive = true
        case .ended:
            forgetMessages()
            session.isActive = false
        case .clientIdentifierAssigned(let identifier):
            session.assignedClientIdentifier = identifier
        case .outgoingStored(let publish):
            guard let identifier = publish.packetIdentifier else { return }
            session.identifiers.take(identifier)
            session.outgoing.append(
                OutgoingPublish(
                    publish: publish, token: nil, stamp: pending.makeStamp(),
                    stage: publish.qos == .exactlyOnce ? .awaitingPubrec : .awaitingPuback, storedBy: 0,
                    // Whether it has been sent isn't stored; DUP 1 on a first PUBLISH does no harm.
                    wasSent: true, connection: 0),
                identifier: identifier)
        case .outgoingReleased(let identifier):
            guard session.outgoing.stage(of: identifier) == .awaitingPubrec else { return }
            session.outgoing.release(identifier, storedBy: 0)
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

    private mutating func forgetMessages() {
        session.outgoing.removeAll()
        session.identifiers.removeAll()
        session.incoming = [:]
    }
}
