internal import Glibc

/// Which way of an automatic profile got through last, on which network, so that it is tried first there the next time.
///
/// A way is forgotten after its lifetime, after an attempt in which all ways failed, and when another gets through. On
/// another network (other gateways, prefixes or name servers) nothing of it counts. The ways that aren't remembered
/// still follow, after the ladder's stagger.
///
/// ```swift
/// configuration.routeMemory = RouteMemory(file: "/var/lib/sensor/routes")   // for programs that start often
/// ```
public final class RouteMemory: Sendable {
    /// What all clients of this process share by default.
    public static let shared = RouteMemory()

    /// Names no host, and no network but by digests.
    struct Key: Sendable, Hashable {
        let network: NetworkFingerprint
        let host: String
    }

    /// What came of a way.
    struct Entry: Sendable, Hashable {
        let way: String
        /// Seconds since 1970.
        let time: Int64
    }

    private struct State {
        var entries: [Key: Entry] = [:]
        var problem: String?
    }

    private static let capacity = 256

    private let state = Lock(State())
    /// Taken before `state`.
    private let fileAccess = Lock(())
    private let file: RouteMemoryFile?
    private let lifetime: Int64
    private let clock: @Sendable () -> Int64

    /// A memory that ends with the process.
    ///
    /// - Parameter lifetime: how long a way is preferred; a day by default, so that a better one that was blocked gets
    ///   its chance again.
    public convenience init(lifetime: Duration = .seconds(86_400)) {
        self.init(file: nil, lifetime: lifetime, clock: Self.now)
    }

    /// A memory in a file, readable by its owner alone.
    ///
    /// A file that can't be read, or that isn't one of these, is passed over and written anew; `problem` then says
    /// what was wrong. Reads the file, so not from a thread that mustn't wait for a disk.
    ///
    /// - Parameters:
    ///   - file: its path; several processes may share it.
    ///   - lifetime: as of `init(lifetime:)`.
    public convenience init(file: String, lifetime: Duration = .seconds(86_400)) {
        self.init(file: RouteMemoryFile(path: file), lifetime: lifetime, clock: Self.now)
    }

    /// - Parameter clock: the seconds since 1970.
    init(file: RouteMemoryFile?, lifetime: Duration, clock: @escaping @Sendable () -> Int64) {
        self.file = file
        self.lifetime = max(0, lifetime.components.seconds)
        self.clock = clock
        guard let file else { return }
        do throws(RouteMemoryFile.Problem) {
            let entries = try file.read()
            state.withLock { $0.entries = entries }
        } catch {
            state.withLock { $0.problem = error.description }
        }
    }

    /// What is wrong with the file, in one sentence; nil where nothing is.
    public var problem: String? { state.withLock { $0.problem } }

    /// Forgets everything, in the file too.
    public func forgetAll() {
        update { $0 = [:] }
    }

    /// The ways with the one to be preferred first.
    package func ordered(
        _ ways: [ConnectionProfile], host: String, on network: NetworkFingerprint
    ) -> [ConnectionProfile] {
        let key = Key(network: network, host: host)
        let now = clock()
        guard let entry = state.withLock({ $0.entries[key] }), isFresh(entry, now),
            let index = ways.firstIndex(where: { Self.name($0) == entry.way })
        else { return ways }
        var ways = ways
        ways.insert(ways.remove(at: index), at: 0)
        return ways
    }

    /// This way has got through. Writes the file: not for the loop.
    package func succeeded(_ way: ConnectionProfile, host: String, on network: NetworkFingerprint) {
        let key = Key(network: network, host: host)
        let entry = Entry(way: Self.name(way), time: clock())
        // Not renewed: the better ways get their chance when the lifetime is over, however often this one is used.
        if let known = state.withLock({ $0.entries[key] }), known.way == entry.way, isFresh(known, entry.time)
        {
            return
        }
        update { $0[key] = entry }
    }

    /// No way has got through. Writes the file: not for the loop.
    package func failed(host: String, on network: NetworkFingerprint) {
        let key = Key(network: network, host: host)
        if state.withLock({ $0.entries[key] == nil }) { return }
        update { $0[key] = nil }
    }

    private func update(_ change: (inout [Key: Entry]) -> Void) {
        let now = clock()
        // The state is free meanwhile: a loop that asks for it mustn't wait for a disk.
        fileAccess.withLock { _ in
            // What other processes have learned since stays in the file.
            let stored = file.flatMap { try? $0.read() }
            let entries = state.withLock { state in
                if let stored { state.entries = stored }
                change(&state.entries)
                state.entries = state.entries.filter { isFresh($0.value, now) }
                while state.entries.count > Self.capacity {
                    guard let oldest = state.entries.min(by: { $0.value.time < $1.value.time }) else { break }
                    state.entries[oldest.key] = nil
                }
                return state.entries
            }
            guard let file else { return }
            var problem: String?
            do throws(RouteMemoryFile.Problem) { try file.write(entries) } catch {
                problem = error.description
            }
            state.withLock { [problem] in $0.problem = problem }
        }
    }

    /// One from the future was written while the clock was wrong.
    private func isFresh(_ entry: Entry, _ now: Int64) -> Bool {
        // A difference of times that a file holds may be beyond all measure.
        entry.time <= now && entry.time > now - lifetime
    }

    /// A way as far as it differs from the others of its ladder; holds no credentials.
    private static func name(_ way: ConnectionProfile) -> String {
        let protocols = (way.tls?.applicationProtocols ?? []).joined(separator: ",")
        let kind: String =
            switch way.transport {
            case .tcp: "tcp"
            case .tls: "tls"
            case .webSocket(let options): "ws \(options.shownPath)"
            case .webSocketSecure(_, let options): "wss \(options.shownPath)"
            case .automatic: "auto"
            }
        let text = [kind, "\(way.port)", protocols, way.proxy.map { "\($0)" } ?? ""].joined(separator: " ")
        // A protocol's name may hold anything, and a line of the file can't.
        return String(text.map { $0.isNewline || $0 == "\t" ? "?" : $0 })
    }

    private static func now() -> Int64 { Int64(time(nil)) }
}
