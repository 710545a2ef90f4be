import Foundation
import Glibc
import MQTTTransport

/// A shell that starts a broker or a proxy when told so, and ends it when this process is gone.
///
/// It notices by the end of its standard input, which the kernel brings about however the process dies.
final class Supervisor: Sendable {
    // First of all it closes what it has inherited: Foundation's Process hears of a child's end by a socket that any
    // process spawned meanwhile holds too, and one that lives on, as this one does, would keep it from being heard.
    private static let script = """
        for descriptor in /proc/$$/fd/*; do
            case ${descriptor##*/} in
            0 | 1 | 2 | 255) ;;
            *) eval "exec ${descriptor##*/}>&-" ;;
            esac
        done
        trap '' HUP INT TERM
        pid=
        while read command; do
            if [ -n "$pid" ]; then wait $pid 2>/dev/null; fi
            setsid /bin/bash "$1/start" </dev/null >"$1/output" 2>&1 &
            pid=$!
            echo $pid
        done
        if [ -n "$pid" ]; then kill -9 -- -$pid $pid 2>/dev/null; wait $pid 2>/dev/null; fi
        if [ -e "$1/stop" ]; then /bin/bash "$1/stop" </dev/null >/dev/null 2>&1; fi
        rm -rf "$1"
        """

    /// Both ways to the shell.
    private let channel: Int32
    private let shell: pid_t

    /// - Parameter directory: the broker's own, which goes with the broker; the script `start` in it starts one, in a
    ///   process group of its own. The script `stop`, where there is one, clears away what isn't a process, at the end.
    init(directory: String) throws {
        var ends: [Int32] = [-1, -1]
        // Closed by exec from the start: a broker started meanwhile must not hold it open.
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0, &ends) == 0 else {
            throw BrokerFailure("no socket pair: \(String(cString: strerror(errno)))")
        }
        channel = ends[0]
        defer { close(ends[1]) }
        shell = try Self.spawn(
            ["/bin/bash", "-c", Self.script, "supervisor", directory],
            ProcessInfo.processInfo.environment, .channel(ends[1]))
    }

    /// Its broker ends with it.
    deinit {
        close(channel)
        var status: Int32 = 0
        while waitpid(shell, &status, 0) < 0, errno == EINTR {}
    }

    /// Starts the broker once the last one has ended.
    ///
    /// - Returns: its process.
    func start() throws -> pid_t {
        guard write(channel, "start\n", 6) == 6 else { throw BrokerFailure("the supervisor is gone") }
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while read(channel, &byte, 1) == 1, byte != 10 { line.append(byte) }
        guard let started = pid_t(String(decoding: line, as: UTF8.self)) else {
            throw BrokerFailure("the supervisor is gone")
        }
        return started
    }

    /// Whether a process runs; one that only waits to be collected doesn't.
    static func isAlive(_ process: pid_t) -> Bool {
        guard let stat = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8),
            let name = stat.lastIndex(of: ")")
        else { return false }
        return !stat[name...].dropFirst(2).hasPrefix("Z")
    }

    /// Runs a program to its end.
    static func run(_ arguments: [String]) throws {
        let status = try end(of: spawn(arguments, ProcessInfo.processInfo.environment, .discarded))
        guard status == 0 else { throw BrokerFailure("\(arguments[0]) ended with status \(status)") }
    }

    /// Runs a program to its end, its output in a file; kills it when patience ends.
    static func run(
        _ arguments: [String], environment: [String: String], output: String, within limit: Duration
    ) async throws {
        let process = try spawn(arguments, environment, .file(output))
        do {
            try await eventually("the end of \(arguments)", within: limit) { !isAlive(process) }
        } catch {
            kill(process, SIGKILL)
            _ = end(of: process)
            throw error
        }
        _ = end(of: process)
    }

    private static func end(of process: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return status
    }

    /// Where a program's output goes.
    private enum Output {
        /// Its input comes from there, too.
        case channel(Int32)
        /// That of errors with it.
        case file(String)
        case discarded
    }

    private static func spawn(
        _ arguments: [String], _ environment: [String: String], _ output: Output
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        switch output {
        case .channel(let channel):
            posix_spawn_file_actions_adddup2(&actions, channel, 0)
            posix_spawn_file_actions_adddup2(&actions, channel, 1)
        case .file(let path):
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
            posix_spawn_file_actions_addopen(&actions, 1, path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
            posix_spawn_file_actions_adddup2(&actions, 1, 2)
        case .discarded:
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
            posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        }
        // Threads of a pool block all signals, and a shell that inherits that never hears of its children.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        var flags = POSIX_SPAWN_SETSIGMASK
        // Whoever kills this process with all of its group mustn't kill the one that clears away after it.
        if case .channel = output { flags |= POSIX_SPAWN_SETPGROUP }
        posix_spawnattr_setflags(&attributes, Int16(flags))
        var argv = arguments.map { strdup($0) } + [nil]
        var variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for string in argv + variables { free(string) } }
        var process: pid_t = 0
        let result = posix_spawn(&process, arguments[0], &actions, &attributes, &argv, &variables)
        guard result == 0 else {
            throw BrokerFailure("\(arguments[0]): \(String(cString: strerror(result)))")
        }
        return process
    }
}

/// Ports of 127.0.0.1 that nobody uses right now.
enum FreePorts {
    static func choose(_ count: Int) throws -> [UInt16] {
        // All are held at once, so that they differ.
        let sockets = try (0..<count).map { _ in try bound() }
        defer { for (descriptor, _) in sockets { close(descriptor) } }
        return sockets.map(\.port)
    }

    /// Whether somebody listens at a port.
    static func accepts(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
        defer { close(descriptor) }
        return withAddress(port) { connect(descriptor, $0, $1) } == 0
    }

    private static func bound() throws -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | O_CLOEXEC, 0)
        guard withAddress(0, { bind(descriptor, $0, $1) }) == 0,
            let address = SocketAddress(boundTo: descriptor)
        else { throw BrokerFailure("no free port: \(String(cString: strerror(errno)))") }
        return (descriptor, address.port)
    }

    private static func withAddress(
        _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
