/// Options of TLS. The chain and the name are verified unless `verification` says otherwise in words.
public struct TLSOptions: Sendable, Hashable {
    public var verification: Verification
    /// Whom to trust.
    public var trust: Trust
    /// Where there are any, one of these keys has to be in the chain, besides all other verification: the server's own,
    /// or a CA's of the verified chain. Pin a second key that isn't in use yet, or a lost key locks you out. With
    /// verification disabled only the server's own key counts.
    public var pins: [PublicKeyPin]
    /// A client certificate, where the server asks for one.
    public var identity: Identity?
    /// The name to ask for and to verify, where it isn't the profile's host.
    public var serverName: String?
    /// Protocols to offer (ALPN), in order. Secure WebSocket offers `http/1.1` where this is empty.
    public var applicationProtocols: [String]
    /// Whether the server has to select one of them: otherwise `tls.alpn_not_selected`, before anything is sent.
    public var requiresApplicationProtocol: Bool
    public var minimumVersion: Version

    public enum Verification: Sendable, Hashable {
        /// The chain leads to a trusted CA and the certificate is for this host.
        case full
        /// Anybody in between can read and change everything. For experiments only.
        case disabledAndOpenToInterception
    }

    public enum Trust: Sendable, Hashable {
        /// The system's store (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured).
        case system
        /// The system's store and the CAs in these PEM files, such as the one of a company that inspects TLS. The
        /// system's may be empty where there are files.
        case systemAnd(files: [String])
        /// The CAs in this PEM file, and no others.
        case file(String)
        /// The CAs in this PEM text, and no others.
        case pem([UInt8])
    }

    /// A certificate chain and its private key, both PEM files.
    public struct Identity: Sendable, Hashable {
        public var certificateFile: String
        /// PKCS #8 or the older forms, encrypted or not.
        public var privateKeyFile: String
        /// For an encrypted key, at most 1024 bytes; never part of `description`.
        public var passphrase: [UInt8]?

        public init(certificateFile: String, privateKeyFile: String, passphrase: [UInt8]? = nil) {
            self.certificateFile = certificateFile
            self.privateKeyFile = privateKeyFile
            self.passphrase = passphrase
        }
    }

    public enum Version: Sendable, Hashable {
        // swift-format-ignore: AlwaysUseLowerCamelCase
        case v1_2
        // swift-format-ignore: AlwaysUseLowerCamelCase
        case v1_3
    }

    public init(
        verification: Verification = .full, trust: Trust = .system, pins: [PublicKeyPin] = [],
        identity: Identity? = nil, serverName: String? = nil, applicationProtocols: [String] = [],
        requiresApplicationProtocol: Bool = false, minimumVersion: Version = .v1_2
    ) {
        self.verification = verification
        self.trust = trust
        self.pins = pins
        self.identity = identity
        self.serverName = serverName
        self.applicationProtocols = applicationProtocols
        self.requiresApplicationProtocol = requiresApplicationProtocol
        self.minimumVersion = minimumVersion
    }
}

extension TLSOptions.Identity: CustomStringConvertible, CustomReflectable {
    /// The files.
    public var description: String { "\(certificateFile) with \(privateKeyFile)" }

    public var customMirror: Mirror {
        Mirror(self, children: ["certificateFile": certificateFile, "privateKeyFile": privateKeyFile])
    }
}
