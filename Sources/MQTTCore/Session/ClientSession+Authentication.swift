// Enhanced authentication: sections 3.15 and 4.12.
extension ClientSession {
    /// The handler's data for the question with this token.
    package mutating func authenticationAnswered(
        _ token: AuthenticationToken, data: [UInt8]?, now: Instant, into output: inout SessionOutput
    ) {
        guard let authentication = awaitingHandler(token) else { return }
        switch authentication.stage {
        case .startingConnect(var connect):
            connection.authentication?.stage = .connecting(.server)
            connect.properties.authenticationMethod = authentication.method
            connect.properties.authenticationData = data
            sendConnect(connect, into: &output)
        case .connecting:
            connection.authentication?.stage = .connecting(.server)
            sendAuth(.continueAuthentication, data, into: &output)
        case .finishingConnect(let connack):
            acceptAuthenticated(connack, held: authentication.held, now: now, into: &output)
        case .reauthenticating(.starting, let operation):
            connection.authentication?.stage = .reauthenticating(.exchanging(.server), operation)
            sendAuth(.reAuthenticate, data, into: &output)
        case .reauthenticating(.exchanging, let operation):
            connection.authentication?.stage = .reauthenticating(.exchanging(.server), operation)
            sendAuth(.continueAuthentication, data, into: &output)
        case .reauthenticating(.finishing, let operation):
            connection.authentication?.stage = .idle
            if let operation { output.actions.append(.reauthenticated(operation)) }
        case .idle: break
        }
    }

    /// The handler can't go on. Where it has opened a re-authentication that the server knows nothing of, only
    /// that fails; else the connection ends [MQTT-4.12.1-2].
    ///
    /// - Parameter reason: for people; never holds credentials.
    package mutating func authenticationFailed(
        _ token: AuthenticationToken, reason: String, into output: inout SessionOutput
    ) {
        guard let authentication = awaitingHandler(token) else { return }
        switch authentication.stage {
        case .reauthenticating(.starting, _):
            failReauthentication(with: .authenticationFailed(reason), into: &output)
        case .finishingConnect, .reauthenticating(.finishing, _):
            failAuthentication(with: .serverNotAuthentic(reason), into: &output)
        case .startingConnect, .connecting, .reauthenticating(.exchanging, _), .idle:
            failAuthentication(with: .authenticationFailed(reason), into: &output)
        }
    }

    /// Whether the answer to this question is still awaited.
    package func isAsking(_ token: AuthenticationToken) -> Bool { awaitingHandler(token) != nil }

    /// Authenticates anew on the connection that stands (section 4.12.1); other packets flow on meanwhile.
    package mutating func reauthenticate(
        token: OperationToken, timeout: Duration, now: Instant, into output: inout SessionOutput
    ) {
        let error: SessionError
        switch (phase, connection.authentication?.stage) {
        case (.established, .idle?):
            connection.authentication?.stage = .reauthenticating(.starting, token)
            connection.authentication?.deadline = now + timeout
            ask(.start, into: &output)
            return
        case (.established, nil): error = .noAuthenticationMethod
        case (.established, _?): error = .reauthenticationUnderWay
        case (.closed, _), (.awaitingConnack, _), (.closing, _): error = .notConnected
        }
        output.actions.append(.failed(token, error))
    }

    /// Begins the exchange on a fresh connection. The handler's data belongs into CONNECT, which waits for it.
    mutating func authenticate(
        by method: String, before connect: Connect, into output: inout SessionOutput
    ) {
        connection.authentication = Authentication(
            method: method, stage: .startingConnect(connect),
            lastToken: AuthenticationToken(connection: connection.number, number: 0),
            deadline: connection.connackDeadline)
        ask(.start, into: &output)
    }

    /// False while CONNECT waits for the handler.
    var isConnectSent: Bool {
        if case .startingConnect? = connection.authentication?.stage { false } else { true }
    }

    mutating func receiveAuth(_ auth: Auth, into output: inout SessionOutput) {
        guard let authentication = connection.authentication else {
            return fail(.unexpectedAuth, into: &output)
        }
        guard authentication.isNamed(in: auth.properties) else {
            return fail(.authenticationMethodChanged, into: &output)
        }
        let data = auth.properties.authenticationData
        switch (auth.reasonCode, authentication.stage) {
        case (.continueAuthentication, .connecting(.server)):  // [MQTT-4.12.0-3]
            connection.authentication?.stage = .connecting(.handler)
            ask(.respond(data), into: &output)
        case (.continueAuthentication, .reauthenticating(.exchanging(.server), let operation)):
            connection.authentication?.stage = .reauthenticating(.exchanging(.handler), operation)
            ask(.respond(data), into: &output)
        case (.success, .reauthenticating(.exchanging(.server), let operation)):
            connection.authentication?.stage = .reauthenticating(.finishing, operation)
            ask(.finish(data), into: &output)
        default:
            fail(.unexpectedAuth, into: &output)
        }
    }

    func checkAuthentication(of connack: Connack) -> SessionViolation? {
        guard let authentication = connection.authentication else { return nil }
        guard authentication.isNamed(in: connack.properties) else {
            return .authenticationMethodChanged
        }
        return authentication.turn == .server ? nil : .authenticationCutShort
    }

    /// Whether the accepting CONNACK has to wait for the handler's word on the server.
    mutating func finishAuthentication(by connack: Connack, into output: inout SessionOutput) -> Bool {
        guard connection.authentication != nil else { return false }
        connection.authentication?.stage = .finishingConnect(connack)
        ask(.finish(connack.properties.authenticationData), into: &output)
        return true
    }

    /// Whether a packet waits behind an accepting CONNACK. What comes ahead of CONNECT is no answer to it.
    mutating func hold(_ packet: ControlPacket, into output: inout SessionOutput) -> Bool {
        switch connection.authentication?.stage {
        case .startingConnect?:
            fail(.packetBeforeConnect, into: &output)
            return true
        case .finishingConnect?:
            connection.authentication?.held.append(packet)
            connection.authentication?.heldBytes += 64
            if case .publish(let publish) = packet {
                connection.authentication?.heldBytes += publish.payload.count
            }
            if let held = connection.authentication?.heldBytes, held > Self.heldLimit {
                failAuthentication(with: .authenticationTimeout(.handler), into: &output)
            }
            return true
        case .connecting?, .idle?, .reauthenticating?, nil: return false
        }
    }

    /// Bytes that a server may send before it is known to be the right one: a handler that takes as long as
    /// that many take to come has failed.
    private static let heldLimit = 64 << 20

    // MARK: Ends

    mutating func connackDeadlineReached(into output: inout SessionOutput) {
        switch connection.authentication?.turn {
        case .handler?: failAuthentication(with: .authenticationTimeout(.handler), into: &output)
        case .server?, nil: end(.connackTimeout, reason: nil, into: &output)
        }
    }

    var reauthenticationDeadline: Instant? {
        guard case .reauthenticating? = connection.authentication?.stage else { return nil }
        return connection.authentication?.deadline
    }

    mutating func reauthenticationDeadlineReached(now: Instant, into output: inout SessionOutput) {
        guard let deadline = reauthenticationDeadline, now >= deadline,
            let authentication = connection.authentication, let turn = authentication.turn
        else { return }
        if case .reauthenticating(.starting, _) = authentication.stage {
            failReauthentication(with: .authenticationTimeout(turn), into: &output)
        } else {
            failAuthentication(with: .authenticationTimeout(turn), into: &output)
        }
    }

    /// The re-authentication under way, if there is one, is over without the server's word.
    mutating func failReauthentication(with error: SessionError, into output: inout SessionOutput) {
        guard case .reauthenticating(_, let operation)? = connection.authentication?.stage else { return }
        connection.authentication?.stage = .idle
        if let operation { output.actions.append(.failed(operation, error)) }
    }

    /// Before CONNACK a client that authenticates may send DISCONNECT and AUTH only [MQTT-3.1.2-30].
    func sendDisconnectWhileAuthenticating(_ reason: ReasonCode, into output: inout SessionOutput) {
        guard connection.authentication != nil, isConnectSent else { return }
        do { try output.append(.disconnect(Disconnect(reasonCode: reason)), for: .v5) } catch {
            // A DISCONNECT without properties always fits; closing says enough otherwise.
        }
    }

    func earlier(_ one: Instant?, _ other: Instant?) -> Instant? {
        guard let one, let other else { return one ?? other }
        return min(one, other)
    }

    private mutating func failAuthentication(with error: SessionError, into output: inout SessionOutput) {
        failReauthentication(with: error, into: &output)
        // Table 3-10: 0x87 Not authorized is the server's to send.
        end(error, reason: .unspecifiedError, into: &output)
    }

    // MARK: The exchange

    private mutating func ask(_ step: AuthenticationStep, into output: inout SessionOutput) {
        guard let last = connection.authentication?.lastToken else { return }
        let token = AuthenticationToken(connection: last.connection, number: last.number + 1)
        connection.authentication?.lastToken = token
        output.actions.append(.authenticate(token, step))
    }

    private func awaitingHandler(_ token: AuthenticationToken) -> Authentication? {
        switch phase {
        case .closed, .closing: return nil
        case .awaitingConnack, .established: break
        }
        guard let authentication = connection.authentication, authentication.turn == .handler,
            authentication.lastToken == token
        else { return nil }
        return authentication
    }

    private mutating func sendAuth(
        _ reason: ReasonCode, _ data: [UInt8]?, into output: inout SessionOutput
    ) {
        guard let method = connection.authentication?.method else { return }
        var properties = Properties()
        properties.authenticationMethod = method
        properties.authenticationData = data
        let packet = ControlPacket.auth(Auth(reasonCode: reason, properties: properties))
        if let limit = connection.limits.maximumPacketSize,
            let size = try? packet.encodedSize(for: .v5), size > Int(limit)
        {
            failAuthentication(with: .packetTooLarge(size: size, limit: limit), into: &output)
        } else {
            send(packet, into: &output)
        }
    }

    private mutating func acceptAuthenticated(
        _ connack: Connack, held: [ControlPacket], now: Instant, into output: inout SessionOutput
    ) {
        connection.authentication?.stage = .idle
        connection.authentication?.held = []
        acceptConnack(connack, now: now, into: &output)
        for packet in held { receive(packet, now: now, into: &output) }
    }
}
