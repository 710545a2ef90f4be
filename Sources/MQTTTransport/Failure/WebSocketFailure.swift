internal import WebSocketCore

// The WebSocket core keeps small error enums of its own; this is the one place where they become the shared
// vocabulary.

extension TransportError {
    init(handshake error: HandshakeError) {
        let (code, evidence): (FailureCode, Evidence) =
            switch error {
            case .invalidRequest(let what):
                (.clientInvalidArgument, .text("the request can't be written: \(what)"))
            case .invalidResponse(let what):
                (.clientInvalidArgument, .text("the response can't be written: \(what)"))
            case .headTooLarge(let limit):
                (.wsHeadOversized, .text("no end of the head within \(limit) bytes"))
            case .malformedHead(let what): (.wsHeadMalformed, .text(what))
            case .notHTTP(let bytes): (.wsHeadMalformed, .firstBytes(bytes))
            case .missingUpgrade(let received):
                (
                    .wsMissingUpgrade,
                    .text("the 101 has no \"Upgrade: websocket\" but \(Self.quoted(received))")
                )
            case .missingConnection(let received):
                (
                    .wsMissingUpgrade,
                    .text("the 101 has no \"Connection: Upgrade\" but \(Self.quoted(received))")
                )
            case .notSwitchingProtocols(let refusal):
                (Self.code(forStatus: refusal.status), .http(Self.answer(refusal)))
            case .missingAccept: (.wsBadAccept, .text("the 101 has no Sec-WebSocket-Accept"))
            case .badAccept(let expected, let received):
                (.wsBadAccept, .text("Sec-WebSocket-Accept is \(Self.quoted(received)), not \"\(expected)\""))
            case .subprotocolMissing: (.wsSubprotocolMissing, .text("the 101 selects no subprotocol"))
            case .subprotocolWrong(let name):
                (.wsSubprotocolWrong, .text("the 101 selects the subprotocol \(Self.quoted(name))"))
            case .extensionUnrequested(let name):
                (.wsExtensionUnrequested, .text("the 101 selects the extension \(Self.quoted(name))"))
            case .extensionInvalid(let what):
                (.wsExtensionUnrequested, .text("Sec-WebSocket-Extensions: \(Evidence.printable(what))"))
            case .methodNotGET(let method): (.wsHeadMalformed, .text("the method is \(Self.quoted(method))"))
            case .httpVersionTooOld:
                (.wsHeadMalformed, .text("the other side speaks HTTP/1.0, which knows no Upgrade"))
            case .badHost: (.wsHeadMalformed, .text("the request hasn't exactly one Host"))
            case .badKey: (.wsHeadMalformed, .text("the request has no proper Sec-WebSocket-Key"))
            case .unsupportedVersion(let received):
                (.wsHeadMalformed, .text("Sec-WebSocket-Version is \(Self.quoted(received))"))
            }
        self.init(stage: .webSocket, code: code, evidence: evidence)
    }

    init(frame error: WebSocketError) {
        let (code, text): (FailureCode, String) =
            switch error {
            case .reservedBits(let byte): (.wsFrameInvalid, "rsv: reserved bits set (first byte \(byte))")
            case .reservedOpcode(let opcode): (.wsFrameInvalid, "opcode: \(opcode) is reserved")
            case .fragmentedControlFrame: (.wsFrameInvalid, "a control frame is fragmented")
            case .controlFrameTooLong: (.wsFrameInvalid, "length: a control frame has more than 125 bytes")
            case .maskedFrameFromServer: (.wsFrameInvalid, "mask: the server masked a frame")
            case .unmaskedFrameFromClient: (.wsFrameInvalid, "mask: the client didn't mask a frame")
            case .lengthNotMinimal(let length):
                (.wsFrameInvalid, "length: \(length) isn't in its shortest form")
            case .lengthTopBitSet: (.wsFrameInvalid, "length: the top bit of 64 is set")
            case .continuationWithoutStart: (.wsFrameInvalid, "opcode: a continuation without a message")
            case .messageInsideMessage: (.wsFrameInvalid, "opcode: a new message inside another")
            case .closeBodyOfOneByte: (.wsFrameInvalid, "length: a Close frame with one byte")
            case .invalidCloseCode(let code): (.wsFrameInvalid, "a Close frame with the code \(code)")
            case .closeReasonNotUTF8: (.wsFrameInvalid, "utf8: the Close reason is ill-formed")
            case .textNotUTF8(let offset): (.wsFrameInvalid, "utf8: ill-formed text after \(offset) bytes")
            case .compressedDataInvalid(let what): (.wsFrameInvalid, "deflate: \(what)")
            case .frameTooLarge(let length, let limit):
                (.wsSizeLimited, "a frame of \(length) bytes, over \(limit)")
            case .messageTooLarge(let length, let limit):
                (.wsSizeLimited, "a message grows by \(length) bytes over \(limit)")
            }
        self.init(stage: .webSocket, code: code, evidence: .text(text))
    }

    /// A status alone doesn't tell a proxy from the server: the code names what was seen.
    private static func code(forStatus status: Int) -> FailureCode {
        switch status {
        case 300...399: .wsRedirected
        case 401: .httpUnauthorized
        case 407: .proxyAuthRequired
        case 403, 451: .httpBlockPage
        case 404, 410: .httpNotFound
        case 429: .httpRateLimited
        case 511: .httpCaptivePortal
        case 500...599: .httpServerError
        // 200 with a page, 400 and 426: what a hop leaves that has dropped the Upgrade header.
        default: .wsUpgradeStripped
        }
    }

    static func answer(_ refusal: HandshakeError.Refusal) -> HTTPAnswer {
        var answer = HTTPAnswer(status: refusal.status, reason: Evidence.printable(refusal.reason))
        answer.location = refusal.location.map { Evidence.printable(Redirect.withoutUserInformation($0)) }
        let challenges = refusal.status == 407 ? refusal.proxyAuthenticate : refusal.wwwAuthenticate
        if !challenges.isEmpty { answer.challenge = Evidence.printable(challenges.joined(separator: ", ")) }
        answer.retryAfter = refusal.retryAfter.map(Evidence.printable)
        answer.upgrade = refusal.upgrade.map(Evidence.printable)
        answer.webSocketVersion = refusal.webSocketVersion.map(Evidence.printable)
        answer.server = refusal.server.map(Evidence.printable)
        answer.excerpt = Evidence.printable(refusal.bodyExcerpt)
        answer.bodyCoding = refusal.bodyCoding.map(Evidence.printable)
        return answer
    }

    private static func quoted(_ text: String?) -> String {
        text.map { "\"\(Evidence.printable($0))\"" } ?? "nothing"
    }
}
