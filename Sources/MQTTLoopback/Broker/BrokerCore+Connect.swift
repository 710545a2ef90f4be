import MQTTCore

/// Clients come and go: CONNECT, DISCONNECT, sessions, take-over, wills (sections 3.1, 3.14 and 4.1).
extension BrokerCore {
    func accept(
        _ connect: Connect, on id: ConnectionID, before deadline: ContinuousClock.Instant,
        now: ContinuousClock.Instant
    ) {
        if let method = connect.properties.authenticationMethod {
            return authenticate(connect, by: method, on: id, before: deadline)
        }
        switch authenticate(connect) {
        case .success(let user): admit(connect, user, on: id, now: now)
        case .failure(let refusal): refuse(connect, on: id, because: refusal.reason)
        }
    }

    /// Accepts a client whose user is known.
    ///
    /// - Parameter authenticated: what CONNACK says of the exchange that has led here.
    func admit(
        _ connect: Connect, _ user: BrokerConfiguration.User?, authenticated: [Property] = [],
        on id: ConnectionID, now: ContinuousClock.Instant
    ) {
        let request = ConnectRequest(connect)
        if let redirection {
            return refuse(connect, on: id, because: redirection.reasonCode, redirection.properties)
        }
        if let reason = objection(to: connect) { return refuse(connect, on: id, because: reason) }

        var answer = authenticated
        var clientIdentifier = connect.clientIdentifier
        if clientIdentifier.isEmpty {
            clientIdentifier = assignClientIdentifier()
            answer.append(.assignedClientIdentifier(clientIdentifier))
        }
        let name = ExactString(clientIdentifier)
        if let former = sessionsByClientIdentifier[name].flatMap({ sessions[$0]?.connection }) {
            end(former, because: .sessionTakenOver, now: now)  // [MQTT-3.1.4-3]
        }
        if connect.cleanStart, let former = sessionsByClientIdentifier[name] {
            endSession(former, now: now)  // [MQTT-3.1.2-4]
        }

        let known = sessionsByClientIdentifier[name]
        guard let slot = known ?? addSession(clientIdentifier) else {
            return refuse(connect, on: id, because: .quotaExceeded)
        }
        let limits = ReceiverLimits(
            version: connect.version,
            window: max(1, min(configuration.maximumInFlight, Int(request.receiveMaximum), 65534)),
            maximumPacketSize: Int(clamping: request.maximumPacketSize))
        let expiry = sessionExpiry(connect, request)
        if expiry != request.sessionExpiryInterval { answer.append(.sessionExpiryInterval(expiry)) }
        sessions[slot]!.presence = .connected(id, limits)
        sessions[slot]!.expiry = expiry
        sessions[slot]!.pendingWill = nil  // [MQTT-3.1.3-9]
        sessions[slot]!.outbound.resume()

        var keepAlive = connect.keepAlive
        if connect.version == .v5, let serverKeepAlive = configuration.serverKeepAlive {
            keepAlive = serverKeepAlive
        }
        let keepAliveLimit = keepAlive == 0 ? nil : Duration.milliseconds(Int64(keepAlive) * 1500)
        connections[id.slot]!.lastReceived = now
        connections[id.slot]!.phase = .connected(
            BrokerConnection.Link(
                session: slot, version: connect.version, keepAliveLimit: keepAliveLimit,
                allowedTopics: user?.allowedTopics?.compactMap { try? TopicFilter($0) }, will: connect.will,
                scramUser: authenticated.isEmpty ? nil : user?.name))
        if let keepAliveLimit { watch(now + keepAliveLimit) }

        appendLimits(to: &answer)
        if connect.properties.requestResponseInformation == true, let text = configuration.responseInformation
        {
            answer.append(.responseInformation(text))
        }
        let connack = Connack(sessionPresent: known != nil, properties: Properties(answer))
        send(.connack(connack), to: id, connect.version)
        pump(slot, now: now)
    }

    func receive(
        _ disconnect: Disconnect, from id: ConnectionID, _ link: BrokerConnection.Link,
        now: ContinuousClock.Instant
    ) {
        for case .sessionExpiryInterval(let seconds) in disconnect.properties.entries {
            // A session that was to end with the connection can't be prolonged (section 3.14.2.2.2).
            if sessions[link.session]!.expiry == 0 && seconds != 0 {
                return end(id, because: .protocolError, now: now)
            }
            sessions[link.session]!.expiry = min(seconds, configuration.maximumSessionExpiry)
        }
        beginClosing(id)
        // The will is discarded on a normal DISCONNECT, and only then [MQTT-3.14.4-3].
        leave(link, publishesWill: disconnect.reasonCode != .normalDisconnection, now: now)
    }

    /// A client has lost its connection: its session goes on without it, or ends.
    func leave(
        _ link: BrokerConnection.Link, publishesWill: Bool, now: ContinuousClock.Instant
    ) {
        let slot = link.session
        let expiry = sessions[slot]!.expiry
        var expiresAt: ContinuousClock.Instant?
        if expiry != .max {
            let end = now + .seconds(Int64(expiry))
            expiresAt = end
            watch(end)
        }
        sessions[slot]!.presence = .disconnected(expiresAt: expiresAt)
        if publishesWill, let will = link.will {
            let delay = will.delay
            if delay == 0 {
                publish(will, allowedTopics: link.allowedTopics, from: slot, now: now)
            } else {
                let dueAt = now + .seconds(Int64(delay))
                sessions[slot]!.pendingWill = BrokerSession.PendingWill(
                    will: will, dueAt: dueAt, allowedTopics: link.allowedTopics)
                watch(dueAt)
            }
        }
        if expiry == 0 { endSession(slot, now: now) }
    }

    /// Forgets the session. A will that waits is published now, before its delay has passed
    /// (section 3.1.2.5).
    func endSession(_ slot: Int, now: ContinuousClock.Instant) {
        guard let session = sessions[slot] else { return }
        if let pending = session.pendingWill {
            sessions[slot]!.pendingWill = nil
            publish(pending.will, allowedTopics: pending.allowedTopics, from: slot, now: now)
        }
        for filter in session.subscriptions {
            subscriptions.unsubscribe(session: slot, from: filter)
        }
        sessionsByClientIdentifier[ExactString(session.clientIdentifier)] = nil
        sessions[slot] = nil
        freeSessions.append(slot)
    }

    func publish(
        _ will: Will, allowedTopics: [TopicFilter]?, from slot: Int, now: ContinuousClock.Instant
    ) {
        guard permits(allowedTopics, publishingTo: will.topicName) else { return }
        let message = BrokerMessage(
            topicName: will.topicName, payload: will.payload,
            qos: min(will.qos, configuration.maximumQoS),
            retain: will.retain && configuration.retainAvailable, properties: will.properties, now: now)
        if message.retain { _ = retained.store(message) }
        _ = fanOut(message, from: slot, now: now)
    }

    // MARK: The answer to CONNECT

    private struct Refusal: Error {
        let reason: ReasonCode
    }

    private func authenticate(_ connect: Connect) -> Result<BrokerConfiguration.User?, Refusal> {
        guard let name = connect.userName else {
            guard configuration.allowsAnonymous else { return .failure(Refusal(reason: .notAuthorized)) }
            return .success(nil)
        }
        // Where there is no table, a name proves nothing and costs nothing.
        if configuration.users.isEmpty && configuration.allowsAnonymous { return .success(nil) }
        guard let user = configuration.users.first(where: { ExactString($0.name) == ExactString(name) }),
            user.password == connect.password ?? []
        else { return .failure(Refusal(reason: .badUserNameOrPassword)) }
        return .success(user)
    }

    /// Why a CONNECT that is in itself well-formed is not accepted.
    private func objection(to connect: Connect) -> ReasonCode? {
        if connectionCount > configuration.maximumConnections { return .serverBusy }
        switch connect.version {
        case .v3_1_1:
            // Nobody could come back to such a session ([MQTT-3.1.3-8] of 3.1.1).
            if connect.clientIdentifier.isEmpty && !connect.cleanStart { return .clientIdentifierNotValid }
        case .v5:
            if let will = connect.will {
                if will.qos > configuration.maximumQoS { return .qosNotSupported }  // [MQTT-3.2.2-12]
                if will.retain && !configuration.retainAvailable { return .retainNotSupported }
            }
        }
        return nil
    }

    func refuse(
        _ connect: Connect, on id: ConnectionID, because reason: ReasonCode,
        _ properties: Properties = Properties()
    ) {
        let code: ReasonCode
        switch connect.version {
        case .v5: code = reason
        case .v3_1_1:
            // Table 3.1 of 3.1.1.
            switch reason {
            case .clientIdentifierNotValid: code = ReasonCode(rawValue: 2)
            case .badUserNameOrPassword: code = ReasonCode(rawValue: 4)
            case .notAuthorized: code = ReasonCode(rawValue: 5)
            default: code = ReasonCode(rawValue: 3)
            }
        }
        let connack = Connack(
            sessionPresent: false, reasonCode: code,
            properties: connect.version == .v5 ? properties : Properties())
        send(.connack(connack), to: id, connect.version)
        beginClosing(id)
    }

    private func sessionExpiry(_ connect: Connect, _ request: ConnectRequest) -> UInt32 {
        switch connect.version {
        case .v3_1_1: connect.cleanStart ? 0 : configuration.maximumSessionExpiry
        case .v5: min(request.sessionExpiryInterval, configuration.maximumSessionExpiry)
        }
    }

    /// What a 5.0 client has to know; left out where it is the default (section 3.2.2.3).
    private func appendLimits(to properties: inout [Property]) {
        if configuration.receiveMaximum < 65535 {
            properties.append(.receiveMaximum(max(1, configuration.receiveMaximum)))
        }
        if configuration.maximumQoS < .exactlyOnce {
            properties.append(.maximumQoS(configuration.maximumQoS.rawValue))
        }
        if !configuration.retainAvailable { properties.append(.retainAvailable(0)) }
        properties.append(.maximumPacketSize(configuration.maximumPacketSize))
        if configuration.topicAliasMaximum > 0 {
            properties.append(.topicAliasMaximum(configuration.topicAliasMaximum))
        }
        if !configuration.wildcardSubscriptionsAvailable {
            properties.append(.wildcardSubscriptionAvailable(0))
        }
        if !configuration.subscriptionIdentifiersAvailable {
            properties.append(.subscriptionIdentifierAvailable(0))
        }
        if !configuration.sharedSubscriptionsAvailable {
            properties.append(.sharedSubscriptionAvailable(0))
        }
        if let serverKeepAlive = configuration.serverKeepAlive {
            properties.append(.serverKeepAlive(serverKeepAlive))
        }
    }

    private func addSession(_ clientIdentifier: String) -> Int? {
        guard sessionsByClientIdentifier.count < configuration.maximumSessions else { return nil }
        let session = BrokerSession(clientIdentifier: clientIdentifier)
        let slot: Int
        if let free = freeSessions.popLast() {
            slot = free
            sessions[slot] = session
        } else {
            slot = sessions.count
            sessions.append(session)
        }
        sessionsByClientIdentifier[ExactString(clientIdentifier)] = slot
        return slot
    }
}

/// The properties of CONNECT that the broker heeds, with their defaults (section 3.1.2.11).
private struct ConnectRequest {
    var sessionExpiryInterval: UInt32 = 0
    var receiveMaximum: UInt16 = 65535
    var maximumPacketSize: UInt32 = .max

    init(_ connect: Connect) {
        for property in connect.properties.entries {
            switch property {
            case .sessionExpiryInterval(let seconds): sessionExpiryInterval = seconds
            case .receiveMaximum(let count): receiveMaximum = count
            case .maximumPacketSize(let bytes): maximumPacketSize = bytes
            default: break
            }
        }
    }
}

extension Will {
    /// Will Delay Interval in seconds (section 3.1.3.2.2).
    fileprivate var delay: UInt32 {
        for case .willDelayInterval(let seconds) in properties.entries { return seconds }
        return 0
    }
}
