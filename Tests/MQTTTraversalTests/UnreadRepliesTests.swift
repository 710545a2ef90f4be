import Dispatch
import Glibc
import MQTTTransport
import MQTTTraversal
import Testing

/// A server that sends QoS 1 messages without end and reads none of their acknowledgements.
@Suite struct UnreadRepliesTests {
    @Test(.timeLimit(.minutes(1))) func acknowledgements_that_nobody_reads_end_the_connection() async throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        // Small, so that few bytes hide in the kernel.
        var size: Int32 = 4096
        setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, 4)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 1) == 0
                    && getsockname(listener, $0, &length) == 0
            }
        }
        try #require(isListening)
        // On a thread of its own, since it blocks; it ends when the client has ended the connection.
        DispatchQueue(label: "flood").async { Self.flood(listener) }

        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: Int(UInt16(bigEndian: address.sin_port))),
            configuration: ClientConfiguration(version: .v3_1_1, reconnect: .never))
        let events = client.events
        try await client.connect()
        var end: MQTTError?
        for await event in events {
            if case .disconnected(let error) = event {
                end = error
                break
            }
        }
        #expect(end?.code == .mqttProtocolError)
        #expect(end?.description.contains("doesn't read") == true)
    }

    private static func flood(_ listener: Int32) {
        let connection = accept(listener, nil, nil)
        defer {
            close(connection)
            close(listener)
        }
        var connect = [UInt8](repeating: 0, count: 256)
        _ = recv(connection, &connect, connect.count, 0)
        let connack: [UInt8] = [0x20, 2, 0, 0]
        _ = send(connection, connack, connack.count, Int32(MSG_NOSIGNAL))
        // PUBLISH at QoS 1 to "t" with the packet identifier 1, nine thousand times over.
        let block = (0..<9000).flatMap { _ in [0x32, 5, 0, 1, 0x74, 0, 1] as [UInt8] }
        while send(connection, block, block.count, Int32(MSG_NOSIGNAL)) > 0 {}
    }
}
