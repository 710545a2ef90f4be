/// What answers at one port of a simulated network: a broker, something that hinders the way to it, or both, one inside
/// the other.
///
/// ```swift
/// // A firewall that looks at the name in TLS, before a broker that speaks WebSocket.
/// .hello([.init(.serverName("broker.test"), .reset)], .tls(.valid, .webSocket(.broker)))
/// ```
package indirect enum HostilePart: Sendable {
    /// No answer to a SYN.
    case dropped
    /// RST to a SYN.
    case refused
    /// Accepts, and does what the script says.
    case script([ScriptedPeer.Step])
    /// The network's broker: MQTT and nothing below it.
    case broker
    /// TLS ends here; what was inside goes on.
    case tls(TLSEnd, HostilePart)
    /// WebSocket at `/mqtt` ends here; what was inside goes on.
    case webSocket(HostilePart)
    /// Reads the ClientHello before it lets the connection through; the first rule that applies says to where.
    case hello([HelloRule], HostilePart)
    /// Lets the connection through, with this done to it.
    case hindered(Hindrance, HostilePart)

    /// The certificate and the manners of whoever ends TLS.
    package enum TLSEnd: Sendable, Hashable {
        /// The broker's own.
        case valid
        case expired
        case notYetValid
        case wrongName
        /// By an authority that nobody knows and whose name says nothing.
        case untrusted
        /// The broker's name, by the authority of a product that opens TLS.
        case inspected
        /// The broker's own, and wants one of the client.
        case requiresClientCertificate
        /// The broker's own, and selects no application protocol whatever is offered.
        case selectsNoProtocol
    }

    package struct HelloRule: Sendable {
        package enum Condition: Sendable, Hashable {
            case any
            /// Of the extension server_name (RFC 6066, section 3), in lower case.
            case serverName(String)
            /// Among those of the extension application_layer_protocol_negotiation (RFC 7301).
            case applicationProtocol(String)
        }

        package var condition: Condition
        package var part: HostilePart

        package init(_ condition: Condition, _ part: HostilePart) {
            self.condition = condition
            self.part = part
        }
    }

    /// What is done to a connection that gets through.
    package enum Hindrance: Sendable, Hashable {
        /// Each way.
        case delay(Duration)
        /// Forgotten when nothing has passed for so long.
        case idle(Duration, IdleEnd)
        /// What the server says after a first HTTP head waits until so many bytes are there, or until it ends.
        case buffers(Int)
        /// Ends in the middle of any MQTT packet of the client's that is longer.
        case longestPacket(Int)
        /// The client's PUBLISH packets get lost.
        case losesPublishes
    }

    package enum IdleEnd: Sendable, Hashable {
        case fin
        case reset
        /// Nothing is said, and nothing passes any more.
        case blackhole
    }
}

extension HostilePart {
    /// Accepts and ends at once.
    package static let closing = HostilePart.script([.close])
    /// Accepts and resets at once.
    package static let resetting = HostilePart.script([.reset])
    /// Accepts, reads and says nothing.
    package static let silent = HostilePart.script([.hold])
    /// Resets once something has come.
    package static let resettingFirstBytes = HostilePart.script([.expectCount(1), .reset])

    /// Answers a request of HTTP so, whatever it asks for.
    package static func http(_ answer: String) -> HostilePart {
        .script([.expectUntil(Array("\r\n\r\n".utf8)), .send(Array(answer.utf8)), .close])
    }

    /// Secure WebSocket to the broker.
    package static func secureWebSocket(_ end: TLSEnd = .valid) -> HostilePart {
        .tls(end, .webSocket(.broker))
    }

    /// MQTT where ALPN says `mqtt`, and otherwise this: as front ends at 443 do it.
    package static func https(_ end: TLSEnd = .valid, _ inside: HostilePart = .webSocket(.broker))
        -> HostilePart
    {
        .hello([HelloRule(.applicationProtocol("mqtt"), .tls(end, .broker))], .tls(end, inside))
    }
}
