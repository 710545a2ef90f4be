/// Names a question to the application's authentication handler. An answer that comes when it isn't asked any
/// more, on another connection even, is passed over.
package struct AuthenticationToken: Hashable, Sendable {
    let connection: UInt64
    let number: UInt64
}

/// What an authentication needs from its handler next.
package enum AuthenticationStep: Sendable, Hashable {
    /// A new exchange: the data that opens it, for CONNECT or for the AUTH that re-authenticates.
    case start
    /// The answer to the server's data.
    case respond([UInt8]?)
    /// The server accepts: does its last data prove what it has to?
    case finish([UInt8]?)
}

/// Whose turn it was.
package enum AuthenticationParty: Sendable, Hashable {
    case handler
    case server
}

/// Enhanced authentication on one connection (5.0, section 4.12).
struct Authentication: Sendable {
    /// As in CONNECT, for as long as the connection lasts [MQTT-4.12.0-5], [MQTT-4.12.1-1].
    let method: String
    var stage: Stage
    var lastToken: AuthenticationToken
    /// Until when a re-authentication has to be through; of no meaning otherwise.
    var deadline: Instant
    /// What came behind an accepting CONNACK while the handler looks at it.
    var held: [ControlPacket] = []
    /// Bytes of payload, and a little for each packet.
    var heldBytes = 0

    enum Stage: Sendable {
        /// The handler makes the data of CONNECT, which waits for it.
        case startingConnect(Connect)
        case connecting(AuthenticationParty)
        /// The handler looks at the data of the accepting CONNACK.
        case finishingConnect(Connack)
        /// Authenticated, and no exchange under way.
        case idle
        case reauthenticating(Reauthentication, OperationToken?)
    }

    enum Reauthentication: Sendable {
        /// Nothing has been sent.
        case starting
        case exchanging(AuthenticationParty)
        /// The handler looks at the data of the accepting AUTH.
        case finishing
    }

    /// Whether it is this method that a packet names, byte by byte.
    func isNamed(in properties: Properties) -> Bool {
        properties.authenticationMethod?.utf8.elementsEqual(method.utf8) == true
    }

    /// Whose turn it is; nil where nothing is under way.
    var turn: AuthenticationParty? {
        switch stage {
        case .idle: nil
        case .startingConnect, .finishingConnect, .reauthenticating(.starting, _),
            .reauthenticating(.finishing, _):
            .handler
        case .connecting(let party), .reauthenticating(.exchanging(let party), _): party
        }
    }
}
