// The session machine keeps error enums of its own; this is the one place where they become the shared
// vocabulary.

extension TransportError {
    /// - Parameter isEstablished: whether CONNACK had accepted the connection. What never left this program is
    ///   at stage `local`.
    init(session error: SessionError, isEstablished: Bool) {
        let (code, evidence): (FailureCode, Evidence) =
            switch error {
            case .notConnected:
                (
                    .clientNotConnected,
                    .text("there is no connection, and the message isn't kept for a later one")
                )
            case .queueFull(let waiting):
                (.clientQueueFull, .text("\(waiting) publishes are waiting to be sent"))
            case .droppedForNewer:
                (.clientQueueFull, .text("dropped for a newer message, since no more may wait to be sent"))
            case .messageExpired:
                (
                    .clientMessageExpired,
                    .text("the Message Expiry Interval passed before the message could be sent")
                )
            case .connectionLost:
                (.clientNotConnected, .text("the connection went before the message was sent"))
            case .sessionLost: (.mqttSessionLost, .text("the session that held the message is gone"))
            case .exactlyOnceNotKept:
                (
                    .mqttProtocolError,
                    .text(
                        "the server answered a QoS 2 message by PUBACK: it has the message, and may deliver it more than once"
                    )
                )
            case .cancelled: (.clientDisconnected, .text("the operation was cancelled"))
            case .disconnected: (.clientDisconnected, .none)
            case .packetTooLarge(let size, let limit):
                (.mqttPacketTooLarge, .text("\(size) bytes, and the server takes \(limit) at most"))
            case .qosNotSupported(let maximum):
                (.clientNotSupportedByServer, .text("the server takes QoS \(maximum.rawValue) at most"))
            case .retainNotAvailable:
                (.clientNotSupportedByServer, .text("the server keeps no retained messages"))
            case .wildcardSubscriptionsNotAvailable:
                (.clientNotSupportedByServer, .text("the server has no wildcard subscriptions"))
            case .subscriptionIdentifiersNotAvailable:
                (.clientNotSupportedByServer, .text("the server has no Subscription Identifiers"))
            case .sharedSubscriptionsNotAvailable:
                (.clientNotSupportedByServer, .text("the server has no shared subscriptions"))
            case .subscriptionIdentifierNotAllowed:
                (.clientInvalidArgument, .text("a client's PUBLISH has no Subscription Identifier"))
            case .packetIdentifiersExhausted:
                (.clientQueueFull, .text("all 65,535 packet identifiers are in use"))
            case .topicAliasNotAvailable:
                (.clientInvalidArgument, .text("a Topic Alias can't be given by hand"))
            case .requiresVersion5:
                (.clientInvalidArgument, .text("this needs MQTT 5.0, and the connection speaks 3.1.1"))
            case .noAuthenticationMethod:
                (.clientInvalidArgument, .text("the configuration has no authentication handler"))
            case .reauthenticationUnderWay:
                (.clientInvalidArgument, .text("a re-authentication is under way"))
            case .notEncodable(let error): (.clientInvalidArgument, .text(error.description))
            case .refused(let code): Self.refusal(code, reasonString: nil)
            case .connackTimeout:
                (.mqttConnackTimeout, .text("CONNECT was sent, and no CONNACK came in time"))
            case .authenticationFailed(let reason): (.mqttAuthenticationFailed, .text(reason))
            case .serverNotAuthentic(let reason): (.mqttServerNotAuthentic, .text(reason))
            case .authenticationTimeout(.handler):
                (.mqttAuthenticationTimeout, .text("the authentication handler gave no answer in time"))
            case .authenticationTimeout(.server):
                (.mqttAuthenticationTimeout, .text("AUTH was sent, and the server didn't go on in time"))
            case .pingResponseTimeout: (.idleBlackholed, .text("PINGREQ was sent, and nothing came in time"))
            case .serverDisconnected(let code): Self.serverDisconnect(code, reasonString: nil)
            // A server that knows only 3.1.1 answers in its own terms.
            case .malformed(.reasonCodeNotValid(.connack, 1)):
                (.mqttVersionUnsupported, .text("CONNACK has the return code 1 of MQTT 3.1.1"))
            case .malformed(let error): (Self.code(error, isEstablished), .text(error.description))
            case .violation(let violation): (.mqttProtocolError, .text("\(violation)"))
            }
        let stage: ConnectionStage =
            code.prefix == "client" ? .local : isEstablished ? .established : .mqttConnect
        self.init(stage: stage, code: code, evidence: evidence)
    }

    init(refusal connack: Connack, version: ProtocolVersion) {
        let (code, evidence) = Self.refusal(
            connack.reasonCode, version: version, reasonString: Self.explanation(connack.properties))
        self.init(stage: .mqttConnect, code: code, evidence: evidence)
    }

    init(disconnect: Disconnect) {
        let (code, evidence) = Self.serverDisconnect(
            disconnect.reasonCode, reasonString: Self.explanation(disconnect.properties))
        self.init(stage: .established, code: code, evidence: evidence)
    }

    /// A failing PUBACK, PUBREC, PUBCOMP, SUBACK or UNSUBACK.
    init(refused code: ReasonCode, properties: Properties) {
        self.init(
            stage: .established, code: .mqttOperationRefused,
            evidence: .reasonCode(
                code.rawValue, name: code.name ?? "unknown reason", reasonString: properties.reasonString))
    }

    /// Two connections were closed straight after CONNACK, of which this was the second.
    static func inferredTakeover(_ end: TransportError) -> TransportError {
        TransportError(
            stage: .established, code: .mqttTakenOver, hop: end.hop,
            evidence: .text(
                "inferred, since MQTT 3.1.1 has no word for it: twice in a row the connection ended within "
                    + "\(TakeoverSuspicion.window) of CONNACK (\(end.code.rawValue))"))
    }

    /// A redirection that was refused.
    func notFollowed(because reason: String) -> TransportError {
        guard case .reasonCode(let code, let name, let text) = evidence else { return self }
        let words = [text, "not followed: \(reason)"].compactMap { $0 }.joined(separator: "; ")
        return TransportError(
            stage: stage, code: self.code, hop: hop,
            evidence: .reasonCode(code, name: name, reasonString: words))
    }

    /// The server's Reason String, and the server that it refers to (section 4.11).
    private static func explanation(_ properties: Properties) -> String? {
        guard let reference = properties.serverReference else { return properties.reasonString }
        return [properties.reasonString, "Server Reference: \(reference)"].compactMap { $0 }
            .joined(separator: "; ")
    }

    private static func refusal(
        _ code: ReasonCode, version: ProtocolVersion = .v5, reasonString: String?
    ) -> (FailureCode, Evidence) {
        let name = version == .v3_1_1 ? code.connectReturnCodeDescription : code.name ?? "unknown reason"
        let evidence = Evidence.reasonCode(code.rawValue, name: name, reasonString: reasonString)
        switch (version, code.rawValue) {
        case (.v5, 0x84), (.v3_1_1, 1): return (.mqttVersionUnsupported, evidence)
        case (.v5, 0x9C), (.v5, 0x9D): return (.mqttRedirect, evidence)
        default: return (.mqttRefused, evidence)
        }
    }

    private static func serverDisconnect(_ code: ReasonCode, reasonString: String?) -> (FailureCode, Evidence)
    {
        let evidence = Evidence.reasonCode(
            code.rawValue, name: code.name ?? "unknown reason", reasonString: reasonString)
        switch code {
        case .sessionTakenOver: return (.mqttTakenOver, evidence)
        case .useAnotherServer, .serverMoved: return (.mqttRedirect, evidence)
        default: return (.mqttServerDisconnected, evidence)
        }
    }

    /// Before CONNACK an answer that isn't MQTT at all is the likelier reading.
    private static func code(_ error: DecodeError, _ isEstablished: Bool) -> FailureCode {
        if error.reasonCode == .packetTooLarge, isEstablished { return .mqttPacketTooLarge }
        if !isEstablished { return .mqttNotMQTT }
        return error.reasonCode == .protocolError ? .mqttProtocolError : .mqttMalformed
    }
}

extension ConnectionFailure {
    /// What an error below MQTT says about trying again.
    init(_ error: TransportError) {
        switch error.code {
        case .tlsUntrusted, .tlsExpired, .tlsNotYetValid, .tlsNameMismatch, .tlsIntercepted,
            .tlsInterceptedTrusted, .tlsNoTrustStore, .tlsClientCertRequired:
            self = .certificate
        case .mqttServerNotAuthentic: self = .certificate
        case .mqttTakenOver: self = .takenOver
        // An address or an interface that this machine hasn't got: modems and leases come and go.
        case .clientInvalidArgument where error.stage == .resolve || error.stage == .tcp: self = .transient
        // A login that a proxy refuses again and again may lock an account as well.
        case .tlsBadCredentials, .clientInvalidArgument, .proxyAuthFailed, .proxyAuthRequired,
            .proxySOCKSMethod:
            self = .refusedByServer
        default:
            self = .transient
        }
    }
}

extension TransportError {
    /// Whether the connection ended without a word by anybody about why.
    var isWithoutReason: Bool {
        switch code {
        case .tcpClosed, .tcpReset, .tcpTimeout, .idleBlackholed, .idlePingIgnored: return true
        case .wsClosed:
            if case .webSocketClose(_, _, clean: false) = evidence { return true }
            return false
        default: return false
        }
    }
}
