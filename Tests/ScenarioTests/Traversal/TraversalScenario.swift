import Foundation
import Testing
import traversal_client

/// One way of a client through the programs and networks that it meets, and what has to come of it.
struct TraversalScenario: Sendable, CustomTestStringConvertible {
    var name: String
    /// What `traversal-client` is told, separated by spaces; `{…}` stands for a port or a file.
    var arguments: String
    var expected: Expected
    /// Through which network; nil for 127.0.0.1.
    var network: Network?
    var environment: [String: String] = [:]

    var testDescription: String { name }

    init(
        _ name: String, _ arguments: String, _ expected: Expected, in network: Network? = nil,
        environment: [String: String] = [:]
    ) {
        self.name = name
        self.arguments = arguments
        self.expected = expected
        self.network = network
        self.environment = environment
    }
}

extension TraversalScenario {
    struct Expected: Sendable, CustomStringConvertible {
        /// One of these: `ok` or codes.
        var verdicts: [String]
        /// The codes of the connections lost on the way.
        var interruptions: [String] = []
        /// The way taken, as a URL.
        var route: String?
        /// The address of the TCP connection.
        var address: String?
        /// How long until CONNACK or failure.
        var seconds: ClosedRange<Double>?
        /// At most as long as another way takes, times a factor, and some seconds.
        var comparison: Comparison?
        /// What the error says, or the account of the ways that were tried.
        var mentions: [String] = []

        struct Comparison: Sendable {
            var arguments: String
            var factor: Double
            var extraSeconds: Double
        }

        static let ok = Expected(verdicts: ["ok"])

        static func ok(
            by route: String? = nil, at address: String? = nil, within seconds: ClosedRange<Double>? = nil,
            comparedWith comparison: Comparison? = nil, mentioning mentions: [String] = []
        ) -> Expected {
            Expected(
                verdicts: ["ok"], route: route, address: address, seconds: seconds, comparison: comparison,
                mentions: mentions)
        }

        /// The connection is lost with this code, made again, and all is well.
        static func recovers(from code: String) -> Expected {
            Expected(verdicts: ["ok"], interruptions: [code])
        }

        static func fails(
            _ codes: String..., within seconds: ClosedRange<Double>? = nil, mentioning mentions: [String] = []
        ) -> Expected {
            Expected(verdicts: codes, seconds: seconds, mentions: mentions)
        }

        var description: String {
            verdicts.joined(separator: " or ") + (route.map { " by \($0)" } ?? "")
                + (interruptions.isEmpty ? "" : " after \(interruptions.joined(separator: ", "))")
        }
    }

    /// What is otherwise than expected.
    static func faults(of report: TraversalReport, _ expected: Expected) -> [String] {
        var faults: [String] = []
        if !expected.verdicts.contains(report.verdict) {
            faults.append("the verdict is \(report.verdict): \(report.error ?? "")")
        }
        if report.interruptions != expected.interruptions {
            faults.append("interrupted by \(report.interruptions)")
        }
        if let route = expected.route, report.route != route {
            faults.append("the route is \(report.route ?? "none")")
        }
        if let address = expected.address, report.address != address {
            faults.append("the address is \(report.address ?? "none")")
        }
        if let seconds = expected.seconds, !seconds.contains(report.milliseconds / 1000) {
            faults.append("\(report.milliseconds) ms isn't within \(seconds) s")
        }
        let said = ([report.error ?? ""] + report.routes).joined(separator: " | ")
        for text in expected.mentions where !said.contains(text) {
            faults.append("there is no mention of \(text): \(said)")
        }
        return faults
    }
}

extension TraversalScenario {
    /// Why it can't run here; nil where it can.
    private var hindrance: String? {
        if let network { return network.missing }
        return Mosquitto.executable == nil
            ? "mosquitto isn't installed" : parts.lazy.compactMap(\.missing).first
    }

    private var parts: [Part] { Part.allCases.filter { arguments.contains("{\($0.rawValue)}") } }

    /// Runs it, and writes into the ledger what came of it.
    func run() async throws {
        guard let ledger = Ledger.shared else { return }
        if let hindrance { return ledger.skipped(self, hindrance) }
        do {
            let site: any TraversalSite =
                if let network { try await NetworkStand(network) } else { LoopbackStand() }
            let report = try await travel(arguments, site)
            var expected = expected
            if let route = expected.route { expected.route = try await Self.filled(route, site) }
            var faults = Self.faults(of: report, expected)
            var remark = ""
            if let comparison = expected.comparison {
                let medians = try await medians(comparison, site, first: report.milliseconds)
                let limit = comparison.extraSeconds * 1000 + comparison.factor * medians.other
                remark = String(
                    format: "medians %.0f ms and %.0f ms, at most %.0f ms", medians.own, medians.other, limit)
                if medians.own > limit { faults.append(remark) }
            }
            ledger.ended(self, report, faults, remark)
            #expect(faults.isEmpty)
        } catch {
            ledger.ended(self, nil, ["\(error)"])
            throw error
        }
    }

    /// Milliseconds of this way and of the other, in turns: one run is chance, so these are medians of five.
    private func medians(
        _ comparison: Expected.Comparison, _ site: any TraversalSite, first: Double
    ) async throws -> (own: Double, other: Double) {
        var own = [first]
        var other: [Double] = []
        for _ in 0..<5 {
            if own.count < 5 { own.append(try await travel(arguments, site).milliseconds) }
            other.append(try await travel(comparison.arguments, site).milliseconds)
        }
        return (own.sorted()[2], other.sorted()[2])
    }

    private func travel(_ arguments: String, _ site: any TraversalSite) async throws -> TraversalReport {
        var words: [String] = []
        for word in arguments.split(separator: " ") {
            words.append(try await Self.filled(String(word), site))
        }
        return try await site.travel(words, environment)
    }

    /// A text with its `{…}` replaced.
    private static func filled(_ text: String, _ site: any TraversalSite) async throws -> String {
        var filled = ""
        var rest = text[...]
        while let opening = rest.firstIndex(of: "{"), let closing = rest.firstIndex(of: "}") {
            filled += rest[..<opening]
            filled += try await site.value(String(rest[rest.index(after: opening)..<closing]))
            rest = rest[rest.index(after: closing)...]
        }
        return filled + rest
    }
}

/// Where clients travel.
protocol TraversalSite: Sendable {
    /// What a name in braces stands for.
    func value(_ name: String) async throws -> String
    /// Runs the client.
    func travel(_ arguments: [String], _ environment: [String: String]) async throws -> TraversalReport
}

struct LoopbackStand: TraversalSite {
    func value(_ name: String) async throws -> String {
        if let file = try await Parts.shared.file(name) { return file }
        guard let part = Part(rawValue: name) else { throw BrokerFailure("there is no part {\(name)}") }
        return String(try await Parts.shared.port(part))
    }

    func travel(_ arguments: [String], _ environment: [String: String]) async throws -> TraversalReport {
        guard let ledger = Ledger.shared else { throw BrokerFailure("there is no ledger") }
        return try await TraversalProgram.run([], arguments, environment, output: ledger.path + "-report")
    }
}

/// The client's program, built with the tests.
enum TraversalProgram {
    /// - Parameter prefix: the command that runs it.
    static func run(
        _ prefix: [String], _ arguments: [String], _ environment: [String: String], output: String
    ) async throws -> TraversalReport {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = (tests as NSString).deletingLastPathComponent + "/traversal-client"
        // Not this process's own, whose proxies are no part of the scenario.
        let environment = ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"].merging(environment) { $1 }
        try await Supervisor.run(
            prefix + [program] + arguments, environment: environment, output: output, within: .seconds(100))
        let said = try String(contentsOfFile: output, encoding: .utf8)
        guard let report = try? TraversalReport(json: said) else {
            throw BrokerFailure("\(arguments) said \"\(said)\"")
        }
        return report
    }
}
