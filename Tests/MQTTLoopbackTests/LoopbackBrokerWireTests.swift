import Dispatch
import Glibc
import MQTTLoopback
import MQTTTraversal
import Testing

/// What clients other than ours see, byte by byte, and what is left when the broker has gone.
@Suite(.timeLimit(.minutes(1))) struct LoopbackBrokerWireTests {
    @Test(
        arguments: [
            // Some clients offer none; selecting one all the same would break their handshake.
            ("/mqtt", "", "HTTP/1.1 101 ", nil),
            ("/mqtt", "Sec-WebSocket-Protocol: mqtt\r\n", "HTTP/1.1 101 ", "mqtt"),
            ("/mqtt", "Sec-WebSocket-Protocol: chat, mqtt\r\n", "HTTP/1.1 101 ", "mqtt"),
            ("/mqtt", "Sec-WebSocket-Protocol: chat\r\n", "HTTP/1.1 400 ", nil),
            ("/", "Sec-WebSocket-Protocol: mqtt\r\n", "HTTP/1.1 404 ", nil),
            ("/mqtt/", "", "HTTP/1.1 404 ", nil),
        ] as [(String, String, String, String?)])
    func it_answers_the_opening_handshake(
        _ path: String, _ offer: String, _ status: String, _ selected: String?
    ) async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.webSocket)])
        let socket = try RawSocket(port: try #require(broker.ports[.webSocket]))
        socket.send(
            Array(
                """
                GET \(path) HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(offer)\r\n
                """.utf8))
        let answer = await socket.read { $0.suffix(4) == Array("\r\n\r\n".utf8)[...] }
        let lines = String(decoding: answer, as: UTF8.self).split(separator: "\r\n")
        #expect(lines.first?.hasPrefix(status) == true)
        #expect(
            lines.filter { $0.lowercased().hasPrefix("sec-websocket-protocol:") }
                == (selected.map { ["Sec-WebSocket-Protocol: \($0)"] } ?? []))
        if selected != nil {
            // RFC 6455, section 1.3: the accept value of the sample nonce.
            #expect(lines.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
        }
        socket.close()
        await broker.stop()
    }

    @Test func each_packet_is_a_WebSocket_message() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.webSocket)])
        let socket = try RawSocket(port: try #require(broker.ports[.webSocket]))
        socket.send(
            Array(
                """
                GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n
                """.utf8))
        _ = await socket.read { $0.suffix(4) == Array("\r\n\r\n".utf8)[...] }
        // One masked (key 0) message: CONNECT (3.1.1, Clean Session, client identifier "c"), PINGREQ, PINGREQ.
        let packets: [UInt8] =
            [0x10, 13, 0, 4, 0x4D, 0x51, 0x54, 0x54, 4, 2, 0, 0, 0, 1, 0x63] + [0xC0, 0, 0xC0, 0]
        socket.send([0x82, 0x80 | UInt8(packets.count), 0, 0, 0, 0] + packets)
        let expected: [UInt8] = [0x82, 4, 0x20, 2, 0, 0, 0x82, 2, 0xD0, 0, 0x82, 2, 0xD0, 0]
        #expect(await socket.read { $0.count >= expected.count } == expected)
        socket.close()
        await broker.stop()
    }

    @Test func a_client_that_does_not_read_loses_QoS_0_messages_and_holds_up_nobody() async throws {
        var configuration = BrokerConfiguration()
        configuration.maximumOutputBytes = 256 * 1024
        let broker = try await LoopbackBroker.start(configuration, listeners: [.init(.tcp)])
        let deaf = try RawSocket(port: try #require(broker.ports[.tcp]), receiveBuffer: 4096)
        // CONNECT (3.1.1, Clean Session, client identifier "d"); SUBSCRIBE to "#", QoS 0.
        deaf.send([0x10, 13, 0, 4, 0x4D, 0x51, 0x54, 0x54, 4, 2, 0, 0, 0, 1, 0x64])
        #expect(await deaf.read { $0.count >= 4 } == [0x20, 2, 0, 0])
        deaf.send([0x82, 6, 0, 1, 0, 1, 0x23, 0])
        #expect(await deaf.read { $0.count >= 5 } == [0x90, 3, 0, 1, 0])

        let sender = MQTTClient(profile: try broker.profile(.tcp))
        try await sender.connect()
        let payload = [UInt8](repeating: 0, count: 100_000)
        for _ in 0..<100 { try await sender.publish(payload, to: "t", qos: .atLeastOnce) }
        let dropped = await broker.counters.droppedMessages
        #expect(dropped > 0)

        // Once it reads, it gets what was kept, whole: a fixed header of 4 bytes, the topic, the payload.
        let kept = 100 - Int(dropped)
        let bytes = await deaf.read { $0.count >= kept * (4 + 3 + 100_000) }
        #expect(bytes.count == kept * 100_007)
        #expect(Array(bytes.prefix(7)) == [0x30, 0xA3, 0x8D, 0x06, 0, 1, 0x74])
        #expect(await broker.counters.sent(.publish) == UInt64(kept))
        deaf.close()
        await sender.disconnect()
        await broker.stop()
    }

    @Test func stopping_says_goodbye() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let socket = try RawSocket(port: try #require(broker.ports[.tcp]))
        // CONNECT (5.0, Clean Start, no properties, client identifier "c").
        socket.send([0x10, 14, 0, 4, 0x4D, 0x51, 0x54, 0x54, 5, 2, 0, 0, 0, 0, 1, 0x63])
        let connack = await socket.read { $0.count >= 2 && $0.count >= 2 + Int($0[1]) }
        #expect(connack.starts(with: [0x20]))
        async let stopped: Void = broker.stop()
        // DISCONNECT, Server shutting down, and then FIN.
        let goodbye = await socket.read { _ in false }
        #expect(goodbye.starts(with: [0xE0]))
        #expect(goodbye.count >= 3 && goodbye[2] == 0x8B)
        socket.close()
        await stopped
        #expect(throws: RawSocket.Refused.self) { try RawSocket(port: broker.ports[.tcp] ?? 0) }
        #expect(await broker.connectedClients == [])
        await broker.stop()
    }

    /// In a process of its own, since descriptors and threads are counted.
    @Test func nothing_is_left_after_stop() async {
        await #expect(processExitsWith: .success) {
            for round in 0..<55 {
                let broker = try await LoopbackBroker.start()
                for kind in [LoopbackBroker.Kind.tcp, .webSocketSecure] {
                    let client = MQTTClient(profile: try broker.profile(kind))
                    try await client.connect()
                    if round % 2 == 0 { await client.disconnect() }
                }
                // A connection without CONNECT, one in the middle of TLS, and one that our client holds open.
                let strangers = try [LoopbackBroker.Kind.tcp, .tls].map {
                    try RawSocket(port: try #require(broker.ports[$0]))
                }
                try await broker.block(.webSocket, by: .dropping)
                for stranger in strangers { stranger.close() }
                await broker.stop()
                #expect(access(broker.authorityFile, F_OK) != 0)
                if round == 4 { Census.first = Census() }
            }
            do {
                // Let go without a stop.
                _ = try await LoopbackBroker.start()
            }
            let last = Census()
            guard last == Census.first else {
                print("left over: \(last), before: \(Census.first)")
                exit(EXIT_FAILURE)
            }
        }
    }
}

/// How many descriptors and event loops the process has.
private struct Census: Equatable {
    nonisolated(unsafe) static var first = Census()

    let descriptors = Self.entries("/proc/self/fd").count
    let loops = Self.entries("/proc/self/task").count { Self.name(ofThread: $0) == "mqtt-loop\n" }

    private static func entries(_ path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            names.append(
                withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                })
        }
        return names
    }

    private static func name(ofThread thread: String) -> String? {
        let file = open("/proc/self/task/\(thread)/comm", O_RDONLY)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 64)
        return String(decoding: bytes.prefix(max(0, read(file, &bytes, 64))), as: UTF8.self)
    }
}

/// A blocking TCP connection to a port of this machine; reads end after half a minute of silence.
private final class RawSocket: Sendable {
    private let descriptor: Int32

    struct Refused: Error {}

    init(port: UInt16, receiveBuffer: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        if var receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, 4)
        }
        var patience = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else {
            Glibc.close(descriptor)
            throw Refused()
        }
    }

    func send(_ bytes: [UInt8]) {
        #expect(Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    }

    /// What comes until there is enough, the peer has ended, or nothing comes for half a minute.
    ///
    /// Waits on a thread of its own: the threads of the tasks are few, and what is waited for may need them.
    func read(until isEnough: @escaping @Sendable ([UInt8]) -> Bool) async -> [UInt8] {
        await withCheckedContinuation { continuation in
            DispatchQueue(label: "raw socket").async { [descriptor] in
                var bytes: [UInt8] = []
                var buffer = [UInt8](repeating: 0, count: 65536)
                while !isEnough(bytes) {
                    let count = recv(descriptor, &buffer, buffer.count, 0)
                    guard count > 0 else { break }
                    bytes += buffer[..<count]
                }
                continuation.resume(returning: bytes)
            }
        }
    }

    func close() { Glibc.close(descriptor) }
}
