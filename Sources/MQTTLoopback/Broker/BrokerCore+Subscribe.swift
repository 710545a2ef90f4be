import MQTTCore

/// Everything a connected client sends, and its subscriptions (sections 3.8 to 3.11).
extension BrokerCore {
    func dispatch(
        _ packet: ControlPacket, from id: ConnectionID, _ link: BrokerConnection.Link,
        now: ContinuousClock.Instant
    ) {
        switch packet {
        case .publish(let publish): receive(publish, from: id, link, now: now)
        case .puback(let puback):
            sessions[link.session]!.outbound.acknowledged(puback.packetIdentifier)
            pump(link.session, now: now)
        case .pubrec(let pubrec): receivePubrec(pubrec, from: id, link, now: now)
        case .pubrel(let pubrel): receivePubrel(pubrel, from: id, link)
        case .pubcomp(let pubcomp):
            sessions[link.session]!.outbound.completed(pubcomp.packetIdentifier)
            pump(link.session, now: now)
        case .subscribe(let subscribe): receive(subscribe, from: id, link, now: now)
        case .unsubscribe(let unsubscribe): receive(unsubscribe, from: id, link)
        case .pingreq: send(.pingresp, to: id, link.version)
        case .disconnect(let disconnect): receive(disconnect, from: id, link, now: now)
        case .auth(let auth): reauthenticate(auth, from: id, link, now: now)
        // A second CONNECT [MQTT-3.1.0-2]; what only a server sends.
        case .connect, .connack, .suback, .unsuback, .pingresp:
            end(id, because: .protocolError, now: now)
        }
    }

    private func receive(
        _ subscribe: Subscribe, from id: ConnectionID, _ link: BrokerConnection.Link,
        now: ContinuousClock.Instant
    ) {
        var identifier: UInt32?
        for case .subscriptionIdentifier(let value) in subscribe.properties.entries { identifier = value }
        // Told in CONNACK: a client that does it all the same is in error (section 3.2.2.3.12).
        if identifier != nil && !configuration.subscriptionIdentifiersAvailable {
            return end(id, because: .subscriptionIdentifiersNotSupported, now: now)
        }
        var reasons: [ReasonCode] = []
        var retainedFor: [(filter: TopicFilter, options: SubscriptionOptions)] = []
        for subscription in subscribe.subscriptions {
            guard let filter = try? TopicFilter(subscription.topicFilter) else {
                reasons.append(.topicFilterInvalid)
                continue
            }
            if filter.shareName != nil && subscription.options.noLocal {
                return end(id, because: .protocolError, now: now)  // [MQTT-3.8.3-4]
            }
            if let objection = objection(to: filter, link) {
                reasons.append(objection)
                continue
            }
            var options = subscription.options
            options.qos = min(options.qos, configuration.maximumQoS)
            let isNew = subscriptions.subscribe(
                SubscriptionTable.Subscriber(
                    session: link.session, options: options, identifier: identifier),
                to: filter)
            sessions[link.session]!.subscriptions.insert(filter)
            reasons.append(ReasonCode(rawValue: options.qos.rawValue))
            if filter.shareName == nil && options.retainHandling.asksForRetained(isNew: isNew) {
                retainedFor.append((filter, options))
            }
        }
        if link.version == .v3_1_1 {
            // 3.1.1 knows one failure only (section 3.9.3 there).
            reasons = reasons.map { $0.isError ? .unspecifiedError : $0 }
        }
        let suback = Suback(packetIdentifier: subscribe.packetIdentifier, reasonCodes: reasons)
        send(.suback(suback), to: id, link.version)

        let identifiers = identifier.map { [$0] } ?? []
        for (filter, options) in retainedFor {
            for message in retained.matching(filter, now: now) {
                deliver(
                    OutboundMessage(
                        message: message, qos: min(message.qos, options.qos), retain: true,
                        subscriptionIdentifiers: identifiers),
                    to: link.session, now: now)
            }
        }
    }

    private func receive(
        _ unsubscribe: Unsubscribe, from id: ConnectionID, _ link: BrokerConnection.Link
    ) {
        var reasons: [ReasonCode] = []
        for topicFilter in unsubscribe.topicFilters {
            guard let filter = try? TopicFilter(topicFilter) else {
                reasons.append(.topicFilterInvalid)
                continue
            }
            guard sessions[link.session]!.subscriptions.remove(filter) != nil else {
                reasons.append(.noSubscriptionExisted)
                continue
            }
            subscriptions.unsubscribe(session: link.session, from: filter)
            reasons.append(.success)
        }
        let unsuback = Unsuback(packetIdentifier: unsubscribe.packetIdentifier, reasonCodes: reasons)
        send(.unsuback(unsuback), to: id, link.version)
    }

    private func objection(
        to filter: TopicFilter, _ link: BrokerConnection.Link
    ) -> ReasonCode? {
        if filter.shareName != nil && !configuration.sharedSubscriptionsAvailable {
            return .sharedSubscriptionsNotSupported
        }
        if filter.hasWildcard && !configuration.wildcardSubscriptionsAvailable {
            return .wildcardSubscriptionsNotSupported
        }
        if !permits(link.allowedTopics, subscribingTo: filter.matched) { return .notAuthorized }
        let held = sessions[link.session]!.subscriptions
        if held.count >= configuration.maximumSubscriptionsPerSession && !held.contains(filter) {
            return .quotaExceeded
        }
        return nil
    }

    /// A wildcard in the filter stands for topics without number, so it is permitted only where the
    /// permission has the same wildcard, or `#`.
    private func permits(_ allowedTopics: [TopicFilter]?, subscribingTo filter: String) -> Bool {
        guard let allowedTopics else { return true }
        return allowedTopics.contains { allowed in
            if filter.utf8.last == UInt8(ascii: "#") && allowed.matched.utf8.last != UInt8(ascii: "#") {
                return false
            }
            return allowed.matches(filter)
        }
    }
}

extension SubscriptionOptions.RetainHandling {
    /// [MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11].
    fileprivate func asksForRetained(isNew: Bool) -> Bool {
        switch self {
        case .sendAtSubscribe: true
        case .sendIfNewSubscription: isNew
        case .doNotSend: false
        }
    }
}
