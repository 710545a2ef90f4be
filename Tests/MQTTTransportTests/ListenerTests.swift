import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

@Suite("Listener", .timeLimit(.minutes(1)))
struct ListenerTests {
    @Test func a_taken_port_is_a_local_failure_with_its_errno() async throws {
        try await Bench.run { bench in
            let free = try #require(SocketAddress(literal: "127.0.0.1", port: 0))
            let first = try Listener(loop: bench.loop, address: free) { _, _ in }
            do throws(TransportError) {
                _ = try Listener(loop: bench.loop, address: first.address) { _, _ in }
                Issue.record("bound twice")
            } catch {
                #expect(error.stage == .local)
                #expect(error.code == .clientResources)
                #expect(error.evidence == .errno(EADDRINUSE))
                #expect(error.hop == first.address.description)
            }
        }
    }

    @Test func a_closed_listener_refuses_and_its_connections_live_on() async throws {
        try await Bench.run { bench in
            let free = try #require(SocketAddress(literal: "127.0.0.1", port: 0))
            let accepted = Watched<[Int32]>([])
            let made = try Listener(loop: bench.peerLoop, address: free) { descriptor, peer in
                #expect(peer.hasPrefix("127.0.0.1:"))
                accepted.update { $0.append(descriptor) }
            }
            let port = Int(made.address.port)
            let listener = LoopBound(made, on: bench.peerLoop)
            listener.execute { $0.start() }
            let first = try bench.client(.tcp(host: "127.0.0.1", port: port))
            #expect(await first.outcome() == nil)
            let descriptors = await accepted.first { $0.count == 1 }
            let isClosed = Watched(false)
            listener.execute { listener in
                listener.close()
                listener.close()
                isClosed.update { $0 = true }
            }
            _ = await isClosed.first { $0 }
            // A process that another test is just spawning holds a copy until its exec: the port may listen on for
            // that long.
            var code: FailureCode?
            for _ in 0..<200 where code != .tcpRefused {
                code = await (try bench.client(.tcp(host: "127.0.0.1", port: port))).outcome()?.code
            }
            #expect(code == .tcpRefused)
            write(descriptors[0], "x", 1)
            #expect(await first.received(1) == [0x78])
            close(descriptors[0])
            #expect(await first.end()?.code == .tcpClosed)
        }
    }

    /// A connection that can't be accepted keeps the descriptor readable.
    @Test func a_process_without_descriptors_neither_spins_nor_stays_deaf() async {
        await #expect(processExitsWith: .success) {
            let isRight = try await Bench.run { bench in
                let free = try #require(SocketAddress(literal: "127.0.0.1", port: 0))
                let accepted = Watched<[Int32]>([])
                let made = try Listener(loop: bench.loop, address: free) { descriptor, _ in
                    accepted.update { $0.append(descriptor) }
                }
                let address = made.address
                LoopBound(made, on: bench.loop).execute { $0.start() }
                let client = try bench.client(.tcp(host: "127.0.0.1", port: Int(address.port)))
                _ = await client.outcome()
                _ = await accepted.first { $0.count == 1 }
                var limit = rlimit()
                getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                var peer = sockaddr_in()
                peer.sin_family = sa_family_t(AF_INET)
                peer.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
                peer.sin_port = address.port.bigEndian
                // Where another thread gives back a descriptor meanwhile, the server finds it: tried again then.
                for known in 1..<10 {
                    // One descriptor for the client of the next connection and none for its server.
                    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
                    var lowered = limit
                    lowered.rlim_cur = rlim_t(descriptor)
                    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &lowered)
                    while dup(descriptor) >= 0 {}
                    withUnsafePointer(to: &peer) { pointer in
                        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                            _ = connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                        }
                    }
                    let used = await cpuTime(of: bench.loop, over: .milliseconds(300))
                    let countWhileFull = accepted.value.count
                    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                    _ = await accepted.first { $0.count == known + 1 }
                    if countWhileFull == known { return used < .milliseconds(50) }
                }
                return false
            }
            exit(isRight ? EXIT_SUCCESS : EXIT_FAILURE)
        }
    }
}
