import Foundation

/// An example as the user runs it: the built executable, with its output line by line.
final class RunningProgram: Sendable {
    let lines: AsyncStream<String>

    private let process = Process()
    private let ended: AsyncStream<Int32>

    /// - Parameter terminal: the program's standard input and output, where they aren't pipes.
    init(
        _ name: String, _ arguments: [String], environment: [String: String] = [:],
        terminal: FileHandle? = nil
    ) throws {
        // Beside the test bundle.
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        process.executableURL = URL(fileURLWithPath: tests).deletingLastPathComponent()
            .appendingPathComponent(name)
        process.arguments = arguments
        process.environment = ["PATH": "/usr/bin:/bin", "TERM": "xterm"].merging(environment) { $1 }

        let (lines, lineContinuation) = AsyncStream.makeStream(of: String.self)
        let (ended, endContinuation) = AsyncStream.makeStream(of: Int32.self)
        self.lines = lines
        self.ended = ended
        process.terminationHandler = { process in
            endContinuation.yield(process.terminationReason == .exit ? process.terminationStatus : -1)
            endContinuation.finish()
        }
        if let terminal {
            process.standardInput = terminal
            process.standardOutput = terminal
            process.standardError = terminal
        } else {
            let pipe = Pipe()
            process.standardInput = FileHandle.nullDevice
            process.standardOutput = pipe
            process.standardError = pipe
            // Read by hand: a line may come in pieces.
            Thread.detachNewThread {
                var rest = Data()
                while true {
                    let data = pipe.fileHandleForReading.availableData
                    rest.append(data)
                    while let end = rest.firstIndex(of: 0x0A) {
                        lineContinuation.yield(String(decoding: rest[..<end], as: UTF8.self))
                        rest = Data(rest[rest.index(after: end)...])
                    }
                    if data.isEmpty { return lineContinuation.finish() }
                }
            }
        }
        try process.run()
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    func send(_ signal: Int32) { kill(process.processIdentifier, signal) }

    /// Whether a line comes that contains `text`; false when the program ends before.
    func says(_ text: String) async -> Bool {
        for await line in lines where line.contains(text) { return true }
        return false
    }

    /// What is left of its output.
    var rest: [String] {
        get async { await lines.reduce(into: []) { $0.append($1) } }
    }

    /// -1 where a signal has ended it.
    var exitCode: Int32? {
        get async { await ended.first { _ in true } }
    }
}
