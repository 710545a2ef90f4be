/// Where a client keeps what has to outlive a connection (section 4.1).
public enum SessionStore: Sendable, Hashable {
    /// With the client; gone with the process.
    case memory
    /// In files of this directory, which belongs to one client at a time: QoS 1 and 2 messages that were accepted,
    /// packet identifiers, QoS 2 state and subscriptions survive the end of the process, and as `fsync` says a loss of
    /// power too. Made with access for its owner only where it isn't there; its parent has to exist.
    ///
    /// The store is open from `connect()` until the client has ended, and each of both may fail or take its time by
    /// the disk's. Where it can't be opened, read or written, calls fail with `client.storage_failed`.
    case directory(String, fsync: Fsync = .everyBatch)

    /// When the disk is told to keep for good what was written.
    public enum Fsync: Sendable, Hashable {
        /// Before anything counts as stored. Changes that come meanwhile share the next one.
        case everyBatch
        /// At most so long after it was written, above zero. What counts as stored survives the end of the process, and
        /// a loss of power that comes later than that.
        case interval(Duration)
        /// When the system likes, and at the end. What counts as stored survives the end of the process only.
        case never
    }
}
