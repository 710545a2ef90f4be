internal import MQTTTransport
internal import WebSocketCore

/// SCRAM-SHA-256 (RFC 5802, RFC 7677): the password isn't sent, and the server proves that it knows it too.
///
/// ```swift
/// var configuration = ClientConfiguration(clientID: "sensor-1")
/// configuration.authentication = try SCRAM(userName: "sensor", password: password)
/// ```
///
/// Without channel binding: over TLS, the certificate still has to be verified. On a plaintext connection whoever
/// listens may guess weak passwords from what is exchanged.
public struct SCRAM: AuthenticationHandler {
    public let method = SCRAMKeys.method

    private let userName: String
    private let password: String
    private let iterations: ClosedRange<Int>
    private let makeNonce: @Sendable () -> String

    /// - Parameters:
    ///   - userName: printable ASCII, or Latin letters up to U+017F that stand for themselves.
    ///   - password: the same characters. Others would have to be mapped by SASLprep (RFC 4013), whose tables
    ///     this library doesn't have.
    ///   - iterations: what is accepted from a server. Fewer than 4096 make the password easy to guess (RFC 7677,
    ///     section 4); a million take about half a second of CPU time.
    /// - Throws: `MQTTError` (`client.invalid_argument`).
    public init(
        userName: String, password: String, iterations: ClosedRange<Int> = 4096...1_000_000
    ) throws(MQTTError) {
        try self.init(userName: userName, password: password, iterations: iterations) {
            var random = RandomPool()
            return Base64.encode(random.bytes(24))
        }
    }

    /// - Parameter nonce: printable ASCII without commas, never twice the same.
    package init(
        userName: String, password: String, iterations: ClosedRange<Int> = 4096...1_000_000,
        nonce: @escaping @Sendable () -> String
    ) throws(MQTTError) {
        self.userName = try Self.prepared(userName, "user name")
        self.password = try Self.prepared(password, "password")
        guard iterations.lowerBound >= SCRAMKeys.leastIterations else {
            throw MQTTError(
                .clientInvalidArgument, "fewer than \(SCRAMKeys.leastIterations) iterations protect nothing")
        }
        self.iterations = iterations
        makeNonce = nonce
    }

    public func begin() -> any AuthenticationExchange {
        SCRAMExchange(
            first: SCRAMMessage.ClientFirst(userName: userName, nonce: makeNonce()),
            password: Array(password.utf8), iterations: iterations)
    }

    /// SASLprep (RFC 4013) of what it leaves as it is. All else would need its tables of mappings, of prohibited
    /// and of unassigned characters, and normalisation form KC.
    private static func prepared(_ text: String, _ name: String) throws(MQTTError) -> String {
        if text.isEmpty { throw MQTTError(.clientInvalidArgument, "SCRAM: the \(name) is empty") }
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x20...0x7E: break
            // These decompose under normalisation form KC.
            case 0x132, 0x133, 0x13F, 0x140, 0x149, 0x17F: throw unprepared(name)
            case 0xC0...0x17F: break
            case 0...0x1F, 0x7F...0x9F:
                throw MQTTError(
                    .clientInvalidArgument,
                    "SCRAM: the \(name) has a control character (RFC 4013, section 2.3)")
            default: throw unprepared(name)
            }
        }
        return text
    }

    private static func unprepared(_ name: String) -> MQTTError {
        MQTTError(
            .clientInvalidArgument,
            "SCRAM: the \(name) has a character that SASLprep (RFC 4013) maps or forbids, or may: printable ASCII and Latin letters up to U+017F are taken"
        )
    }
}

extension SCRAM: CustomStringConvertible, CustomReflectable {
    /// Without the password.
    public var description: String { "SCRAM-SHA-256 for \(userName)" }
    public var customMirror: Mirror { Mirror(self, children: ["userName": userName]) }
}

/// The client's side of one exchange.
struct SCRAMExchange: AuthenticationExchange {
    private enum State {
        case starting
        case awaitingSalt
        case awaitingSignature(expected: [UInt8])
        case finished
    }

    private let first: SCRAMMessage.ClientFirst
    private let password: [UInt8]
    private let iterations: ClosedRange<Int>
    private var state = State.starting

    init(first: SCRAMMessage.ClientFirst, password: [UInt8], iterations: ClosedRange<Int>) {
        self.first = first
        self.password = password
        self.iterations = iterations
    }

    mutating func start() -> [UInt8]? {
        state = .awaitingSalt
        return Array(first.text.utf8)
    }

    mutating func respond(to challenge: [UInt8]) throws -> [UInt8]? {
        guard case .awaitingSalt = state else { throw SCRAMError.unexpectedMessage }
        guard let serverFirst = SCRAMMessage.ServerFirst(challenge) else { throw SCRAMError.malformed }
        // Its own part has to be there too: who replays an old exchange has only ours.
        guard serverFirst.nonce.utf8.starts(with: first.nonce.utf8),
            serverFirst.nonce.utf8.count > first.nonce.utf8.count
        else { throw SCRAMError.foreignNonce }
        guard iterations.contains(serverFirst.iterations) else {
            throw SCRAMError.iterations(serverFirst.iterations, accepted: iterations)
        }
        guard
            let keys = SCRAMKeys(
                password: password, salt: serverFirst.salt, iterations: serverFirst.iterations)
        else { throw SCRAMError.malformed }
        let signed = SCRAMMessage.authMessage(first, serverFirst, finalNonce: serverFirst.nonce)
        let final = SCRAMMessage.ClientFinal(
            nonce: serverFirst.nonce, proof: keys.clientProof(of: signed))
        state = .awaitingSignature(expected: keys.serverSignature(of: signed))
        return Array(final.text.utf8)
    }

    mutating func finish(with data: [UInt8]?) throws {
        guard case .awaitingSignature(let expected) = state, let data else {
            throw SCRAMError.signatureMissing
        }
        switch SCRAMMessage.ServerFinal(data) {
        case .signature(let signature)?:
            guard SCRAMKeys.isEqual(signature, expected) else { throw SCRAMError.wrongSignature }
            state = .finished
        case .error(let value)?: throw SCRAMError.refused(value)
        case nil: throw SCRAMError.malformed
        }
    }
}

/// What is wrong with a server's messages, in words.
enum SCRAMError: Error, Hashable, CustomStringConvertible {
    case unexpectedMessage
    case malformed
    case foreignNonce
    case iterations(Int, accepted: ClosedRange<Int>)
    case signatureMissing
    case wrongSignature
    case refused(String)

    var description: String {
        switch self {
        case .unexpectedMessage: "SCRAM: the server sends a challenge that doesn't belong to the exchange"
        case .malformed: "SCRAM: the server's message can't be read"
        case .foreignNonce: "SCRAM: the server's nonce doesn't continue ours"
        case .iterations(let count, let accepted):
            "SCRAM: the server asks for \(count) iterations; \(accepted.lowerBound) to \(accepted.upperBound) are accepted"
        case .signatureMissing: "SCRAM: the server accepts without proving that it knows the password"
        case .wrongSignature: "SCRAM: the server's signature is wrong: it doesn't know the password"
        case .refused(let value): "SCRAM: the server says \(value)"
        }
    }
}
