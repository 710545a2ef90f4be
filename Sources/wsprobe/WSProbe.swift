internal import Dispatch
internal import Glibc
internal import MQTTProbe
internal import MQTTTransport
internal import MQTTTraversal

/// `wsprobe`: reads its arguments, runs a probe, prints its report.
@main
enum WSProbe {
    /// sysexits.h: EX_USAGE and EX_SOFTWARE.
    private static let usageStatus: Int32 = 64
    private static let internalStatus: Int32 = 70

    static func main() async {
        do throws(UsageError) {
            exit(try await run(Arguments(Array(CommandLine.arguments.dropFirst()))))
        } catch {
            say("wsprobe: \(error)\nTry: wsprobe --help\n")
            exit(usageStatus)
        }
    }

    private static func run(_ arguments: Arguments) async throws(UsageError) -> Int32 {
        switch arguments.command {
        case .help:
            write(Arguments.help)
            return 0
        case .probe: return try await probe(arguments, arguments.options)
        case .demo("list"):
            write(Demo.list)
            return 0
        case .demo(let name):
            let demo = try await Demo(network: name)
            let status = try await probe(arguments, demo.options(arguments.options), in: demo)
            await demo.stop()
            return status
        }
    }

    private static func probe(
        _ arguments: Arguments, _ given: ProbeOptions, in demo: Demo? = nil
    ) async throws(UsageError) -> Int32 {
        var options = given
        if let file = arguments.authorityFile { options.trust = .file(file) }
        if options.userName != nil { options.password = try password(arguments.passwordSource) }
        switch arguments.proxySource {
        case .none: break
        case .fixed(let proxy): options.proxy = .fixed(proxy)
        case .environment: options.proxy = .environment(.process)
        }
        var random = SystemRandomNumberGenerator()
        let plan: ProbePlan
        do throws(ProfileError) {
            plan = try ProbePlan(options, random: &random)
        } catch {
            throw UsageError(error.description)
        }
        let runner = ProbeRunner(
            plan, resolver: demo?.resolver ?? arguments.nameServer.map { .asking($0) } ?? .system)
        if let problem = runner.trustProblem() {
            throw UsageError("--ca \(arguments.authorityFile ?? ""): \(problem.evidence)")
        }
        if isatty(STDERR_FILENO) == 1 {
            let ways = plan.attempts.count { $0.skipReason == nil }
            say("Trying \(ways) ways to \(plan.host); Ctrl-C for what is known so far.\n")
        }
        let hasTerminal = isatty(STDERR_FILENO) == 1
        let probing = Task {
            await runner.measure(arguments.measurements, after: await runner.run()) { text in
                if hasTerminal { say("Measuring: \(text).\n") }
            }
        }
        let interrupt = onInterrupt { probing.cancel() }
        let report = await probing.value
        let isInterrupted = probing.isCancelled
        withExtendedLifetime(interrupt) {}
        // The terminal has shown ^C.
        if isInterrupted, isatty(STDERR_FILENO) == 1 { say("\n") }

        if arguments.isJSON {
            guard let json = try? report.json() else {
                say("wsprobe: the report can't be written as JSON\n")
                return internalStatus
            }
            write(json)
        } else {
            let text = TextReport(
                report, authorityFile: demo?.authorityFile ?? arguments.authorityFile, isColoured: isColoured)
            write(text.text)
        }
        return isInterrupted ? 128 + SIGINT : status(report.diagnosis.verdict)
    }

    private static func status(_ verdict: Diagnosis.Verdict) -> Int32 {
        switch verdict {
        case .preferred: 0
        case .fallback: 1
        case .none, .inconclusive: 2
        }
    }

    private static func password(_ source: Arguments.PasswordSource) throws(UsageError) -> [UInt8]? {
        switch source {
        case .environment: return getenv("MQTT_PASSWORD").map { Array(String(cString: $0).utf8) }
        case .file(let path):
            guard let file = fopen(path, "re") else {
                throw UsageError("--password-file \(path): \(String(cString: strerror(errno)))")
            }
            defer { fclose(file) }
            // The longest that CONNECT can carry (section 3.1.3.6), and the end of its line.
            var bytes = [UInt8](repeating: 0, count: 65537)
            let count = fread(&bytes, 1, bytes.count, file)
            guard ferror(file) == 0 else {
                throw UsageError("--password-file \(path): \(String(cString: strerror(errno)))")
            }
            let line = bytes[..<count].prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
            guard line.count <= 65535 else {
                throw UsageError("--password-file \(path): longer than 65535 bytes")
            }
            return Array(line)
        }
    }

    /// https://no-color.org: set and not empty means no.
    private static var isColoured: Bool {
        func value(_ name: String) -> String { getenv(name).map { String(cString: $0) } ?? "" }
        return isatty(STDOUT_FILENO) == 1 && value("NO_COLOR").isEmpty && value("TERM") != "dumb"
    }

    /// The first Ctrl-C asks for the report; the second ends the process as ever.
    private static func onInterrupt(_ action: @escaping @Sendable () -> Void) -> any DispatchSourceSignal {
        signal(SIGINT, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
        source.setEventHandler {
            signal(SIGINT, SIG_DFL)
            action()
        }
        source.resume()
        return source
    }

    private static func write(_ text: String) { write(text, to: STDOUT_FILENO) }

    private static func say(_ text: String) { write(text, to: STDERR_FILENO) }

    private static func write(_ text: String, to descriptor: Int32) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written < 0, errno == EINTR { continue }
            // Nobody reads any more.
            guard written > 0 else { return }
            rest = rest.dropFirst(written)
        }
    }
}
