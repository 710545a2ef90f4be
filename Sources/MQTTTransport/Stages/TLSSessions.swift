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
