// What callers ask for, handed to the machines.

extension SessionDriver {
    func perform(_ operation: ClientInbox.Operation) {
        switch operation {
        case .connect(let token, let continuation): connect(token, continuation)
        case .publish(let publish, let token, let completion, let whileConnected):
            self.publish(publish, token, completion, whileConnected: whileConnected)
        case .cancel(let token): cancel(token)
        case .subscribe(let request): subscribe(request)
        case .unsubscribe(let buffer, let token, let continuation): unsubscribe(buffer, token, continuation)
        case .roomMade(let buffer):
            router.admitWithheld(of: buffer) { session.acknowledge($0, into: &output) }
        case .acknowledge(let token):
            if router.takeShare(token) { session.acknowledge(token, into: &output) }
        case .request(let publish, let timeout, let token, let continuation):
            request(publish, timeout: timeout, token, continuation)
        case .reauthenticate(let timeout, let token, let continuation):
            reauthenticate(timeout, token, continuation)
        case .networkChanged: networkChanged()
        case .suspend(let continuation): suspend(continuation)
        case .drain(let limit, let continuation): drain(within: limit, continuation)
        case .disconnect(let continuation):
            if let continuation { disconnects.append(continuation) }
            failConnects(&connectsAfterEnd, with: disconnectedByCall)
            let command = lifecycle.disconnect()
            if command == nil, case .ended = lifecycle.phase { resumeDisconnects() }
            perform(command)
        }
    }

    private func connect(
        _ token: OperationToken, _ continuation: UnsafeContinuation<ConnectOutcome, any Error>
    ) {
        if drain != nil {
            connectsAfterEnd[token] = continuation
            return
        }
        switch lifecycle.phase {
        case .connected:
            if let outcome { continuation.resume(returning: outcome) } else { connects[token] = continuation }
        case .disconnecting: connectsAfterEnd[token] = continuation
        // Goes on from there.
        case .suspending: connects[token] = continuation
        case .idle, .connecting, .waiting, .suspended, .ended:
            connects[token] = continuation
            // Somebody may have mended it.
            refusals = [:]
            refusedLogin = nil
            takeovers = TakeoverSuspicion()
            watchNetwork()
            perform(lifecycle.connect())
        }
    }

    private func publish(
        _ publish: Publish, _ token: OperationToken, _ completion: ClientInbox.PublishCompletion,
        whileConnected: Bool
    ) {
        if let refusal {
            completion.resolve(.failure(refusal))
            return
        }
        let admission: PublishTerms.Admission
        switch completion {
        case .none: admission = .accepted
        case .continuation: admission = .canWait
        case .receipt: admission = .cannotWait
        }
        if admission != .accepted { publishes[token] = completion }
        session.publish(
            publish, token: token,
            terms: PublishTerms(whileConnected: whileConnected, admission: admission), now: loop.now,
            into: &output)
    }

    private func cancel(_ token: OperationToken) {
        if cancelRequest(token) { return }
        if let continuation = connects.removeValue(forKey: token) {
            continuation.resume(throwing: CancellationError())
            // Nobody waits for this attempt any more. A reconnect serves others than those who joined it.
            if connects.isEmpty, lifecycle.isFirstAttempt { perform(lifecycle.disconnect()) }
        } else if let continuation = connectsAfterEnd.removeValue(forKey: token) {
            continuation.resume(throwing: CancellationError())
        } else if let continuation = unsubscribes.removeValue(forKey: token) {
            continuation.resume(throwing: CancellationError())
        } else if let continuation = reauthentications.removeValue(forKey: token) {
            // The exchange goes on: half of one would end the connection.
            continuation.resume(throwing: CancellationError())
        } else if let request = subscribes.removeValue(forKey: token) {
            for entry in request.entries { _ = discard(entry.buffer, nil) }
            if !session.cancel(token, into: &output) {
                abandonedSubscribes[token] = request.entries.map(\.filter)
            }
            request.continuation.resume(throwing: CancellationError())
        } else if case .continuation(let continuation)? = publishes.removeValue(forKey: token) {
            // On the wire it stays there: the identifier is taken until the server answers, and the message may
            // arrive. The caller is told at once either way.
            _ = session.cancel(token, into: &output)
            continuation.resume(throwing: CancellationError())
        }
    }

    private func subscribe(_ request: ClientInbox.SubscribeRequest) {
        if let refusal {
            request.continuation.resume(throwing: refusal)
            return
        }
        // From the SUBSCRIBE on, since retained messages can overtake the SUBACK.
        let identifier =
            negotiation.version == .v5 ? router.identifier(for: request.entries.map(\.filter)) : nil
        for entry in request.entries {
            router.insert(entry.buffer, for: entry.filter, identifier: identifier)
        }
        subscribes[request.token] = request
        session.subscribe(
            request.entries.map {
                Subscribe.Subscription(topicFilter: $0.filter.string, options: $0.options)
            },
            subscriptionIdentifier: identifier, isIdentifierOptional: true, properties: request.properties,
            token: request.token, now: loop.now, into: &output)
    }

    private func unsubscribe(
        _ buffer: MessageBuffer, _ token: OperationToken,
        _ continuation: UnsafeContinuation<UnsubscribeOutcome, any Error>?
    ) {
        if continuation == nil {
            // Let go of.
            buffer.releaseUntaken { if router.takeShare($0) { session.acknowledge($0, into: &output) } }
        }
        guard let (filter, wasLast) = discard(buffer, nil), wasLast else {
            continuation?.resume(
                returning: UnsubscribeOutcome(reasonCode: .success, properties: Properties()))
            return
        }
        unsubscribes[token] = continuation
        session.unsubscribe([filter.string], token: token, now: loop.now, into: &output)
    }

    /// Ends a buffer; what it held back holds up nothing any more.
    func discard(_ buffer: MessageBuffer, _ error: MQTTError?) -> (filter: TopicFilter, wasLast: Bool)? {
        buffer.end(error)
        let removed = router.remove(buffer) { session.acknowledge($0, into: &output) }
        router.admitWithheld(of: buffer) { session.acknowledge($0, into: &output) }
        return removed
    }

    /// Why nothing new is taken now.
    var refusal: MQTTError? {
        if drain != nil { return disconnectedByCall }
        return switch lifecycle.phase {
        case .idle, .ended, .disconnecting: notConnected
        case .connecting, .connected, .waiting, .suspending, .suspended: nil
        }
    }

    var disconnectedByCall: MQTTError { MQTTError(.clientDisconnected, "disconnect() was called") }
    var notConnected: MQTTError { MQTTError(.clientNotConnected, "there is no connection") }
}

extension ClientInbox.PublishCompletion {
    func resolve(_ result: Result<PublishOutcome, MQTTError>) {
        switch self {
        case .continuation(let continuation): continuation.resume(with: result.mapError { $0 as any Error })
        case .receipt(let receipt): receipt.resolve(result)
        case .none: break
        }
    }
}
