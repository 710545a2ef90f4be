internal import MQTTTraversal

/// The dashboard as lines of text, for a terminal or a file.
@MainActor
package struct DashboardScreen {
    /// Whether grey and bold may be used.
    package var isStyled: Bool
    package var showsKeys: Bool

    package init(isStyled: Bool, showsKeys: Bool) {
        self.isStyled = isStyled
        self.showsKeys = showsKeys
    }

    /// - Parameters:
    ///   - now: what an outage and a wait are measured by.
    ///   - columns: longer lines are cut.
    ///   - rows: sensors for which there is no room are counted.
    package func lines(
        _ model: DashboardModel, now: ContinuousClock.Instant, columns: Int = .max, rows: Int = .max
    ) -> [String] {
        var lines = [
            Line("Connection  \(Self.text(model.connection, model.outage, now))", .bold),
            Line("Prefix      \(model.prefix)"),
        ]
        if let cause = model.outage?.cause {
            let hop = cause.hop.map { " (\($0))" } ?? ""
            lines += Self.wrapped(
                printable("Cause       \(cause.code.rawValue) at \(cause.stage.rawValue)\(hop)"), columns
            )
            .map { Line($0) }
            lines += Self.wrapped(printable("Advice      \(cause.advice)"), columns).map { Line($0) }
        }
        if let error = model.lastError {
            lines += Self.wrapped("Last error  \(printable(error))", columns).map { Line($0) }
        } else if model.outage == nil {
            lines.append(Line("Last error  none", .grey))
        }
        lines.append(Line(""))
        var end = [
            Line(""),
            Line("Fan         \(Self.text(model.fan))\(model.fanIsMissing ? " – no fan listens" : "")"),
        ]
        if showsKeys {
            let toggle = model.isConnected ? "f toggles the fan" : "f works once connected"
            end += [Line(""), Line("\(toggle), q quits", .grey)]
        }
        if model.sensors.isEmpty {
            lines.append(Line("Waiting for data…", .grey))
        } else {
            let room = max(1, rows - lines.count - end.count)
            let isCut = model.sensors.count > room
            let shown = model.sensors.prefix(isCut ? room - 1 : room)
            let width = min(32, shown.map(\.name.count).max() ?? 0)
            lines += shown.map { Self.line($0, width) }
            if isCut { lines.append(Line("and \(model.sensors.count - shown.count) more", .grey)) }
        }
        return (lines + end).map { $0.rendered(isStyled: isStyled, columns: columns) }
    }

    /// What a file, which can't be redrawn, still needs to hear: the lines that weren't there before.
    package static func news(in lines: [String], since old: [String]) -> [String] {
        lines.filter { !$0.isEmpty && !old.contains($0) }
    }

    /// Breaks a line between words: the advice at an error's end is worth further lines.
    private static func wrapped(_ text: String, _ columns: Int) -> [String] {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        var lines: [String] = []
        var line = String(words[0])
        for word in words.dropFirst() {
            if line.count + 1 + word.count <= columns {
                line += " " + word
            } else {
                lines.append(line)
                line = String(repeating: " ", count: 12) + word
            }
        }
        return lines + [line]
    }

    private static func text(
        _ connection: DashboardModel.Connection, _ outage: DashboardModel.Outage?,
        _ now: ContinuousClock.Instant
    ) -> String {
        let lost = outage.map { "lost for \(seconds($0.since.duration(to: now)))" }
        return switch connection {
        case .connecting(let attempt): lost.map { "\($0), attempt \(attempt)…" } ?? "connecting…"
        case .connected(let url): "connected to \(url)"
        case .waiting(let attempt, let until):
            "\(lost ?? "lost"), attempt \(attempt) in \(seconds(now.duration(to: until), roundedUp: true))"
        case .disconnected: lost ?? "disconnected"
        }
    }

    /// Whole ones, never below zero: `12 s`.
    private static func seconds(_ duration: Duration, roundedUp: Bool = false) -> String {
        let seconds = max(0, duration / .seconds(1))
        return "\(Int(seconds.rounded(roundedUp ? .up : .down))) s"
    }

    private static func text(_ fan: DashboardModel.Fan) -> String {
        switch fan {
        case .off: "OFF"
        case .on: "ON"
        case .switching(let on): "switching \(on ? "ON" : "OFF")…"
        }
    }

    private static func line(_ sensor: DashboardModel.Sensor, _ width: Int) -> Line {
        let name = printable(sensor.name)
        let reading = sensor.temperature.map { "\(decimal($0)) °C" } ?? "–"
        let status = sensor.isOnline.map { $0 ? "online" : "offline" } ?? ""
        let text = "\(padded(name, width))  \(padded(reading, 9, right: true))  \(status)"
        return Line(text, sensor.isOnline == false ? .grey : .plain)
    }

    private static func padded(_ text: String, _ width: Int, right: Bool = false) -> String {
        let padding = String(repeating: " ", count: max(0, width - text.count))
        return right ? padding + text : text + padding
    }
}

/// A line and how it looks; the only place with escape sequences for looks.
private struct Line {
    enum Style: String {
        case plain = ""
        case bold = "\u{1B}[1m"
        case grey = "\u{1B}[90m"
    }

    var text: String
    var style: Style

    init(_ text: String, _ style: Style = .plain) {
        self.text = text
        self.style = style
    }

    func rendered(isStyled: Bool, columns: Int) -> String {
        var cut = text.count > columns ? String(text.prefix(max(0, columns - 1))) + "…" : text
        while cut.last == " " { cut.removeLast() }
        return isStyled && style != .plain ? "\(style.rawValue)\(cut)\u{1B}[0m" : cut
    }
}
