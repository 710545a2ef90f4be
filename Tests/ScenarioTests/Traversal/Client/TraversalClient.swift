internal import Glibc
internal import MQTTTraversal

/// `traversal-client`: connects, exchanges messages with itself, says as JSON how that went.
///
/// A program by itself since a network namespace is entered by a process.
@main
enum TraversalClient {
    /// Seconds until it is ended by SIGALRM, whatever it is doing.
    private static let limit: UInt32 = 90

    static func main() async {
        alarm(limit)
        do {
            let options = try ClientOptions(Array(CommandLine.arguments.dropFirst()))
            let report = await Journey(options).run()
            print(try report.json)
            exit(report.verdict == "ok" ? 0 : 1)
        } catch let error as UsageError {
            complain("\(error)")
            exit(64)
        } catch {
            complain("\(error)")
            exit(70)
        }
    }

    private static func complain(_ text: String) {
        let line = "traversal-client: \(text)\n"
        _ = line.withCString { write(STDERR_FILENO, $0, strlen($0)) }
    }
}
