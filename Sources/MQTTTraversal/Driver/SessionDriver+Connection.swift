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
            dropLink()
            end(.disconnected)
        case .wait(let until, let attempt):
            if let lastError {
                events.emit(.reconnecting(attempt: attempt, delay: until - loop.now, error: lastError))
            }
        case .sendDisconnect:
            // QoS 0 messages whose publish() has returned are on their way: they go first.
            session.encodePending(
                upTo: output.bytes.count + ClientInbox.highWaterMark, now: loop.now, into: &output)
            session.disconnect(now: loop.now, into: &output)
            performActions()
        case .end(let reason): end(reason)
        }
        scheduleTurnEnd()
    }

    private func startAttempt(_ number: Int) {
        events.emit(.connecting(attempt: number))
        approach()
    }

    /// Goes to the server at hand for the first time.
    private func approach() {
        let server = servers.present
        if !server.profile.isEncrypted, server.password != nil {
            configuration.log?(.credentialsInPlaintext(server.profile))
        }
        startConnector()
    }

    private func startConnector() {
        let server = servers.present.profile
        let context = server.tls?.ofContext == profile.tls?.ofContext ? tlsContexts?.server : nil
        let connector = Connector(
            loop: loop, route: Route(server), tlsContext: context,
            proxyTLSContext: tlsContexts?.proxy,
            observe: { [log = configuration.log] in log?(.stage($0)) },
            completion: { [weak self] in self?.attemptEnded($0) })
        link = .attempting(connector)
        connector.start()
    }

    private func attemptEnded(_ result: Result<ByteStream, TransportError>) {
        switch result {
        case .success(let stream):
            guard case .attempting(let connector) = link else { return }
            let route = connector.route
            let server = servers.present
            takenProfile = server.profile.redirected(to: route)
            link = .online(stream)
            stream.delegate = self
            decoder = PacketDecoder(
                role: .client, version: negotiation.version,
                maximumPacketSize: configuration.maximumPacketSize)
            connectSent = loop.now
            firstAnswer = FirstAnswer()
            // What the last connection's end left behind mustn't go ahead of CONNECT [MQTT-3.1.0-1].
            output.bytes.removeAll(keepingCapacity: true)
            output.packetEnds.removeAll(keepingCapacity: true)
            let sendsLogin = route.receivesCredentials
            let sendsSecrets = sendsLogin && server.receivesCredentials
            session.open(
                at: "\(Redirect.comparable(route.host)):\(route.port)",
                userName: sendsLogin ? server.userName : nil, password: sendsLogin ? server.password : nil,
                authenticationMethod: sendsSecrets ? configuration.authentication?.method : nil,
                withholdsSecrets: !sendsSecrets, now: loop.now,
                connackTimeout: server.profile.deadlines.mqttConnect, into: &output)
        case .failure(let error):
            link = .none
            attemptFailed(error, ConnectionFailure(error))
        }
        scheduleTurnEnd()
    }

    private func attemptFailed(_ error: TransportError, _ kind: ConnectionFailure) {
        lastError = MQTTError(error)
        perform(lifecycle.attemptFailed(kind, now: loop.now, random: randomBits()))
    }

    func established(_ connack: Connack) {
        observeConnect(.passed, detail: connack.sessionPresent ? "session present" : "new session")
        negotiation.accepted()
        servers.accepted(now: loop.now)
        if configuration.version == .automatic {
            VersionMemory.shared.accepted(
                negotiation.version, by: Route(servers.present.profile), now: loop.now)
        }
        let outcome = ConnectOutcome(
            profile: takenProfile, version: negotiation.version, sessionPresent: connack.sessionPresent,
            clientID: session.clientIdentifier, limits: ServerLimits(session.limits),
            properties: connack.properties)
        self.outcome = outcome
        lifecycle.attemptSucceeded(now: loop.now)
        events.emit(.connected(outcome))
        let waiting = connects
        connects = [:]
        for continuation in waiting.values { continuation.resume(returning: outcome) }
    }

    private func observeConnect(_ result: StageObservation.Outcome, detail: String? = nil) {
        configuration.log?(
            .stage(
                StageObservation(
                    stage: .mqttConnect, outcome: result, started: connectSent, ended: loop.now,
                    detail: detail)))
    }

    /// The session wants the connection closed, after what it has already said.
    func close(_ error: SessionError?) {
        sendOutput()
        guard case .online(let stream) = link else { return }
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
        guard case .online(let stream) = link else { return }
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
        guard case .online(let stream) = link else { return }
        stream.delegate = nil
        stream.abort(nil)
        let text = "the server sends and doesn't read: \(bytes) bytes of answers wait for it"
        let error = TransportError(stage: .established, code: .mqttProtocolError, evidence: .text(text))
        connectionEnded(error, peer: stream.peer)
    }

    private func connectionEnded(_ error: TransportError?, peer: String) {
        link = .none
        let wasEstablished = outcome != nil
        outcome = nil
        var cause = endCause ?? error
        endCause = nil
        if cause?.hop == nil { cause?.hop = peer }
        authenticationEnded(cause.map { MQTTError($0) })
        session.closed(now: loop.now, into: &output)
        router.connectionEnded()
        performActions()
        let redirection = redirection
        self.redirection = nil
        guard var cause else {
            perform(lifecycle.disconnected())
            return
        }
        let isRedirected = redirection.map { follow($0, &cause) } ?? false
        let kind = ConnectionFailure(ended: cause, version: negotiation.version)
        if wasEstablished {
            lastError = MQTTError(cause)
            if case .connected = lifecycle.phase { events.emit(.interrupted(MQTTError(cause))) }
            perform(
                isRedirected
                    ? lifecycle.connectionRedirected(now: loop.now)
                    : lifecycle.connectionLost(kind, now: loop.now, random: randomBits()))
        } else if isRedirected {
            observeConnect(.redirected(to: "\(servers.present.profile)"))
            approach()
        } else {
            observeConnect(.failed(cause))
            let failure = VersionNegotiation.Failure(cause, answered: !firstAnswer.bytes.isEmpty)
            if case .connecting = lifecycle.phase, negotiation.failed(failure) {
                session.speak(negotiation.version)
                if negotiation.version == .v3_1_1 { failRequests(with: requiresVersion5) }
                configuration.log?(.triesVersion(negotiation.version, after: MQTTError(cause)))
                startConnector()
            } else {
                attemptFailed(cause, kind)
            }
        }
    }

    /// - Parameter cause: of the connection's end; says why, where the redirection isn't followed.
    /// - Returns: whether the server to go to is another one now.
    private func follow(_ redirection: RedirectionNotice, _ cause: inout TransportError) -> Bool {
        switch lifecycle.phase {
        case .connecting, .connected: break
        case .idle, .waiting, .disconnecting, .ended: return false
        }
        do throws(ServerTrail.Refusal) {
            guard try servers.follow(redirection, from: takenProfile, now: loop.now) else { return false }
            configuration.log?(.triesServer(servers.present.profile, after: MQTTError(cause)))
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
        events.emit(.disconnected(error))
        resumeDisconnects()
        if !connectsAfterEnd.isEmpty {
            connects = connectsAfterEnd
            connectsAfterEnd = [:]
            perform(lifecycle.connect())
        }
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
        for continuation in waiting { continuation.resume() }
    }

    private func dropLink() {
        switch link {
        case .none: break
        case .attempting(let connector): connector.cancel()
        case .online(let stream):
            authenticationEnded(nil)
            // The server may have accepted CONNECT by now: without DISCONNECT it would publish the will.
            session.disconnect(now: loop.now, into: &output)
            sendOutput()
            stream.delegate = nil
            stream.close()
            session.closed(now: loop.now, into: &output)
        }
        link = .none
        performActions()
    }

    private func randomBits() -> UInt64 {
        UInt64(loop.random.next()) << 32 | UInt64(loop.random.next())
    }
}

extension SessionDriver: ByteStreamDelegate {
    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
        session.receivedBytes(now: loop.now)
        var input = bytes
        do throws(DecodeError) {
            if outcome == nil {
                firstAnswer.append(bytes)
                // Read as a packet, text may have a length that would be waited for.
                if let first = firstAnswer.bytes.first, firstAnswer.isText {
                    throw DecodeError.reservedPacketType(first >> 4)
                }
            }
            while let packet = try decoder.next(in: &input) {
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
        guard case .online(let current) = link, current === stream else { return }
        // What was read before the end still counts: a refusing CONNACK is the real reason.
        performActions()
        guard case .online(let current) = link, current === stream else { return }
        var error = error
        // The opening handshake is over, whatever layer says that the connection ended.
        if error?.stage == .established || error?.stage == .webSocket {
            error?.stage = outcome == nil ? .mqttConnect : .established
        }
        connectionEnded(error, peer: stream.peer)
        scheduleTurnEnd()
    }
}
