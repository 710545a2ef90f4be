import Glibc

/// Certificates for tests and demos, made at run time: nothing private lies in the repository.
///
/// All keys are EC P-256 and live in memory until `write(to:)` is called. Never use them for anything
/// that is reachable from outside the machine.
public struct TestCertificates: Sendable {
    /// The authority that clients of the loopback broker trust.
    public let authority: CertificateAuthority
    /// An unrelated authority of the same kind: trusting it instead makes every check fail.
    public let wrongAuthority: CertificateAuthority
    /// For `localhost`, 127.0.0.1, ::1 and the names and addresses handed in.
    public let server: CertificateIdentity
    /// As `server`, but its validity has ended.
    public let expiredServer: CertificateIdentity
    /// As `server`, but its validity is still to begin.
    public let notYetValidServer: CertificateIdentity
    /// Valid, but only for `wrong-name.invalid`.
    public let wrongNameServer: CertificateIdentity
    /// As `server`, but signed by `wrongAuthority`.
    public let untrustedServer: CertificateIdentity
    /// A client certificate signed by `authority`.
    public let client: CertificateIdentity
    /// A client certificate signed by `wrongAuthority`.
    public let untrustedClient: CertificateIdentity

    /// - Parameters:
    ///   - names: DNS names for the server certificates, besides `localhost`.
    ///   - addresses: IPv4 or IPv6 addresses in text form, besides 127.0.0.1 and ::1.
    ///   - clientName: the Common Name of the client certificates.
    /// - Throws: `CertificateError` if a name or an address is not one, or if libcrypto fails.
    public init(
        names: [String] = [], addresses: [String] = [], clientName: String = "test client"
    ) throws {
        authority = try CertificateAuthority(commonName: "Loopback test authority")
        wrongAuthority = try CertificateAuthority(commonName: "Unrelated test authority")
        let subject = CertificateSubject.server(
            names: ["localhost"] + names.filter { $0 != "localhost" },
            addresses: ["127.0.0.1", "::1"] + addresses.filter { $0 != "127.0.0.1" && $0 != "::1" })
        server = try authority.issue(subject)
        expiredServer = try authority.issue(subject, validity: .expired)
        notYetValidServer = try authority.issue(subject, validity: .notYet)
        wrongNameServer = try authority.issue(.server(names: ["wrong-name.invalid"], addresses: []))
        untrustedServer = try wrongAuthority.issue(subject)
        client = try authority.issue(.client(commonName: clientName))
        untrustedClient = try wrongAuthority.issue(.client(commonName: clientName))
    }

    /// Where `write(to:)` has put a certificate and its key.
    public struct IdentityFiles: Sendable, Hashable {
        public let certificate: String
        public let key: String

        package init(certificate: String, key: String) {
            self.certificate = certificate
            self.key = key
        }
    }

    /// The files that `write(to:)` has made. The keys of the authorities are not among them.
    public struct Files: Sendable, Hashable {
        public let authority: String
        public let wrongAuthority: String
        public let server: IdentityFiles
        public let expiredServer: IdentityFiles
        public let notYetValidServer: IdentityFiles
        public let wrongNameServer: IdentityFiles
        public let untrustedServer: IdentityFiles
        public let client: IdentityFiles
        public let untrustedClient: IdentityFiles
    }

    /// Writes the certificates as PEM files into an existing directory; keys are readable by the owner only.
    ///
    /// - Throws: `CertificateError` if a file can't be written.
    public func write(to directory: String) throws -> Files {
        return Files(
            authority: try PEMFile.write(authority.certificate, to: "\(directory)/ca.crt", mode: 0o644),
            wrongAuthority: try PEMFile.write(
                wrongAuthority.certificate, to: "\(directory)/wrong-ca.crt", mode: 0o644),
            server: try server.write(to: directory, named: "server"),
            expiredServer: try expiredServer.write(to: directory, named: "expired-server"),
            notYetValidServer: try notYetValidServer.write(to: directory, named: "not-yet-valid-server"),
            wrongNameServer: try wrongNameServer.write(to: directory, named: "wrong-name-server"),
            untrustedServer: try untrustedServer.write(to: directory, named: "untrusted-server"),
            client: try client.write(to: directory, named: "client"),
            untrustedClient: try untrustedClient.write(to: directory, named: "untrusted-client"))
    }
}

/// A certificate with its private key, both as PEM text.
public struct CertificateIdentity: Sendable, Hashable {
    public let certificate: String
    public let key: String
}

extension CertificateIdentity {
    /// Writes both into an existing directory; the key is readable by the owner only.
    ///
    /// - Throws: `CertificateError` if a file can't be written.
    func write(to directory: String, named name: String) throws -> TestCertificates.IdentityFiles {
        TestCertificates.IdentityFiles(
            certificate: try PEMFile.write(certificate, to: "\(directory)/\(name).crt", mode: 0o644),
            key: try PEMFile.write(key, to: "\(directory)/\(name).key", mode: 0o600))
    }
}

/// A new file each time: neither a link nor the looser mode of an older file is taken over.
enum PEMFile {
    /// - Throws: `CertificateError` if the file can't be written.
    static func write(_ pem: String, to path: String, mode: mode_t) throws -> String {
        unlink(path)
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard file >= 0 else { throw CertificateError("can't create \(path)", errno: errno) }
        defer { close(file) }
        var rest = Array(pem.utf8)[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            if written < 0 && errno == EINTR { continue }
            guard written > 0 else { throw CertificateError("can't write \(path)", errno: errno) }
            rest = rest.dropFirst(written)
        }
        return path
    }
}

/// Printing, debugging and dumping leave the key out.
extension CertificateIdentity: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "CertificateIdentity(key: hidden, certificate: \n\(certificate))" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: ["certificate": certificate]) }
}

/// What went wrong while certificates were made or written.
public struct CertificateError: Error, Sendable, Hashable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }

    init(_ description: String, errno code: Int32) {
        self.description = "\(description): \(String(cString: strerror(code)))"
    }
}
