import Foundation
import MQTTTraversal
import Testing

@Suite("A slow line", .timeLimit(.minutes(1)))
struct SlowLineTests {
    /// A broker that reads one long PUBLISH at some megabytes a second and says nothing meanwhile.
    private final class SlowBroker: Sendable {
        static let connack: [UInt8] = [0x20, 0x03, 0x00, 0x00, 0x00]
        static let puback: [UInt8] = [0x40, 0x02, 0x00, 0x01]
        static let pingresp: [UInt8] = [0xD0, 0x00]

        let port: Int
        private let listener: Int32

        init() throws {
            listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            // Inherited by what is accepted; a small one shows the reader's pace to the sender.
            var size: Int32 = 65_536
            setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, 4)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let listener = listener
            let result = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(listener, $0, length) == 0 && listen(listener, 1) == 0
                        && getsockname(listener, $0, &length) == 0
                }
            }
            try #require(result)
            port = Int(UInt16(bigEndian: address.sin_port))
        }

        deinit { close(listener) }

        /// - Parameters:
        ///   - count: bytes of the PUBLISH.
        ///   - silence: for how many of them nothing is said.
        func serve(_ count: Int, silence: Int) {
            let client = accept(listener, nil, nil)
            defer { close(client) }
            var buffer = [UInt8](repeating: 0, count: 65_536)
            // CONNECT comes alone, since nothing is published before CONNACK.
            guard recv(client, &buffer, buffer.count, 0) > 0 else { return }
            send(client, Self.connack, Self.connack.count, Int32(MSG_NOSIGNAL))
            var received = recv(client, &buffer, buffer.count, 0)
            // A busy machine may be late with its publish.
            while received == 2, buffer[0] == 0xC0 {
                send(client, Self.pingresp, Self.pingresp.count, Int32(MSG_NOSIGNAL))
                received = recv(client, &buffer, buffer.count, 0)
            }
            while received < count {
                let more = recv(client, &buffer, buffer.count, 0)
                guard more > 0 else { return }
                received += more
                if received > silence {
                    send(client, Self.pingresp, Self.pingresp.count, Int32(MSG_NOSIGNAL))
                }
                usleep(20_000)
            }
            send(client, Self.puback, Self.puback.count, Int32(MSG_NOSIGNAL))
            // Until the client's end.
            while recv(client, &buffer, buffer.count, 0) > 0 {}
        }
    }

    /// The PINGREQ stands behind a message that takes longer than keep-alive and the answer's time together, and
    /// the broker can't answer what hasn't reached it.
    @Test func a_long_message_that_moves_is_not_taken_for_a_dead_peer() async throws {
        let broker = try SlowBroker()
        let payload = [UInt8](repeating: 0x5A, count: 26 << 20)
        let reading = Thread { broker.serve(payload.count, silence: payload.count - (6 << 20)) }
        reading.start()
        let client = MQTTClient(
            profile: try .tcp(host: "127.0.0.1", port: broker.port),
            configuration: ClientConfiguration(
                clientID: "slow", keepAlive: .seconds(1), pingTimeout: .seconds(3), reconnect: .never))
        try await client.connect()
        let started = ContinuousClock.now
        let outcome = try await client.publish(payload, to: "t", qos: .atLeastOnce)
        #expect(outcome.reasonCode == .success)
        #expect(started.duration(to: .now) > .seconds(5))
        await client.disconnect()
    }
}
