// Messages that wait to be sent: their bounds, and their expiry.
extension ClientSession {
    /// Queues a message; its packet leaves in `encodePending`.
    package mutating func publish(
        _ publish: Publish, token: OperationToken, terms: PublishTerms = PublishTerms(), now: Instant,
        into output: inout SessionOutput
    ) {
        if phase != .established,
            terms.whileConnected || publish.qos == .atMostOnce && !configuration.queue.keepsAtMostOnce
        {
            output.actions.append(.failed(token, .notConnected))
            return
        }
        if terms.admission != .accepted, !makeRoom(for: publish, terms, into: &output) {
            output.actions.append(.failed(token, .queueFull(waiting: pending.queuedPublishes)))
            return
        }
        var life = MessageLife(endsWithConnection: terms.whileConnected)
        if !publish.properties.isEmpty, let interval = publish.properties.messageExpiryInterval {
            life.expiry = clock.milliseconds(at: now) + Int64(interval) * 1000
            if nextExpiry == 0 || life.expiry < nextExpiry { nextExpiry = life.expiry }
        }
        // A message that mustn't be sent late isn't kept for a later process either.
        guard configuration.durability == .durable, publish.qos != .atMostOnce, !terms.whileConnected else {
            pending.append(publish, token: token, life: life)
            return
        }
        var sample = publish
        sample.packetIdentifier = 1
        do {
            // What can't be written can't be stored either.
            _ = try sample.encodedSize(for: .v5)
        } catch {
            output.actions.append(.failed(token, .notEncodable(error)))
            return
        }
        let stamp = pending.append(publish, token: token, life: life)
        let storedBy = persist(.queued(publish, stamp: stamp), into: &output)
        ledger.accepted.append(PersistenceLedger.Accepted(storedBy: storedBy, token: token))
    }

    /// A message leaves the queue without having been sent.
    mutating func giveUp(
        _ message: PendingPublish, _ qos: QoS?, _ error: SessionError, into output: inout SessionOutput
    ) {
        if isStored(qos ?? .atMostOnce, message.life) {
            _ = persist(.dequeued(stamp: message.stamp), into: &output)
        }
        if let token = message.token { output.actions.append(.failed(token, error)) }
    }

    /// Whether a store keeps such a message.
    func isStored(_ qos: QoS, _ life: MessageLife) -> Bool {
        configuration.durability == .durable && qos != .atMostOnce && !life.endsWithConnection
    }

    /// - Returns: whether there is room now.
    private mutating func makeRoom(
        for publish: Publish, _ terms: PublishTerms, into output: inout SessionOutput
    ) -> Bool {
        if hasRoom(for: publish) { return true }
        switch configuration.queue.overflow {
        case .wait: return terms.admission == .canWait
        case .fail: return false
        case .dropOldest:
            while !hasRoom(for: publish) {
                guard let oldest = pending.popPublish() else { return false }
                giveUp(oldest, oldest.publish?.qos, .droppedForNewer, into: &output)
            }
            return true
        }
    }

    private func hasRoom(for publish: Publish) -> Bool {
        let queue = configuration.queue
        guard pending.queuedPublishes > 0 else { return queue.maximumCount > 0 }
        return pending.queuedPublishes < queue.maximumCount
            && pending.queuedBytes + publish.queuedSize <= queue.maximumBytes
    }

    /// When the next message that waits expires, or earlier.
    var expiryDeadline: Instant? {
        nextExpiry == 0 || pending.queuedPublishes == 0 ? nil : clock.instant(of: nextExpiry)
    }

    /// Gives up what has expired. The interval counts whole seconds, and one sweep a second is enough.
    mutating func expiryDeadlineReached(now: Instant, into output: inout SessionOutput) {
        guard nextExpiry != 0 else { return }
        let time = clock.milliseconds(at: now)
        guard time >= nextExpiry else { return }
        for publish in pending.removePublishes(where: { $0.life.hasExpired(at: time) }) {
            giveUp(publish, publish.publish?.qos, .messageExpired, into: &output)
        }
        nextExpiry = pending.earliestExpiry.map { max($0, time + 1000) } ?? 0
    }

    /// Whether the message may no longer be sent. What is left of its interval is written into it, as a server does
    /// it for its own queue [MQTT-3.3.2-6].
    mutating func hasExpired(_ message: inout Publish, _ life: MessageLife, now: Instant) -> Bool {
        guard life.expiry != 0 else { return false }
        let time = clock.milliseconds(at: now)
        message.properties.messageExpiryInterval = life.remainingSeconds(at: time)
        return life.hasExpired(at: time)
    }

    /// What ends with its connection is given up, as QoS 0 is where it isn't kept.
    mutating func dropEndingWithConnection(into output: inout SessionOutput) {
        let keepsAtMostOnce = configuration.queue.keepsAtMostOnce
        let dropped = pending.removePublishes { message in
            message.life.endsWithConnection || message.publish?.qos == .atMostOnce && !keepsAtMostOnce
        }
        for publish in dropped {
            giveUp(publish, publish.publish?.qos, .connectionLost, into: &output)
        }
    }
}

extension MessageLife {
    /// At least 1, since servers take 0 for no limit.
    fileprivate func remainingSeconds(at time: Int64) -> UInt32 {
        UInt32(clamping: max(1, (expiry - time + 999) / 1000))
    }
}

extension Publish {
    /// Bytes, for the queue's bound and for back-pressure.
    var queuedSize: Int { payload.count + topicName.utf8.count }
}
