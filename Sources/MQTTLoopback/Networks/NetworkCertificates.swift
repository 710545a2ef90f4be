import MQTTTransport

/// The certificates of simulated networks, with their files; many networks may share them.
package final class NetworkCertificates: Sendable {
    let certificates: TestCertificates
    private let directory: PrivateDirectory
    private let files: TestCertificates.Files
    /// By the authority of a product that opens TLS.
    private let inspected: TestCertificates.IdentityFiles
    private let bothAuthorities: String

    /// - Throws: `CertificateError`.
    package init() throws {
        certificates = try TestCertificates(names: [HostileNetwork.broker])
        let inspector = try CertificateAuthority(commonName: "Zscaler Root CA")
        let identity = try inspector.intermediate(commonName: "Zscaler Intermediate Root CA (example.net)")
            .issue(.server(names: [HostileNetwork.broker], addresses: []))
        directory = try PrivateDirectory()
        files = try certificates.write(to: directory.path)
        inspected = try identity.write(to: directory.path, named: "inspected")
        bothAuthorities = try PEMFile.write(
            certificates.authority.certificate + inspector.certificate,
            to: "\(directory.path)/both-ca.crt", mode: 0o644)
    }

    deinit { directory.remove() }

    func trustFile(_ trust: HostileNetwork.Trust) -> String {
        switch trust {
        case .broker: files.authority
        case .brokerAndInspector: bothAuthorities
        }
    }

    func context(_ end: HostilePart.TLSEnd) throws(TransportError) -> TLSContext {
        let identity =
            switch end {
            case .valid, .requiresClientCertificate, .selectsNoProtocol: files.server
            case .expired: files.expiredServer
            case .notYetValid: files.notYetValidServer
            case .wrongName: files.wrongNameServer
            case .untrusted: files.untrustedServer
            case .inspected: inspected
            }
        return try TLSContext(
            serverCertificateFile: identity.certificate, privateKeyFile: identity.key,
            clientCAFile: end == .requiresClientCertificate ? files.authority : nil,
            selectsProtocol: end != .selectsNoProtocol)
    }
}
