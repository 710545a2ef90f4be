import MQTTConformance
import MQTTCore
import Testing

@Suite("Session: enhanced authentication (5.0, section 4.12)")
struct SessionAuthenticationTests {
    /// A session whose CONNECT waits for the handler.
    private func opened() throws -> (SessionHarness, AuthenticationToken) {
        var harness = SessionHarness(SessionConfiguration(clientIdentifier: "c"))
        harness.session.open(
            userName: nil, password: nil, authenticationMethod: "M", now: harness.now,
            connackTimeout: .seconds(10), into: &harness.output)
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        return (harness, try token(output, .start))
    }

    /// A session whose CONNECT is sent.
    private func connecting() throws -> SessionHarness {
        var (harness, token) = try opened()
        harness.answer(token, [0xAA])
        _ = harness.take()
        return harness
    }

    private func connected(_ limits: [Property] = []) throws -> SessionHarness {
        var harness = try connecting()
        harness.receive(.connack(Connack(sessionPresent: false, properties: named([0xBB], limits))))
        harness.answer(try token(harness.take(), .finish([0xBB])), nil)
        _ = harness.take()
        #expect(harness.session.state == .established)
        return harness
    }

    /// A session that has sent AUTH 0x19, and the operation that waits.
    private func reauthenticating() throws -> (SessionHarness, OperationToken) {
        var harness = try connected()
        let operation = harness.reauthenticate()
        harness.answer(try token(harness.take(), .start), [1])
        #expect(harness.take().bytes == hex("F0 0A 19 08 15 00 01 4D 16 00 01 01"))
        return (harness, operation)
    }

    private func token(_ output: SessionOutput, _ step: AuthenticationStep) throws -> AuthenticationToken {
        let tokens = output.actions.compactMap { action -> AuthenticationToken? in
            if case .authenticate(let token, step) = action { token } else { nil }
        }
        return try #require(tokens.count == 1 ? tokens.first : nil)
    }

    private func named(
        _ data: [UInt8]? = nil, _ others: [Property] = [], method: String? = "M"
    ) -> Properties {
        var properties = Properties(others)
        properties.authenticationMethod = method
        properties.authenticationData = data
        return properties
    }

    private func challenge(_ data: [UInt8]? = [9], method: String? = "M") -> ControlPacket {
        .auth(Auth(reasonCode: .continueAuthentication, properties: named(data, method: method)))
    }

    // MARK: While connecting

    @Test func `CONNECT waits for the handler and carries its method and data`() throws {
        var (harness, token) = try opened()
        harness.encode()
        #expect(harness.take().bytes.isEmpty)
        harness.answer(token, [0xAA])
        #expect(
            harness.take().bytes
                == hex(
                    "10 1B 00 04 4D 51 54 54 05 02 00 1E 0D 11 00 00 0E 10 15 00 01 4D 16 00 01 AA 00 01 63"))
    }

    @Test(.mqtt5("4.12.0-3", "3.15.2-1"))
    func `[MQTT-4.12.0-3] each AUTH is answered by an AUTH 0x18 of the same method`() throws {
        var harness = try connecting()
        for round in [1, 2] as [UInt8] {
            harness.receive(challenge([round]))
            let output = harness.take()
            #expect(output.bytes.isEmpty)
            harness.answer(try token(output, .respond([round])), [round + 1])
            let sent = harness.take().bytes
            #expect(sent == hex("F0 0A 18 08 15 00 01 4D 16 00 01") + [round + 1])
        }
    }

    @Test func `nothing is established before the handler has seen the last data`() throws {
        var harness = try connecting()
        harness.publish()
        let connack = Connack(sessionPresent: false, properties: named([0xBB]))
        harness.receive(.connack(connack))
        harness.deliver(qos: .atMostOnce, id: 1)
        harness.encode()
        let output = harness.take()
        #expect(output.actions.count == 1)
        #expect(output.bytes.isEmpty)
        harness.answer(try token(output, .finish([0xBB])), nil)
        harness.encode()
        let after = harness.take()
        #expect(after.actions.first == .established(connack, resumed: false))
        #expect(after.tokens.count == 1)
        #expect(after.bytes.first == 0x32)
    }

    @Test func `a server that proves nothing is left before anything is handed out`() throws {
        var harness = try connecting()
        harness.receive(.connack(Connack(sessionPresent: false, properties: named())))
        harness.deliver(qos: .atMostOnce, id: 1)
        let token = try token(harness.take(), .finish(nil))
        harness.session.authenticationFailed(token, reason: "no proof", into: &harness.output)
        let output = harness.take()
        #expect(output.actions == [.close(.serverNotAuthentic("no proof"))])
        #expect(output.bytes == hex("E0 01 80"))
    }

    @Test(.mqtt5("3.1.2-30"))
    func `[MQTT-3.1.2-30] before CONNACK only AUTH and DISCONNECT leave`() throws {
        var harness = try connecting()
        harness.publish()
        harness.subscribe("t")
        harness.encode()
        harness.advance(.seconds(9))
        harness.deadline()
        #expect(harness.take().bytes.isEmpty)
        harness.session.disconnect(now: harness.now, into: &harness.output)
        #expect(harness.take().bytes.first == 0xE0)
    }

    @Test func `a disconnect ahead of CONNECT sends nothing`() throws {  // [MQTT-3.1.0-1]
        var (harness, token) = try opened()
        harness.session.disconnect(now: harness.now, into: &harness.output)
        harness.answer(token, [1])
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.actions == [.close(nil)])
    }

    @Test(.mqtt5("4.12.0-5", "detect-authentication-method-changed"), arguments: ["N", nil] as [String?])
    func `[MQTT-4.12.0-5] the method stays the same in every AUTH and in CONNACK`(method: String?) throws {
        var harness = try connecting()
        harness.receive(challenge(nil, method: method))
        var output = harness.take()
        #expect(output.actions == [.close(.violation(.authenticationMethodChanged))])
        #expect(output.bytes == hex("E0 01 82"))
        harness = try connecting()
        harness.receive(
            .connack(Connack(sessionPresent: false, properties: named(method: method))))
        output = harness.take()
        #expect(output.actions == [.close(.violation(.authenticationMethodChanged))])
        #expect(output.bytes == hex("E0 01 82"))
    }

    @Test func `[MQTT-4.12.0-4] a refusing CONNACK ends the exchange, with or without a method`() throws {
        var harness = try connecting()
        harness.receive(challenge())
        _ = harness.take()
        let refusal = Connack(sessionPresent: false, reasonCode: .notAuthorized)
        harness.receive(.connack(refusal))
        let output = harness.take()
        #expect(output.actions == [.refused(refusal), .close(.refused(.notAuthorized))])
        #expect(output.bytes.isEmpty)
    }

    @Test(.mqtt5("detect-auth-code"))
    func `what doesn't fit the exchange is a protocol error`() throws {
        let success = ControlPacket.auth(Auth(reasonCode: .success, properties: named()))
        let again = ControlPacket.auth(Auth(reasonCode: .reAuthenticate, properties: named()))
        for packet in [success, again] {
            var harness = try connecting()
            harness.receive(packet)
            let output = harness.take()
            #expect(output.actions == [.close(.violation(.unexpectedAuth))])
            #expect(output.bytes == hex("E0 01 82"))
        }
        // A second challenge, or acceptance, while the answer to the first is owed.
        let accepting = ControlPacket.connack(Connack(sessionPresent: false, properties: named()))
        for (packet, violation) in [
            (challenge(), SessionViolation.unexpectedAuth), (accepting, .authenticationCutShort),
        ] {
            var harness = try connecting()
            harness.receive(challenge())
            _ = harness.take()
            harness.receive(packet)
            #expect(harness.take().actions == [.close(.violation(violation))])
        }
    }

    @Test func `a server that speaks before CONNECT is no MQTT server`() throws {
        var (harness, _) = try opened()
        harness.receive(.connack(Connack(sessionPresent: false, properties: named())))
        let output = harness.take()
        #expect(output.actions == [.close(.violation(.packetBeforeConnect))])
        #expect(output.bytes.isEmpty)
    }

    @Test func `the whole exchange has to fit into the time for CONNACK`() throws {
        // The handler hangs, before CONNECT and within the exchange; then the server does.
        var (harness, _) = try opened()
        harness.advance(.seconds(10))
        harness.deadline()
        var output = harness.take()
        #expect(output.actions == [.close(.authenticationTimeout(.handler))])
        #expect(output.bytes.isEmpty)

        harness = try connecting()
        harness.advance(.seconds(6))
        harness.receive(challenge())
        _ = harness.take()
        harness.advance(.seconds(4))
        harness.deadline()
        output = harness.take()
        #expect(output.actions == [.close(.authenticationTimeout(.handler))])
        #expect(output.bytes == hex("E0 01 80"))

        harness = try connecting()
        harness.advance(.seconds(10))
        harness.deadline()
        #expect(harness.take().actions == [.close(.connackTimeout)])
    }

    @Test func `a handler that gives up ends the attempt in its own words`() throws {
        var harness = try connecting()
        harness.receive(challenge())
        let token = try token(harness.take(), .respond([9]))
        harness.session.authenticationFailed(token, reason: "no key", into: &harness.output)
        #expect(harness.take().actions == [.close(.authenticationFailed("no key"))])
    }

    @Test func `an answer for an earlier connection is passed over`() throws {
        var (harness, old) = try opened()
        harness.close()
        harness.session.open(
            userName: nil, password: nil, authenticationMethod: "M", now: harness.now,
            connackTimeout: .seconds(10), into: &harness.output)
        let new = try token(harness.take(), .start)
        harness.answer(old, [1])
        #expect(harness.take().bytes.isEmpty)
        harness.answer(new, [2])
        #expect(harness.take().bytes.first == 0x10)
    }

    // MARK: Re-authentication

    @Test(.mqtt5("4.12.1-1", "3.15.2-1", "4.12.0-5"))
    func `[MQTT-4.12.1-1] the client re-authenticates by AUTH 0x19 while messages flow`() throws {
        var (harness, operation) = try reauthenticating()
        harness.publish(qos: .atMostOnce)
        #expect(harness.packets().map(\.first) == [0x30])
        harness.receive(challenge([2]))
        harness.answer(try token(harness.take(), .respond([2])), [3])
        #expect(harness.take().bytes == hex("F0 0A 18 08 15 00 01 4D 16 00 01 03"))
        harness.receive(.auth(Auth(reasonCode: .success, properties: named([4]))))
        harness.answer(try token(harness.take(), .finish([4])), nil)
        let output = harness.take()
        #expect(output.actions == [.reauthenticated(operation)])
        #expect(output.bytes.isEmpty)
        let next = harness.reauthenticate()
        #expect(next != operation)
        _ = try token(harness.take(), .start)
    }

    @Test(.mqtt5("4.12.1-2"))
    func `[MQTT-4.12.1-2] a server that proves nothing on re-authentication is left`() throws {
        var (harness, operation) = try reauthenticating()
        harness.receive(.auth(Auth(reasonCode: .success, properties: named())))
        let token = try token(harness.take(), .finish(nil))
        harness.session.authenticationFailed(token, reason: "no", into: &harness.output)
        let output = harness.take()
        #expect(
            output.actions
                == [.failed(operation, .serverNotAuthentic("no")), .close(.serverNotAuthentic("no"))])
        #expect(output.bytes == hex("E0 01 80"))
    }

    @Test func `re-authentication has a deadline of its own`() throws {
        var (harness, operation) = try reauthenticating()
        #expect(harness.session.nextDeadline == harness.now + .seconds(5))
        harness.advance(.seconds(5))
        harness.deadline()
        #expect(
            harness.take().actions
                == [
                    .failed(operation, .authenticationTimeout(.server)),
                    .close(.authenticationTimeout(.server)),
                ])
    }

    @Test func `a handler that fails before anything is sent costs no connection`() throws {
        var harness = try connected()
        var operation = harness.reauthenticate()
        let token = try token(harness.take(), .start)
        harness.session.authenticationFailed(token, reason: "no", into: &harness.output)
        #expect(harness.take().actions == [.failed(operation, .authenticationFailed("no"))])
        operation = harness.reauthenticate()
        _ = harness.take()
        harness.advance(.seconds(5))
        harness.deadline()
        #expect(harness.take().actions == [.failed(operation, .authenticationTimeout(.handler))])
        #expect(harness.session.state == .established)
    }

    @Test(.mqtt5("4.12.0-7"))
    func `one re-authentication at a time, and only where CONNECT named a method`() throws {
        var (harness, _) = try reauthenticating()
        let second = harness.reauthenticate()
        #expect(harness.take().actions == [.failed(second, .reauthenticationUnderWay)])
        harness = SessionHarness(connected: .v5)
        let unnamed = harness.reauthenticate()
        let output = harness.take()  // [MQTT-4.12.0-7]
        #expect(output.actions == [.failed(unnamed, .noAuthenticationMethod)])
        #expect(output.bytes.isEmpty)
    }

    @Test(.mqtt5("detect-authentication-unasked", "detect-auth-code"))
    func `[MQTT-4.12.0-6] AUTH that nobody asked for is a protocol error`() throws {
        for packet in [
            challenge(), .auth(Auth(reasonCode: .success, properties: named())),
            .auth(Auth(reasonCode: .reAuthenticate, properties: named())),
        ] {
            for var harness in [try connected(), SessionHarness(connected: .v5)] {
                harness.receive(packet)
                let output = harness.take()
                #expect(output.actions == [.close(.violation(.unexpectedAuth))])
                #expect(output.bytes == hex("E0 01 82"))
            }
        }
    }

    @Test func `a lost connection fails the re-authentication, and the server's DISCONNECT does`() throws {
        var (harness, operation) = try reauthenticating()
        let disconnect = Disconnect(reasonCode: .notAuthorized)
        harness.receive(.disconnect(disconnect))
        harness.close()
        #expect(
            harness.take().actions
                == [
                    .serverDisconnected(disconnect), .close(.serverDisconnected(.notAuthorized)),
                    .failed(operation, .connectionLost),
                ])
    }

    /// Neither Reason String nor User Property: there is nothing to leave out for a server with a low limit.
    @Test(.mqtt5("3.15.2-2", "3.15.2-3"))
    func `an AUTH carries its method and data alone`() throws {
        var harness = try connected([.maximumPacketSize(12)])
        _ = harness.reauthenticate()
        harness.answer(try token(harness.take(), .start), [1])
        #expect(harness.take().bytes == hex("F0 0A 19 08 15 00 01 4D 16 00 01 01"))
        harness.receive(challenge([2]))
        harness.answer(try token(harness.take(), .respond([2])), [3])
        #expect(harness.take().bytes == hex("F0 0A 18 08 15 00 01 4D 16 00 01 03"))
    }

    @Test func `[MQTT-3.2.2-15] an AUTH above the server's Maximum Packet Size isn't sent`() throws {
        var harness = try connected([.maximumPacketSize(20)])
        let operation = harness.reauthenticate()
        let data = [UInt8](repeating: 0, count: 20)
        harness.answer(try token(harness.take(), .start), data)
        let error = SessionError.packetTooLarge(size: 31, limit: 20)
        let output = harness.take()
        #expect(output.actions == [.failed(operation, error), .close(error)])
        #expect(output.bytes == hex("E0 01 80"))
    }
}

extension SessionHarness {
    fileprivate mutating func answer(_ token: AuthenticationToken, _ data: [UInt8]?) {
        session.authenticationAnswered(token, data: data, now: now, into: &output)
    }

    fileprivate mutating func reauthenticate() -> OperationToken {
        let token = makeToken()
        session.reauthenticate(token: token, timeout: .seconds(5), now: now, into: &output)
        return token
    }
}
