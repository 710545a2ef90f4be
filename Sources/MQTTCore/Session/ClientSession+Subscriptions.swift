// SUBSCRIBE and UNSUBSCRIBE: sections 3.8 to 3.11.
extension ClientSession {
    /// Asks for subscriptions, on the next connection if there is none now.
    ///
    /// - Parameter isIdentifierOptional: whether a server without Subscription Identifiers is asked without one.
    package mutating func subscribe(
        _ subscriptions: [Subscribe.Subscription], subscriptionIdentifier: UInt32? = nil,
        isIdentifierOptional: Bool = false, properties: Properties = Properties(), token: OperationToken,
        now: Instant,
        into output: inout SessionOutput
    ) {
        var properties = properties
        if let subscriptionIdentifier {
            guard configuration.version == .v5 else {
                output.actions.append(.failed(token, .requiresVersion5))
                return
            }
            properties.entries.append(.subscriptionIdentifier(subscriptionIdentifier))
        }
        pending.requests.append(
            PendingRequest(
                content: .subscribe(subscriptions, properties), token: token, stamp: pending.makeStamp(),
                isIdentifierOptional: isIdentifierOptional))
    }

    package mutating func unsubscribe(
        _ topicFilters: [String], properties: Properties = Properties(), token: OperationToken,
        now: Instant, into output: inout SessionOutput
    ) {
        pending.requests.append(
            PendingRequest(
                content: .unsubscribe(topicFilters, properties), token: token, stamp: pending.makeStamp()))
    }

    /// Nobody reads any of them any more: none is made again on a later connection.
    package mutating func forgetSubscriptions(into output: inout SessionOutput) {
        for filter in session.subscriptions.keys { forget(filter, into: &output) }
        pending.requests.replaceAll(with: pending.requests.elements.filter { !$0.isRestoring })
    }

    /// The server has no session, or perhaps another one: what was granted is asked for again, once, ahead of new
    /// requests.
    ///
    /// - Parameter retainHandling: for this time, where the program wants retained messages at all (5.0).
    mutating func restoreSubscriptions(
        _ retainHandling: SubscriptionOptions.RetainHandling? = nil, into output: inout SessionOutput
    ) {
        // Requests of ours that an earlier connection didn't get answered would come twice.
        let requests = pending.requests.elements.filter { !$0.isRestoring }
        pending.requests.replaceAll(with: requests)
        guard configuration.restoresSubscriptions else {
            for filter in session.subscriptions.keys { forget(filter, into: &output) }
            return
        }
        var groups: [(identifier: UInt32?, subscriptions: [Subscribe.Subscription])] = []
        for stored in session.subscriptions.values.sorted(by: { $0.order < $1.order }) {
            var subscription = Subscribe.Subscription(
                topicFilter: stored.topicFilter, options: stored.options)
            if let retainHandling, configuration.version == .v5,
                stored.options.retainHandling == .sendAtSubscribe
            {
                subscription.options.retainHandling = retainHandling
            }
            // A SUBSCRIBE has one Subscription Identifier, and small ones pass any packet size limit.
            if let last = groups.last, last.identifier == stored.subscriptionIdentifier,
                last.subscriptions.count < 8
            {
                groups[groups.count - 1].subscriptions.append(subscription)
            } else {
                groups.append((stored.subscriptionIdentifier, [subscription]))
            }
        }
        let restoring = groups.map { group in
            PendingRequest(
                content: .subscribe(
                    group.subscriptions,
                    Properties(group.identifier.map { [.subscriptionIdentifier($0)] } ?? [])),
                token: nil, stamp: 0, isRestoring: true, isIdentifierOptional: true)
        }
        pending.requests.replaceAll(with: restoring + requests)
    }

    /// Sends the request with the next packet identifier; there is one, as `encodePending` has seen.
    mutating func sendRequest(_ request: PendingRequest, into output: inout SessionOutput) {
        if let error = refusal(of: request) {
            fail(request, with: error, into: &output)
            return
        }
        guard let identifier = session.identifiers.next() else {
            pending.putBack([request])
            return
        }
        let packet: ControlPacket =
            switch request.content {
            case .subscribe(let subscriptions, let properties):
                .subscribe(
                    Subscribe(
                        packetIdentifier: identifier, subscriptions: subscriptions,
                        properties: sendable(properties)))
            case .unsubscribe(let topicFilters, let properties):
                .unsubscribe(
                    Unsubscribe(
                        packetIdentifier: identifier, topicFilters: topicFilters, properties: properties))
            }
        let start = output.bytes.count
        do {
            try output.append(packet, for: configuration.version)
        } catch {
            fail(request, with: .notEncodable(error), into: &output)
            return
        }
        if let error = excess(output, from: start) {
            output.removeLastPacket(from: start)
            fail(request, with: error, into: &output)
            return
        }
        connection.keepAlive.encodedBytes()
        session.identifiers.take(identifier)
        if connection.limits.subscriptionIdentifiersAvailable, let used = request.subscriptionIdentifier {
            session.subscriptionIdentifiers.insert(used)
        }
        connection.requests[identifier] = request
        if request.isRestoring, case .subscribe(let subscriptions, _) = request.content {
            connection.restoredFilters.formUnion(subscriptions.map(\.topicFilter))
        }
    }

    /// Whether a retained message for this filter is one more answer to a subscription that had been granted on an
    /// earlier connection (3.3.1.3, 5.0: section 3.3.1.3). Not where RETAIN may come with live messages too.
    package func isRestored(_ topicFilter: String) -> Bool {
        connection.restoredFilters.contains(topicFilter)
            && session.subscriptions[topicFilter]?.options.retainAsPublished != true
    }

    mutating func receiveSuback(_ answer: Suback, into output: inout SessionOutput) {
        let identifier = answer.packetIdentifier
        guard let request = connection.requests[identifier],
            case .subscribe(let subscriptions, _) = request.content
        else {
            fail(.unknownSuback(identifier), into: &output)
            return
        }
        guard answer.reasonCodes.count == subscriptions.count else {
            fail(
                .subackCount(expected: subscriptions.count, received: answer.reasonCodes.count),
                into: &output)
            return
        }
        finish(identifier)
        for (subscription, code) in zip(subscriptions, answer.reasonCodes) {
            if !code.isError {
                var subscription = subscription
                // As the program wants it, whatever this one SUBSCRIBE said about retained messages.
                if request.isRestoring, let known = session.subscriptions[subscription.topicFilter] {
                    subscription.options = known.options
                }
                store(subscription, identifier: request.subscriptionIdentifier, into: &output)
            } else if request.isRestoring {
                forget(subscription.topicFilter, into: &output)
            }
        }
        if let token = request.token {
            output.actions.append(.subscribed(token, answer))
        } else if request.isRestoring {
            output.actions.append(.subscriptionsRestored(subscriptions, answer))
        }
    }

    mutating func receiveUnsuback(_ answer: Unsuback, into output: inout SessionOutput) {
        let identifier = answer.packetIdentifier
        guard let request = connection.requests[identifier],
            case .unsubscribe(let topicFilters, _) = request.content
        else {
            fail(.unknownUnsuback(identifier), into: &output)
            return
        }
        if configuration.version == .v5, answer.reasonCodes.count != topicFilters.count {
            fail(
                .unsubackCount(expected: topicFilters.count, received: answer.reasonCodes.count),
                into: &output)
            return
        }
        finish(identifier)
        for (index, topicFilter) in topicFilters.enumerated() {
            let isRefused = index < answer.reasonCodes.count && answer.reasonCodes[index].isError
            if !isRefused { forget(topicFilter, into: &output) }
        }
        if let token = request.token { output.actions.append(.unsubscribed(token, answer)) }
    }

    private mutating func finish(_ identifier: PacketIdentifier) {
        connection.requests[identifier] = nil
        session.identifiers.free(identifier)
    }

    private mutating func store(
        _ subscription: Subscribe.Subscription, identifier: UInt32?, into output: inout SessionOutput
    ) {
        let known = session.subscriptions[subscription.topicFilter]
        let stored = StoredSubscription(
            topicFilter: subscription.topicFilter, options: subscription.options,
            subscriptionIdentifier: identifier, order: known?.order ?? pending.makeStamp())
        guard stored != known else { return }
        session.subscriptions[subscription.topicFilter] = stored
        _ = persist(.subscribed(stored), into: &output)
    }

    private mutating func forget(_ topicFilter: String, into output: inout SessionOutput) {
        guard session.subscriptions.removeValue(forKey: topicFilter) != nil else { return }
        _ = persist(.unsubscribed(topicFilter: topicFilter), into: &output)
    }

    private mutating func fail(
        _ request: PendingRequest, with error: SessionError, into output: inout SessionOutput
    ) {
        if let token = request.token {
            output.actions.append(.failed(token, error))
        } else if request.isRestoring, case .subscribe(let subscriptions, _) = request.content {
            output.actions.append(
                .subscriptionsRestored(
                    subscriptions,
                    Suback(
                        packetIdentifier: 0,
                        reasonCodes: subscriptions.map { _ in .implementationSpecificError })))
        }
    }

    /// Without the Subscription Identifier where the server has none; it is kept for servers that do.
    private func sendable(_ properties: Properties) -> Properties {
        if configuration.version == .v3_1_1 { return Properties() }
        if connection.limits.subscriptionIdentifiersAvailable { return properties }
        var properties = properties
        properties.subscriptionIdentifiers = []
        return properties
    }

    /// What the server declared unavailable isn't sent (sections 3.2.2.3.11 to 3.2.2.3.13), nor options that the
    /// version in use doesn't have.
    private func refusal(of request: PendingRequest) -> SessionError? {
        guard case .subscribe(let subscriptions, _) = request.content else { return nil }
        if configuration.version == .v3_1_1,
            subscriptions.contains(where: { $0.options != SubscriptionOptions(qos: $0.options.qos) })
        {
            return .requiresVersion5
        }
        let limits = connection.limits
        if request.subscriptionIdentifier != nil, !request.isIdentifierOptional,
            !limits.subscriptionIdentifiersAvailable
        {
            return .subscriptionIdentifiersNotAvailable
        }
        for filter in subscriptions.lazy.map(\.topicFilter) {
            if !limits.sharedSubscriptionsAvailable, filter.hasPrefix("$share/") {
                return .sharedSubscriptionsNotAvailable
            }
            if !limits.wildcardSubscriptionsAvailable,
                filter.utf8.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") })
            {
                return .wildcardSubscriptionsNotAvailable
            }
        }
        return nil
    }
}

extension PendingRequest {
    var subscriptionIdentifier: UInt32? {
        guard case .subscribe(_, let properties) = content else { return nil }
        for property in properties.entries {
            if case .subscriptionIdentifier(let value) = property { return value }
        }
        return nil
    }
}
