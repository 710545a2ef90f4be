import Foundation
import Glibc
import traversal_client

/// What became of each scenario, one line each, for `.ci/traversal` to print.
struct Ledger: Sendable {
    /// At the path in the environment variable `TRAVERSAL`; without it the scenarios don't run.
    static let shared = ProcessInfo.processInfo.environment["TRAVERSAL"].map(Ledger.init(path:))

    let path: String

    func skipped(_ scenario: TraversalScenario, _ reason: String) {
        write("SKIPPED", scenario, seen: reason)
    }

    func ended(
        _ scenario: TraversalScenario, _ report: TraversalReport?, _ faults: [String], _ remark: String = ""
    ) {
        guard let report, faults.isEmpty else {
            return write("FAILED", scenario, seen: faults.joined(separator: "; "))
        }
        let milliseconds = String(format: "%.0f ms", report.milliseconds)
        let seen = "\(report.verdict), \(milliseconds)" + (remark.isEmpty ? "" : "; \(remark)")
        write("passed", scenario, seen: seen)
    }

    private func write(_ result: String, _ scenario: TraversalScenario, seen: String) {
        let fields = [result, scenario.name, "\(scenario.expected)", seen].map {
            $0.replacing("\t", with: " ").replacing("\n", with: " ")
        }
        let line = fields.joined(separator: "\t") + "\n"
        let file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o644)
        guard file >= 0 else { fatalError("can't write \(path): \(String(cString: strerror(errno)))") }
        defer { close(file) }
        // At once, so that lines of several scenarios don't mix.
        guard Glibc.write(file, line, line.utf8.count) == line.utf8.count else {
            fatalError("can't write \(path)")
        }
    }
}
