/// Operations that no packet has been sent for, in the order in which they were asked for.
///
/// Publishes and requests (SUBSCRIBE, UNSUBSCRIBE) have a queue each, since a used-up send quota holds up
/// the former only [MQTT-3.3.4-8]; their stamps keep the common order otherwise.
struct PendingOperations: Sendable {
    private var publishes = FIFO<PendingPublish>()
    var requests = FIFO<PendingRequest>()
    private(set) var queuedBytes = 0
    private(set) var queuedPublishes = 0
    private var lastStamp: UInt64 = 0
    private var lastToken: UInt64 = 0
    private var tokensRise = true

    mutating func makeStamp() -> UInt64 {
        lastStamp += 1
        return lastStamp
    }

    /// Makes further stamps higher than the given one.
    mutating func raiseStamp(above stamp: UInt64) { lastStamp = max(lastStamp, stamp) }

    /// - Returns: the message's stamp.
    @discardableResult
    mutating func append(_ publish: Publish, token: OperationToken, life: MessageLife) -> UInt64 {
        if publishes.isEmpty { tokensRise = true } else if token.rawValue < lastToken { tokensRise = false }
        lastToken = token.rawValue
        queuedBytes += publish.queuedSize
        queuedPublishes += 1
        let stamp = makeStamp()
        publishes.append(PendingPublish(publish: publish, token: token, stamp: stamp, life: life))
        return stamp
    }

    /// Appends a message that a store kept.
    mutating func restore(_ publish: Publish, stamp: UInt64) {
        let restored = PendingPublish(publish: publish, token: nil, stamp: stamp, life: MessageLife())
        raiseStamp(above: stamp)
        tokensRise = false
        queuedBytes += restored.size
        queuedPublishes += 1
        publishes.append(restored)
    }

    /// Takes out the message with the stamp; the first one costs nothing.
    mutating func remove(stamp: UInt64) -> PendingPublish? {
        guard !publishes.isEmpty else { return nil }
        if publishes[publishes.firstSequence].stamp == stamp { return popPublish() }
        return removePublishes { $0.stamp == stamp }.first
    }

    /// The QoS 1 and 2 messages, in order.
    var lastingPublishes: [PendingPublish] {
        publishes.elements.filter { ($0.publish?.qos ?? .atMostOnce) != .atMostOnce }
    }

    /// The messages stay, and nobody waits for them any more.
    ///
    /// - Returns: who did.
    mutating func disown() -> [OperationToken] {
        tokensRise = false
        var tokens: [OperationToken] = []
        for sequence in publishes.firstSequence..<publishes.endSequence {
            guard publishes[sequence].publish != nil, let token = publishes[sequence].token else { continue }
            tokens.append(token)
            publishes[sequence].token = nil
        }
        return tokens
    }

    /// The queued message of the operation.
    func publish(of token: OperationToken) -> PendingPublish? { sequence(of: token).map { publishes[$0] } }

    /// The place and QoS of the next publish, and whether somebody waits for its outcome.
    var nextPublish: (stamp: UInt64, qos: QoS, isAwaited: Bool)? {
        guard !publishes.isEmpty else { return nil }
        let first = publishes[publishes.firstSequence]
        // Cancelled ones never stay in front.
        return first.publish.map { (first.stamp, $0.qos, first.token != nil) }
    }

    mutating func popPublish() -> PendingPublish? {
        guard let popped = publishes.popFirst() else { return nil }
        uncount(popped)
        dropCancelled()
        return popped
    }

    /// Puts publishes back before all others. Their order is kept.
    mutating func prepend(_ earlier: [PendingPublish]) {
        guard !earlier.isEmpty else { return }
        for publish in earlier {
            queuedBytes += publish.size
            queuedPublishes += 1
        }
        if earlier.contains(where: { $0.token == nil }) { tokensRise = false }
        publishes.replaceAll(with: earlier + publishes.elements)
    }

    /// Puts requests back, by their stamps.
    mutating func putBack(_ earlier: [PendingRequest]) {
        guard !earlier.isEmpty else { return }
        requests.replaceAll(with: (earlier + requests.elements).sorted { $0.stamp < $1.stamp })
    }

    /// Takes out the publishes that the condition names.
    mutating func removePublishes(where condition: (PendingPublish) -> Bool) -> [PendingPublish] {
        var removed: [PendingPublish] = []
        var kept: [PendingPublish] = []
        for publish in publishes.elements where publish.publish != nil {
            if condition(publish) {
                removed.append(publish)
                uncount(publish)
            } else {
                kept.append(publish)
            }
        }
        if !removed.isEmpty { publishes.replaceAll(with: kept) }
        return removed
    }

    /// In milliseconds of the session's time; nil where no message that waits expires.
    var earliestExpiry: Int64? {
        publishes.elements.lazy.filter { $0.publish != nil && $0.life.expiry != 0 }.map(\.life.expiry).min()
    }

    mutating func cancel(_ token: OperationToken) -> Bool {
        if let sequence = sequence(of: token) {
            uncount(publishes[sequence])
            publishes[sequence].publish = nil
            dropCancelled()
            return true
        }
        let kept = requests.elements.filter { $0.token != token }
        guard kept.count < requests.count else { return false }
        requests.replaceAll(with: kept)
        return true
    }

    private mutating func dropCancelled() {
        while !publishes.isEmpty, publishes[publishes.firstSequence].publish == nil {
            _ = publishes.popFirst()
        }
    }

    private mutating func uncount(_ publish: PendingPublish) {
        queuedBytes -= publish.size
        queuedPublishes -= 1
    }

    private func sequence(of token: OperationToken) -> UInt64? {
        guard tokensRise else {
            return (publishes.firstSequence..<publishes.endSequence).first {
                publishes[$0].token == token && publishes[$0].publish != nil
            }
        }
        var low = publishes.firstSequence
        var high = publishes.endSequence
        while low < high {
            let middle = low + (high - low) / 2
            let found = publishes[middle].token
            if found == token { return publishes[middle].publish == nil ? nil : middle }
            if let found, found.rawValue < token.rawValue { low = middle + 1 } else { high = middle }
        }
        return nil
    }
}

struct PendingPublish: Sendable {
    /// nil: cancelled.
    var publish: Publish?
    /// nil when it comes from a store, so that nobody waits for the outcome.
    var token: OperationToken?
    var stamp: UInt64
    var life: MessageLife

    var size: Int { publish?.queuedSize ?? 0 }
}

/// A SUBSCRIBE or UNSUBSCRIBE; it is asked for again on the next connection if no answer came.
struct PendingRequest: Sendable {
    var content: Content
    /// nil when nobody waits for the outcome.
    var token: OperationToken?
    var stamp: UInt64
    /// Whether the machine itself asks for it, since the server has lost the session.
    var isRestoring = false
    /// Whether a server without Subscription Identifiers is asked without one.
    var isIdentifierOptional = false

    enum Content: Sendable {
        case subscribe([Subscribe.Subscription], Properties)
        case unsubscribe([String], Properties)
    }
}
