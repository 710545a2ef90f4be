package import MQTTProbe
internal import MQTTTraversal

/// The report for a person, in 80 columns; only a word that is longer, such as a URL, may exceed them.
package struct TextReport {
    private let report: ProbeReport
    private let authorityFile: String?
    private let style: Style

    private static let width = 80
    private static let allColumns: [(stage: ConnectionStage, title: String)] = [
        (.resolve, "DNS"), (.tcp, "TCP"), (.proxy, "Proxy"), (.tls, "TLS"), (.webSocket, "WS"),
        (.mqttConnect, "MQTT"),
    ]
    private static let cellWidth = 6

    /// - Parameters:
    ///   - authorityFile: the CA file in use, for the recommendation.
    ///   - isColoured: whether to write SGR sequences (ECMA-48, 8.3.117).
    package init(_ report: ProbeReport, authorityFile: String? = nil, isColoured: Bool = false) {
        self.report = report
        self.authorityFile = authorityFile
        style = Style(isOn: isColoured)
    }

    package var text: String {
        var lines = [headline, ""]
        lines += table
        for attempt in report.attempts {
            guard let reason = attempt.skipReason else { continue }
            lines.append("")
            lines += Self.wrapped("\(attempt.name): skipped, since \(reason.printable).", indent: 0)
        }
        for attempt in report.attempts {
            guard let redirects = attempt.redirects else { continue }
            lines.append("")
            let way = redirects.map(\.printable).joined(separator: ", then to ")
            lines += Self.wrapped("\(attempt.name): redirected to \(way).", indent: 0)
        }
        for group in failures {
            lines.append("")
            lines += reason(group)
        }
        for sentence in report.diagnosis.sentences {
            lines.append("")
            lines += Self.wrapped(sentence.printable, indent: 0)
        }
        if let measurements = report.measurements {
            lines +=
                [""]
                + MeasurementText(measurements).lines.flatMap {
                    Self.wrapped($0.printable, indent: 0, hanging: 2)
                }
        }
        lines.append("")
        lines += recommendation
        return lines.joined(separator: "\n") + "\n"
    }

    private var headline: String {
        let seconds = Self.seconds(report.timeoutMilliseconds)
        return style.bold(report.host.printable)
            + "  MQTT \(report.mqtt), at most \(seconds) s a stage, \(report.startedAt)"
    }

    // MARK: Table

    private var table: [String] {
        let nameWidth = report.attempts.map(\.name.count).max() ?? 0
        let hasProxy = report.attempts.contains { $0.proxy != nil }
        let columns = Self.allColumns.filter { $0.stage != .proxy || hasProxy }
        let titles = columns.map { Self.leftPadded($0.title, Self.cellWidth) }.joined()
        var lines = [Self.padded("Route", nameWidth) + titles + "   Result"]
        for attempt in report.attempts {
            let cells = columns.map { column in
                cell(attempt.stages.first { $0.stage == column.stage })
            }
            lines.append(Self.padded(attempt.name, nameWidth) + cells.joined() + "   " + result(attempt))
        }
        for proxy in Set(report.attempts.compactMap(\.proxy)).sorted() {
            lines.append(style.faint("DNS and TCP are those of the proxy \(proxy.printable)"))
        }
        lines.append(style.faint("Times in ms; ✗ ended there, – not reached"))
        return lines
    }

    private func cell(_ stage: ProbeReport.Stage?) -> String {
        // A blank for a stage that the route doesn't have.
        guard let stage else { return String(repeating: " ", count: Self.cellWidth) }
        let time = stage.milliseconds.map(Self.milliseconds) ?? ""
        switch stage.state {
        case .passed: return Self.leftPadded(time, Self.cellWidth)
        case .failed: return style.red(Self.leftPadded(time + "✗", Self.cellWidth))
        case .notRun: return style.faint(Self.leftPadded("–", Self.cellWidth))
        case .unfinished: return style.yellow(Self.leftPadded("…", Self.cellWidth))
        }
    }

    private func result(_ attempt: ProbeReport.Attempt) -> String {
        switch attempt.outcome {
        case .ok: attempt.isEncrypted ? style.green("ok") : style.yellow("ok, not encrypted")
        case .failed: style.red(attempt.failure?.code.rawValue ?? "failed")
        case .skipped: style.yellow("skipped")
        case .unfinished: style.yellow("not finished")
        }
    }

    // MARK: Reasons

    /// Attempts that failed in the same way, best first.
    private var failures: [[ProbeReport.Attempt]] {
        var groups: [[ProbeReport.Attempt]] = []
        for attempt in report.attempts {
            guard let failure = attempt.failure else { continue }
            let index = groups.firstIndex { group in
                group[0].failure?.code == failure.code && group[0].failure?.advice == failure.advice
            }
            if let index { groups[index].append(attempt) } else { groups.append([attempt]) }
        }
        return groups
    }

    private func reason(_ group: [ProbeReport.Attempt]) -> [String] {
        guard let failure = group.first?.failure else { return [] }
        let names = group.map(\.name).joined(separator: ", ")
        var lines = Self.wrapped("\(names): \(failure.code.rawValue)", indent: 0).map(style.bold)
        var evidences: [(hops: [String], text: String)] = []
        for failure in group.compactMap(\.failure) {
            let hops = failure.hop.map { [$0] } ?? []
            if let index = evidences.firstIndex(where: { $0.text == failure.evidence }) {
                evidences[index].hops += hops.filter { !evidences[index].hops.contains($0) }
            } else {
                evidences.append((hops, failure.evidence))
            }
        }
        for evidence in evidences {
            let parts = [evidence.hops.joined(separator: ", "), evidence.text].filter { !$0.isEmpty }
            lines += Self.wrapped(parts.joined(separator: ": ").printable, indent: 2)
        }
        lines += Self.wrapped("→ " + failure.advice.printable, indent: 2, hanging: 4)
        return lines
    }

    private var recommendation: [String] {
        guard let use = report.diagnosis.recommendation else { return ["Use: nothing, for now"] }
        var lines = [
            style.bold("Use: \(use.url)") + (use.isEncrypted ? "" : "  (in plaintext, if it must be)")
        ]
        var changes: [String] = []
        if use.isEncrypted, let authorityFile {
            changes.append("     profile.tls?.trust = .file(\(authorityFile.swiftLiteral))")
        }
        if let proxy = use.proxy {
            changes.append("     profile.proxy = try Proxy(url: \(proxy.swiftLiteral))")
        }
        let keyword = changes.isEmpty ? "let" : "var"
        lines.append("     \(keyword) profile = try ConnectionProfile(url: \(use.url.swiftLiteral))")
        return lines + changes
    }

    // MARK: Text

    /// Broken at spaces; a longer word stands whole on a line of its own.
    static func wrapped(_ text: String, indent: Int, hanging: Int? = nil) -> [String] {
        var lines: [String] = []
        var line = String(repeating: " ", count: indent)
        var isEmpty = true
        for word in text.split(separator: " ") {
            if !isEmpty, line.count + 1 + word.count > width {
                lines.append(line)
                line = String(repeating: " ", count: hanging ?? indent)
                isEmpty = true
            }
            line += (isEmpty ? "" : " ") + word
            isEmpty = false
        }
        if !isEmpty { lines.append(line) }
        return lines
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private static func leftPadded(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }

    private static func milliseconds(_ value: Double) -> String {
        if value < 1 { return "<1" }
        return value < 9999.5 ? String(Int(value.rounded())) : "\(Int((value / 1000).rounded()))s"
    }

    private static func seconds(_ milliseconds: Double) -> String {
        let seconds = milliseconds / 1000
        return seconds == seconds.rounded() ? String(Int(seconds)) : String(seconds)
    }
}

private struct Style {
    let isOn: Bool

    func bold(_ text: String) -> String { apply(1, text) }
    func faint(_ text: String) -> String { apply(2, text) }
    func red(_ text: String) -> String { apply(31, text) }
    func green(_ text: String) -> String { apply(32, text) }
    func yellow(_ text: String) -> String { apply(33, text) }

    private func apply(_ parameter: Int, _ text: String) -> String {
        isOn ? "\u{1B}[\(parameter)m\(text)\u{1B}[0m" : text
    }
}

extension String {
    /// Without anything that could drive a terminal or turn the text around: a peer may have chosen it.
    fileprivate var printable: String {
        var result = UnicodeScalarView()
        for scalar in unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: result.append("?")
            default: result.append(scalar)
            }
        }
        return String(result)
    }

    fileprivate var swiftLiteral: String { debugDescription }
}
