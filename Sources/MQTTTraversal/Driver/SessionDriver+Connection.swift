// Attempts, connections and their ends.

extension SessionDriver {
    func perform(_ command: ConnectionLifecycle.Command?) {
        switch command {
        case nil: break
        case .startAttempt(let number):
            servers.startOver()
            startAttempt(number)
        case .startRedirectedAttempt(let number): startAttempt(number)
        case .cancelAttempt:
            dropLink(keepsSession: false)
            end(.disconnected)
        case .wait(let until, let attempt):
            if let lastError {
                events.enter(
                    .waiting(ClientState.Wait(until: until, attempt: attempt, reason: lastError)),
                    now: loop.now)
            }
        case .sendDisconnect: sendDisconnect(keepsSession: false)
        case .end(let reason): end(reason)
        case .sendSuspension: sendDisconnect(keepsSession: true)
        case .suspendAttempt:
            dropLink(keepsSession: true)
            suspended()
        case .rest: suspended()
        }
        scheduleTurnEnd()
    }

    private func sendDisconnect(keepsSession: Bool) {
        if let outcome { events.leaving(outcome) }
        // QoS 0 messages whose publish() has returned are on their way: they go first.
        session.encodePending(
            upTo: output.bytes.count + ClientInbox.highWaterMark, now: loop.now, into: &output)
        session.disconnect(keepsSession: keepsSession, now: loop.now, into: &output)
        performActions()
    }

    func established(_ connack: Connack) {
        observeConnect(.passed, detail: connack.sessionPresent ? "session present" : "new session")
        negotiation.accepted()
        servers.accepted(now: loop.now)
        if configuration.version == .automatic {
            VersionMemory.shared.accepted(
                negotiation.version, by: servers.present.profile, now: loop.now)
        }
        let outcome = ConnectOutcome(
            profile: takenProfile, routes: ascentAccepted(), version: negotiation.version,
            sessionPresent: connack.sessionPresent,
            clientID: session.clientIdentifier, limits: ServerLimits(session.limits),
            properties: connack.properties)
        self.outcome = outcome
        lifecycle.attemptSucceeded(now: loop.now)
        let way = RouteAttempt(profile: takenWay, outcome: .connected).way
        board.connected(on: way, after: connectSent.duration(to: loop.now), now: loop.now)
        events.enter(.connected(outcome), now: loop.now)
        let waiting = connects
        connects = [:]
        for continuation in waiting.values { continuation.resume(returning: outcome) }
    }

    private func observeConnect(_ result: StageObservation.Outcome, detail: String? = nil) {
        configuration.report(
            result.level,
            .stage(
                StageObservation(
                    stage: .mqttConnect, outcome: result, started: connectSent, ended: loop.now,
                    detail: detail),
                of: takenProfile))
    }

    /// The session wants the connection closed, after what it has already said.
    func close(_ error: SessionError?) {
        sendOutput()
        guard let stream = link.stream else { return }
        guard let error else {
            // Our own DISCONNECT: the end is when the peer has closed too, or has had its time.
            stream.close()
            return
        }
        if endCause == nil {
            let foreign = outcome == nil ? firstAnswer.failure(insteadOf: error) : nil
            endCause = foreign ?? TransportError(session: error, isEstablished: outcome != nil)
        }
        stream.delegate = nil
        switch error {
        // Nobody listens there: nothing to be polite to.
        case .connackTimeout, .pingResponseTimeout: stream.abort(nil)
        default: stream.close()
        }
        connectionEnded(TransportError(session: error, isEstablished: outcome != nil), peer: stream.peer)
    }

    func endForFullBuffer(_ bytes: Int) {
        guard let stream = link.stream else { return }
        // What the buffers took is acknowledged first, or the same messages would come again for ever. No
        // DISCONNECT: the session has to live on, so that the rest comes again.
        sendOutput()
        stream.delegate = nil
        stream.close()
        let text = "a subscription that nobody reads holds \(bytes) bytes"
        let error = TransportError(stage: .established, code: .clientQueueFull, evidence: .text(text))
        connectionEnded(error, peer: stream.peer)
    }

    func endForUnreadReplies(_ bytes: Int) {
        guard let stream = link.stream else { return }
        stream.delegate = nil
        stream.abort(nil)
        let text = "the server sends and doesn't read: \(bytes) bytes of answers wait for it"
        let error = TransportError(stage: .established, code: .mqttProtocolError, evidence: .text(text))
        connectionEnded(error, peer: stream.peer)
    }

    private func connectionEnded(_ error: TransportError?, peer: String) {
        let ascent = link.ascent
        forgetStream()
        link = .none
        let wasEstablished = outcome != nil
        outcome = nil
        var cause = endCause ?? error
        endCause = nil
        if cause?.hop == nil { cause?.hop = peer }
        if wasEstablished, let cause { learnIdleLimit(from: cause) }
        authenticationEnded(cause.map { MQTTError($0) })
        let hasCarriedMessages = session.hasCarriedMessages
        session.closed(now: loop.now, into: &output)
        router.connectionEnded()
        performActions()
        let redirection = redirection
        self.redirection = nil
        guard var cause else {
            ascent?.cancel()
            perform(lifecycle.disconnected())
            return
        }
        let isRedirected = redirection.map { follow($0, &cause) } ?? false
        var kind = ConnectionFailure(ended: cause, version: negotiation.version)
        if wasEstablished, isTakenOver(cause, hasCarriedMessages) {
            cause = .inferredTakeover(cause)
            kind = .takeoverSuspected
        }
        if wasEstablished {
            lastError = MQTTError(cause)
            if case .connected = lifecycle.phase {
                board.update { $0.connectionsLost[cause.code, default: 0] += 1 }
            }
            if kind == .loginRefused { refusedLogin = preparation.login }
            if case .connected = lifecycle.phase { events.interrupted(by: MQTTError(cause)) }
            perform(
                isRedirected
                    ? lifecycle.connectionRedirected(now: loop.now)
                    : lifecycle.connectionLost(kind, now: loop.now, random: randomBits()))
        } else if isRedirected {
            note(ascent?.cancel() ?? [])
            observeConnect(.redirected(to: "\(servers.present.profile)"))
            approach()
        } else {
            observeConnect(.failed(cause))
            if case .connecting = lifecycle.phase,
                negotiation.failed(versionFailure(cause, ascent?.hasOtherWays ?? false))
            {
                session.speak(negotiation.version)
                if negotiation.version == .v3_1_1 { failRequests(with: requiresVersion5) }
                configuration.report(.notice, .triesVersion(negotiation.version, after: MQTTError(cause)))
                note(ascent?.cancel() ?? [])
                ascendAgain()
            } else if !kind.isServersWord, let ascent {
                link = .ascending(ascent)
                ascent.connectFailed(cause)
            } else {
                let routes = ascent?.cancel(cause) ?? []
                note(routes)
                attemptFailed(cause, kind, routes)
            }
        }
    }

    /// What the end of an attempt says about the version. Where there are other ways, one that hangs up on CONNECT may be
    /// a hop that knows MQTT and doesn't want it: only the last one is asked in the other version too.
    private func versionFailure(_ cause: TransportError, _ hasOtherWays: Bool) -> VersionNegotiation.Failure {
        let failure = VersionNegotiation.Failure(cause, answered: !firstAnswer.bytes.isEmpty)
        if hasOtherWays, case .endedWithoutAnswer = failure { return .other }
        return failure
    }

    /// Whether another client is the likely reason of the end: only where the server can't say so, and where we chose
    /// the client identifier.
    private func isTakenOver(_ cause: TransportError, _ hasCarriedMessages: Bool) -> Bool {
        guard case .connected(let since) = lifecycle.phase else { return false }
        return takeovers.connectionEnded(
            after: loop.now - since,
            isClosedByPeer: cause.isWithoutReason && !hasCarriedMessages && negotiation.version == .v3_1_1
                && !configuration.clientID.isEmpty)
    }

    /// A hop that ends idle connections isn't given the occasion again.
    private func learnIdleLimit(from cause: TransportError) {
        guard case .connected = lifecycle.phase, cause.isWithoutReason else { return }
        let (end, time) = session.idleTime(now: loop.now)
        var idleTime = time
        // Pings of the WebSocket are no packets of MQTT, and traffic all the same.
        if let pings = takenProfile.webSocket?.pings { idleTime = min(idleTime, pings.interval) }
        guard idleLimit.connectionEnded(end, idleTime: idleTime), let interval = idleLimit.safeInterval else {
            return
        }
        session.pingInterval = interval
        configuration.report(.notice, .idleLimitLearned(idleTime: idleTime, pingsEvery: interval))
    }

    /// - Parameter cause: of the connection's end; says why, where the redirection isn't followed.
    /// - Returns: whether the server to go to is another one now.
    private func follow(_ redirection: RedirectionNotice, _ cause: inout TransportError) -> Bool {
        switch lifecycle.phase {
        case .connecting, .connected: break
        case .idle, .waiting, .disconnecting, .suspending, .suspended, .ended: return false
        }
        do throws(ServerTrail.Refusal) {
            guard try servers.follow(redirection, from: takenProfile, now: loop.now) else { return false }
            configuration.report(.notice, .triesServer(servers.present.profile, after: MQTTError(cause)))
            return true
        } catch {
            cause = cause.notFollowed(because: error.reason)
            return false
        }
    }

    private func end(_ reason: ConnectionLifecycle.EndReason) {
        let error: MQTTError? =
            switch reason {
            case .disconnected: nil
            case .failed: lastError
            }
        lastError = error
        endDrain()
        // Ahead of all who are told by this end, so that they find it.
        events.enter(.ended(error), now: loop.now)
        stopWatchingNetwork()
        failRequests(with: error ?? disconnectedByCall)
        session.abandon(.disconnected, into: &output)
        performActions()
        // Who connects again subscribes anew.
        session.forgetSubscriptions(into: &output)
        performActions()
        abandonedSubscribes = [:]
        for buffer in router.buffers { buffer.end(error) }
        router.removeAll()
        failConnects(&connects, with: error ?? disconnectedByCall)
        closeStorage()
    }

    func failConnects(
        _ connects: inout [OperationToken: UnsafeContinuation<ConnectOutcome, any Error>],
        with error: MQTTError
    ) {
        let waiting = connects
        connects = [:]
        for continuation in waiting.values { continuation.resume(throwing: error) }
    }

    func resumeDisconnects() {
        let waiting = disconnects
        disconnects = []
        guard let remembering, !waiting.isEmpty else {
            for continuation in waiting { continuation.resume() }
            return
        }
        self.remembering = nil
        // Many programs end then.
        Task(priority: .high) {
            await remembering.value
            for continuation in waiting { continuation.resume() }
        }
    }

    func dropLink(keepsSession: Bool) {
        switch link {
        case .none: break
        case .preparing(let task, let timer):
            task.cancel()
            loop.cancel(timer)
        case .ascending(let ascent): ascent.cancel()
        case .connecting(let stream, _), .online(let stream):
            link.ascent?.cancel()
            authenticationEnded(nil)
            // The server may have accepted CONNECT by now: without DISCONNECT it would publish the will.
            session.disconnect(keepsSession: keepsSession, now: loop.now, into: &output)
            sendOutput()
            stream.delegate = nil
            stream.close()
            forgetStream()
            session.closed(now: loop.now, into: &output)
        }
        link = .none
        performActions()
    }

    /// What the stream has carried is counted while it is there.
    private func forgetStream() {
        publishMetrics()
        board.connectionEnded(now: loop.now)
        meter.connectionEnded()
    }
}

extension SessionDriver: ByteStreamDelegate {
    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
        session.receivedBytes(now: loop.now)
        var input = bytes
        var arrivals = Meter.Arrivals()
        defer { meter.received(arrivals) }
        do throws(DecodeError) {
            if outcome == nil {
                firstAnswer.append(bytes)
                // Read as a packet, text may have a length that would be waited for.
                if let first = firstAnswer.bytes.first, firstAnswer.isText {
                    throw DecodeError.reservedPacketType(first >> 4)
                }
            }
            while let packet = try decoder.next(in: &input) {
                arrivals.count(packet)
                switch packet {
                case .puback(let answer), .pubrec(let answer):
                    meter.answered(answer.packetIdentifier, now: loop.now)
                case .pingresp: meter.pingAnswered(now: loop.now)
                default: break
                }
                session.receive(packet, now: loop.now, into: &output)
            }
        } catch {
            session.decodeFailed(error, now: loop.now, into: &output)
        }
        scheduleTurnEnd()
    }

    func streamProgressed(_ stream: ByteStream) {
        session.sentBytes(now: loop.now)
    }

    func streamFlushed(_ stream: ByteStream) {
        session.flushed(now: loop.now)
        scheduleTurnEnd()
    }

    func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
        guard link.stream === stream else { return }
        // What was read before the end still counts: a refusing CONNACK is the real reason.
        performActions()
        guard link.stream === stream else { return }
        var error = error
        // The opening handshake is over, whatever layer says that the connection ended.
        if error?.stage == .established || error?.stage == .webSocket {
            error?.stage = outcome == nil ? .mqttConnect : .established
        }
        connectionEnded(error, peer: stream.peer)
        scheduleTurnEnd()
    }
}
