/// Why an opening handshake failed (RFC 6455 §4): a case for each rule.
package enum HandshakeError: Error, Sendable, Hashable {
    // Our own request.
    /// The request can't be written: what is wrong, in words, without the value (it may be a secret).
    case invalidRequest(String)

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
    case httpVersionTooOld
    /// None, or several.
    case badHost
    /// None, several, or not 16 bytes in Base64.
    case badKey
    /// Sec-WebSocket-Version isn't 13; what stood there instead.
    case unsupportedVersion(received: String?)

    /// What a server said instead of 101.
    package struct Refusal: Sendable, Hashable {
        package var status: Int
        package var reason: String
        package var location: String?
        package var wwwAuthenticate: [String]
        package var retryAfter: String?
        package var server: String?
        package var contentType: String?
        /// The part of the body that came together with the head, at most 300 bytes, as text.
        package var bodyExcerpt: String

        package init(
            status: Int, reason: String, location: String? = nil, wwwAuthenticate: [String] = [],
            retryAfter: String? = nil, server: String? = nil, contentType: String? = nil,
            bodyExcerpt: String = ""
        ) {
            self.status = status
            self.reason = reason
            self.location = location
            self.wwwAuthenticate = wwwAuthenticate
            self.retryAfter = retryAfter
            self.server = server
            self.contentType = contentType
            self.bodyExcerpt = bodyExcerpt
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
