import MQTTTransport

/// The server's side of one SCRAM-SHA-256 exchange (RFC 5802 §5, RFC 7677).
struct SCRAMServer {
    let user: BrokerConfiguration.User
    private let clientFirst: SCRAMMessage.ClientFirst
    private let serverFirst: SCRAMMessage.ServerFirst
    private let keys: SCRAMKeys

    /// What the client is sent next.
    var challenge: [UInt8] { Array(serverFirst.text.utf8) }

    /// nil for what can't be read, and for a user who isn't there.
    init?(
        clientFirst data: [UInt8], users: [BrokerConfiguration.User], iterations: Int,
        random: (Int) -> [UInt8]
    ) {
        guard let clientFirst = SCRAMMessage.ClientFirst(data),
            let user = users.first(where: { ExactString($0.name) == ExactString(clientFirst.userName) })
        else { return nil }
        let salt = random(16)
        guard let keys = SCRAMKeys(password: user.password, salt: salt, iterations: iterations) else {
            return nil
        }
        self.user = user
        self.clientFirst = clientFirst
        self.keys = keys
        // Hexadecimal digits: a nonce is printable and has no comma.
        let nonce = random(16).map { String($0, radix: 16) }.joined()
        serverFirst = SCRAMMessage.ServerFirst(
            nonce: clientFirst.nonce + nonce, salt: salt, iterations: iterations)
    }

    /// The signature for a client that knows the password; nil for any other.
    func accept(clientFinal data: [UInt8]) -> [UInt8]? {
        guard let final = SCRAMMessage.ClientFinal(data),
            ExactString(final.nonce) == ExactString(serverFirst.nonce)
        else { return nil }
        let signed = SCRAMMessage.authMessage(clientFirst, serverFirst, finalNonce: final.nonce)
        guard SCRAMKeys.isEqual(final.proof, keys.clientProof(of: signed)) else { return nil }
        return Array(SCRAMMessage.ServerFinal.signature(keys.serverSignature(of: signed)).text.utf8)
    }
}
