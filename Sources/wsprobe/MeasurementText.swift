internal import MQTTProbe
internal import MQTTTransport

/// What was measured, a line for each; the report breaks those that are too long.
struct MeasurementText {
    let measurements: Measurements

    init(_ measurements: Measurements) { self.measurements = measurements }

    var lines: [String] {
        ["Measured on \(measurements.attempt):"]
            + [
                measurements.echo.map(echo), measurements.size.map(size),
                measurements.throughput.map(throughput), measurements.repetition.map(repetition),
                measurements.watch.map(watch), measurements.idle.map(idle),
            ].compactMap { $0 }
    }

    private func echo(_ echo: Measurements.Echo) -> String {
        if let time = echo.milliseconds { return "Echo: a message came back after \(number(time)) ms." }
        return "Echo: none came back" + because(echo.failure)
    }

    private func size(_ size: Measurements.Size) -> String {
        var text = "Size: messages of up to \(size.largestPassed) bytes come back"
        if let failed = size.smallestFailed {
            text += "; one of \(failed) doesn't" + because(size.failure)
        } else if size.failure != nil {
            text += "; the search ended" + because(size.failure)
        } else {
            text += ", the largest that was tried."
        }
        if let maximum = size.serverMaximum {
            text += " The server itself takes packets of \(maximum) bytes."
        }
        return text
    }

    private func throughput(_ throughput: Measurements.Throughput) -> String {
        let parts = [
            throughput.up.map { "\(rate($0)) there" }, throughput.down.map { "at least \(rate($0)) back" },
        ].compactMap { $0 }
        let text = "Throughput: " + (parts.isEmpty ? "none" : parts.joined(separator: ", "))
        return text + (throughput.failure == nil ? "." : because(throughput.failure))
    }

    private func repetition(_ repetition: Measurements.Repetition) -> String {
        var text =
            "Repeated: \(repetition.succeeded) of \(repetition.attempts) connections got through, "
            + "\(number(repetition.lossPercent)) % lost"
        if let latency = repetition.latency { text += "; to CONNACK " + self.latency(latency) }
        for (code, count) in repetition.failures.sorted(by: { $0.key < $1.key }) {
            text += "; \(count) × \(code)"
        }
        return text + "."
    }

    private func watch(_ watch: Measurements.Watch) -> String {
        var text =
            "Watched for \(number(watch.seconds)) s: \(watch.returned) of \(watch.sent) echoes came back, "
            + "\(number(watch.lossPercent)) % lost"
        if let latency = watch.latency { text += "; " + self.latency(latency) }
        for outage in watch.outages {
            text += "; after \(number(outage.atSeconds)) s \(outage.failure.code.rawValue)"
            text += outage.lastedSeconds.map { ", for \(number($0)) s" } ?? ", to the end"
        }
        return text + "."
    }

    private func idle(_ idle: Measurements.Idle) -> String {
        var text = "Silence: a connection lives \(number(idle.survivedSeconds)) s without traffic"
        if let died = idle.diedSeconds {
            text += " and is dead after \(number(died)) s" + because(idle.failure)
            if idle.isControlAlive == true {
                text +=
                    " One that pinged all the time lived: set the keep-alive below "
                    + "\(number(max(1, idle.survivedSeconds.rounded(.down)))) s."
            } else {
                text +=
                    " Whether the silence was the cause isn't known: "
                    + (idle.isControlAlive == nil
                        ? "there was no other connection to compare."
                        : "one that pinged all the time ended too.")
            }
        } else {
            text += " at least; longer ones weren't tried."
        }
        if let imposed = idle.serverKeepAliveSeconds {
            text += " The server demands a keep-alive of \(number(imposed)) s."
        }
        return text
    }

    private func because(_ failure: Measurements.Failure?) -> String {
        guard let failure else { return "." }
        return ": \(failure.code.rawValue)" + (failure.evidence.isEmpty ? "." : ", \(failure.evidence).")
    }

    private func latency(_ latency: Latency) -> String {
        "\(number(latency.median)) ms in the middle, \(number(latency.percentile90)) ms for 90 %, "
            + "\(number(latency.percentile99)) ms for 99 %, \(number(latency.maximum)) ms at most"
    }

    private func rate(_ bytes: Double) -> String {
        bytes >= 1e6
            ? "\(number((bytes / 1e5).rounded() / 10)) MB/s" : "\(number((bytes / 100).rounded() / 10)) kB/s"
    }

    private func number(_ value: Double) -> String {
        let rounded = (value * 10).rounded() / 10
        return rounded == rounded.rounded() ? String(Int(rounded)) : String(rounded)
    }
}
