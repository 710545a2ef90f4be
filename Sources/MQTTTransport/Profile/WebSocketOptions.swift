/// Options of the WebSocket: its opening handshake (RFC 6455, section 4.1) and what follows.
///
/// They are checked with the profile that they are made part of; where they are changed later, an attempt to connect
/// with what can't be used fails with `client.invalid_argument`.
public struct WebSocketOptions: Sendable, Hashable {
    /// Path and query of the request, beginning with `/`.
    public var path: String
    /// Further headers of the request; those of the handshake itself can't be set.
    public var headers: [Header]
    /// Who asks, for servers that want to know: `scheme://host`, perhaps with `:port`, or `null` (RFC 6454,
    /// section 7); no path. Goes to every host that a redirect leads to.
    public var origin: String?
    /// Which redirects are followed.
    public var redirects: RedirectPolicy
    /// How MQTT packets and WebSocket messages go together in what we send.
    public var packing: Packing
    /// Pings of our own; none by default, since MQTT has its keep-alive. They help against a hop that ends a
    /// WebSocket without Pings, and where the keep-alive has to be long or off.
    public var pings: Pings?
    /// Whether compression is offered (permessage-deflate, RFC 7692); not by default: MQTT's payloads are small,
    /// and it costs both sides memory. A server that declines is spoken to without.
    public var compression: Compression?

    /// What a message may hold. A packet is never split over messages by us [MQTT-6.0.0-2].
    public enum Packing: Sendable, Hashable {
        /// Some servers want exactly one packet in a message.
        case onePacketPerMessage
        /// Packets that leave together share a message of up to 16 KiB: fewer bytes and less work for both sides.
        case packetsShareMessages
    }

    /// WebSocket Pings (RFC 6455, section 5.5.2).
    public struct Pings: Sendable, Hashable {
        /// From one Ping to the next; above zero.
        public var interval: Duration
        /// How long after a Ping has left anything may take to come before the connection ends with
        /// `idle.ping_ignored`; above zero.
        public var timeout: Duration

        public init(every interval: Duration, timeout: Duration = .seconds(10)) {
            self.interval = interval
            self.timeout = timeout
        }
    }

    /// Compression of what goes either way.
    ///
    /// An observer sees the length of what was compressed. Where a stranger's messages share a window with
    /// secrets, that can tell the secrets (as in the attack CRIME on TLS): CONNECT and AUTH are therefore never
    /// compressed, and secret payloads are better not sent over such a connection.
    public struct Compression: Sendable, Hashable {
        /// Bytes, 0 or more; shorter messages go as they are.
        public var threshold: Int
        /// Whether a message may refer to those before it: smaller, for up to 370 KiB of memory on each side that
        /// are held between messages too.
        public var contextTakeover: Bool
        /// The base-2 logarithm of the largest window, either way: 9 (512 bytes) to 15 (32 KiB). At 9 it takes
        /// about 80 KiB.
        public var windowBits: Int

        public init(threshold: Int = 256, contextTakeover: Bool = true, windowBits: Int = 15) {
            self.threshold = threshold
            self.contextTakeover = contextTakeover
            self.windowBits = windowBits
        }
    }

    public struct Header: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
        public var name: String
        public var value: String

        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }

        /// The name alone: the value may be a token.
        public var description: String { "\(name): …" }
        public var customMirror: Mirror { Mirror(self, children: ["name": name]) }
    }

    public init(
        path: String = "/mqtt", headers: [Header] = [], origin: String? = nil,
        redirects: RedirectPolicy = .sameHost, packing: Packing = .onePacketPerMessage, pings: Pings? = nil,
        compression: Compression? = nil
    ) {
        self.path = path
        self.headers = headers
        self.origin = origin
        self.redirects = redirects
        self.packing = packing
        self.pings = pings
        self.compression = compression
    }
}

extension WebSocketOptions: CustomReflectable {
    /// Without what the query of the path holds.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: [
                "path": shownPath, "headers": headers, "origin": origin as Any, "redirects": redirects,
                "packing": packing, "pings": pings as Any, "compression": compression as Any,
            ])
    }

    /// The path as it may be printed: its query is often a signature or a token.
    var shownPath: String {
        path.firstIndex(of: "?").map { "\(path[...$0])…" } ?? path
    }
}
