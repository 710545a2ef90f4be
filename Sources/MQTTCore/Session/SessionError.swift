/// Why an operation or a connection of the session is over.
package enum SessionError: Error, Sendable, Hashable {
    // Operations.

    /// Not to be kept for a later connection: QoS 0, unless the queue keeps it, and what says so.
    case notConnected
    /// As many wait already as may.
    case queueFull(waiting: Int)
    /// It waited longest when there was no room for a newer one.
    case droppedForNewer
    /// Its Message Expiry Interval passed before it was sent.
    case messageExpired
    /// The connection went before the packet was sent.
    case connectionLost
    /// The session holding the message is gone, so its fate is unknown.
    case sessionLost
    /// The server answered a QoS 2 message by PUBACK, which it must not [MQTT-4.3.3-8], 3.1.1: [MQTT-4.3.3-2]:
    /// it took the message, and may deliver it more than once.
    case exactlyOnceNotKept
    case cancelled
    /// The client has been disconnected for good.
    case disconnected
    /// Above the server's Maximum Packet Size, both in bytes [MQTT-3.2.2-15].
    case packetTooLarge(size: Int, limit: UInt32)
    /// Above the server's Maximum QoS [MQTT-3.2.2-11].
    case qosNotSupported(maximum: QoS)
    /// [MQTT-3.2.2-14]
    case retainNotAvailable
    /// Section 3.2.2.3.11.
    case wildcardSubscriptionsNotAvailable
    /// Section 3.2.2.3.12.
    case subscriptionIdentifiersNotAvailable
    /// Section 3.2.2.3.13.
    case sharedSubscriptionsNotAvailable
    /// Subscription Identifiers of a PUBLISH are the server's to send [MQTT-3.3.4-6].
    case subscriptionIdentifierNotAllowed
    /// All 65,535 packet identifiers are in use, and the session was told not to wait for one.
    case packetIdentifiersExhausted
    /// An alias would have no meaning on the next connection [MQTT-3.3.2-7].
    case topicAliasNotAvailable
    /// Something that 3.1.1 doesn't have.
    case requiresVersion5
    case notEncodable(EncodeError)
    /// CONNECT named no Authentication Method [MQTT-4.12.0-7].
    case noAuthenticationMethod
    /// One at a time (section 4.12.1).
    case reauthenticationUnderWay

    // Connections.

    case refused(ReasonCode)
    case connackTimeout
    /// The application's handler gave up, in its own words; a re-authentication's operation fails so too.
    case authenticationFailed(String)
    /// The server accepted us, and the handler not the server.
    case serverNotAuthentic(String)
    case authenticationTimeout(AuthenticationParty)
    case pingResponseTimeout
    case serverDisconnected(ReasonCode)
    case malformed(DecodeError)
    case violation(SessionViolation)
}

/// What a server did against the protocol, as seen by the session (the decoder sees malformed packets).
package enum SessionViolation: Sendable, Hashable {
    /// Any packet ahead of CONNACK [MQTT-3.2.0-1], DISCONNECT included [MQTT-3.14.0-1].
    case packetBeforeConnack
    /// [MQTT-3.2.0-2]
    case secondConnack
    /// A reason below 0x80 that isn't success (section 3.2.2.2).
    case connackReasonCode(ReasonCode)
    /// [MQTT-3.2.2-2]; 3.1.1: [MQTT-3.2.2-1]
    case sessionPresentAfterCleanStart
    /// [MQTT-3.2.2-4]
    case sessionPresentWithoutSession
    /// An empty client identifier was left without one [MQTT-3.2.2-16].
    case clientIdentifierNotAssigned
    /// Another client identifier than the one we gave (section 3.2.2.3.7).
    case clientIdentifierReplaced
    /// CONNACK names an Authentication Method that CONNECT didn't [MQTT-4.12.0-6].
    case unexpectedAuthenticationMethod
    /// [MQTT-4.12.0-6]; or one that doesn't fit the exchange under way.
    case unexpectedAuth
    /// AUTH or CONNACK names another Authentication Method than CONNECT, or none [MQTT-4.12.0-5].
    case authenticationMethodChanged
    /// CONNACK accepts before the exchange has come to its end.
    case authenticationCutShort
    /// The server speaks before CONNECT.
    case packetBeforeConnect
    /// CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, or in 3.1.1 DISCONNECT, from a server.
    case clientPacketFromServer
    /// No SUBSCRIBE waits for this SUBACK [MQTT-2.2.1-6], 3.1.1: [MQTT-2.3.1-7]
    case unknownSuback(PacketIdentifier)
    /// No UNSUBSCRIBE waits for this UNSUBACK.
    case unknownUnsuback(PacketIdentifier)
    /// [MQTT-3.8.4-6], 3.1.1: [MQTT-3.8.4-5]
    case subackCount(expected: Int, received: Int)
    /// [MQTT-3.11.3-1]
    case unsubackCount(expected: Int, received: Int)
    /// [MQTT-3.3.4-9]
    case receiveMaximumExceeded
    /// Topic Alias 0, or above what we announced [MQTT-3.3.2-8], [MQTT-3.1.2-26], [MQTT-3.1.2-27].
    case topicAliasInvalid(UInt16)
    /// An alias that no PUBLISH of this connection has set (section 3.3.4).
    case topicAliasUnknown(UInt16)
    /// Section 3.3.2.1.
    case topicNameMissing
    /// A Reason String or User Property, though Request Problem Information was 0 [MQTT-3.1.2-29].
    case problemInformationNotRequested(PacketType)
    /// Response Information in CONNACK, though Request Response Information was not 1 [MQTT-3.1.2-28].
    case responseInformationNotRequested
    /// Never used in a SUBSCRIBE of this session (section 3.3.4).
    case subscriptionIdentifierUnknown(UInt32)

    /// The Reason Code of the DISCONNECT by which a 5.0 client says so (section 4.13).
    package var reasonCode: ReasonCode {
        switch self {
        case .receiveMaximumExceeded: .receiveMaximumExceeded
        case .topicAliasInvalid: .topicAliasInvalid
        case .packetBeforeConnack, .secondConnack, .connackReasonCode, .sessionPresentAfterCleanStart,
            .sessionPresentWithoutSession, .clientIdentifierNotAssigned, .clientIdentifierReplaced,
            .unexpectedAuthenticationMethod, .unexpectedAuth, .authenticationMethodChanged,
            .authenticationCutShort, .packetBeforeConnect, .clientPacketFromServer, .unknownSuback,
            .unknownUnsuback, .subackCount, .unsubackCount, .topicAliasUnknown, .topicNameMissing,
            .problemInformationNotRequested, .responseInformationNotRequested, .subscriptionIdentifierUnknown:
            .protocolError
        }
    }
}
