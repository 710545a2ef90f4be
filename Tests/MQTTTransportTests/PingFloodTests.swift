import Glibc
import MQTTTransport
import Testing

/// A peer that pings without end and never reads.
@Suite struct PingFloodTests {
    private final class Owner: ByteStreamDelegate {
        func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}
        func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {}
        func streamFlushed(_ stream: ByteStream) {}
        func streamClosed(_ stream: ByteStream, _ error: TransportError?) {}
    }

    private static let request = Array(
        """
        GET /mqtt HTTP/1.1\r
        Host: h\r
        Upgrade: websocket\r
        Connection: Upgrade\r
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
        Sec-WebSocket-Version: 13\r
        \r\n
        """.utf8)

    /// Masked with the key 0, so that the payload stands as it is.
    private static let ping: [UInt8] = [0x89, 0xFD, 0, 0, 0, 0] + [UInt8](repeating: 0x70, count: 125)

    @Test(.timeLimit(.minutes(1))) func pongs_that_nobody_reads_do_not_fill_the_memory() async throws {
        var ends: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let (ours, theirs) = (ends[0], ends[1])
        defer { close(theirs) }
        _ = fcntl(ours, F_SETFL, O_NONBLOCK)
        let loop = try EventLoop()
        defer { loop.stopAndJoin() }
        let stream = try ByteStream(
            loop: loop, descriptor: ours, peer: "pair", role: .server(webSocket: true), tlsContext: nil)
        let bound = LoopBound(stream, on: loop)
        bound.execute {
            $0.delegate = Owner()
            $0.start()
        }
        // 8 MiB of Pings ask for as much of Pongs; blocking writes end only when all of it was read.
        let block = (0..<1024).flatMap { _ in Self.ping }
        #expect(Self.writeAll(Self.request, to: theirs))
        for _ in 0..<64 { #expect(Self.writeAll(block, to: theirs)) }
        let pending = await withCheckedContinuation { continuation in
            bound.execute { continuation.resume(returning: $0.pendingBytes) }
        }
        #expect(pending > 0)
        #expect(pending < 2 << 20)
        await withCheckedContinuation { continuation in
            bound.execute {
                $0.abort(nil)
                continuation.resume()
            }
        }
    }

    private static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        bytes.withUnsafeBytes { buffer in
            var offset = 0
            while offset < buffer.count {
                let count = send(
                    descriptor, buffer.baseAddress?.advanced(by: offset), buffer.count - offset,
                    Int32(MSG_NOSIGNAL))
                if count <= 0 { return false }
                offset += count
            }
            return true
        }
    }
}
