import Glibc
import MQTTLoopback
import Testing

@testable import MQTTTransport

/// Answers as a server of RFC 1035 writes them.
struct DNSReply {
    var flags: UInt16 = 0x8180
    var records: [[UInt8]] = []
    var copiesQuestion = true

    /// The question's name is at 12, which is where the pointers lead.
    static let ownName: [UInt8] = [0xC0, 0x0C]

    static func record(_ owner: [UInt8] = ownName, type: UInt8, _ data: [UInt8]) -> [UInt8] {
        owner + [0, type, 0, 1, 0, 0, 0, 60, 0, UInt8(data.count)] + data
    }

    static func name(_ text: String) -> [UInt8] {
        text.split(separator: ".").flatMap { [UInt8($0.utf8.count)] + $0.utf8 } + [0]
    }

    func bytes(to query: [UInt8]) -> [UInt8] {
        var bytes = Array(query[..<2]) + [UInt8(flags >> 8), UInt8(truncatingIfNeeded: flags)]
        bytes += [0, copiesQuestion ? 1 : 0, 0, UInt8(records.count), 0, 0, 0, 0]
        return bytes + (copiesQuestion ? query[12...] : []) + records.flatMap { $0 }
    }
}

extension [UInt8] {
    /// Of a query.
    fileprivate var asksForIPv6: Bool { self[count - 3] == 28 }
}

@Suite("DNS")
struct DNSTests {
    private let now = ContinuousClock.now
    private let ipv4: [UInt8] = [192, 0, 2, 7]
    private let ipv6: [UInt8] = [0x20, 0x01, 0x0D, 0xB8] + [UInt8](repeating: 0, count: 11) + [7]

    private func lookup(_ name: String = "Broker.Example.") -> DNSLookup {
        DNSLookup(name: name, identifiers: (1, 2), within: .seconds(5), now: now)
    }

    @Test func a_query_asks_for_both_kinds_of_addresses() throws {
        let datagrams = try #require(lookup("a.bc").datagrams)
        #expect(
            datagrams == [
                [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0x61, 2, 0x62, 0x63, 0, 0, 28, 0, 1],
                [0, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0x61, 2, 0x62, 0x63, 0, 0, 1, 0, 1],
            ])
    }

    @Test(arguments: [
        "", ".", "a..b", String(repeating: "a", count: 64), String(repeating: "abc.", count: 64),
    ])
    func a_name_that_cannot_be_asked_for(_ name: String) {
        #expect(lookup(name).datagrams == nil)
    }

    @Test func addresses_of_both_kinds_are_found_those_of_ipv6_first() throws {
        var lookup = lookup()
        let queries = try #require(lookup.datagrams)
        lookup.receive(DNSReply(records: [DNSReply.record(type: 1, ipv4)]).bytes(to: queries[1]), now: now)
        #expect(lookup.outcome(now: now) == nil)
        lookup.receive(DNSReply(records: [DNSReply.record(type: 28, ipv6)]).bytes(to: queries[0]), now: now)
        #expect(lookup.outcome(now: now) == .addresses([ipv6, ipv4]))
    }

    @Test func an_alias_is_followed_in_whatever_order_the_records_come() throws {
        var lookup = lookup()
        let queries = try #require(lookup.datagrams)
        let reply = DNSReply(records: [
            DNSReply.record(DNSReply.name("b.example"), type: 1, ipv4),
            DNSReply.record(DNSReply.name("stranger.example"), type: 1, [6, 6, 6, 6]),
            DNSReply.record(DNSReply.name("a.example"), type: 5, DNSReply.name("B.EXAMPLE")),
            DNSReply.record(type: 5, DNSReply.name("a.example")),
        ])
        lookup.receive(reply.bytes(to: queries[1]), now: now)
        lookup.receive(DNSReply().bytes(to: queries[0]), now: now)
        #expect(lookup.outcome(now: now) == .addresses([ipv4]))
    }

    @Test(
        arguments: [
            (0x8183, .dnsNXDomain, "NXDOMAIN"), (0x8182, .dnsServFail, "SERVFAIL"),
            (0x8185, .dnsRefused, "REFUSED"),
            (0x8181, .dnsServFail, "FORMERR"), (0x8184, .dnsServFail, "NOTIMP"),
            (0x8189, .dnsServFail, "RCODE 9"),
        ] as [(UInt16, FailureCode, String)])
    func an_error_of_the_server_is_told_by_its_name(_ flags: UInt16, _ code: FailureCode, _ name: String)
        throws
    {
        var lookup = lookup()
        for query in try #require(lookup.datagrams) {
            lookup.receive(
                DNSReply(flags: flags, copiesQuestion: code != .dnsRefused).bytes(to: query), now: now)
        }
        if code == .dnsRefused {
            // Without the question it answers whichever bears its identifier.
            #expect(lookup.outcome(now: now) == .failed(code, "it answered REFUSED"))
        } else {
            #expect(lookup.outcome(now: now) == .failed(code, "it answered \(name)"))
        }
    }

    @Test func a_name_without_addresses() throws {
        var lookup = lookup()
        for query in try #require(lookup.datagrams) { lookup.receive(DNSReply().bytes(to: query), now: now) }
        #expect(lookup.outcome(now: now) == .failed(.dnsNoData, "the name exists and has no address"))
    }

    @Test func an_error_for_one_kind_is_nothing_where_the_other_has_addresses() throws {
        var lookup = lookup()
        let queries = try #require(lookup.datagrams)
        lookup.receive(DNSReply(flags: 0x8182).bytes(to: queries[0]), now: now)
        lookup.receive(DNSReply(records: [DNSReply.record(type: 1, ipv4)]).bytes(to: queries[1]), now: now)
        #expect(lookup.outcome(now: now) == .addresses([ipv4]))
    }

    @Test func questions_are_asked_again_after_1_and_3_seconds_and_given_up_after_the_limit() {
        var lookup = lookup()
        var sendings: [Duration] = []
        while lookup.outcome(now: lookup.nextDeadline) == nil {
            let next = lookup.nextDeadline
            if lookup.deadlineReached(now: next) { sendings.append(now.duration(to: next)) }
        }
        #expect(sendings == [.seconds(1), .seconds(3)])
        #expect(now.duration(to: lookup.nextDeadline) == .seconds(5))
        #expect(
            lookup.outcome(now: lookup.nextDeadline) == .failed(.dnsTimeout, "no answer within 5.0 seconds"))
    }

    @Test func the_second_kind_is_waited_for_half_a_second() throws {
        var lookup = lookup()
        let queries = try #require(lookup.datagrams)
        lookup.receive(DNSReply(records: [DNSReply.record(type: 1, ipv4)]).bytes(to: queries[1]), now: now)
        #expect(lookup.nextDeadline == now + .milliseconds(500))
        #expect(lookup.outcome(now: now + .milliseconds(499)) == nil)
        #expect(lookup.outcome(now: now + .milliseconds(500)) == .addresses([ipv4]))
    }

    /// Another identifier, another name, another type, a query, bytes that end too soon, a pointer to itself.
    @Test func what_answers_none_of_the_questions_is_passed_over() throws {
        var lookup = lookup()
        let query = try #require(lookup.datagrams)[1]
        let good = DNSReply(records: [DNSReply.record(type: 1, ipv4)]).bytes(to: query)
        var bad: [[UInt8]] = [[], query]
        for length in 1..<good.count { bad.append(Array(good[..<length])) }
        for (index, byte) in [(1, 9), (13, 0x7A), (29, 28), (2, 0x01)] as [(Int, UInt8)] {
            var changed = good
            changed[index] = byte
            bad.append(changed)
        }
        bad.append(DNSReply(records: [DNSReply.record([0xC0, 0x20], type: 1, ipv4)]).bytes(to: query))
        bad.append(DNSReply(records: [DNSReply.record(type: 1, [1, 2, 3])]).bytes(to: query))
        for bytes in bad { lookup.receive(bytes, now: now) }
        #expect(lookup.outcome(now: now) == nil)
        lookup.receive(good, now: now)
        #expect(lookup.outcome(now: now + .seconds(1)) == .addresses([ipv4]))
    }

    // MARK: At a server

    private func ask(_ server: SocketAddress) async -> Resolver.Answer {
        await withCheckedContinuation { continuation in
            Resolver.asking(server, within: .seconds(3))
                .resolve("broker.example", port: 8883) { continuation.resume(returning: $0) }
        }
    }

    @Test func a_server_is_asked_over_udp() async throws {
        let server = try StubNameServer { query, _ in
            query.asksForIPv6
                ? DNSReply().bytes(to: query)
                : DNSReply(records: [DNSReply.record(type: 1, [192, 0, 2, 7])]).bytes(to: query)
        }
        defer { server.stop() }
        #expect(try await ask(server.address).get().map(\.description) == ["192.0.2.7:8883"])
    }

    @Test func what_is_too_long_for_udp_is_asked_for_over_tcp() async throws {
        let server = try StubNameServer { query, overTCP in
            if query.asksForIPv6 { return DNSReply().bytes(to: query) }
            guard overTCP else { return DNSReply(flags: 0x8380).bytes(to: query) }
            let records = (1...60).map { DNSReply.record(type: 1, [192, 0, 2, $0]) }
            return DNSReply(records: records).bytes(to: query)
        }
        defer { server.stop() }
        #expect(try await ask(server.address).get().count == 60)
    }

    @Test func a_lost_answer_is_asked_for_again() async throws {
        let asked = Watched(0)
        let server = try StubNameServer { query, _ in
            asked.update { $0 += 1 }
            if asked.value <= 2 { return nil }
            return query.asksForIPv6
                ? DNSReply().bytes(to: query)
                : DNSReply(records: [DNSReply.record(type: 1, [192, 0, 2, 7])]).bytes(to: query)
        }
        defer { server.stop() }
        #expect(try await ask(server.address).get().count == 1)
        #expect(asked.value == 4)
    }

    @Test func a_server_that_is_not_there_refuses() async throws {
        let any = try #require(SocketAddress(literal: "127.0.0.1", port: 0))
        let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        try #require(any.withSockaddr { bind(descriptor, $0, $1) } == 0)
        let address = try #require(SocketAddress(boundTo: descriptor))
        close(descriptor)
        guard case .failure(let error) = await ask(address) else {
            Issue.record("an answer")
            return
        }
        #expect(error.code == .dnsRefused && error.stage == .resolve)
        #expect(error.hop == address.description)
    }
}
