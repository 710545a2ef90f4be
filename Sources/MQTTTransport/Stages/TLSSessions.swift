internal import CTraversalOpenSSL
internal import Glibc

/// The server of one connection, with what of the options is the connection's own and not the context's.
struct TLSTarget: Sendable, Hashable {
    /// Whom to ask for (SNI) and to verify; a name or an address.
    let serverName: String
    let port: UInt16
    let applicationProtocols: [String]
    let requiresApplicationProtocol: Bool

    init(serverName: String, port: UInt16, options: TLSOptions?) {
        self.serverName = serverName
        self.port = port
        applicationProtocols = options?.applicationProtocols ?? []
        requiresApplicationProtocol = options?.requiresApplicationProtocol ?? false
    }
}

/// What a verified connection leaves behind, so that the next needs no certificates (RFC 8446, section 2.2; RFC 5077).
final class TLSSession: @unchecked Sendable {
    let pointer: OpaquePointer
    /// When the chain has to be verified again, in seconds of the wall clock.
    let verifiedUntil: Int

    /// Takes over a reference.
    init(_ pointer: OpaquePointer, verifiedUntil: Int) {
        self.pointer = pointer
        self.verifiedUntil = verifiedUntil
    }

    deinit { SSL_SESSION_free(pointer) }

    var isUsable: Bool { SSL_SESSION_is_resumable(pointer) == 1 && time(nil) < verifiedUntil }
}

/// Where the sessions of an accepted connection go.
struct TLSSessionKeeper {
    let context: TLSContext
    let target: TLSTarget
    let verifiedUntil: Int

    /// Takes over a reference.
    func keep(_ session: OpaquePointer) {
        context.keep(TLSSession(session, verifiedUntil: verifiedUntil), for: target)
    }
}

/// For some keys a few values each. What is taken is gone: a ticket that is shown twice ties two connections
/// together for whoever watches (RFC 8446, appendix C.4), and one that leads nowhere isn't tried again.
package struct Shelf<Key: Hashable, Value> {
    package static var keyLimit: Int { 64 }
    package static var valuesOfKey: Int { 2 }

    /// The one that was added to last is last.
    private var entries: [(key: Key, values: [Value])] = []

    package init() {}

    package var count: Int { entries.reduce(0) { $0 + $1.values.count } }

    /// Beyond the limits the oldest goes.
    package mutating func put(_ value: Value, for key: Key) {
        var values = remove(key)
        values.append(value)
        entries.append((key, values.suffix(Self.valuesOfKey)))
        if entries.count > Self.keyLimit { entries.removeFirst() }
    }

    /// The newest.
    package mutating func take(_ key: Key) -> Value? {
        var values = remove(key)
        let value = values.popLast()
        if !values.isEmpty { entries.append((key, values)) }
        return value
    }

    private mutating func remove(_ key: Key) -> [Value] {
        guard let index = entries.firstIndex(where: { $0.key == key }) else { return [] }
        return entries.remove(at: index).values
    }
}

let newSessionCallback: @convention(c) (OpaquePointer?, OpaquePointer?) -> Int32 = { ssl, session in
    // Under TLS 1.2 it is called within the handshake, before anybody has accepted the connection.
    guard let session, let keeper = HandshakeRecord.of(ssl)?.keeper else { return 0 }
    keeper.keep(session)
    return 1
}

/// How long a chain that has just been verified may count as verified, in seconds of the wall clock: a day, and
/// never beyond the end of one of its certificates.
func verificationEnd(of ssl: OpaquePointer) -> Int? {
    let chain = SSL_get0_verified_chain(ssl)
    let count = OPENSSL_sk_num(chain)
    guard count > 0 else { return nil }
    var seconds = 86_400
    for index in 0..<count {
        var days: Int32 = 0
        var rest: Int32 = 0
        guard let certificate = OPENSSL_sk_value(chain, index),
            ASN1_TIME_diff(&days, &rest, nil, X509_get0_notAfter(OpaquePointer(certificate))) == 1
        else { return nil }
        seconds = min(seconds, Int(days) * 86_400 + Int(rest))
    }
    return time(nil) + seconds
}
