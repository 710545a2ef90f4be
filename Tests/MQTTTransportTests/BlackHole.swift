import Foundation
import MQTTTransport
import Testing

/// A port of loopback at which no connection comes about: the queue of what waits to be accepted is full, so the
/// kernel drops each SYN.
final class BlackHole: Sendable {
    let address: SocketAddress
    private let listening: Int32
    /// The one that fills the queue.
    private let filler: Int32

    init(at host: String = "127.0.0.1") throws {
        let wanted = try #require(SocketAddress(literal: host, port: 0))
        let domain = wanted.family == .ipv4 ? AF_INET : AF_INET6
        listening = socket(domain, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        filler = socket(domain, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let listening = listening
        let filler = filler
        try #require(wanted.withSockaddr { bind(listening, $0, $1) } == 0)
        // A queue of length 0 holds one.
        try #require(listen(listening, 0) == 0)
        address = try #require(SocketAddress(boundTo: listening))
        try #require(address.withSockaddr { connect(filler, $0, $1) } == 0)
    }

    deinit {
        close(filler)
        close(listening)
    }

    /// How many sockets of this machine have sent a SYN to it, and wait.
    func attempts() throws -> Int { try count(state: "02") }

    private func count(state: String) throws -> Int {
        let file = address.family == .ipv4 ? "/proc/self/net/tcp" : "/proc/self/net/tcp6"
        let port = String(address.port, radix: 16, uppercase: true)
        let suffix = ":" + String(repeating: "0", count: 4 - port.count) + port
        // Foundation reads the first page of such a file only.
        let stream = try #require(fopen(file, "r"))
        defer { fclose(stream) }
        var line = [CChar](repeating: 0, count: 512)
        var count = 0
        while fgets(&line, Int32(line.count), stream) != nil {
            let bytes = line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
            let fields = String(decoding: bytes, as: UTF8.self).split(separator: " ")
            if fields[2].hasSuffix(suffix), fields[3] == state { count += 1 }
        }
        return count
    }
}
