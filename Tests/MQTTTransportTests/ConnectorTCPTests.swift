import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

@Suite("Connector, TCP stage", .timeLimit(.minutes(1)))
struct ConnectorTCPTests {
    @Test func a_port_that_nobody_listens_on_refuses() async throws {
        try await Bench.run { bench in
            // Bound for the whole test, so that nobody else gets it, but not listening.
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            let port = try bindWithoutListening(descriptor)
            let client = try bench.client(.tcp(host: "127.0.0.1", port: port))
            let error = await client.outcome()
            #expect(error?.stage == .tcp)
            #expect(error?.code == .tcpRefused)
            #expect(error?.evidence == .errno(ECONNREFUSED))
            #expect(error?.hop == "127.0.0.1:\(port)")
            expectObservations(client, [.resolve, .tcp], failure: .tcpRefused)
        }
    }

    @Test func several_addresses_fail_with_each_of_their_reasons() async throws {
        try await Bench.run { bench in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            let port = try bindWithoutListening(descriptor)
            let client = try bench.client(.tcp(host: "localhost", port: port))
            let error = await client.outcome()
            #expect(error?.stage == .tcp)
            // One address or two, as the machine's hosts file has it.
            if case .addresses(let failures)? = error?.evidence {
                #expect(failures.count > 1)
                #expect(failures.contains { $0.code == .tcpRefused && $0.hop == "127.0.0.1:\(port)" })
            } else {
                #expect(error?.code == .tcpRefused)
            }
        }
    }

    @Test func the_addresses_of_a_name_are_tried_in_turn() async throws {
        try await Bench.run { bench in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            let refusing = UInt16(try bindWithoutListening(descriptor))
            let peer = try bench.peer([.hold])
            let addresses = try [("127.0.0.1", refusing), ("::1", refusing), ("127.0.0.1", peer.port)].map {
                try #require(SocketAddress(literal: $0, port: $1))
            }
            let client = try bench.client(
                .tcp(host: "broker.example"), resolver: Resolver { _, _ in .success(addresses) })
            #expect(await client.outcome() == nil)
            expectObservations(client, [.resolve, .tcp], failure: nil)
            #expect(client.state.observations[0].detail == "127.0.0.1, ::1, 127.0.0.1")
            #expect(
                client.state.observations[1].detail
                    == "127.0.0.1:\(peer.port) (after 127.0.0.1:\(refusing): Connection refused; "
                    + "[::1]:\(refusing): Connection refused)")

            let hopeless = try bench.client(
                .tcp(host: "broker.example"), resolver: Resolver { _, _ in .success(Array(addresses[..<2])) })
            let error = await hopeless.outcome()
            #expect(error?.stage == .tcp)
            #expect(error?.code == .tcpRefused)
            guard case .addresses(let failures)? = error?.evidence else {
                Issue.record("no addresses in \(String(describing: error))")
                return
            }
            #expect(failures.map(\.hop) == ["127.0.0.1:\(refusing)", "[::1]:\(refusing)"])
        }
    }

    /// Writing to a connection that the peer has reset is EPIPE, never a signal: the application's handler isn't
    /// called, and it stays where it is.
    @Test func the_applications_SIGPIPE_handler_is_left_alone() async {
        await #expect(processExitsWith: .success) {
            var action = sigaction()
            action.__sigaction_handler.sa_handler = { _ in _exit(13) }
            sigaction(SIGPIPE, &action, nil)
            try await Bench.run { bench in
                let server = try Fixture.server()
                for tls in [nil, server] {
                    let peer = try bench.peer(tls: tls, [.send([0x20]), .pause(.milliseconds(20)), .reset])
                    let client = try bench.client(.to(peer, isTLS: tls != nil)) { event, stream in
                        guard event == .received else { return }
                        // The loop is held up until the RST is here, so that writing is the first to meet it.
                        usleep(100_000)
                        stream.send([[0xC0, 0x00]])
                    }
                    let error = await client.end()
                    precondition(error?.code == .tcpReset)
                }
            }
            var present = sigaction()
            sigaction(SIGPIPE, nil, &present)
            precondition(
                unsafeBitCast(present.__sigaction_handler.sa_handler, to: Int.self)
                    == unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self))
        }
    }

    @Test(
        arguments: [
            ([.tcpRefused, .tcpTimeout], .tcpRefused), ([.tcpTimeout, .tcpRefused], .tcpTimeout),
            // ::1 on a machine without IPv6: EADDRNOTAVAIL, ENETUNREACH, EAFNOSUPPORT.
            ([.clientResources, .tcpRefused], .tcpRefused), ([.tcpNetUnreachable, .tcpTimeout], .tcpTimeout),
            ([.tcpFailed, .tcpRefused], .tcpRefused),
            ([.tcpNetUnreachable, .tcpNetUnreachable], .tcpNetUnreachable),
        ] as [([FailureCode], FailureCode)])
    func an_address_that_nothing_was_sent_to_does_not_name_the_failure(
        codes: [FailureCode], whole: FailureCode
    ) {
        let failures = codes.map { TransportError(stage: .tcp, code: $0, evidence: .none) }
        let error = TransportError(addresses: failures, host: "broker")
        #expect(error.code == whole)
        #expect(error.hop == "broker")
        #expect(error.evidence == .addresses(failures))
    }
}

/// A port that refuses for as long as the descriptor lives.
func bindWithoutListening(_ descriptor: Int32) throws -> Int {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let result = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
    try #require(result == 0)
    return Int(try #require(SocketAddress(boundTo: descriptor)).port)
}
