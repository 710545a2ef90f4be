/// The extension permessage-deflate (RFC 7692 §7): its parameters and how they are negotiated.
public enum PerMessageDeflate {
    /// As it stands in Sec-WebSocket-Extensions.
    public static let name = "permessage-deflate"

    /// What one side wants. Each parameter is a bound: an agreement never goes beyond it, and where the peer
    /// can't keep to it, nothing is compressed.
    public struct Options: Sendable, Hashable {
        /// The server starts each message with an empty window (§7.1.1.1): neither side needs memory for that
        /// direction between messages, and it compresses worse.
        public let serverNoContextTakeover: Bool
        /// The same for the client (§7.1.1.2).
        public let clientNoContextTakeover: Bool
        /// The base-2 logarithm of the largest window the server compresses with (§7.1.2.1).
        public let serverMaxWindowBits: Int
        /// The same for the client (§7.1.2.2). A server with less than 15 declines clients that don't let
        /// themselves be limited.
        public let clientMaxWindowBits: Int
        /// How we compress ourselves.
        public let compression: Compression

        /// A window outside its range stops the program.
        ///
        /// - Parameters:
        ///   - serverNoContextTakeover: whether the server is to start each message with an empty window.
        ///   - clientNoContextTakeover: the same for the client.
        ///   - serverMaxWindowBits: 8…15. With 8, only messages of up to 256 bytes are compressed, since
        ///     zlib has no such window to compress with.
        ///   - clientMaxWindowBits: 8…15.
        ///   - compression: how we compress ourselves.
        public init(
            serverNoContextTakeover: Bool = false, clientNoContextTakeover: Bool = false,
            serverMaxWindowBits: Int = 15, clientMaxWindowBits: Int = 15, compression: Compression = .init()
        ) {
            precondition(windowBits.contains(serverMaxWindowBits), "serverMaxWindowBits is 8…15")
            precondition(windowBits.contains(clientMaxWindowBits), "clientMaxWindowBits is 8…15")
            self.serverNoContextTakeover = serverNoContextTakeover
            self.clientNoContextTakeover = clientNoContextTakeover
            self.serverMaxWindowBits = serverMaxWindowBits
            self.clientMaxWindowBits = clientMaxWindowBits
            self.compression = compression
        }
    }

    /// How we compress. The peer doesn't know, and needn't.
    public struct Compression: Sendable, Hashable {
        /// zlib's compression level.
        public let level: Int
        /// zlib's memory level.
        public let memoryLevel: Int
        /// Bytes of the shortest message that is compressed.
        public let threshold: Int

        /// A level outside its range stops the program.
        ///
        /// - Parameters:
        ///   - level: zlib's, 1 (fast) … 9 (small).
        ///   - memoryLevel: zlib's, 1…9: 2^(memoryLevel + 9) bytes beside four times the window. A window of 2^n
        ///     bytes gets n − 6 at most.
        ///   - threshold: bytes; a shorter message is sent as it is.
        public init(level: Int = 6, memoryLevel: Int = 8, threshold: Int = 64) {
            precondition(1...9 ~= level, "level is 1…9")
            precondition(1...9 ~= memoryLevel, "memoryLevel is 1…9")
            self.level = level
            self.memoryLevel = memoryLevel
            self.threshold = threshold
        }
    }

    /// What both sides keep to on one connection.
    public struct Agreement: Sendable, Hashable {
        /// Each message of the server starts with an empty window.
        public let serverNoContextTakeover: Bool
        /// Each message of the client starts with an empty window.
        public let clientNoContextTakeover: Bool
        /// 8…15, for what the server compresses.
        public let serverMaxWindowBits: Int
        /// 8…15, for what the client compresses.
        public let clientMaxWindowBits: Int
        /// How we compress, from our own options.
        public let compression: Compression
        /// As it stands in the server's response.
        public let answer: ExtensionHeader.Element

        /// What the messages of the side of `role` keep to.
        func messages(from role: WebSocketRole) -> Messages {
            switch role {
            case .client:
                Messages(
                    windowBits: clientMaxWindowBits, noContextTakeover: clientNoContextTakeover,
                    compression: compression)
            case .server:
                Messages(
                    windowBits: serverMaxWindowBits, noContextTakeover: serverNoContextTakeover,
                    compression: compression)
            }
        }
    }

    /// The compressed messages of one direction.
    struct Messages: Sendable {
        var windowBits: Int
        var noContextTakeover: Bool
        var compression: Compression

        /// Whether each message is compressed in a window that is empty at first.
        var startsEmpty: Bool { noContextTakeover || windowBits == 8 }

        /// Whether a message is to be compressed that begins with so many bytes.
        func includes(count: Int, endsMessage: Bool) -> Bool {
            // zlib has no window of 256 bytes to compress with (zlib.h, deflateInit2). But a message that isn't
            // longer, in a window that was empty before it, can't refer further back (RFC 7692 §7.1.2).
            if windowBits == 8, !endsMessage || count > 256 { return false }
            return !endsMessage || count >= compression.threshold
        }
    }

    static let windowBits = 8...15
}

// MARK: - The client's side

extension PerMessageDeflate {
    /// The element to offer. `client_max_window_bits` is always there: without it no server may ask for it.
    static func offer(_ options: Options) -> ExtensionHeader.Element {
        var offer = ExtensionHeader.Element(name)
        if options.serverNoContextTakeover { offer.parameters.append(.init(.serverNoContextTakeover)) }
        if options.clientNoContextTakeover { offer.parameters.append(.init(.clientNoContextTakeover)) }
        if options.serverMaxWindowBits < windowBits.upperBound {
            offer.parameters.append(.init(.serverMaxWindowBits, "\(options.serverMaxWindowBits)"))
        }
        offer.parameters.append(
            .init(
                .clientMaxWindowBits,
                options.clientMaxWindowBits < windowBits.upperBound ? "\(options.clientMaxWindowBits)" : nil))
        return offer
    }

    /// What the server's answer to `offer(options)` means.
    ///
    /// - Throws: the rule of §5.1, §7 or §7.1 that it breaks, in words: the handshake fails.
    static func agreement(
        on options: Options, answeredBy answer: ExtensionHeader.Element
    ) throws(InvalidParameters) -> Agreement {
        let answered = try Parameters(answer, isAnswer: true)
        // §7.1.1.1: a server accepts such an offer by saying so.
        guard answered.serverNoContextTakeover || !options.serverNoContextTakeover else {
            throw InvalidParameters("\(String.serverNoContextTakeover) was asked for and isn't answered")
        }
        // §7.1.2.1: "with the same or smaller value as the offer".
        if options.serverMaxWindowBits < windowBits.upperBound {
            guard let bits = answered.serverMaxWindowBits, bits <= options.serverMaxWindowBits else {
                throw InvalidParameters(
                    "\(String.serverMaxWindowBits) is to be at most \(options.serverMaxWindowBits)")
            }
        }
        return Agreement(
            serverNoContextTakeover: answered.serverNoContextTakeover,
            // §7.1.1.2, §7.1.2.2: what the client has announced of itself holds in any case.
            clientNoContextTakeover: answered.clientNoContextTakeover || options.clientNoContextTakeover,
            serverMaxWindowBits: answered.serverMaxWindowBits ?? windowBits.upperBound,
            clientMaxWindowBits: min(
                answered.clientMaxWindowBits?.bits ?? windowBits.upperBound, options.clientMaxWindowBits),
            compression: options.compression, answer: answer)
    }
}

// MARK: - The server's side

extension PerMessageDeflate {
    /// The first offer that can be kept; nil when there is none, and the extension is declined.
    static func agreement(
        on options: Options, choosingFrom offers: [ExtensionHeader.Element]
    ) -> Agreement? {
        for offer in offers where offer.name == name {
            // §7: an offer with an unknown, wrong or repeated parameter is declined, not an error.
            guard let asked = try? Parameters(offer, isAnswer: false) else { continue }
            if let agreement = agreement(on: options, accepting: asked) { return agreement }
        }
        return nil
    }

    private static func agreement(on options: Options, accepting asked: Parameters) -> Agreement? {
        var answer = ExtensionHeader.Element(name)
        let serverNoContextTakeover = asked.serverNoContextTakeover || options.serverNoContextTakeover
        if serverNoContextTakeover { answer.parameters.append(.init(.serverNoContextTakeover)) }
        let clientNoContextTakeover = asked.clientNoContextTakeover || options.clientNoContextTakeover
        if clientNoContextTakeover { answer.parameters.append(.init(.clientNoContextTakeover)) }

        let serverBits = min(asked.serverMaxWindowBits ?? windowBits.upperBound, options.serverMaxWindowBits)
        if asked.serverMaxWindowBits != nil || serverBits < windowBits.upperBound {
            answer.parameters.append(.init(.serverMaxWindowBits, "\(serverBits)"))
        }
        // §7.1.2.2: not in the answer unless it is in the offer.
        let clientBits = min(
            asked.clientMaxWindowBits?.bits ?? windowBits.upperBound, options.clientMaxWindowBits)
        if clientBits < windowBits.upperBound {
            guard asked.clientMaxWindowBits != nil else { return nil }
            answer.parameters.append(.init(.clientMaxWindowBits, "\(clientBits)"))
        }
        return Agreement(
            serverNoContextTakeover: serverNoContextTakeover,
            clientNoContextTakeover: clientNoContextTakeover, serverMaxWindowBits: serverBits,
            clientMaxWindowBits: clientBits, compression: options.compression, answer: answer)
    }
}

// MARK: - Parameters

extension PerMessageDeflate {
    /// A broken rule of §7 or §7.1, in words.
    struct InvalidParameters: Error {
        let reason: String

        init(_ reason: String) { self.reason = reason }
    }

    /// The parameters of an offer or an answer, each of them right by itself.
    private struct Parameters {
        /// The value may be missing in an offer.
        struct ClientWindow { var bits: Int? }

        var serverNoContextTakeover = false
        var clientNoContextTakeover = false
        var serverMaxWindowBits: Int?
        var clientMaxWindowBits: ClientWindow?

        init(_ element: ExtensionHeader.Element, isAnswer: Bool) throws(InvalidParameters) {
            for (index, parameter) in element.parameters.enumerated() {
                guard !element.parameters[..<index].contains(where: { $0.name == parameter.name }) else {
                    throw InvalidParameters("\(parameter.name) stands there twice")
                }
                switch parameter.name {
                case .serverNoContextTakeover:
                    serverNoContextTakeover = try Self.withoutValue(parameter)
                case .clientNoContextTakeover:
                    clientNoContextTakeover = try Self.withoutValue(parameter)
                case .serverMaxWindowBits:
                    serverMaxWindowBits = try Self.bits(parameter)
                case .clientMaxWindowBits where parameter.value == nil && !isAnswer:
                    clientMaxWindowBits = ClientWindow(bits: nil)
                case .clientMaxWindowBits:
                    clientMaxWindowBits = ClientWindow(bits: try Self.bits(parameter))
                default:
                    throw InvalidParameters("the parameter \(parameter.name) is unknown")
                }
            }
        }

        private static func withoutValue(
            _ parameter: ExtensionHeader.Parameter
        ) throws(InvalidParameters) -> Bool {
            guard parameter.value == nil else { throw InvalidParameters("\(parameter.name) has a value") }
            return true
        }

        /// §7.1.2: "a decimal integer value without leading zeroes between 8 to 15, inclusive".
        private static func bits(_ parameter: ExtensionHeader.Parameter) throws(InvalidParameters) -> Int {
            guard let bits = windowBits.first(where: { "\($0)" == parameter.value }) else {
                throw InvalidParameters(
                    "\(parameter.name) is \(parameter.value ?? "without a value"), not 8 to 15")
            }
            return bits
        }
    }
}

/// The names of RFC 7692 §7.1.
extension String {
    fileprivate static let serverNoContextTakeover = "server_no_context_takeover"
    fileprivate static let clientNoContextTakeover = "client_no_context_takeover"
    fileprivate static let serverMaxWindowBits = "server_max_window_bits"
    fileprivate static let clientMaxWindowBits = "client_max_window_bits"
}
