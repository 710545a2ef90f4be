internal import MQTTCore
internal import MQTTTransport

/// Keeps a session's changes in files, on a thread of its own: what comes while one batch is written makes the next.
final class SessionJournal: Sendable {
    /// Called on the journal's thread.
    struct Owner: Sendable {
        var opened: @Sendable (SessionJournal, Result<Restored, MQTTError>) -> Void
        /// This change and all before it are stored.
        var stored: @Sendable (SessionJournal, PersistenceToken) -> Void
        /// Nothing more is stored. Told once.
        var failed: @Sendable (SessionJournal, MQTTError) -> Void
    }

    struct Restored: Sendable {
        var session: ClientSession
        /// What was wrong with the files, in words.
        var damage: [String]
    }

    private struct Inbox {
        var changes: [SessionChange] = []
        var last: PersistenceToken?
        var mustSync = false
        var isScheduled = false
        var hasFailed = false
    }

    private let thread = WorkThread(name: "mqtt-store")
    private let inbox = Lock(Inbox())
    /// Held while a batch is written: for the thread only.
    private let files = Lock<SessionFiles?>(nil)
    private let owner: Owner

    init(owner: Owner) { self.owner = owner }

    func open(_ directory: String, fsync: SessionStore.Fsync, _ configuration: SessionConfiguration) {
        run { [self] in
            let result: Result<Restored, MQTTError> = files.withLock { files in
                do throws(SessionFiles.Problem) {
                    let opened = try SessionFiles(
                        directory: directory, fsync: fsync, configuration: configuration)
                    files = opened
                    return .success(Restored(session: opened.session, damage: opened.damage))
                } catch {
                    return .failure(Self.error(error))
                }
            }
            owner.opened(self, result)
        }
    }

    func append(_ changes: [SessionChange], last: PersistenceToken) {
        schedule { inbox in
            inbox.changes += changes
            inbox.last = last
        }
    }

    /// Tells the disk to keep what was written.
    func sync() { schedule { $0.mustSync = true } }

    /// Gives the directory back, after everything that was appended.
    func close(_ done: @escaping @Sendable () -> Void) {
        sync()
        run { [self] in
            files.withLock { $0 = nil }
            done()
        }
    }

    private func schedule(_ change: (inout Inbox) -> Void) {
        let mustRun = inbox.withLock { inbox in
            if inbox.hasFailed { return false }
            change(&inbox)
            defer { inbox.isScheduled = true }
            return !inbox.isScheduled
        }
        if mustRun { run { [self] in writeAll() } }
    }

    private func writeAll() {
        while let batch = nextBatch() {
            do throws(SessionFiles.Problem) {
                try files.withLock { files throws(SessionFiles.Problem) in
                    guard let files else { return }
                    if !batch.changes.isEmpty { try files.append(batch.changes) }
                    if batch.mustSync { try files.sync() }
                }
            } catch {
                return fail(Self.error(error))
            }
            if let last = batch.last { owner.stored(self, last) }
        }
    }

    private func nextBatch() -> Inbox? {
        inbox.withLock { inbox in
            guard !inbox.hasFailed, inbox.last != nil || inbox.mustSync else {
                inbox.isScheduled = false
                return nil
            }
            let batch = inbox
            inbox = Inbox(isScheduled: true)
            return batch
        }
    }

    private func fail(_ error: MQTTError) {
        let isFirst = inbox.withLock { inbox in
            defer { inbox = Inbox(hasFailed: true) }
            return !inbox.hasFailed
        }
        if isFirst { owner.failed(self, error) }
    }

    private func run(_ work: @escaping @Sendable () -> Void) {
        if thread.run(work) { return }
        // Better late than never: what is promised to the caller doesn't depend on threads being there.
        fail(MQTTError(.clientStorageFailed, "there is no thread for the session store"))
        work()
    }

    private static func error(_ problem: SessionFiles.Problem) -> MQTTError {
        MQTTError(.clientStorageFailed, problem.text)
    }
}
