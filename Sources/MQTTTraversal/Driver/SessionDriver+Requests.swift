// Request/Response (MQTT 5.0, section 4.10): one topic for all answers of this client.

/// What the driver keeps of requests.
struct Requests {
    enum ResponseTopic {
        case none
        /// SUBACK is awaited: an answer mustn't come before there is a subscription.
        case subscribing(String, OperationToken)
        case subscribed(String)
    }

    var topic = ResponseTopic.none
    /// Not handed to the session yet, since SUBACK is awaited.
    var unsent: [(token: OperationToken, publish: Publish)] = []
    var table = RequestTable()
    var continuations: [OperationToken: UnsafeContinuation<Message, any Error>] = [:]
}

extension SessionDriver {
    func request(
        _ publish: Publish, timeout: Duration, _ token: OperationToken,
        _ continuation: UnsafeContinuation<Message, any Error>
    ) {
        if let refusal { return continuation.resume(throwing: refusal) }
        guard negotiation.version == .v5 else { return continuation.resume(throwing: requiresVersion5) }
        var publish = publish
        let correlation = loop.random.bytes(16)
        publish.properties.correlationData = correlation
        if case .none = requests.topic {
            do throws(MQTTError) { try subscribeToResponses() } catch {
                return continuation.resume(throwing: error)
            }
        }
        requests.continuations[token] = continuation
        requests.table.insert(token, correlation: correlation, deadline: loop.now + timeout)
        switch requests.topic {
        case .none: break
        case .subscribing: requests.unsent.append((token, publish))
        case .subscribed(let topic): send(publish, answeredAt: topic, token)
        }
    }

    var requiresVersion5: MQTTError {
        MQTTError(.clientInvalidArgument, "requests need MQTT 5.0, and the connection speaks 3.1.1")
    }

    /// - Throws: `mqtt.protocol_error` where the server's Response Information makes no topic.
    private func subscribeToResponses() throws(MQTTError) {
        // The server's part of the topic tree, where it was asked for and named one (section 3.2.2.3.15).
        let prefix = responseInformation ?? configuration.responseTopicPrefix
        let digits = loop.random.bytes(16).map { byte in
            let text = String(byte, radix: 16)
            return byte < 16 ? "0" + text : text
        }
        let topic = prefix + (prefix.hasSuffix("/") ? "" : "/") + digits.joined()
        do { _ = try TopicName(topic) } catch {
            throw MQTTError(
                .mqttProtocolError, stage: .established, "the Response Information \"\(prefix)\": \(error)")
        }
        let token = inbox.makeToken()
        requests.topic = .subscribing(topic, token)
        session.subscribe(
            [Subscribe.Subscription(topicFilter: topic, options: SubscriptionOptions(qos: .atLeastOnce))],
            token: token, now: loop.now, into: &output)
    }

    private func send(_ publish: Publish, answeredAt topic: String, _ token: OperationToken) {
        var publish = publish
        publish.properties.responseTopic = topic
        session.publish(
            publish, token: token, terms: PublishTerms(admission: .canWait), now: loop.now, into: &output)
    }

    /// - Returns: whether the SUBACK was for the responses' topic.
    func responsesSubscribed(_ token: OperationToken, _ suback: Suback) -> Bool {
        guard case .subscribing(let topic, token) = requests.topic else { return false }
        if let code = suback.reasonCodes.first, code.isError {
            failRequests(with: MQTTError(refused: code, suback.properties))
        } else {
            requests.topic = .subscribed(topic)
            let unsent = requests.unsent
            requests.unsent = []
            for (token, publish) in unsent where requests.table.contains(token) {
                send(publish, answeredAt: topic, token)
            }
        }
        return true
    }

    /// The server doesn't grant the topic of the responses any more.
    func responsesRefused(_ topicFilter: String, _ error: MQTTError) {
        guard case .subscribed(let topic) = requests.topic, topic == topicFilter else { return }
        failRequests(with: error)
    }

    /// Takes a message that came to the topic of the responses.
    ///
    /// - Returns: whether it did.
    func takeResponse(_ publish: Publish) -> Bool {
        let topic: String
        switch requests.topic {
        case .none: return false
        case .subscribing(let subscribing, _): topic = subscribing
        case .subscribed(let subscribed): topic = subscribed
        }
        guard publish.topicName.utf8.count == topic.utf8.count, publish.topicName == topic else {
            return false
        }
        let answered = publish.properties.correlationData.flatMap { requests.table.answer($0) }
        if let answered, let continuation = requests.continuations.removeValue(forKey: answered) {
            continuation.resume(returning: Message(publish))
        } else {
            configuration.report(.info, .lateResponse(topic: topic))
        }
        return true
    }

    /// - Returns: whether the publish was that of a request.
    func requestPublished(_ token: OperationToken, _ code: ReasonCode, _ properties: Properties) -> Bool {
        guard requests.table.contains(token) else { return false }
        if code.isError {
            failRequest(token, MQTTError(refused: code, properties))
        } else if code == .noMatchingSubscribers {
            failRequest(
                token, MQTTError(.mqttNoResponder, stage: .established, "nobody subscribes to the topic"))
        }
        return true
    }

    /// - Returns: whether the operation was that of requests.
    func requestFailed(_ token: OperationToken, _ error: MQTTError) -> Bool {
        if case .subscribing(_, token) = requests.topic {
            failRequests(with: error)
            return true
        }
        guard requests.table.contains(token) else { return false }
        failRequest(token, error)
        return true
    }

    /// - Returns: whether the task was waiting for an answer.
    func cancelRequest(_ token: OperationToken) -> Bool {
        guard requests.table.contains(token) else { return false }
        failRequest(token, CancellationError())
        return true
    }

    func expireRequests() {
        for token in requests.table.expire(now: loop.now) {
            failRequest(
                token, MQTTError(.mqttRequestTimeout, stage: .established, "no answer came in time"))
        }
    }

    func failRequests(with error: MQTTError) {
        requests.topic = .none
        requests.unsent = []
        requests.table.removeAll()
        let waiting = requests.continuations
        requests.continuations = [:]
        for (token, continuation) in waiting {
            _ = session.cancel(token, into: &output)
            continuation.resume(throwing: error)
        }
    }

    private func failRequest(_ token: OperationToken, _ error: any Error) {
        requests.table.remove(token)
        // Taken back if it hasn't been sent.
        _ = session.cancel(token, into: &output)
        requests.continuations.removeValue(forKey: token)?.resume(throwing: error)
    }

    private var responseInformation: String? {
        outcome?.properties.responseInformation.flatMap { $0.isEmpty ? nil : $0 }
    }
}
