import MQTTTransport
import Testing

private let alice = ProxyCredentials(userName: "alice", password: Array("secret".utf8))
private let name = Array("broker.example".utf8)

/// Plays a proxy's side in pieces; what we send, and what is left for the tunnel.
private func play(
    _ socks: SOCKS5, _ replies: [UInt8], pieceSize: Int = .max
) throws(TransportError) -> (sent: [UInt8], rest: [UInt8], progress: ProxyProgress) {
    var socks = socks
    var sent: [UInt8] = []
    socks.start(into: &sent)
    var rest = replies[...]
    var progress = ProxyProgress.needsMore
    while !rest.isEmpty, progress == .needsMore {
        let piece = Array(rest.prefix(pieceSize))
        rest = rest.dropFirst(piece.count)
        let result = piece.withUnsafeBytes { bytes -> Result<(ProxyProgress, [UInt8]), TransportError> in
            Result { () throws(TransportError) in
                var input = bytes
                let progress = try socks.receive(&input, output: &sent)
                return (progress, Array(input))
            }
        }
        let (next, left) = try result.get()
        progress = next
        rest = left + rest
    }
    return (sent, Array(rest), progress)
}

/// RFC 1928 and RFC 1929.
@Suite struct SOCKS5Tests {
    static let granted: [[UInt8]] = [
        [5, 0, 0, 1, 127, 0, 0, 1, 0, 80],
        [5, 0, 0, 4] + Array(repeating: 9, count: 16) + [0, 80],
        [5, 0, 0, 3, 2, 104, 105, 0, 80],
        [5, 0, 0, 3, 0, 0, 80],
    ]

    @Test(arguments: granted, [1, 2, 3, 5, .max])
    func `a tunnel without a login, whatever address is bound`(reply: [UInt8], pieceSize: Int) throws {
        let socks = SOCKS5(to: .name("broker.example", port: 8883), credentials: nil)
        let (sent, rest, progress) = try play(socks, [5, 0] + reply + [1, 2, 3], pieceSize: pieceSize)
        #expect(progress == .open)
        #expect(rest == [1, 2, 3])
        #expect(sent == [5, 1, 0] + [5, 1, 0, 3, 14] + name + [0x22, 0xB3])
    }

    @Test(arguments: [1, 2, 3, .max])
    func `a login, where the proxy chooses it`(pieceSize: Int) throws {
        let socks = SOCKS5(to: .name("broker.example", port: 1), credentials: alice)
        let (sent, _, progress) = try play(socks, [5, 2] + [1, 0] + Self.granted[0], pieceSize: pieceSize)
        #expect(progress == .open)
        let login: [UInt8] = [1, 5] + Array("alice".utf8) + [6] + Array("secret".utf8)
        #expect(sent == [5, 2, 0, 2] + login + [5, 1, 0, 3, 14] + name + [0, 1])
    }

    @Test(
        arguments: [
            ("192.0.2.1", [1, 192, 0, 2, 1]),
            ("2001:db8::2", [4, 0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]),
        ] as [(String, [UInt8])])
    func `an address goes as an address`(text: String, field: [UInt8]) throws {
        let address = try #require(SocketAddress(literal: text, port: 443))
        let (sent, _, _) = try play(SOCKS5(to: .address(address), credentials: nil), [5, 0])
        #expect(sent == [5, 1, 0] + [5, 1, 0] + field + [1, 0xBB])
    }

    @Test(
        arguments: [
            (
                [5, 0xFF], .proxySOCKSMethod,
                "offered were no login, or user name and password; the proxy takes none"
            ),
            ([5, 1], .proxySOCKSMethod, "the proxy takes 1"),
            ([5, 2, 1, 1], .proxyAuthFailed, "status 1"),
            ([5, 2, 7, 0], .proxyReplyMalformed, "\\x07\\x00"),
            ([4, 0], .proxyReplyMalformed, "\\x04\\x00"),
            (Array("HTTP/1.1 400".utf8), .proxyReplyMalformed, "which is HTTP"),
            ([5, 0, 5, 1], .proxySOCKSReply, "reply 1: general"),
            ([5, 0, 5, 2, 0, 1], .proxySOCKSReply, "reply 2: connection not allowed"),
            ([5, 0, 5, 3], .proxySOCKSReply, "reply 3: network unreachable"),
            ([5, 0, 5, 4], .proxySOCKSReply, "reply 4: host unreachable"),
            ([5, 0, 5, 5], .proxySOCKSReply, "reply 5: connection refused"),
            ([5, 0, 5, 6], .proxySOCKSReply, "reply 6: TTL expired"),
            ([5, 0, 5, 7], .proxySOCKSReply, "reply 7: command"),
            ([5, 0, 5, 8], .proxySOCKSReply, "reply 8: address type"),
            ([5, 0, 5, 99], .proxySOCKSReply, "reply 99: unassigned"),
            ([5, 0, 5, 0, 0, 2, 0], .proxyReplyMalformed, "\\x05\\x00\\x00\\x02"),
            ([5, 0, 6, 0], .proxyReplyMalformed, "\\x06"),
        ] as [([UInt8], FailureCode, String)])
    func `what opens nothing is named`(replies: [UInt8], code: FailureCode, says: String) throws {
        for pieceSize in [1, .max] {
            // HTTP is recognised by more than its first two bytes.
            if pieceSize == 1, says == "which is HTTP" { continue }
            let socks = SOCKS5(to: .name("broker.example", port: 1), credentials: alice)
            let error = #expect(throws: TransportError.self) {
                _ = try play(socks, replies, pieceSize: pieceSize)
            }
            #expect(error?.code == code)
            #expect(error?.stage == .proxy)
            #expect(error?.evidence.description.contains(says) == true, "\(String(describing: error))")
        }
    }

    @Test func `without credentials no login is offered`() throws {
        let socks = SOCKS5(to: .name("broker.example", port: 1), credentials: nil)
        for replies: [UInt8] in [[5, 0xFF], [5, 2]] {
            let error = #expect(throws: TransportError.self) { _ = try play(socks, replies) }
            #expect(error?.code == .proxySOCKSMethod)
        }
    }
}
