import Dispatch
import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

@Suite("Resolver", .timeLimit(.minutes(1)))
struct ResolverTests {
    private func resolve(_ host: String) async -> Resolver.Answer {
        await withCheckedContinuation { continuation in
            Resolver.system.resolve(host, port: 1883) { continuation.resume(returning: $0) }
        }
    }

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1:1883"), ("::1", "[::1]:1883"), ("2001:db8::0:1", "[2001:db8::1]:1883"),
    ])
    func a_literal_is_answered_on_the_spot(_ host: String, _ description: String) throws {
        let answer = Watched<[String]>([])
        Resolver.system.resolve(host, port: 1883) { result in
            answer.update { $0 = (try? result.get())?.map(\.description) ?? ["failed"] }
        }
        #expect(answer.value == [description])
    }

    @Test func localhost_is_a_loopback_address() async throws {
        let addresses = try await resolve("localhost").get()
        #expect(!addresses.isEmpty)
        #expect(addresses.allSatisfy { $0.host == "127.0.0.1" || $0.host == "::1" })
        #expect(Set(addresses).count == addresses.count)
        #expect(addresses.allSatisfy { $0.port == 1883 })
    }

    /// RFC 6761, section 6.4: the name never exists. Whether a resolver says so, fails or is silent depends on
    /// the machine.
    @Test func a_name_that_cannot_exist_fails_within_its_deadline() async throws {
        try await Bench.run { bench in
            let client = try bench.client(
                .tcp(host: "nonexistent.invalid"), deadlines: StageDeadlines(resolve: .seconds(5)))
            let error = await client.outcome()
            #expect(error?.stage == .resolve)
            #expect(error?.code.prefix == "dns")
            #expect(error?.hop == "nonexistent.invalid")
            expectObservations(client, [.resolve], failure: error?.code)
            let duration = try #require(client.state.observations.last?.duration)
            #expect(duration < .seconds(7))
        }
    }

    @Test func a_resolver_that_hangs_meets_the_deadline_of_its_stage() async throws {
        try await Bench.run { bench in
            let deadline = Duration.milliseconds(50)
            let release = DispatchSemaphore(value: 0)
            defer { release.signal() }
            let hanging = Resolver { _, _ in
                release.wait()
                return .success([])
            }
            let client = try bench.client(
                .tcp(host: "broker.example"), deadlines: StageDeadlines(resolve: deadline), resolver: hanging)
            let error = await client.outcome()
            #expect(error?.code == .dnsTimeout)
            #expect(error?.evidence == .deadline(deadline))
            expectObservations(client, [.resolve], failure: .dnsTimeout)
        }
    }

    @Test func more_names_than_threads_are_all_answered() async {
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<40 { group.addTask { (try? await resolve("localhost").get()) != nil } }
            for await isResolved in group { #expect(isResolved) }
        }
    }

    @Test func a_zone_that_is_no_interface_is_told_without_asking_anybody() async throws {
        try await Bench.run { bench in
            let asked = Watched(0)
            let client = try bench.client(
                ConnectionProfile(url: "mqtt://[fe80::1%25no-such-iface0]"),
                resolver: Resolver { _, _ in
                    asked.update { $0 += 1 }
                    return .success([])
                })
            let error = await client.outcome()
            #expect(error?.hop == "fe80::1%no-such-iface0")
            #expect(error?.evidence.description.hasPrefix("no-such-iface0 is no interface") == true)
            expectObservations(client, [.resolve], failure: .clientInvalidArgument)
            #expect(asked.value == 0)
        }
    }

    /// A link-local address of this machine, with its zone.
    private static let linkLocal: String? = {
        let lines = (try? String(contentsOfFile: "/proc/net/if_inet6", encoding: .utf8)) ?? ""
        let fields = lines.split(separator: "\n").map { $0.split(separator: " ") }
        guard let found = fields.first(where: { $0[0].hasPrefix("fe80") }) else { return nil }
        let groups = stride(from: 0, to: 32, by: 4).map { found[0].dropFirst($0).prefix(4) }
        return "\(groups.joined(separator: ":"))%25\(found[found.count - 1])"
    }()

    @Test(.enabled(if: linkLocal != nil, "this machine has no link-local address"))
    func a_link_local_address_is_reached_through_its_zone() async throws {
        try await Bench.run { bench in
            let written = try #require(Self.linkLocal)
            let host = try ConnectionProfile(url: "mqtt://[\(written)]").host
            let peer = try ScriptedPeer(on: bench.peerLoop, address: host, scripts: [[.hold]])
            defer { peer.stop() }
            let client = try bench.client(ConnectionProfile(url: "mqtt://[\(written)]:\(peer.port)"))
            #expect(await client.outcome() == nil)
        }
    }

    @Test func an_address_tells_a_literal_from_a_name() {
        #expect(SocketAddress(literal: "localhost", port: 1) == nil)
        #expect(SocketAddress(literal: "", port: 1) == nil)
        #expect(SocketAddress(literal: "::1", port: 7)?.family == .ipv6)
        #expect(SocketAddress(literal: "192.0.2.7", port: 7)?.description == "192.0.2.7:7")
        #expect(SocketAddress(literal: "192.0.2.7", port: 65_535)?.port == 65_535)
    }
}
