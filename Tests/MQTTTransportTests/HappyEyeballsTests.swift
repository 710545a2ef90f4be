import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

/// A host's addresses against each other (RFC 8305), with real sockets.
@Suite("Connector, several addresses", .timeLimit(.minutes(1)))
struct HappyEyeballsTests {
    private static func address(_ host: String, _ port: UInt16) throws -> SocketAddress {
        try #require(SocketAddress(literal: host, port: port))
    }

    private static func resolver(_ addresses: SocketAddress...) -> Resolver {
        Resolver { _, _ in .success(addresses) }
    }

    private static let profile = Result { try ConnectionProfile.tcp(host: "broker.example") }

    @Test(arguments: ["127.0.0.1", "::1"])
    func a_black_hole_costs_the_delay_and_is_let_go_of(_ host: String) async throws {
        try await Bench.run { bench in
            let hole = try BlackHole(at: host)
            let peer = try bench.peer([.hold])
            let server = try Self.address("127.0.0.1", peer.port)
            let client = try bench.client(
                Self.profile.get(), resolver: Self.resolver(hole.address, server))
            #expect(await client.outcome() == nil)
            expectObservations(client, [.resolve, .tcp], failure: nil)
            let observation = client.state.observations[1]
            #expect(observation.duration >= AddressRace.attemptDelay)
            #expect(observation.duration < AddressRace.attemptDelay * 4)
            #expect(observation.detail == "\(server) (after \(hole.address): no answer yet)")
            #expect(try hole.attempts() == 0, "the loser is closed")
        }
    }

    @Test func an_address_that_fails_at_once_costs_nothing() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.hold])
            // The port is taken at 127.0.0.1 alone.
            let refusing = try Self.address("::1", peer.port)
            let server = try Self.address("127.0.0.1", peer.port)
            let client = try bench.client(Self.profile.get(), resolver: Self.resolver(refusing, server))
            #expect(await client.outcome() == nil)
            let observation = client.state.observations[1]
            #expect(observation.duration < AddressRace.attemptDelay)
            #expect(observation.detail == "\(server) (after \(refusing): Connection refused)")
        }
    }

    @Test func when_all_fail_each_says_how_after_its_own_deadline() async throws {
        try await Bench.run { bench in
            let holes = try [BlackHole(), BlackHole()]
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            let refusing = try Self.address("127.0.0.1", UInt16(bindWithoutListening(descriptor)))
            let deadline = Duration.milliseconds(400)
            let client = try bench.client(
                Self.profile.get(), deadlines: StageDeadlines(tcp: deadline),
                resolver: Self.resolver(holes[0].address, holes[1].address, refusing))
            let error = await client.outcome()
            #expect(error?.hop == "broker.example")
            guard case .addresses(let failures)? = error?.evidence else {
                Issue.record("no addresses in \(String(describing: error))")
                return
            }
            #expect(failures.map(\.code) == [.tcpTimeout, .tcpTimeout, .tcpRefused])
            #expect(failures.map(\.hop) == (holes.map(\.address) + [refusing]).map(\.description))
            #expect(failures[1].evidence == .deadline(deadline))
            expectObservations(client, [.resolve, .tcp], failure: .tcpTimeout)
            let duration = client.state.observations[1].duration
            #expect(duration >= AddressRace.attemptDelay + deadline)
            #expect(duration < (AddressRace.attemptDelay + deadline) * 2)
            let left = try holes.map { try $0.attempts() }
            #expect(left == [0, 0])
        }
    }

    @Test func an_attempt_can_be_cancelled_between_the_addresses() async throws {
        try await Bench.run { bench in
            let holes = try [BlackHole(), BlackHole()]
            let client = try bench.client(
                // Longer than a test may take.
                Self.profile.get(), deadlines: StageDeadlines(tcp: .seconds(600)),
                resolver: Self.resolver(holes[0].address, holes[1].address))
            _ = await client.watched.first { !$0.observations.isEmpty }
            await client.settle()
            #expect(try holes[0].attempts() == 1)
            client.cancel()
            await client.settle()
            let left = try holes.map { try $0.attempts() }
            #expect(left == [0, 0])
            #expect(client.state.completions.isEmpty)
        }
    }

    @Test func thousands_of_addresses_are_not_all_tried() async throws {
        try await Bench.run { bench in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            let port = UInt16(try bindWithoutListening(descriptor))
            let addresses = try (0..<5000).map { try Self.address("127.0.\($0 / 250).\($0 % 250 + 1)", port) }
            let client = try bench.client(
                Self.profile.get(), resolver: Resolver { _, _ in .success(addresses) })
            let error = await client.outcome()
            #expect(error?.code == .tcpRefused)
            guard case .addresses(let failures)? = error?.evidence else {
                Issue.record("no addresses in \(String(describing: error))")
                return
            }
            #expect(failures.map(\.hop) == addresses.prefix(16).map(\.description))
            #expect(client.state.observations[0].detail?.hasSuffix(", and 4984 more") == true)
        }
    }

    @Test func an_address_that_comes_twice_is_tried_once() async throws {
        try await Bench.run { bench in
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            let refusing = try Self.address("127.0.0.1", UInt16(bindWithoutListening(descriptor)))
            let client = try bench.client(
                Self.profile.get(), resolver: Self.resolver(refusing, refusing, refusing))
            let error = await client.outcome()
            #expect(error?.evidence == .errno(ECONNREFUSED))
            #expect(error?.hop == refusing.description)
        }
    }

    @Test func a_name_without_an_address_fails_at_once() async throws {
        try await Bench.run { bench in
            let client = try bench.client(Self.profile.get(), resolver: Self.resolver())
            let error = await client.outcome()
            #expect(error?.stage == .tcp)
            #expect(error?.code == .tcpFailed)
        }
    }

    @Test func the_addresses_of_a_proxy_race_too() async throws {
        try await Bench.run { bench in
            let hole = try BlackHole()
            let peer = try bench.peer([
                .expectUntil(Array("\r\n\r\n".utf8)), .send(Array("HTTP/1.1 200 OK\r\n\r\n".utf8)), .hold,
            ])
            var profile = try Self.profile.get()
            profile.proxy = try Proxy(.http, host: "proxy.example")
            let server = try Self.address("127.0.0.1", peer.port)
            let client = try bench.client(profile, resolver: Self.resolver(hole.address, server))
            #expect(await client.outcome() == nil)
            expectObservations(client, Carrier.tcp.stages, failure: nil)
            #expect(client.state.observations[1].duration < AddressRace.attemptDelay * 4)

            let refusing = try Self.address("::1", peer.port)
            let lost = try bench.client(
                profile, deadlines: StageDeadlines(tcp: .milliseconds(50)),
                resolver: Self.resolver(refusing, hole.address))
            let error = await lost.outcome()
            #expect(error?.hop == "proxy.example")
            expectObservations(lost, [.resolve, .tcp], failure: .proxyRefused)
        }
    }

    @Test func descriptors_return_to_where_they_were_after_races() async {
        await #expect(processExitsWith: .success) {
            func count() throws -> Int {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
            }
            func cycle(_ rounds: Int) async throws {
                let hole = try BlackHole()
                try await Bench.run { bench in
                    let peer = try bench.peer([.expectEnd])
                    let server = try #require(SocketAddress(literal: "127.0.0.1", port: peer.port))
                    let refusing = try #require(SocketAddress(literal: "127.0.0.2", port: peer.port))
                    for round in 0..<rounds {
                        let client = try bench.client(
                            .tcp(host: "broker.example"),
                            deadlines: StageDeadlines(tcp: .milliseconds(300)),
                            resolver: Resolver { _, _ in
                                .success(
                                    round % 3 == 0
                                        ? [hole.address, refusing] : [refusing, hole.address, server])
                            })
                        if round % 3 == 1 {
                            _ = await client.watched.first { !$0.observations.isEmpty }
                            client.cancel()
                        } else {
                            let error = await client.outcome()
                            try #require((error == nil) == (round % 3 == 2))
                            client.withStream { $0.close() }
                        }
                    }
                    // And one that the end of its loop finds in the middle.
                    let last = try bench.client(
                        .tcp(host: "broker.example"),
                        resolver: Resolver { _, _ in .success([hole.address, hole.address]) })
                    _ = await last.watched.first { !$0.observations.isEmpty }
                    await last.settle()
                }
            }
            try await cycle(1)
            let before = try count()
            try await cycle(9)
            let after = try count()
            precondition(after == before)
        }
    }
}
