package import MQTTTraversal
internal import Observation

/// What the dashboard knows, and how it learns it; knows no screen, no socket and no clock.
///
/// Observable, so that a view redraws by itself; a terminal draws after each input.
@MainActor @Observable
package final class DashboardModel {
    package enum Connection: Hashable {
        /// Attempts count from 1 since the last connection.
        case connecting(attempt: Int)
        case connected(to: String)
        /// Until the next attempt begins.
        case waiting(attempt: Int, until: ContinuousClock.Instant)
        case disconnected
    }

    /// While a connection that stood is being made again.
    package struct Outage: Hashable, Sendable {
        package let since: ContinuousClock.Instant
        /// Of the loss, then of the last attempt that failed.
        package var cause: MQTTError
    }

    package struct Sensor: Hashable, Sendable {
        package let name: String
        /// In °C; nil before the first reading.
        package var temperature: Double?
        /// nil before the first status.
        package var isOnline: Bool?
    }

    package enum Fan: Hashable {
        case off
        case on
        /// The command is under way.
        case switching(on: Bool)
    }

    package let prefix: String
    package private(set) var connection = Connection.connecting(attempt: 1)
    package private(set) var outage: Outage?
    /// Why the connection ended for good, or a command failed; gone when things are well again.
    package private(set) var lastError: String?
    /// By name.
    package private(set) var sensors: [Sensor] = []
    package private(set) var fan = Fan.off
    /// Whether the broker said that nobody listens to the fan's commands (5.0).
    package private(set) var fanIsMissing = false

    package init(prefix: String) {
        self.prefix = prefix
    }

    package var isConnected: Bool {
        if case .connected = connection { true } else { false }
    }

    /// Takes what happened to the client, at this moment.
    package func receive(_ event: ClientEvent, now: ContinuousClock.Instant) {
        switch event {
        case .idle, .sessionLost: break
        case .connecting(let attempt): connection = .connecting(attempt: attempt)
        case .connected(let outcome):
            connection = .connected(to: outcome.profile.description)
            lastError = nil
            outage = nil
        case .interrupted(let error):
            connection = .disconnected
            lastError = nil
            outage = Outage(since: now, cause: error)
        case .reconnecting(let attempt, let delay, let error):
            connection = .waiting(attempt: attempt, until: now + delay)
            outage?.cause = error
        case .suspended: connection = .disconnected
        case .disconnected(let error):
            connection = .disconnected
            lastError = error?.description ?? lastError
            outage = nil
        }
    }

    /// Takes a message of `PREFIX/sensors/NAME/temperature` or `PREFIX/sensors/NAME/status`; what doesn't make sense
    /// is ignored.
    package func receive(_ message: Message) {
        let levels = message.topic.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard levels.count >= 3, let name = String(levels[levels.count - 2]), !name.isEmpty,
            let text = try? message.text
        else { return }
        switch String(levels[levels.count - 1]) {
        case "temperature":
            guard let temperature = plainDecimal(text) else { return }
            update(name) { $0.temperature = temperature }
        case "status":
            guard let isOnline = Self.isOnline(text) else { return }
            update(name) { $0.isOnline = isOnline }
        default: return
        }
    }

    /// The user wants the fan's other state.
    ///
    /// - Returns: the command to publish now, or nil: while there is no connection there are no commands, since one
    ///   that is sent later does what nobody wants any more.
    package func toggleFan() -> String? {
        guard isConnected else { return nil }
        switch fan {
        case .switching: return nil
        case .off: fan = .switching(on: true)
        case .on: fan = .switching(on: false)
        }
        lastError = nil
        return fan == .switching(on: true) ? "ON" : "OFF"
    }

    /// The broker has the command.
    package func fanCommandAccepted(nobodyListens: Bool) {
        guard case .switching(let on) = fan else { return }
        fan = on ? .on : .off
        fanIsMissing = nobodyListens
    }

    package func fanCommandFailed(_ reason: String) {
        guard case .switching(let on) = fan else { return }
        fan = on ? .off : .on
        lastError = reason
    }

    private static func isOnline(_ text: String) -> Bool? {
        switch text.split(whereSeparator: \.isWhitespace) {
        case ["online"]: true
        case ["offline"]: false
        default: nil
        }
    }

    private func update(_ name: String, _ change: (inout Sensor) -> Void) {
        // MQTT compares bytes: names that only look alike are two sensors.
        let index =
            sensors.firstIndex { !$0.name.utf8.lexicographicallyPrecedes(name.utf8) } ?? sensors.endIndex
        if index == sensors.endIndex || !sensors[index].name.utf8.elementsEqual(name.utf8) {
            sensors.insert(Sensor(name: name), at: index)
        }
        change(&sensors[index])
    }
}
