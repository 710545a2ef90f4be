extension OpeningHandshake {
    /// The server's side (RFC 6455 §4.2): judges the request, writes the response.
    public struct Server: Sendable {
        private var parser: HTTPHeadParser

        /// - Parameter headLimit: bytes of the request's head.
        public init(headLimit: Int = OpeningHandshake.defaultHeadLimit) {
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
                refusal(status: 405, reason: "Method Not Allowed", headers: [("Allow", "GET")])
            case .missingUpgrade, .unsupportedVersion:
                // §4.4; RFC 9110 §15.5.22 asks for Upgrade.
                refusal(
                    status: 426, reason: "Upgrade Required",
                    headers: [("Upgrade", "websocket"), ("Sec-WebSocket-Version", OpeningHandshake.version)])
            case .httpVersionTooOld:
                refusal(status: 505, reason: "HTTP Version Not Supported")
            case .headTooLarge:
                refusal(status: 431, reason: "Request Header Fields Too Large")
            case .invalidResponse:
                refusal(status: 500, reason: "Internal Server Error")
            case .invalidRequest, .malformedHead, .notHTTP, .missingConnection, .notSwitchingProtocols,
                .missingAccept, .badAccept, .subprotocolMissing, .subprotocolWrong, .extensionUnrequested,
                .extensionInvalid, .badHost, .badKey:
                refusal(status: 400, reason: "Bad Request")
            }
        }

        /// A refusal with an empty body, after which the connection is closed.
        ///
        /// - Parameters:
        ///   - status: 300–599.
        ///   - reason: without control characters.
        ///   - headers: further fields; Connection and those of a body are written here.
        /// - Throws: `.invalidResponse` for what can't be written safely.
        public static func reject(
            status: Int, reason: String, headers: [(name: String, value: String)] = []
        ) throws(HandshakeError) -> [UInt8] {
            guard 300...599 ~= status else { throw .invalidResponse("the status") }
            guard OpeningHandshake.Client.isFieldValue(reason) else { throw .invalidResponse("the reason") }
            for (name, value) in headers {
                let isOurs = ["Connection", "Content-Length", "Transfer-Encoding"].contains {
                    name.equalsIgnoringASCIICase($0)
                }
                guard OpeningHandshake.Client.isToken(name), !isOurs,
                    OpeningHandshake.Client.isFieldValue(value)
                else {
                    throw .invalidResponse("a header")
                }
            }
            return refusal(status: status, reason: reason, headers: headers)
        }

        private static func refusal(
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
        /// The whole request, with Origin and cookies.
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
        ///   - headers: further fields, none of them one that the handshake writes itself.
        /// - Throws: `.invalidResponse` for what the client didn't offer, which would make it leave (§4.1), and for
        ///   headers that can't be written safely.
        public func accept(
            subprotocol: String?, deflate: PerMessageDeflate.Agreement? = nil,
            extensions: [ExtensionHeader.Element] = [], headers: [(name: String, value: String)] = []
        ) throws(HandshakeError) -> [UInt8] {
            if let subprotocol, !offeredSubprotocols.contains(subprotocol) {
                throw .invalidResponse("the subprotocol wasn't offered")
            }
            for name in extensions.map(\.name) + (deflate == nil ? [] : [PerMessageDeflate.name]) {
                guard offeredExtensions.contains(where: { $0.name == name }) else {
                    throw .invalidResponse("an extension wasn't offered")
                }
            }
            guard extensions.allSatisfy({ $0.isWellFormed && $0.name != PerMessageDeflate.name }) else {
                throw .invalidResponse("extensions")
            }
            for (name, value) in headers {
                guard OpeningHandshake.Client.isToken(name), !OpeningHandshake.Client.isReserved(name),
                    OpeningHandshake.Client.isFieldValue(value)
                else {
                    throw .invalidResponse("a header")
                }
            }
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
