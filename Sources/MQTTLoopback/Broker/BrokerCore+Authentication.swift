import MQTTCore
import MQTTTransport

/// Enhanced authentication by SCRAM-SHA-256 (5.0, sections 3.15 and 4.12).
extension BrokerCore {
    /// CONNECT names an Authentication Method: its answer is an AUTH [MQTT-4.12.0-2].
    func authenticate(
        _ connect: Connect, by method: String, on id: ConnectionID, before deadline: ContinuousClock.Instant
    ) {
        guard configuration.offersSCRAM, method == SCRAMKeys.method else {
            return refuse(connect, on: id, because: .badAuthenticationMethod)  // [MQTT-4.12.0-1]
        }
        guard let exchange = exchange(startedBy: connect.properties) else {
            return refuse(connect, on: id, because: .notAuthorized)  // [MQTT-4.12.0-4]
        }
        connections[id.slot]!.phase = .authenticating(connect, exchange, deadline: deadline)
        sendAuth(.continueAuthentication, exchange.challenge, to: id)
    }

    /// What a client sends while its CONNECT waits: AUTH, or DISCONNECT [MQTT-3.1.2-30].
    func authenticate(
        _ packet: ControlPacket, from id: ConnectionID, _ connect: Connect, _ exchange: SCRAMServer,
        now: ContinuousClock.Instant
    ) {
        guard case .auth(let auth) = packet, auth.reasonCode == .continueAuthentication,
            auth.properties.authenticationMethod == SCRAMKeys.method
        else { return beginClosing(id) }
        guard let signature = exchange.accept(clientFinal: auth.properties.authenticationData ?? []) else {
            return refuse(connect, on: id, because: .notAuthorized)  // [MQTT-4.12.0-4]
        }
        admit(connect, exchange.user, authenticated: properties(signature).entries, on: id, now: now)
    }

    /// AUTH on a connection that stands (section 4.12.1).
    func reauthenticate(
        _ auth: Auth, from id: ConnectionID, _ link: BrokerConnection.Link, now: ContinuousClock.Instant
    ) {
        // [MQTT-4.12.0-7], [MQTT-4.12.1-1]
        guard let user = link.scramUser, auth.properties.authenticationMethod == SCRAMKeys.method else {
            return end(id, because: .protocolError, now: now)
        }
        switch (auth.reasonCode, connections[id.slot]!.reauthentication) {
        case (.reAuthenticate, nil):
            guard let exchange = exchange(startedBy: auth.properties), exchange.user.name == user else {
                return end(id, because: .notAuthorized, now: now)  // [MQTT-4.12.1-2]
            }
            connections[id.slot]!.reauthentication = exchange
            sendAuth(.continueAuthentication, exchange.challenge, to: id)
        case (.continueAuthentication, let exchange?):
            let data = auth.properties.authenticationData ?? []
            guard let signature = exchange.accept(clientFinal: data) else {
                return end(id, because: .notAuthorized, now: now)
            }
            connections[id.slot]!.reauthentication = nil
            sendAuth(.success, signature, to: id)
        default:
            end(id, because: .protocolError, now: now)
        }
    }

    private func exchange(startedBy properties: Properties) -> SCRAMServer? {
        SCRAMServer(
            clientFirst: properties.authenticationData ?? [], users: configuration.users,
            iterations: configuration.scramIterations, random: random)
    }

    private func sendAuth(_ reason: ReasonCode, _ data: [UInt8], to id: ConnectionID) {
        send(.auth(Auth(reasonCode: reason, properties: properties(data))), to: id, .v5)
    }

    private func properties(_ data: [UInt8]) -> Properties {
        Properties([.authenticationMethod(SCRAMKeys.method), .authenticationData(data)])
    }
}
