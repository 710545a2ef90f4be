extension OpeningHandshake {
    /// The server's side (RFC 6455 §4.2): judges the request, writes the response.
    public struct Server: Sendable {
        private var parser: HTTPHeadParser

        /// - Parameter headLimit: bytes of the request's head.
        public init(headLimit: Int = HTTPHeadParser.defaultLimit) {
            parser = HTTPHeadParser(.request, limit: headLimit)
        }

        /// - Returns: nil when more is needed. Bytes after the head are left in `input`.
        /// - Throws: the rule of §4.2.1 that is broken; `reject(_:)` gives the answer to send.
        public mutating func receive(
            _ input: inout UnsafeRawBufferPointer
        ) throws(HandshakeError) -> ServerRequest? {
            let received: HTTPHead?
            do throws(HTTPHeadError) {
                received = try parser.receive(&input)
            } catch {
                throw HandshakeError(error)
            }
            guard let head = received else { return nil }
            guard case .request(let version, let method, let target) = head.startLine else { return nil }

            guard method == "GET" else { throw .methodNotGET(method) }
            guard version >= .http11 else { throw .httpVersionTooOld }
            guard head.values("Host").count == 1 else { throw .badHost }
            guard head.list("Upgrade").contains(where: { $0.equalsIgnoringASCIICase("websocket") }) else {
                throw .missingUpgrade(received: head.value("Upgrade"))
            }
            guard head.list("Connection").contains(where: { $0.equalsIgnoringASCIICase("upgrade") }) else {
                throw .missingConnection(received: head.value("Connection"))
            }
            let versions = head.value("Sec-WebSocket-Version")
            guard versions == OpeningHandshake.version else {
                throw .unsupportedVersion(received: versions)
            }
            guard let key = head.value("Sec-WebSocket-Key"), OpeningHandshake.isKey(key) else {
                throw .badKey
            }
            let offers = try OpeningHandshake.extensions(of: head)
            return ServerRequest(path: target, head: head, offeredExtensions: offers, key: key)
        }

        /// The refusal that fits a broken rule.
        public static func reject(_ error: HandshakeError) -> [UInt8] {
            switch error {
            case .methodNotGET:
                reject(status: 405, reason: "Method Not Allowed", headers: [("Allow", "GET")])
            case .missingUpgrade, .unsupportedVersion:
                // §4.4; RFC 9110 §15.5.22 asks for Upgrade.
                reject(
                    status: 426, reason: "Upgrade Required",
                    headers: [("Upgrade", "websocket"), ("Sec-WebSocket-Version", OpeningHandshake.version)])
            case .httpVersionTooOld:
                reject(status: 505, reason: "HTTP Version Not Supported")
            case .headTooLarge:
                reject(status: 431, reason: "Request Header Fields Too Large")
            case .invalidRequest, .malformedHead, .notHTTP, .missingConnection, .notSwitchingProtocols,
                .missingAccept, .badAccept, .subprotocolMissing, .subprotocolWrong, .extensionUnrequested,
                .extensionInvalid, .badHost, .badKey:
                reject(status: 400, reason: "Bad Request")
            }
        }

        /// A refusal with an empty body, after which the connection is closed.
        /// - Parameter headers: written as they are: no CR or LF.
        public static func reject(
            status: Int, reason: String, headers: [(name: String, value: String)] = []
        ) -> [UInt8] {
            // RFC 9110 §7.8: who sends Upgrade names it in Connection too.
            let upgrades = headers.contains { $0.name.equalsIgnoringASCIICase("Upgrade") }
            return response(
                "HTTP/1.1 \(status) \(reason)",
                headers + [("Content-Length", "0"), ("Connection", upgrades ? "Upgrade, close" : "close")])
        }

        fileprivate static func response(
            _ statusLine: String, _ fields: [(name: String, value: String)]
        ) -> [UInt8] {
            var text = statusLine + "\r\n"
            for (name, value) in fields { text += "\(name): \(value)\r\n" }
            return Array((text + "\r\n").utf8)
        }
    }

    /// A request that keeps every rule of §4.2.1.
    public struct ServerRequest: Sendable, Hashable {
        /// The target as it came, with the query.
        public var path: String
        public var head: HTTPHead
        /// In the client's order of preference.
        public let offeredExtensions: [ExtensionHeader.Element]
        fileprivate let key: String

        fileprivate init(
            path: String, head: HTTPHead, offeredExtensions: [ExtensionHeader.Element], key: String
        ) {
            self.path = path
            self.head = head
            self.offeredExtensions = offeredExtensions
            self.key = key
        }

        /// In the client's order of preference.
        public var offeredSubprotocols: [String] { head.list("Sec-WebSocket-Protocol") }

        /// What to agree to of the client's offers of permessage-deflate (RFC 7692 §7): the first that keeps
        /// within the options; nil declines them all.
        public func deflateAgreement(_ options: PerMessageDeflate.Options) -> PerMessageDeflate.Agreement? {
            PerMessageDeflate.agreement(on: options, choosingFrom: offeredExtensions)
        }

        /// The 101 response (§4.2.2).
        /// - Parameters:
        ///   - subprotocol: one of `offeredSubprotocols`, or nil.
        ///   - deflate: what `deflateAgreement(_:)` gave for this request, or nil.
        ///   - extensions: further ones to agree to, each of them offered.
        ///   - headers: further fields, written as they are: no CR or LF.
        public func accept(
            subprotocol: String?, deflate: PerMessageDeflate.Agreement? = nil,
            extensions: [ExtensionHeader.Element] = [], headers: [(name: String, value: String)] = []
        ) -> [UInt8] {
            var fields: [(name: String, value: String)] = [
                ("Upgrade", "websocket"), ("Connection", "Upgrade"),
                ("Sec-WebSocket-Accept", OpeningHandshake.acceptValue(forKey: key)),
            ]
            if let subprotocol { fields.append(("Sec-WebSocket-Protocol", subprotocol)) }
            let answers = (deflate.map { [$0.answer] } ?? []) + extensions
            if !answers.isEmpty {
                fields.append(("Sec-WebSocket-Extensions", ExtensionHeader.value(answers)))
            }
            return Server.response("HTTP/1.1 101 Switching Protocols", fields + headers)
        }
    }
}
