extension ClientSession {
    /// Encodes CONNECT on a fresh network connection (section 3.1).
    ///
    /// - Parameters:
    ///   - server: tells one server from another; servers that share their sessions are told apart too.
    ///   - authenticationMethod: CONNECT then waits for the handler's data (5.0, section 4.12).
    ///   - withholdsSecrets: whether CONNECT goes without Authentication Method, Authentication Data and User
    ///     Properties, since they may be meant for another server.
    ///   - connackTimeout: how long CONNACK may take, an exchange before it included.
    package mutating func open(
        at server: String = "", userName: String?, password: [UInt8]?, authenticationMethod: String? = nil,
        withholdsSecrets: Bool = false, now: Instant,
        connackTimeout: Duration, into output: inout SessionOutput
    ) {
        if phase != .closed { closed(now: now, into: &output) }
        let startsClean = startsClean(at: server)
        connection = ConnectionState(
            after: connection, startedClean: startsClean, server: server,
            keepAlive: KeepAlive(
                seconds: configuration.keepAlive, responseTimeout: configuration.pingResponseTimeout,
                now: now))
        let connect = Connect(
            version: configuration.version, clientIdentifier: clientIdentifier, cleanStart: startsClean,
            keepAlive: configuration.keepAlive, will: configuration.will, userName: userName,
            password: password, properties: connectProperties(withholdsSecrets: withholdsSecrets))
        connection.connackDeadline = now + connackTimeout
        phase = .awaitingConnack
        if let authenticationMethod, configuration.version == .v5 {
            authenticate(by: authenticationMethod, before: connect, into: &output)
        } else {
            sendConnect(connect, into: &output)
        }
    }

    /// From here on the server may have made a session, whatever becomes of the connection.
    mutating func sendConnect(_ connect: Connect, into output: inout SessionOutput) {
        session.unansweredConnects += 1
        send(.connect(connect), into: &output)
    }

    /// Ends the connection by DISCONNECT (section 3.14); nothing is sent after it [MQTT-3.14.4-1].
    ///
    /// - Parameter keepsSession: whether the server keeps the session as after a lost connection (5.0).
    package mutating func disconnect(
        reason: ReasonCode = .normalDisconnection, properties: Properties = Properties(),
        keepsSession: Bool = false, now: Instant,
        into output: inout SessionOutput
    ) {
        switch phase {
        case .closed, .closing: return
        case .awaitingConnack, .established: break
        }
        guard isConnectSent else {
            // CONNECT comes first [MQTT-3.1.0-1].
            phase = .closing
            output.actions.append(.close(nil))
            return
        }
        var disconnect = Disconnect(reasonCode: reason, properties: properties)
        switch configuration.version {
        case .v3_1_1:
            connection.keepsSessionAfterDisconnect = !connection.startedClean
        case .v5:
            let expiry = configuration.sessionExpiryInterval
            let after = expiry == 0 || keepsSession ? expiry : configuration.sessionExpiryAfterDisconnect
            disconnect.properties.entries.removeAll {
                if case .sessionExpiryInterval = $0 { true } else { false }
            }
            if after != expiry { disconnect.properties.entries.append(.sessionExpiryInterval(after)) }
            connection.keepsSessionAfterDisconnect =
                keepsSession ? (connection.limits.sessionExpiryInterval ?? expiry) != 0 : after != 0
            fit(&disconnect)
        }
        send(.disconnect(disconnect), into: &output)
        guard phase != .closing else { return }
        phase = .closing
        output.actions.append(.close(nil))
    }

    /// The network connection is gone: what belongs to it dies, the session stays unless it ends with it.
    package mutating func closed(now: Instant, into output: inout SessionOutput) {
        guard phase != .closed else { return }
        phase = .closed
        for identifier in connection.requests.keys { session.identifiers.free(identifier) }
        pending.putBack(connection.requests.values.filter { $0.token != nil || $0.isRestoring })
        dropEndingWithConnection(into: &output)
        carryOverDeliveries()
        failReauthentication(with: .connectionLost, into: &output)
        let wasIntended = connection.keepsSessionAfterDisconnect != nil
        if session.isActive, connection.isEstablished || wasIntended, !sessionSurvives {
            endSession(into: &output)
            _ = persist(.ended, into: &output)
            if !wasIntended { output.actions.append(.sessionLost) }
        }
        connection = ConnectionState(
            after: connection, keepAlive: KeepAlive(seconds: 0, responseTimeout: .zero, now: now))
    }

    mutating func receiveFirst(
        _ packet: ControlPacket, now: Instant, into output: inout SessionOutput
    ) {
        switch packet {
        case .connack(let connack): receiveConnack(connack, now: now, into: &output)
        case .auth(let auth): receiveAuth(auth, into: &output)
        case .connect, .publish, .puback, .pubrec, .pubrel, .pubcomp, .subscribe, .suback, .unsubscribe,
            .unsuback, .pingreq, .pingresp, .disconnect:
            fail(.packetBeforeConnack, into: &output)
        }
    }

    private mutating func receiveConnack(
        _ connack: Connack, now: Instant, into output: inout SessionOutput
    ) {
        session.unansweredConnects -= 1
        let isRefusal =
            switch configuration.version {
            case .v3_1_1: connack.reasonCode != .success
            case .v5: connack.reasonCode.isError
            }
        if isRefusal {
            output.actions.append(.refused(connack))
            end(.refused(connack.reasonCode), reason: nil, into: &output)
            return
        }
        if let violation = check(connack) {
            // From here on the server reads a DISCONNECT.
            phase = .established
            if violation == .sessionPresentWithoutSession {
                session.mustStartClean = true
                _ = persist(.mustStartClean, into: &output)
            }
            fail(violation, into: &output)
            return
        }
        if finishAuthentication(by: connack, into: &output) { return }
        acceptConnack(connack, now: now, into: &output)
    }

    mutating func acceptConnack(_ connack: Connack, now: Instant, into output: inout SessionOutput) {
        phase = .established
        if configuration.version == .v5 { connection.limits = NegotiatedLimits(connack.properties) }
        connection.isEstablished = true
        connection.outgoingAliases.maximum = min(
            configuration.automaticTopicAliases, connection.limits.topicAliasMaximum)
        connection.keepAlive = KeepAlive(
            seconds: connection.limits.serverKeepAlive ?? configuration.keepAlive, limit: pingInterval,
            responseTimeout: configuration.pingResponseTimeout, now: now)
        if let assigned = connection.limits.assignedClientIdentifier,
            assigned != session.assignedClientIdentifier
        {
            session.assignedClientIdentifier = assigned
            _ = persist(.clientIdentifierAssigned(assigned), into: &output)
        }
        output.actions.append(.established(connack, resumed: connack.sessionPresent))
        if connack.sessionPresent {
            if !session.isActive {
                session.isAdopted = true
                _ = persist(.began(configuration.version), into: &output)
            }
        } else {
            if session.isActive {
                let wasIntended =
                    connection.startedClean && !session.staleHolders.contains(connection.server)
                endSession(into: &output)
                if !wasIntended { output.actions.append(.sessionLost) }
            }
            _ = persist(.began(configuration.version), into: &output)
            session.staleHolders.formUnion(session.holders)
            session.holders = []
        }
        session.holders.insert(connection.server)
        session.staleHolders.remove(connection.server)
        session.isActive = true
        session.hasBeenEstablished = true
        session.mustStartClean = false
        if connack.sessionPresent {
            resumeOutgoing(into: &output)
            if session.unansweredConnects > 0 { doubtSession(into: &output) }
        } else {
            restoreSubscriptions(into: &output)
        }
        session.unansweredConnects = 0
    }

    /// The session that the server has may be another one than ours, made by a CONNECT without an answer.
    private mutating func doubtSession(into output: inout SessionOutput) {
        restoreSubscriptions(.sendIfNewSubscription, into: &output)
        for identifier in session.incoming.keys { session.incoming[identifier]?.isDoubtful = true }
    }

    private func check(_ connack: Connack) -> SessionViolation? {
        if connack.reasonCode != .success { return .connackReasonCode(connack.reasonCode) }
        if connack.sessionPresent {
            if connection.startedClean { return .sessionPresentAfterCleanStart }
            if !session.isActive, !configuration.adoptsServerSession { return .sessionPresentWithoutSession }
        }
        guard configuration.version == .v5 else { return nil }
        if let violation = checkAuthentication(of: connack) { return violation }
        var assigned: String?
        for property in connack.properties.entries {
            if case .assignedClientIdentifier(let value) = property { assigned = value }
            if case .responseInformation = property,
                configuration.connectProperties.requestResponseInformation != true
            {
                return .responseInformationNotRequested
            }
            // One that we named is repeated [MQTT-4.12.0-5].
            if case .authenticationMethod = property, connection.authentication == nil,
                !configuration.connectProperties.entries.contains(property)
            {
                return .unexpectedAuthenticationMethod
            }
        }
        if let assigned {
            // Repeating what we asked for does no harm.
            if !clientIdentifier.isEmpty, assigned != clientIdentifier { return .clientIdentifierReplaced }
        } else if clientIdentifier.isEmpty {
            return .clientIdentifierNotAssigned
        }
        return nil
    }

    /// 5.0 starts clean once and resumes from then on; 3.1.1 does the same at each connection.
    private func startsClean(at server: String) -> Bool {
        if session.mustStartClean { return true }
        switch configuration.version {
        // What a store keeps is for a session that lasts.
        case .v3_1_1: return configuration.cleanStart && configuration.durability == .inMemory
        case .v5:
            if session.staleHolders.contains(server) { return true }
            return configuration.cleanStart && !(session.hasBeenEstablished && session.isActive)
        }
    }

    private func connectProperties(withholdsSecrets: Bool) -> Properties {
        guard configuration.version == .v5 else { return Properties() }
        var entries: [Property] = []
        if configuration.sessionExpiryInterval > 0 {
            entries.append(.sessionExpiryInterval(configuration.sessionExpiryInterval))
        }
        if configuration.receiveMaximum != 65535 {
            entries.append(.receiveMaximum(configuration.receiveMaximum))
        }
        if let size = configuration.maximumPacketSize { entries.append(.maximumPacketSize(size)) }
        if configuration.topicAliasMaximum > 0 {
            entries.append(.topicAliasMaximum(configuration.topicAliasMaximum))
        }
        entries += configuration.connectProperties.entries.filter { property in
            switch property {
            case .authenticationMethod, .authenticationData, .userProperty: !withholdsSecrets
            default: true
            }
        }
        return Properties(entries)
    }

    private var sessionSurvives: Bool {
        if let kept = connection.keepsSessionAfterDisconnect { return kept }
        return switch configuration.version {
        case .v3_1_1: !connection.startedClean
        case .v5: (connection.limits.sessionExpiryInterval ?? configuration.sessionExpiryInterval) != 0
        }
    }

    /// Drops the session's state: messages in flight become new ones or fail, as configured.
    mutating func endSession(into output: inout SessionOutput) {
        var requeued: [PendingPublish] = []
        for (_, message) in session.outgoing.messages(from: session.outgoing.unacknowledged) {
            let policy = message.life.endsWithConnection ? .fail : configuration.onSessionLost
            switch policy {
            case .requeue:
                if message.isAbandoned { continue }
                var publish = message.publish
                publish.packetIdentifier = nil
                requeued.append(
                    PendingPublish(
                        publish: publish, token: message.token, stamp: message.stamp, life: message.life))
            case .fail:
                if let token = message.token {
                    output.actions.append(.failed(token, .sessionLost))
                } else if !message.isAbandoned {
                    output.actions.append(
                        .discarded(topicName: message.publish.topicName, .sessionLost))
                }
            }
        }
        // The server had these and may have passed them on: sending again could deliver twice.
        for (_, message) in session.outgoing.messages(from: session.outgoing.released) {
            if let token = message.token { output.actions.append(.failed(token, .sessionLost)) }
        }
        pending.prepend(requeued)
        nextExpiry = pending.earliestExpiry ?? 0
        session.outgoing.removeAll()
        session.identifiers.removeAll()
        session.incoming = [:]
        session.carriedOver = [:]
        session.subscriptionIdentifiers = []
        session.isAdopted = false
        session.isActive = false
    }

    /// Leaves out what would make DISCONNECT too large for the server [MQTT-3.14.2-3], [MQTT-3.14.2-4].
    private func fit(_ disconnect: inout Disconnect) {
        guard let limit = connection.limits.maximumPacketSize,
            let size = try? ControlPacket.disconnect(disconnect).encodedSize(for: .v5), size > Int(limit)
        else { return }
        disconnect.properties.entries.removeAll {
            if case .reasonString = $0 { return true }
            if case .userProperty = $0 { return true }
            return false
        }
        // The Session Expiry Interval gives way too: without a DISCONNECT the server would publish the will.
        if let size = try? ControlPacket.disconnect(disconnect).encodedSize(for: .v5), size > Int(limit) {
            disconnect.properties = Properties()
        }
    }
}
