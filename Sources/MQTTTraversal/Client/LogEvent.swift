/// How much something that is logged matters.
public enum LogLevel: Int, Sendable, Hashable, Comparable, CaseIterable, CustomStringConvertible {
    /// How things go on in detail, such as each stage of an attempt.
    case debug
    /// What happened as it should, or is of no consequence.
    case info
    /// Out of the ordinary, and dealt with.
    case notice
    /// Somebody should look at it: something failed, or isn't as safe as it could be.
    case warning
    /// Something was lost.
    case error

    public static func < (one: LogLevel, other: LogLevel) -> Bool { one.rawValue < other.rawValue }

    /// `debug`, `info`, `notice`, `warning` or `error`.
    public var description: String {
        switch self {
        case .debug: "debug"
        case .info: "info"
        case .notice: "notice"
        case .warning: "warning"
        case .error: "error"
        }
    }
}

/// Something that happened inside, for a program's log. Never holds credentials or payloads.
///
/// An event is a value: its text is made when `description` is asked for.
public enum LogEvent: Sendable {
    /// A stage of an attempt has ended, on this way.
    case stage(StageObservation, of: ConnectionProfile)
    /// User name or password go over a connection that anybody in between can read.
    case credentialsInPlaintext(ConnectionProfile)
    /// The server doesn't take one version of MQTT, so the other is tried at once.
    case triesVersion(ProtocolVersion, after: MQTTError)
    /// The server has sent the client elsewhere, where it goes at once (5.0, section 4.11).
    case triesServer(ConnectionProfile, after: MQTTError)
    /// The file of `ClientConfiguration.routeMemory` can't be used, and is passed over.
    case routeMemoryProblem(String)
    /// Files of the session store were damaged: what could be read of them is used.
    case sessionStoreDamaged(String)
    /// A message that an earlier process had stored can't be sent: the server declared that it doesn't take such, or has
    /// lost the session where lost messages aren't to be published again.
    case storedMessageDiscarded(topic: String, error: MQTTError)
    /// A variable such as `HTTPS_PROXY` can't be used: an automatic profile goes without its proxy.
    case proxyEnvironmentProblem(ProfileError)
    /// Connections ended twice after about this time without traffic: a hop does that, so pings come at shorter
    /// intervals from now on.
    case idleLimitLearned(idleTime: Duration, pingsEvery: Duration)
    /// The network has changed, or the machine has slept: the client pings, or tries again, at once.
    case networkChanged
    /// A message matched no subscription of this client; it was acknowledged and dropped.
    case unmatchedMessage(topic: String)
    /// An answer to no request that waits: it came too late, or twice, or was never asked for.
    case lateResponse(topic: String)
    /// A responder's answer couldn't be published.
    case replyFailed(topic: String, error: MQTTError)
}

extension LogEvent {
    public var level: LogLevel {
        switch self {
        case .stage(let observation, of: _): observation.outcome.level
        case .triesVersion, .triesServer, .idleLimitLearned, .networkChanged: .notice
        case .unmatchedMessage, .lateResponse: .info
        case .credentialsInPlaintext, .routeMemoryProblem, .proxyEnvironmentProblem, .replyFailed: .warning
        case .sessionStoreDamaged, .storedMessageDiscarded: .error
        }
    }
}

extension StageObservation.Outcome {
    var level: LogLevel {
        switch self {
        case .passed, .redirected: .debug
        case .failed: .warning
        }
    }
}

extension LogEvent: CustomStringConvertible {
    /// One line for a person.
    public var description: String {
        switch self {
        case .stage(let observation, let way):
            switch observation.outcome {
            case .passed:
                "\(way): \(observation.stage.rawValue) passed in \(observation.duration)"
                    + (observation.detail.map { ", \($0)" } ?? "")
            case .failed(let error): "\(way): failed after \(observation.duration): \(error)"
            case .redirected(let url): "\(way): \(observation.stage.rawValue) redirected to \(url)"
            }
        case .credentialsInPlaintext(let way): "user name or password go over \(way) unencrypted"
        case .triesVersion(let version, let error): "trying MQTT \(version) after: \(error)"
        case .triesServer(let way, let error): "sent to \(way) by: \(error)"
        case .routeMemoryProblem(let problem): "the route memory isn't used: \(problem)"
        case .sessionStoreDamaged(let damage): "the session store is damaged: \(damage)"
        case .storedMessageDiscarded(let topic, let error):
            "a stored message for \"\(topic)\" is given up: \(error)"
        case .proxyEnvironmentProblem(let error): "the proxy of the environment isn't used: \(error)"
        case .idleLimitLearned(let time, let interval):
            "a hop ends connections that are idle for about \(time): pinging every \(interval)"
        case .networkChanged: "the network has changed or the machine has slept"
        case .unmatchedMessage(let topic): "no subscription matches a message of \"\(topic)\""
        case .lateResponse(let topic): "an answer at \"\(topic)\" belongs to no request that waits"
        case .replyFailed(let topic, let error): "an answer couldn't be published to \"\(topic)\": \(error)"
        }
    }
}
