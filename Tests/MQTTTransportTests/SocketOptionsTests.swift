import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

@Suite("Socket options", .timeLimit(.minutes(1)))
struct SocketOptionsTests {
    // MARK: What can't be used

    @Test(arguments: [
        SocketOptions(localAddress: "::1"), SocketOptions(localAddress: "fe80::1%eth0"),
        SocketOptions(interface: "enp0s31f6.100"), SocketOptions(interface: "123456789012345"),
        SocketOptions(keepAlive: .init(idle: .seconds(1), interval: .seconds(32_767), count: 127)),
        SocketOptions(userTimeout: .milliseconds(1)), SocketOptions(userTimeout: .milliseconds(Int32.max)),
    ])
    func options_in_their_ranges_are_taken(_ options: SocketOptions) throws {
        let profile = try ConnectionProfile(host: "h", port: 1, transport: .tcp, socket: options)
        #expect(profile.socket == options)
        #expect(try ConnectionProfile.tcp(host: "h").socket == SocketOptions())
    }

    @Test(
        arguments: [
            (SocketOptions(localAddress: "localhost"), "neither an IPv4 nor an IPv6 address"),
            (SocketOptions(localAddress: ""), "neither an IPv4 nor an IPv6 address"),
            (SocketOptions(localAddress: "[::1]"), "neither an IPv4 nor an IPv6 address"),
            (SocketOptions(localAddress: "127.0.0.1%lo"), "neither an IPv4 nor an IPv6 address"),
            (SocketOptions(localAddress: "fe80::1%"), "neither an IPv4 nor an IPv6 address"),
            (SocketOptions(interface: ""), "1 to 15 bytes"),
            (SocketOptions(interface: "1234567890123456"), "1 to 15 bytes"),
            (SocketOptions(interface: "a/b"), "1 to 15 bytes"),
            (SocketOptions(interface: "eth0\0"), "1 to 15 bytes"),
            (SocketOptions(interface: ".."), "1 to 15 bytes"),
            (keepAlive(idle: .zero), "whole seconds from 1 to 32767"),
            (keepAlive(idle: .milliseconds(1500)), "whole seconds from 1 to 32767"),
            (keepAlive(interval: .seconds(32_768)), "whole seconds from 1 to 32767"),
            (keepAlive(interval: .seconds(-1)), "whole seconds from 1 to 32767"),
            (keepAlive(count: 0), "outside 1…127"), (keepAlive(count: 128), "outside 1…127"),
            (SocketOptions(userTimeout: .zero), "whole milliseconds"),
            (SocketOptions(userTimeout: .microseconds(1500)), "whole milliseconds"),
            (SocketOptions(userTimeout: .seconds(Int64.max)), "whole milliseconds"),
        ] as [(SocketOptions, String)])
    func options_out_of_their_ranges_are_refused(_ options: SocketOptions, _ reason: String) async throws {
        let error = #expect(throws: ProfileError.self) {
            try ConnectionProfile(host: "h", port: 1, transport: .tcp, socket: options)
        }
        #expect(error?.description.contains(reason) == true)
        // What was changed after its check is checked again.
        try await Bench.run { bench in
            var profile = try ConnectionProfile.tcp(host: "127.0.0.1")
            profile.socket = options
            let refused = try await bench.client(profile).outcome()
            #expect(refused?.code == .clientInvalidArgument)
            #expect(refused?.evidence == error.map { .text($0.description) })
        }
    }

    private static func keepAlive(
        idle: Duration = .seconds(1), interval: Duration = .seconds(1), count: Int = 1
    ) -> SocketOptions {
        SocketOptions(keepAlive: .init(idle: idle, interval: interval, count: count))
    }

    // MARK: What a server and the kernel see

    /// Where its clients come from.
    private struct Server {
        let port: UInt16
        let peers = Watched<[String]>([])
        private let descriptors = Watched<[Int32]>([])
        private let listener: LoopBound<Listener>

        init(_ bench: Bench) throws {
            let address = try #require(SocketAddress(literal: "127.0.0.1", port: 0))
            let listener = try Listener(loop: bench.peerLoop, address: address) {
                [peers, descriptors] descriptor, peer in
                descriptors.update { $0.append(descriptor) }
                peers.update { $0.append(peer) }
            }
            port = listener.address.port
            self.listener = LoopBound(listener, on: bench.peerLoop)
            self.listener.execute { $0.start() }
        }

        func profile(_ options: SocketOptions) throws -> ConnectionProfile {
            var profile = try ConnectionProfile.tcp(host: "broker.example", port: Int(port))
            profile.socket = options
            return profile
        }

        func stop() {
            for descriptor in descriptors.value { close(descriptor) }
        }
    }

    /// This process's own end of a connection, by the address that the other end sees.
    private static func descriptor(boundTo address: String) throws -> Int32 {
        try #require((3..<65_536).first { SocketAddress(boundTo: $0)?.description == address })
    }

    private static func option(_ descriptor: Int32, _ level: Int32, _ name: Int32) -> Int32 {
        var value: Int32 = -1
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(descriptor, level, name, &value, &length)
        return value
    }

    private static func resolver(_ hosts: String...) -> Resolver {
        Resolver { _, port in .success(hosts.compactMap { SocketAddress(literal: $0, port: port) }) }
    }

    @Test func the_server_sees_the_local_address() async throws {
        try await Bench.run { bench in
            let server = try Server(bench)
            defer { server.stop() }
            let client = try bench.client(
                server.profile(SocketOptions(localAddress: "127.0.0.5")), resolver: Self.resolver("127.0.0.1")
            )
            #expect(await client.outcome() == nil)
            let peers = await server.peers.first { !$0.isEmpty }
            #expect(peers[0].hasPrefix("127.0.0.5:"))
        }
    }

    @Test func keep_alive_and_user_timeout_are_the_kernels() async throws {
        try await Bench.run { bench in
            let server = try Server(bench)
            defer { server.stop() }
            let options = SocketOptions(
                keepAlive: .init(idle: .seconds(31), interval: .seconds(7), count: 5),
                userTimeout: .milliseconds(45_678))
            for options in [options, SocketOptions()] {
                let isSet = options.keepAlive != nil
                let client = try bench.client(
                    server.profile(options), resolver: Self.resolver("127.0.0.1"))
                #expect(await client.outcome() == nil)
                let peers = await server.peers.first { $0.count == (isSet ? 1 : 2) }
                let descriptor = try Self.descriptor(boundTo: peers[peers.count - 1])
                #expect(Self.option(descriptor, SOL_SOCKET, SO_KEEPALIVE) == (isSet ? 1 : 0))
                let tcp = Int32(IPPROTO_TCP)
                #expect((Self.option(descriptor, tcp, TCP_KEEPIDLE) == 31) == isSet)
                #expect((Self.option(descriptor, tcp, TCP_KEEPINTVL) == 7) == isSet)
                #expect((Self.option(descriptor, tcp, TCP_KEEPCNT) == 5) == isSet)
                #expect(Self.option(descriptor, tcp, TCP_USER_TIMEOUT) == (isSet ? 45_678 : 0))
            }
        }
    }

    @Test func a_connection_can_be_held_to_an_interface() async throws {
        try await Bench.run { bench in
            let server = try Server(bench)
            defer { server.stop() }
            let client = try bench.client(
                server.profile(SocketOptions(interface: "lo")), resolver: Self.resolver("127.0.0.1"))
            #expect(await client.outcome() == nil)
            let peers = await server.peers.first { !$0.isEmpty }
            let descriptor = try Self.descriptor(boundTo: peers[0])
            var name = [UInt8](repeating: 0, count: 16)
            var length = socklen_t(name.count)
            getsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, &name, &length)
            #expect(name.starts(with: [0x6C, 0x6F, 0]))
        }
    }

    @Test(
        arguments: [
            (
                SocketOptions(interface: "no-such-iface0"),
                "this machine can't connect through the interface no-such-iface0: No such device"
            ),
            (
                SocketOptions(localAddress: "192.0.2.9"),
                "this machine can't connect from 192.0.2.9: Cannot assign requested address"
            ),
            (
                SocketOptions(localAddress: "fe80::1%no-such-iface0"),
                "this machine can't connect from fe80::1%no-such-iface0: No such device"
            ),
        ] as [(SocketOptions, String)])
    func what_this_machine_does_not_have_is_named_once(_ options: SocketOptions, _ text: String) async throws
    {
        try await Bench.run { bench in
            let server = try Server(bench)
            defer { server.stop() }
            let client = try bench.client(
                server.profile(options), resolver: Self.resolver("127.0.0.1", "127.0.0.2"))
            let error = await client.outcome()
            #expect(error?.stage == .tcp)
            #expect(error?.hop == "127.0.0.1:\(server.port)")
            #expect(error?.evidence == .text(text))
            expectObservations(client, [.resolve, .tcp], failure: .clientInvalidArgument)
            #expect(server.peers.value == [])
        }
    }

    @Test func addresses_of_the_other_family_are_left_out() async throws {
        try await Bench.run { bench in
            let server = try Server(bench)
            defer { server.stop() }
            let profile = try server.profile(SocketOptions(localAddress: "127.0.0.5"))
            let client = try bench.client(profile, resolver: Self.resolver("::1", "127.0.0.1"))
            #expect(await client.outcome() == nil)
            #expect(client.state.observations[0].detail == "::1, 127.0.0.1")
            #expect(client.state.observations[1].detail == "127.0.0.1:\(server.port)")

            let lost = try bench.client(profile, resolver: Self.resolver("::1", "2001:db8::1"))
            let error = await lost.outcome()
            #expect(error?.hop == "broker.example")
            #expect(
                error?.evidence
                    == .text(
                        "the host has IPv6 addresses only, and the local address 127.0.0.5 is an IPv4 address"
                    ))
            expectObservations(lost, [.resolve, .tcp], failure: .clientInvalidArgument)
        }
    }

    // MARK: Where else they hold

    /// The proxy answers the first request with a login and hangs up, so that there is a second connection.
    @Test func a_proxy_is_connected_to_in_the_same_way_each_time() async throws {
        try await Bench.run { bench in
            let requestEnd = Array("\r\n\r\n".utf8)
            let peer = try bench.peer(
                [
                    .expectUntil(requestEnd),
                    .send(Array("HTTP/1.0 407 Login\r\nProxy-Authenticate: Basic realm=\"p\"\r\n\r\n".utf8)),
                    .close,
                ],
                [.expectUntil(requestEnd), .send(Array("HTTP/1.0 200 OK\r\n\r\n".utf8)), .hold])
            defer { peer.stop() }
            var profile = try ConnectionProfile.tcp(host: "broker.example")
            profile.proxy = try Proxy(
                .http, host: "127.0.0.1", port: Int(peer.port), userName: "u", password: Array("p".utf8))
            profile.socket = SocketOptions(localAddress: "127.0.0.77")
            let client = try bench.client(profile)
            #expect(await client.outcome() == nil)
            #expect(peer.connectionCount == 2)
            let mine = (3..<65_536).count { SocketAddress(boundTo: $0)?.host == "127.0.0.77" }
            #expect(mine == 1)
        }
    }

    @Test func a_redirect_is_followed_in_the_same_way() throws {
        var profile = try ConnectionProfile(url: "ws://broker.example/a")
        profile.socket = SocketOptions(interface: "wwan0", userTimeout: .seconds(30))
        let route = Route(profile)
        #expect(route.socket == profile.socket)
        var trail = RedirectTrail(from: route)
        let next = try trail.follow(status: 302, location: "wss://broker.example/b")
        #expect(next.socket == profile.socket)
        #expect(profile.redirected(to: next).socket == profile.socket)
    }
}
