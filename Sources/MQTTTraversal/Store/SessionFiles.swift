internal import Glibc
internal import MQTTCore
internal import MQTTTransport

/// The files of a durable store: a lock, and the one segment that changes are appended to.
///
/// Where most of the segment is of no use any more, what is takes its place: a new file is written, named when it is on
/// the disk, and the old one removed. So the segment with the highest number always begins with a whole session.
/// It blocks: not for the loop.
final class SessionFiles {
    struct Problem: Error {
        let text: String
    }

    /// Bytes that a segment may have before it is worth a look at how much of them is in use.
    static let compactionThreshold = 4 << 20

    private let directory: String
    private let fsync: SessionStore.Fsync
    private let clientIdentifier: String
    private let compactionThreshold: Int
    private let lock: Int32
    private var segment: Int32 = -1
    private var number: UInt64 = 0
    private var size = 0
    /// How long the segment was when it was new; 0 for one of an earlier process.
    private var baseSize = 0
    private var lastSync = ContinuousClock.now
    private var hasUnsynced = false
    private var buffer: [UInt8] = []

    /// What the files hold.
    private(set) var session: ClientSession
    /// What was wrong with them.
    private(set) var damage: [String] = []

    /// Takes the directory, and reads what it holds.
    init(
        directory: String, fsync: SessionStore.Fsync, configuration: SessionConfiguration,
        compactionThreshold: Int = SessionFiles.compactionThreshold
    ) throws(Problem) {
        self.directory = directory
        self.fsync = fsync
        self.compactionThreshold = compactionThreshold
        clientIdentifier = configuration.clientIdentifier
        session = ClientSession(configuration: configuration)
        lock = try Self.takeLock(directory)
        // Nothing to give back if this throws but the lock, which goes with it.
        try load()
    }

    deinit {
        if segment >= 0 { Glibc.close(segment) }
        Glibc.close(lock)
    }

    /// Appends changes. When it returns they are as safe as the policy says.
    ///
    /// After it has thrown, nothing more may be appended: a half-written record would hide what comes after it.
    func append(_ changes: [SessionChange]) throws(Problem) {
        buffer.removeAll(keepingCapacity: buffer.capacity <= 1 << 20)
        for change in changes {
            do { try SessionSegment.append(change, to: &buffer) } catch {
                throw Problem(text: "a message that can't be written: \(error)")
            }
            session.restore(change)
        }
        try write(buffer, to: segment, name(number))
        size += buffer.count
        hasUnsynced = true
        switch fsync {
        case .everyBatch: try sync()
        case .interval(let interval): if ContinuousClock.now - lastSync >= interval { try sync() }
        case .never: break
        }
        if size > compactionThreshold, size > 2 * baseSize { try compact() }
    }

    /// Whatever the policy.
    func sync() throws(Problem) {
        guard hasUnsynced else { return }
        guard fdatasync(segment) == 0 else { throw Self.problem("can't be written", name(number)) }
        hasUnsynced = false
        lastSync = .now
    }

    // MARK: Opening

    private static func takeLock(_ directory: String) throws(Problem) -> Int32 {
        if mkdir(directory, 0o700) == 0 {
            try syncDirectory(directory + "/..")
        } else if errno != EEXIST {
            throw problem("can't be made", directory)
        }
        let path = directory + "/lock"
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw problem("can't be opened", path) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let isTaken = errno == EWOULDBLOCK
            let failure = problem("can't be locked", path)
            Glibc.close(descriptor)
            throw isTaken
                ? Problem(text: "the session store \(directory) is in use by another client") : failure
        }
        return descriptor
    }

    private func load() throws(Problem) {
        let names = try fileNames()
        for name in names where name.hasSuffix(".new") { unlink("\(directory)/\(name)") }
        let numbers = names.compactMap(Self.number(of:)).sorted()
        guard let last = numbers.last else { return try compact() }
        number = last
        let bytes = try read(name(last))
        let read: SessionSegment
        do throws(SessionSegment.HeaderProblem) { read = try SessionSegment(bytes) } catch {
            switch error {
            case .damaged: throw Problem(text: "\(name(last)) is damaged in its first bytes, and isn't used")
            case .otherVersion(let version): throw Problem(text: "\(name(last)) has version \(version)")
            }
        }
        guard read.clientIdentifier == clientIdentifier else {
            throw Problem(
                text:
                    "the session store \(directory) is of the client \"\(read.clientIdentifier)\", not of \"\(clientIdentifier)\""
            )
        }
        for change in read.changes { session.restore(change) }
        for old in numbers.dropLast() { unlink(name(old)) }
        guard read.damage.isEmpty else {
            damage = read.damage.map { "\(name(last)): \($0)" }
            // Whoever wants to look at it finds it.
            let isTorn = read.damage.allSatisfy { if case .tornTail = $0 { true } else { false } }
            if !isTorn { _ = link(name(last), name(last) + ".damaged") }
            return try compact()
        }
        segment = Glibc.open(name(last), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW)
        guard segment >= 0 else { throw Self.problem("can't be opened", name(last)) }
        size = bytes.count
        // How much of it is in use isn't known: it is looked at as soon as it is large, or a client that is started
        // often would never let go of anything.
        baseSize = 0
        // The process that wrote it may not have got that far.
        hasUnsynced = true
        try sync()
    }

    private func fileNames() throws(Problem) -> [String] {
        guard let stream = opendir(directory) else { throw Self.problem("can't be read", directory) }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            names.append(name)
        }
        return names
    }

    private func read(_ path: String) throws(Problem) -> [UInt8] {
        guard let file = fopen(path, "re") else { throw Self.problem("can't be read", path) }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = fread(&piece, 1, piece.count, file)
            bytes += piece[..<count]
            if count < piece.count { break }
        }
        guard ferror(file) == 0 else { throw Problem(text: "\(path) can't be read") }
        return bytes
    }

    // MARK: Segments

    /// Whole or not at all, whenever the power goes.
    private func compact() throws(Problem) {
        let next = number + 1
        let temporary = name(next) + ".new"
        let descriptor = Glibc.open(
            temporary, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Self.problem("can't be made", temporary) }
        do throws(Problem) {
            baseSize = try writeSession(to: descriptor, temporary)
            guard Glibc.fsync(descriptor) == 0, rename(temporary, name(next)) == 0 else {
                throw Self.problem("can't be written", temporary)
            }
            try Self.syncDirectory(directory)
        } catch {
            Glibc.close(descriptor)
            unlink(temporary)
            throw error
        }
        if segment >= 0 { Glibc.close(segment) }
        unlink(name(number))
        segment = descriptor
        number = next
        size = baseSize
        hasUnsynced = false
        lastSync = .now
    }

    private func writeSession(to descriptor: Int32, _ path: String) throws(Problem) -> Int {
        var bytes = SessionSegment.header(clientIdentifier: clientIdentifier)
        var written = 0
        for change in session.storedChanges {
            do { try SessionSegment.append(change, to: &bytes) } catch {
                throw Problem(text: "a message that can't be written: \(error)")
            }
            guard bytes.count >= 1 << 20 else { continue }
            try write(bytes, to: descriptor, path)
            written += bytes.count
            bytes.removeAll(keepingCapacity: true)
        }
        try write(bytes, to: descriptor, path)
        return written + bytes.count
    }

    private func write(_ bytes: [UInt8], to descriptor: Int32, _ path: String) throws(Problem) {
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress?.advanced(by: offset), bytes.count - offset)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Self.problem("can't be written", path) }
            offset += count
        }
    }

    private func name(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return "\(directory)/session-\(String(repeating: "0", count: 16 - digits.count))\(digits)"
    }

    private static func number(of name: String) -> UInt64? {
        guard name.hasPrefix("session-"), name.utf8.count == 24 else { return nil }
        return UInt64(name.dropFirst(8), radix: 16)
    }

    private static func syncDirectory(_ path: String) throws(Problem) {
        let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw problem("can't be opened", path) }
        defer { Glibc.close(descriptor) }
        guard Glibc.fsync(descriptor) == 0 else { throw problem("can't be written", path) }
    }

    private static func problem(_ what: String, _ path: String) -> Problem {
        Problem(text: "\(path) \(what): \(String(cString: strerror(errno)))")
    }
}
