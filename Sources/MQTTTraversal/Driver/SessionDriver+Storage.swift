// The session's store: open from `connect()` until the client has ended.

extension SessionDriver {
    enum Storage {
        case memory
        case closed
        /// What callers ask for stays in the inbox.
        case opening
        case open(SessionJournal)
        /// As well.
        case closing

        /// Whether callers' operations are taken.
        var isReady: Bool {
            switch self {
            case .memory, .closed, .open: true
            case .opening, .closing: false
            }
        }
    }

    /// Opens the store, where that comes before connecting.
    ///
    /// - Returns: whether it has to be waited for.
    func openStorage() -> Bool {
        guard case .closed = storage, case .directory(let directory, let fsync) = configuration.sessionStore
        else {
            return false
        }
        storage = .opening
        let bound = LoopBound(WeakDriver(driver: self), on: loop)
        let journal = SessionJournal(
            owner: SessionJournal.Owner(
                opened: { journal, result in
                    bound.execute { weak in
                        guard let driver = weak.driver else { return journal.close {} }
                        driver.storageOpened(journal, result)
                    }
                },
                stored: { journal, token in bound.execute { $0.driver?.stored(token, by: journal) } },
                failed: { journal, error in bound.execute { $0.driver?.storageFailed(error, of: journal) } }))
        journal.open(directory, fsync: fsync, initialSession)
        return true
    }

    private func storageOpened(
        _ journal: SessionJournal, _ result: Result<SessionJournal.Restored, MQTTError>
    ) {
        do throws(MQTTError) {
            let restored = try result.get()
            try takeIn(restored)
            storage = .open(journal)
            if !connectsAfterEnd.isEmpty { connectAfterEnd() }
            performTaken()
            // More may have come meanwhile.
            drainInbox()
        } catch {
            storage = .closing
            events.enter(.ended(error), now: loop.now)
            failConnects(&connectsAfterEnd, with: error)
            failTakenConnects(with: error)
            journal.close { [bound = LoopBound(WeakDriver(driver: self), on: loop)] in
                bound.execute { $0.driver?.storageClosed() }
            }
        }
    }

    /// What was taken out of the inbox.
    func performTaken() {
        for operation in operations { perform(operation) }
        operations.removeAll(keepingCapacity: operations.capacity <= 4096)
        scheduleTurnEnd()
    }

    private func failTakenConnects(with error: MQTTError) {
        operations.removeAll { operation in
            guard case .connect(_, let continuation) = operation else { return false }
            continuation.resume(throwing: error)
            return true
        }
        for operation in operations { perform(operation) }
        operations = []
    }

    private func takeIn(_ restored: SessionJournal.Restored) throws(MQTTError) {
        for damage in restored.damage { configuration.report(.error, .sessionStoreDamaged(damage)) }
        session = restored.session
        output.removeAll()
        guard session.resumeStored() else {
            negotiation = configuration.versionNegotiation(for: profile, now: loop.now)
            session.speak(negotiation.version)
            return
        }
        let version = session.configuration.version
        let fixed = configuration.version
        guard fixed == .automatic || fixed == ClientConfiguration.Version(version) else {
            throw MQTTError(
                .clientInvalidArgument,
                "the stored session is of another version of MQTT than the configuration names")
        }
        negotiation = VersionNegotiation(fixed: version)
    }

    /// A change that must not be lost, and what waits for it.
    func persist(_ token: PersistenceToken, _ change: SessionChange) {
        switch storage {
        case .memory: session.persisted(token, now: loop.now, into: &output)
        case .open:
            changes.append(change)
            lastChange = token
        // The session of an end that was reached: it is read anew from the disk.
        case .closed, .opening, .closing: break
        }
    }

    /// Hands this turn's changes over, together.
    func submitChanges() {
        guard case .open(let journal) = storage, let last = lastChange else { return }
        journal.append(changes, last: last)
        changes = []
        lastChange = nil
        guard case .directory(_, .interval(let interval)) = configuration.sessionStore, !isSyncScheduled
        else { return }
        isSyncScheduled = true
        _ = loop.schedule(at: loop.now + interval) { [weak self] in
            guard let self else { return }
            isSyncScheduled = false
            if case .open(let journal) = storage { journal.sync() }
        }
    }

    private func stored(_ token: PersistenceToken, by journal: SessionJournal) {
        guard case .open(let present) = storage, present === journal else { return }
        session.persisted(token, now: loop.now, into: &output)
        scheduleTurnEnd()
    }

    /// What isn't stored isn't sent, and who waits for it is told: that ends the client.
    private func storageFailed(_ error: MQTTError, of journal: SessionJournal) {
        guard case .open(let present) = storage, present === journal else { return }
        lastError = error
        let command = lifecycle.fail()
        dropLink(keepsSession: false)
        lastError = error
        perform(command)
    }

    /// After the client's end: the directory is given back before `disconnect()` returns.
    func closeStorage() {
        switch storage {
        case .memory, .closed: storageIsClosed()
        case .opening, .closing: break
        case .open(let journal):
            submitChanges()
            storage = .closing
            // Held until then, or nobody would be told.
            let bound = LoopBound(self, on: loop)
            journal.close { bound.execute { $0.storageClosed() } }
        }
    }

    private func storageClosed() {
        storage = .closed
        storageIsClosed()
        drainInbox()
    }

    private func storageIsClosed() {
        resumeDisconnects()
        resumeSuspensions()
        guard !connectsAfterEnd.isEmpty, !openStorage() else { return }
        connectAfterEnd()
    }

    private func connectAfterEnd() {
        connects = connectsAfterEnd
        connectsAfterEnd = [:]
        perform(lifecycle.connect())
    }
}
