extension OpeningHandshake {
    /// The client's side (RFC 6455 §4.1): writes the request, judges the response.
    public struct Client: Sendable {
        /// What the server agreed to.
        public struct Accepted: Sendable, Hashable {
            /// The one the server chose; nil when none was offered, or a missing one is tolerated.
            public var subprotocol: String?
            /// What was agreed on compression; nil when it wasn't offered or the server declined it.
            public var deflate: PerMessageDeflate.Agreement?
            /// The other extensions the server agreed to, each of them offered.
            public var extensions: [ExtensionHeader.Element]
            /// The whole response.
            public var head: HTTPHead
        }

        /// The whole request, to be sent once.
        public let requestBytes: [UInt8]

        private let expectedAccept: String
        private let subprotocols: [String]
        private let requiresSubprotocol: Bool
        private let deflate: PerMessageDeflate.Options?
        private let extensions: [ExtensionHeader.Element]
        private let headLimit: Int
        private var parser: HTTPHeadParser
        private var interimBytes = 0
        /// A final answer other than 101 has come.
        private var refused: (refusal: HandshakeError.Refusal, body: RefusalBody)?

        /// - Parameters:
        ///   - host: the Host field's value, ready: with brackets and a port where they are due.
        ///   - path: origin-form target, from its "/" on, percent-encoded, with the query.
        ///   - key: 16 random bytes, new for each connection.
        ///   - subprotocols: in order of preference.
        ///   - requiresSubprotocol: whether a server that chooses none of them fails the handshake
        ///     [MQTT-6.0.0-4]; RFC 6455 alone allows it.
        ///   - deflate: what to offer of permessage-deflate (RFC 7692); nil offers nothing.
        ///   - extensions: further ones to offer, which the caller knows how to speak.
        ///   - headers: further fields, none of them one that the handshake writes itself.
        ///   - origin: who asks (RFC 6454 §7); by this or by one of `headers`.
        ///   - headLimit: bytes of the response's head.
        /// - Throws: `.invalidRequest` for what can't be written safely.
        public init(
            host: String, path: String, key: [UInt8], subprotocols: [String] = [],
            requiresSubprotocol: Bool = true, deflate: PerMessageDeflate.Options? = nil,
            extensions: [ExtensionHeader.Element] = [], headers: [(name: String, value: String)] = [],
            origin: String? = nil,
            headLimit: Int = OpeningHandshake.defaultHeadLimit
        ) throws(HandshakeError) {
            guard key.count == 16 else { throw .invalidRequest("the key isn't 16 bytes") }
            guard !host.isEmpty, host.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else {
                throw .invalidRequest("host")
            }
            guard path.utf8.first == UInt8(ascii: "/"),
                path.utf8.allSatisfy({ 0x21...0x7E ~= $0 && $0 != UInt8(ascii: "#") })
            else { throw .invalidRequest("path") }
            guard subprotocols.allSatisfy(Self.isToken), Set(subprotocols).count == subprotocols.count else {
                throw .invalidRequest("subprotocols")
            }

            if let origin, !OpeningHandshake.isOrigin(origin) { throw .invalidRequest("origin") }
            let namesOrigin = headers.count { $0.name.equalsIgnoringASCIICase("Origin") }
            guard namesOrigin + (origin == nil ? 0 : 1) < 2 else {
                throw .invalidRequest("more than one Origin")
            }

            let encodedKey = Base64.encode(key)
            var fields: [(name: String, value: String)] = [
                ("Host", host), ("Upgrade", "websocket"), ("Connection", "Upgrade"),
                ("Sec-WebSocket-Key", encodedKey),
            ]
            if let origin { fields.append(("Origin", origin)) }
            if !subprotocols.isEmpty {
                fields.append(("Sec-WebSocket-Protocol", subprotocols.joined(separator: ", ")))
            }
            fields.append(("Sec-WebSocket-Version", OpeningHandshake.version))
            guard extensions.allSatisfy({ $0.isWellFormed && $0.name != PerMessageDeflate.name }) else {
                throw .invalidRequest("extensions")
            }
            let offers = (deflate.map { [PerMessageDeflate.offer($0)] } ?? []) + extensions
            if !offers.isEmpty { fields.append(("Sec-WebSocket-Extensions", ExtensionHeader.value(offers))) }
            for (name, value) in headers { try Self.check(header: name, value: value) }
            fields += headers

            var request = "GET \(path) HTTP/1.1\r\n"
            for (name, value) in fields {
                guard Self.isFieldValue(value) else { throw .invalidRequest("the value of header \(name)") }
                request += "\(name): \(value)\r\n"
            }
            request += "\r\n"

            requestBytes = Array(request.utf8)
            expectedAccept = OpeningHandshake.acceptValue(forKey: encodedKey)
            self.subprotocols = subprotocols
            self.requiresSubprotocol = requiresSubprotocol
            self.deflate = deflate
            self.extensions = extensions
            self.headLimit = headLimit
            parser = HTTPHeadParser(.response, limit: headLimit)
        }

        /// Whether a further field can be sent in the request.
        ///
        /// - Throws: `.invalidRequest`, in words without the value.
        package static func check(header name: String, value: String) throws(HandshakeError) {
            guard isToken(name) else { throw .invalidRequest("a header's name") }
            guard !isReserved(name) else { throw .invalidRequest("header \(name) can't be set by hand") }
            guard isFieldValue(value) else { throw .invalidRequest("the value of header \(name)") }
        }

        /// - Returns: nil when more is needed. On success the bytes after the head, which belong to the
        ///   frames, are left in `input`.
        /// - Throws: the rule that is broken; for a refusal once its body has come as far as it is of interest.
        public mutating func receive(
            _ input: inout UnsafeRawBufferPointer
        ) throws(HandshakeError) -> Accepted? {
            while refused == nil {
                let before = input.count
                let received: HTTPHead?
                do throws(HTTPHeadError) {
                    received = try parser.receive(&input)
                } catch {
                    throw HandshakeError(error)
                }
                interimBytes += before - input.count
                guard let head = received else { return nil }
                guard case .status(let version, let status, let reason) = head.startLine else { return nil }
                if status == 101 {
                    guard version >= .http11 else { throw .httpVersionTooOld }
                    return try judge(head)
                }
                guard 100...199 ~= status else {
                    refused = (
                        HandshakeError.Refusal(status: status, reason: reason, head: head),
                        RefusalBody(of: head, status: status)
                    )
                    break
                }
                // RFC 9110 §15.2: interim responses may come before the final one; together they are bounded.
                guard interimBytes < headLimit else { throw .headTooLarge(limit: headLimit) }
                parser = HTTPHeadParser(.response, limit: headLimit - interimBytes)
            }
            refused?.body.receive(input)
            input = UnsafeRawBufferPointer(rebasing: input.suffix(0))
            if refused?.body.isComplete == true, let refusal { throw .notSwitchingProtocols(refusal) }
            return nil
        }

        /// Whether any byte of an answer has come.
        public var hasBegun: Bool { interimBytes > 0 }

        /// Whether a final answer other than 101 has come.
        public var isRefused: Bool { refused != nil }

        /// A final answer other than 101, with what has come of its body; nil while none has come. It is the
        /// reason of the failure, whatever ends the connection.
        public var refusal: HandshakeError.Refusal? {
            guard let (answer, body) = refused else { return nil }
            var refusal = answer
            refusal.bodyExcerpt = body.excerpt
            refusal.bodyCoding = body.coding
            return refusal
        }

        /// The six checks on the response, in the order of §4.1.
        private func judge(_ head: HTTPHead) throws(HandshakeError) -> Accepted {
            let upgrade = head.list("Upgrade")
            guard upgrade.count == 1, upgrade[0].equalsIgnoringASCIICase("websocket") else {
                throw .missingUpgrade(received: head.value("Upgrade"))
            }
            guard head.list("Connection").contains(where: { $0.equalsIgnoringASCIICase("upgrade") }) else {
                throw .missingConnection(received: head.value("Connection"))
            }
            guard let accept = head.value("Sec-WebSocket-Accept") else { throw .missingAccept }
            guard accept == expectedAccept else {
                throw .badAccept(expected: expectedAccept, received: accept)
            }
            let (agreement, others) = try judgeExtensions(head)
            let subprotocol = head.value("Sec-WebSocket-Protocol")
            if let subprotocol {
                guard subprotocols.contains(subprotocol) else { throw .subprotocolWrong(subprotocol) }
            } else if requiresSubprotocol, !subprotocols.isEmpty {
                throw .subprotocolMissing
            }
            return Accepted(
                subprotocol: subprotocol, deflate: agreement, extensions: others, head: head)
        }

        /// §4.1, check 5; RFC 7692 §5.1.
        private func judgeExtensions(
            _ head: HTTPHead
        ) throws(HandshakeError) -> (PerMessageDeflate.Agreement?, others: [ExtensionHeader.Element]) {
            var agreement: PerMessageDeflate.Agreement?
            var others: [ExtensionHeader.Element] = []
            for chosen in try OpeningHandshake.extensions(of: head) {
                if let deflate, chosen.name == PerMessageDeflate.name {
                    guard agreement == nil else {
                        throw .extensionInvalid("\(chosen.name) stands there twice")
                    }
                    do throws(PerMessageDeflate.InvalidParameters) {
                        agreement = try PerMessageDeflate.agreement(on: deflate, answeredBy: chosen)
                    } catch {
                        throw .extensionInvalid("\(error.reason): \(chosen)")
                    }
                } else if extensions.contains(where: { $0.name == chosen.name }) {
                    others.append(chosen)
                } else {
                    throw .extensionUnrequested(chosen.description)
                }
            }
            return (agreement, others)
        }

        static func isToken(_ text: String) -> Bool {
            !text.isEmpty && text.utf8.allSatisfy(\.isHTTPTokenCharacter)
        }

        /// RFC 9110 §5.5: no control characters but HTAB.
        static func isFieldValue(_ text: String) -> Bool {
            text.utf8.allSatisfy { $0 == 0x09 || $0 >= 0x20 && $0 != 0x7F }
        }

        /// Fields that the handshake of either role writes itself, those that would announce a body, and those that
        /// concern one connection and would need more in Connection (RFC 9110 §7.6.1).
        static func isReserved(_ name: String) -> Bool {
            let reserved = [
                "Host", "Upgrade", "Connection", "Keep-Alive", "Proxy-Connection", "HTTP2-Settings",
                "Content-Length", "Transfer-Encoding", "TE", "Trailer", "Expect",
            ]
            let prefix = "Sec-WebSocket-"
            return reserved.contains { name.equalsIgnoringASCIICase($0) }
                || name.prefix(prefix.count).equalsIgnoringASCIICase(prefix)
        }
    }
}
