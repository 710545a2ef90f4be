/// Why an opening handshake failed (RFC 6455 §4): a case for each rule.
public enum HandshakeError: Error, Sendable, Hashable {
    // What we would write ourselves.
    /// The request can't be written: what is wrong, in words, without the value (it may be a secret).
    case invalidRequest(String)
    /// The response can't be written: what is wrong, in words, without the value.
    case invalidResponse(String)

    // Either role.
    /// No end of the head within `limit` bytes.
    case headTooLarge(limit: Int)
    case malformedHead(String)
    /// The peer's first bytes, at most 64.
    case notHTTP([UInt8])
    /// No `Upgrade: websocket`; what stood there instead.
    case missingUpgrade(received: String?)
    /// No `Upgrade` token in Connection; what stood there instead.
    case missingConnection(received: String?)
    /// Sec-WebSocket-Extensions is malformed (RFC 6455 §9.1), or the server agreed to an offered extension in
    /// a way that its rules don't allow; what is wrong, in words.
    case extensionInvalid(String)
    /// HTTP/1.0, which knows no change of protocol: a request of it is to be ignored (RFC 9110 §7.8), and a 101
    /// of it comes from a hop that doesn't know what it passes on (§15.2).
    case httpVersionTooOld

    // Client role (§4.1): the response.
    /// A final status other than 101.
    case notSwitchingProtocols(Refusal)
    case missingAccept
    case badAccept(expected: String, received: String)
    /// Subprotocols were offered and none was chosen.
    case subprotocolMissing
    /// The server chose what wasn't offered, or more than one.
    case subprotocolWrong(String)
    /// The server chose an extension that wasn't offered.
    case extensionUnrequested(String)

    // Server role (§4.2.1): the request.
    case methodNotGET(String)
    /// None, or several.
    case badHost
    /// None, several, or not 16 bytes in Base64.
    case badKey
    /// Sec-WebSocket-Version isn't 13; what stood there instead.
    case unsupportedVersion(received: String?)

    /// What a server said instead of 101.
    public struct Refusal: Sendable, Hashable {
        /// 200–999.
        public var status: Int
        /// The reason phrase as it came; may be empty.
        public var reason: String
        /// Where a redirect leads, as it came (RFC 9110 §10.2.2).
        public var location: String?
        /// The challenges of a 401, a header line each (RFC 9110 §11.6.1).
        public var wwwAuthenticate: [String] = []
        /// The challenges of a proxy's 407 (RFC 9110 §11.7.1).
        public var proxyAuthenticate: [String] = []
        /// Seconds or a date, as it came (RFC 9110 §10.2.3).
        public var retryAfter: String?
        /// Who says that it answers (RFC 9110 §10.2.4).
        public var server: String?
        /// What the server would upgrade to, where it says so (RFC 9110 §15.5.22).
        public var upgrade: String?
        /// The versions of WebSocket that the server speaks (§4.4).
        public var webSocketVersion: String?
        /// Of the body (RFC 9110 §8.3).
        public var contentType: String?
        /// The beginning of the body as one line of text, at most 300 bytes.
        public var bodyExcerpt = ""
        /// The coding that hides the body's text, such as `gzip`; there is no excerpt then.
        public var bodyCoding: String?

        /// A refusal without any header.
        public init(status: Int, reason: String) {
            self.status = status
            self.reason = reason
        }

        init(status: Int, reason: String, head: HTTPHead) {
            self.init(status: status, reason: reason)
            location = head.value("Location")
            wwwAuthenticate = head.values("WWW-Authenticate")
            proxyAuthenticate = head.values("Proxy-Authenticate")
            retryAfter = head.value("Retry-After")
            server = head.value("Server")
            upgrade = head.value("Upgrade")
            webSocketVersion = head.value("Sec-WebSocket-Version")
            contentType = head.value("Content-Type")
        }

        /// - Parameter body: what has come of it so far.
        package init(status: Int, reason: String, head: HTTPHead, body: UnsafeRawBufferPointer) {
            self.init(status: status, reason: reason, head: head)
            var beginning = RefusalBody(of: head, status: status)
            beginning.receive(body)
            bodyExcerpt = beginning.excerpt
            bodyCoding = beginning.coding
        }
    }

    init(_ error: HTTPHeadError) {
        self =
            switch error {
            case .tooLarge(let limit): .headTooLarge(limit: limit)
            case .malformed(let what): .malformedHead(what)
            case .notHTTP(let bytes): .notHTTP(bytes)
            }
    }
}
