import Glibc

/// A publisher with a session store, as a process of its own that is killed at a random point.
enum CrashingPublisher {
    /// Runs it and kills it; blocks.
    ///
    /// - Parameters:
    ///   - lines: kill it after so many lines of its output, in the midst of its work; nil lets it end by itself.
    ///   - delay: and so many microseconds more.
    /// - Returns: what it said.
    static func run(_ arguments: [String], killedAfter lines: Int?, delay: UInt32 = 0) -> [Substring] {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { return [] }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        defer { posix_spawn_file_actions_destroy(&actions) }
        var words = ([program] + arguments).map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var process: pid_t = 0
        let result = posix_spawn(&process, program, &actions, nil, &words, environ)
        close(ends[1])
        defer { close(ends[0]) }
        guard result == 0 else { return [] }
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        var isKilled = false
        while true {
            if let lines, !isKilled, output.count(where: { $0 == 0x0A }) >= lines {
                usleep(delay)
                kill(process, SIGKILL)
                isKilled = true
            }
            let count = read(ends[0], &piece, piece.count)
            guard count > 0 else { break }
            output += piece[..<count]
        }
        var status: Int32 = 0
        waitpid(process, &status, 0)
        return String(decoding: output, as: UTF8.self).split(separator: "\n")
    }

    /// Beside the test bundle.
    private static let program: String = {
        var bytes = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &bytes, bytes.count)
        let tests = String(decoding: bytes.prefix(max(count, 0)).map(UInt8.init(bitPattern:)), as: UTF8.self)
        return tests.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
            + "/durable-publisher"
    }()
}
