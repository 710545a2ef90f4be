/// Enhanced authentication (MQTT 5.0, section 4.12): says what AUTH packets carry. ``SCRAM`` is a ready one.
///
/// Set as ``ClientConfiguration/authentication``. It is asked in tasks of its own, never on the client's loop,
/// so it may wait for a token service or a hardware key. All of an exchange has to fit into the profile's
/// `deadlines.mqttConnect`, and the task is cancelled when that is over.
public protocol AuthenticationHandler: Sendable {
    /// The Authentication Method that CONNECT names, such as `SCRAM-SHA-256`.
    var method: String { get }

    /// Begins a fresh exchange: at each connection and at each re-authentication.
    ///
    /// What is thrown ends the attempt with `mqtt.authentication_failed` and its text, so it mustn't hold secrets.
    func begin() async throws -> any AuthenticationExchange
}

/// One exchange: `start`, then `respond` to each challenge, then `finish`. The steps never overlap.
public protocol AuthenticationExchange: Sendable {
    /// The Authentication Data of CONNECT, or of the AUTH packet that begins a re-authentication; nil for none.
    mutating func start() async throws -> [UInt8]?

    /// The answer to the server's data, which is empty where the server sent none; nil for none.
    mutating func respond(to challenge: [UInt8]) async throws -> [UInt8]?

    /// The server accepts, with its last data if there is any. Throws where that doesn't prove what it has to:
    /// the connection then ends with `mqtt.server_not_authentic` before anything else is sent or handed out.
    mutating func finish(with data: [UInt8]?) async throws
}
