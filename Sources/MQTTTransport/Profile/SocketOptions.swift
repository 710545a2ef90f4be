/// Options of the TCP socket: where it connects from, and when the kernel gives it up.
///
/// They hold for the connection to a proxy too. What looks names up isn't bound by them: that is the system's resolver.
///
/// They are checked with the profile that they are made part of; where they are changed later, an attempt to connect
/// with what can't be used fails with `client.invalid_argument`. So does one that asks for an address or an interface
/// that this machine doesn't have; it is tried again, since modems and leases come and go.
public struct SocketOptions: Sendable, Hashable {
    /// An IPv4 or IPv6 address of this machine to connect from, without brackets; the system chooses where nil. The
    /// server's addresses of the other family are then left out.
    public var localAddress: String?
    /// The network interface that all packets go through, such as `wwan0`, whatever the routing table says
    /// (`SO_BINDTODEVICE`): 1 to 15 bytes. Before Linux 5.7 this needs CAP_NET_RAW.
    public var interface: String?
    /// Probes of an idle connection by the kernel; none by default, since MQTT's keep-alive finds out more.
    public var keepAlive: KeepAlive?
    /// How long the peer may leave what was sent unacknowledged before the kernel ends the connection
    /// (`TCP_USER_TIMEOUT`; RFC 5482): whole milliseconds from 1 to 2,147,483,647. The kernel's own time is about
    /// 15 minutes. Connecting and `keepAlive` are bounded by it too.
    public var userTimeout: Duration?

    /// TCP keep-alive (RFC 9293, section 3.8.4): a peer that answers none of its probes ends the connection.
    public struct KeepAlive: Sendable, Hashable {
        /// Without traffic before the first probe: whole seconds from 1 to 32767.
        public var idle: Duration
        /// From one probe to the next: whole seconds from 1 to 32767.
        public var interval: Duration
        /// Probes without an answer that end the connection: 1 to 127.
        public var count: Int

        public init(idle: Duration, interval: Duration, count: Int) {
            self.idle = idle
            self.interval = interval
            self.count = count
        }
    }

    public init(
        localAddress: String? = nil, interface: String? = nil, keepAlive: KeepAlive? = nil,
        userTimeout: Duration? = nil
    ) {
        self.localAddress = localAddress
        self.interface = interface
        self.keepAlive = keepAlive
        self.userTimeout = userTimeout
    }
}

extension ProfileValidation {
    static func socket(_ options: SocketOptions) throws(ProfileError) {
        if let address = options.localAddress, !isAddress(address) {
            throw ProfileError("the local address \"\(address)\" is neither an IPv4 nor an IPv6 address")
        }
        if let name = options.interface, !isInterface(name) {
            throw ProfileError(
                "the interface \"\(name)\" isn't a name of 1 to 15 bytes without space, / and :")
        }
        if let keepAlive = options.keepAlive {
            for time in [keepAlive.idle, keepAlive.interval] {
                guard let seconds = time.wholeSeconds, 1...32_767 ~= seconds else {
                    throw ProfileError("the times of TCP keep-alive are whole seconds from 1 to 32767")
                }
            }
            guard 1...127 ~= keepAlive.count else {
                throw ProfileError("the count of TCP keep-alive is outside 1…127")
            }
        }
        if let timeout = options.userTimeout {
            guard let milliseconds = timeout.wholeMilliseconds, milliseconds > 0 else {
                throw ProfileError("the user timeout of TCP is whole milliseconds from 1 to 2147483647")
            }
        }
    }

    /// With a zone, the interface may be one that isn't there yet.
    private static func isAddress(_ text: String) -> Bool {
        let parts = text.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
        guard let literal = SocketAddress(literal: String(parts[0]), port: 0) else { return false }
        return parts.count == 1 || (literal.family == .ipv6 && isInterface(parts[1]))
    }

    /// As the kernel has it (`dev_valid_name`).
    static func isInterface(_ name: some StringProtocol) -> Bool {
        1...15 ~= name.utf8.count && name != "." && name != ".."
            && !name.utf8.contains { $0 <= 0x20 || $0 == 0x7F || $0 == 0x2F || $0 == 0x3A }
    }
}

/// What the kernel counts in; nil where the time isn't whole, or too long to be counted.
extension Duration {
    var wholeSeconds: Int32? {
        components.attoseconds == 0 ? Int32(exactly: components.seconds) : nil
    }

    var wholeMilliseconds: Int32? {
        let attosecondsOfOne: Int64 = 1_000_000_000_000_000
        let (seconds, attoseconds) = components
        guard attoseconds % attosecondsOfOne == 0, let seconds = Int32(exactly: seconds) else { return nil }
        return Int32(exactly: Int64(seconds) * 1000 + attoseconds / attosecondsOfOne)
    }
}
