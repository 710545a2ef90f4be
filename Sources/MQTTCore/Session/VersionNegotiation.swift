/// Which version of MQTT the next CONNECT speaks, where either will do.
///
/// A server that knows only 3.1.1 refuses a 5.0 CONNECT in words (3.1.2.2 there) or hangs up on it without any.
/// The latter may have another cause, so it counts for one immediate attempt and teaches nothing by itself.
package struct VersionNegotiation: Sendable {
    private enum State {
        case fixed(ProtocolVersion)
        /// The other version hasn't been tried since the last failure.
        case trying(ProtocolVersion)
        /// The second choice, after the server refused the first or hung up on it.
        case tryingInstead(of: ProtocolVersion)
    }

    /// How an attempt ended that didn't reach an accepting CONNACK.
    package enum Failure: Sendable, Hashable {
        case versionRefused
        /// CONNECT was sent, and the connection ended without a byte in answer.
        case endedWithoutAnswer
        /// A CONNACK with another refusal: the version is understood.
        case refused
        /// Anything else says nothing of the version.
        case other
    }

    private var state: State

    package init(fixed version: ProtocolVersion) { state = .fixed(version) }

    /// - Parameter first: what is tried first: 5.0, or what is remembered of this server.
    package init(first: ProtocolVersion) { state = .trying(first) }

    package var version: ProtocolVersion {
        switch state {
        case .fixed(let version), .trying(let version): version
        case .tryingInstead(let first): Self.other(first)
        }
    }

    /// CONNACK accepted the version: it stays, since the session belongs to it.
    package mutating func accepted() { state = .fixed(version) }

    /// - Returns: whether `version` is another one now, to be tried at once.
    package mutating func failed(_ failure: Failure) -> Bool {
        switch (state, failure) {
        case (.fixed, _), (.trying, .other): return false
        case (.trying(let version), .versionRefused), (.trying(let version), .endedWithoutAnswer):
            state = .tryingInstead(of: version)
            return true
        case (.trying, .refused), (.tryingInstead, .refused):
            state = .fixed(version)
            return false
        case (.tryingInstead(let first), .versionRefused), (.tryingInstead(let first), .endedWithoutAnswer):
            state = .trying(first)
            return false
        case (.tryingInstead, .other): return false
        }
    }

    private static func other(_ version: ProtocolVersion) -> ProtocolVersion {
        switch version {
        case .v5: .v3_1_1
        case .v3_1_1: .v5
        }
    }
}
