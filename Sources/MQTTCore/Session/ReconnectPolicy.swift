/// When a lost or failed connection is tried again.
///
/// Full jitter: the delay before try n (counted from 0) is drawn evenly between 0 and
/// min(`maximumDelay`, `baseDelay` · 2^n), which spreads a fleet of clients best after a broker's restart.
/// The draw starts at `minimumDelay` instead of 0, so that no draw makes a hot loop.
package struct ReconnectPolicy: Sendable, Hashable {
    package var isEnabled: Bool
    package var baseDelay: Duration
    package var maximumDelay: Duration
    package var minimumDelay: Duration
    /// A connection that held this long starts the delays anew; a shorter one doesn't, or a server that
    /// drops each connection after CONNACK would be tried at the shortest delay for ever.
    package var stableAfter: Duration
    /// Whether a first connection that fails is tried again; otherwise the caller is told at once.
    package var retriesInitialConnect: Bool

    package init(
        isEnabled: Bool = true, baseDelay: Duration = .seconds(2), maximumDelay: Duration = .seconds(60),
        minimumDelay: Duration = .milliseconds(250), stableAfter: Duration = .seconds(30),
        retriesInitialConnect: Bool = false
    ) {
        self.isEnabled = isEnabled
        self.baseDelay = baseDelay
        self.maximumDelay = maximumDelay
        self.minimumDelay = minimumDelay
        self.stableAfter = stableAfter
        self.retriesInitialConnect = retriesInitialConnect
    }

    package static let never = ReconnectPolicy(isEnabled: false)

    /// - Parameters:
    ///   - failures: how often in a row it has failed before, 0 for the first delay.
    ///   - random: all 64 bits random.
    package func delay(failures: Int, random: UInt64) -> Duration {
        // 2^30 base delays exceed any maximum in use, and doubling further would overflow.
        let doubled = baseDelay * (1 << min(max(failures, 0), 30))
        return draw(from: minimumDelay, to: min(maximumDelay, doubled), random: random)
    }

    /// For what a retry won't mend soon, such as an untrusted certificate: the upper half of the longest
    /// delay at once.
    package func slowDelay(random: UInt64) -> Duration {
        draw(from: maximumDelay / 2, to: maximumDelay, random: random)
    }

    private func draw(from low: Duration, to high: Duration, random: UInt64) -> Duration {
        guard high > low else { return low }
        // 53 bits make a fraction in 0..<1 without rounding up to 1.
        return low + (high - low) * (Double(random >> 11) * 0x1p-53)
    }
}

/// What a failure says about trying again.
package enum ConnectionFailure: Sendable, Hashable, CaseIterable {
    /// May be over soon: network, timeouts, a busy or restarting server.
    case transient
    /// Needs somebody to act, or the clock to be set: tried again slowly.
    case certificate
    /// The server says no, or would to every such CONNECT: trying again cannot help, and may lock an account.
    case refusedByServer
    /// The server says no to this user name and password: tried again, slowly, with others only.
    case loginRefused
    /// Another client uses our client identifier: fighting back would never end.
    case takenOver
    /// It looks like that, and a hop that cuts connections looks the same: tried again slowly.
    case takeoverSuspected
    /// The server doesn't speak this version of MQTT.
    case versionUnsupported

    /// How a CONNACK with a failing code is to be taken (section 3.2.2.2; 3.1.1: section 3.2.2.3).
    package init(refusal code: ReasonCode, version: ProtocolVersion) {
        switch version {
        case .v3_1_1:
            self =
                switch code.rawValue {
                case 1: .versionUnsupported
                case 3: .transient
                case 4, 5: .loginRefused
                default: .refusedByServer
                }
        case .v5:
            self =
                switch code {
                case .unsupportedProtocolVersion: .versionUnsupported
                case .badUserNameOrPassword, .notAuthorized: .loginRefused
                case .malformedPacket, .protocolError, .clientIdentifierNotValid, .banned,
                    .badAuthenticationMethod, .topicNameInvalid, .packetTooLarge,
                    .payloadFormatInvalid, .retainNotSupported, .qosNotSupported:
                    .refusedByServer
                default: .transient
                }
        }
    }

    /// How a DISCONNECT from the server is to be taken (section 3.14.2.1).
    package init(disconnect code: ReasonCode) {
        self =
            switch code {
            case .sessionTakenOver: .takenOver
            // As brokers end a connection whose token has expired.
            case .notAuthorized: .loginRefused
            case .badAuthenticationMethod, .banned: .refusedByServer
            default: .transient
            }
    }

    package init(_ error: SessionError, version: ProtocolVersion) {
        switch error {
        case .refused(let code): self.init(refusal: code, version: version)
        case .serverDisconnected(let code): self.init(disconnect: code)
        case .notConnected, .queueFull, .droppedForNewer, .messageExpired, .connectionLost, .sessionLost,
            .exactlyOnceNotKept, .cancelled, .disconnected,
            .packetTooLarge,
            .qosNotSupported, .retainNotAvailable, .wildcardSubscriptionsNotAvailable,
            .subscriptionIdentifiersNotAvailable, .sharedSubscriptionsNotAvailable,
            .subscriptionIdentifierNotAllowed, .packetIdentifiersExhausted, .topicAliasNotAvailable,
            .requiresVersion5, .noAuthenticationMethod, .reauthenticationUnderWay, .connackTimeout,
            .authenticationFailed, .authenticationTimeout, .pingResponseTimeout, .malformed,
            .violation:
            self = .transient
        case .serverNotAuthentic: self = .certificate
        // Our own CONNECT can't be written: it won't be better the next time.
        case .notEncodable: self = .refusedByServer
        }
    }
}
