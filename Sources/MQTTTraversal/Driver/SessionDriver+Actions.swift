// What the session says, carried out.

extension SessionDriver {
    func perform(_ action: SessionAction) {
        switch action {
        case .established(let connack, _):
            established(connack)
        case .refused(let connack):
            endCause = TransportError(refusal: connack, version: negotiation.version)
            redirection = RedirectionNotice(connack.reasonCode, connack.properties)
        case .deliver(let publish, let token):
            deliver(publish, token)
        case .published(let token, let code, let properties):
            published(token, code, properties)
        case .subscribed(let token, let suback):
            subscribed(token, suback)
        case .unsubscribed(let token, let unsuback):
            unsubscribed(token, unsuback)
        case .subscriptionsRestored(let subscriptions, let suback):
            restored(subscriptions, suback)
        case .failed(let token, let error):
            count(error)
            failed(token, error)
        case .discarded(let topic, let error):
            count(error)
            let error = MQTTError(TransportError(session: error, isEstablished: outcome != nil))
            configuration.report(.error, .storedMessageDiscarded(topic: topic, error: error))
        case .authenticate(let token, let step):
            authenticate(token, step)
        case .reauthenticated(let token):
            reauthentications.removeValue(forKey: token)?.resume()
        case .sessionLost:
            events.sessionLost()
        case .stored(let token):
            if case .receipt(let receipt)? = publishes[token] { receipt.store() }
        case .persist(let token, let change):
            persist(token, change)
        case .serverDisconnected(let disconnect):
            endCause = TransportError(disconnect: disconnect)
            redirection = RedirectionNotice(disconnect.reasonCode, disconnect.properties)
        case .close(let error):
            close(error)
        }
    }

    /// What became of a publish in the queue.
    private func count(_ error: SessionError) {
        switch error {
        case .queueFull, .droppedForNewer: board.update { $0.publishesDropped += 1 }
        case .messageExpired: board.update { $0.publishesExpired += 1 }
        default: break
        }
    }

    private func deliver(_ publish: Publish, _ token: IncomingToken?) {
        let isResponse = takeResponse(publish)
        if router.stage(publish, token: token, isRestored: { session.isRestored($0) }) { return }
        // Acknowledged even so [MQTT-4.5.0-2].
        if let token { session.acknowledge(token, into: &output) }
        if isResponse { return }
        board.update { $0.messagesUnmatched += 1 }
        configuration.report(.info, .unmatchedMessage(topic: publish.topicName))
    }

    private func published(_ token: OperationToken, _ code: ReasonCode, _ properties: Properties) {
        if requestPublished(token, code, properties) { return }
        guard let completion = publishes.removeValue(forKey: token) else { return }
        if code.isError {
            completion.resolve(.failure(MQTTError(refused: code, properties)))
        } else {
            completion.resolve(.success(PublishOutcome(reasonCode: code, properties: properties)))
        }
    }

    private func subscribed(_ token: OperationToken, _ suback: Suback) {
        if responsesSubscribed(token, suback) { return }
        guard let request = subscribes.removeValue(forKey: token) else {
            giveBack(token, suback)
            return
        }
        for (entry, code) in zip(request.entries, suback.reasonCodes) where code.isError {
            _ = discard(entry.buffer, MQTTError(refused: code, suback.properties))
        }
        request.continuation.resume(returning: suback)
    }

    /// A subscription that nobody waited for any more has been granted.
    private func giveBack(_ token: OperationToken, _ suback: Suback) {
        guard let filters = abandonedSubscribes.removeValue(forKey: token) else { return }
        let unused = zip(filters, suback.reasonCodes).filter { filter, code in
            !code.isError && router.buffers(for: filter.string).isEmpty
        }
        if unused.isEmpty { return }
        session.unsubscribe(unused.map(\.0.string), token: token, now: loop.now, into: &output)
    }

    private func unsubscribed(_ token: OperationToken, _ unsuback: Unsuback) {
        guard let continuation = unsubscribes.removeValue(forKey: token) else { return }
        // 3.1.1 has no Reason Codes here.
        let code = unsuback.reasonCodes.first ?? .success
        if code.isError {
            continuation.resume(throwing: MQTTError(refused: code, unsuback.properties))
        } else {
            continuation.resume(
                returning: UnsubscribeOutcome(reasonCode: code, properties: unsuback.properties))
        }
    }

    /// A subscription that the server no longer grants ends: its consumer would wait for ever.
    private func restored(_ subscriptions: [Subscribe.Subscription], _ suback: Suback) {
        for (subscription, code) in zip(subscriptions, suback.reasonCodes) where code.isError {
            let error = MQTTError(refused: code, suback.properties)
            for buffer in router.buffers(for: subscription.topicFilter) { _ = discard(buffer, error) }
            responsesRefused(subscription.topicFilter, error)
        }
    }

    private func failed(_ token: OperationToken, _ error: SessionError) {
        let mqttError: MQTTError
        if error == .disconnected, let lastError {
            mqttError = lastError
        } else {
            mqttError = MQTTError(TransportError(session: error, isEstablished: outcome != nil))
        }
        if requestFailed(token, mqttError) { return }
        if let completion = publishes.removeValue(forKey: token) {
            completion.resolve(.failure(mqttError))
        } else if let request = subscribes.removeValue(forKey: token) {
            for entry in request.entries { _ = discard(entry.buffer, mqttError) }
            request.continuation.resume(throwing: mqttError)
        } else if let continuation = unsubscribes.removeValue(forKey: token) {
            continuation.resume(throwing: mqttError)
        } else if let continuation = reauthentications.removeValue(forKey: token) {
            continuation.resume(throwing: mqttError)
        } else {
            abandonedSubscribes[token] = nil
        }
    }
}

extension VersionNegotiation.Failure {
    /// - Parameter answered: whether any byte came after CONNECT.
    init(_ cause: TransportError, answered: Bool) {
        switch cause.code {
        case .mqttVersionUnsupported: self = .versionRefused
        case .mqttRefused: self = .refused
        case .tcpClosed where !answered, .tcpReset where !answered, .wsClosed where !answered:
            self = .endedWithoutAnswer
        default: self = .other
        }
    }
}

extension ConnectionFailure {
    /// What the cause of a connection's end says about trying again.
    init(ended cause: TransportError, version: ProtocolVersion) {
        guard case .reasonCode(let code, _, _) = cause.evidence else {
            self.init(cause)
            return
        }
        let reason = ReasonCode(rawValue: code)
        switch cause.stage {
        case .mqttConnect: self.init(refusal: reason, version: version)
        case .local, .resolve, .tcp, .proxy, .tls, .webSocket, .established: self.init(disconnect: reason)
        }
    }
}
