import MQTTLoopback
import MQTTTransport
import Testing

@Suite("ClientHello", .timeLimit(.minutes(1)))
struct ClientHelloTests {
    /// The extensions of a ClientHello (RFC 8446, section 4.1.2) by their type.
    private static func extensions(_ record: [UInt8]) throws -> [Int: [UInt8]] {
        func number(_ index: Int) -> Int { Int(record[index]) << 8 | Int(record[index + 1]) }
        // Record header, handshake header, legacy_version, random.
        var index = 5 + 4 + 2 + 32
        index += 1 + Int(record[index])
        index += 2 + number(index)
        index += 1 + Int(record[index])
        let end = index + 2 + number(index)
        index += 2
        var found: [Int: [UInt8]] = [:]
        while index < end {
            let length = number(index + 2)
            found[number(index)] = Array(record[(index + 4)..<(index + 4 + length)])
            index += 4 + length
        }
        return found
    }

    private func hello(_ bench: Bench, host: String, options: TLSOptions) async throws -> [Int: [UInt8]] {
        let peer = try bench.peer([.expectCount(5), .pause(.milliseconds(20)), .reset])
        defer { peer.stop() }
        let address = try #require(SocketAddress(literal: "127.0.0.1", port: peer.port))
        var options = options
        options.trust = .file(try Fixture.files().authority)
        let client = try bench.client(
            .tls(host: host, port: Int(peer.port), options: options),
            resolver: Resolver { _, _ in .success([address]) })
        #expect(await client.outcome()?.code == .tlsResetAfterHello)
        return try Self.extensions(await peer.ended().received)
    }

    /// RFC 6066, section 3.
    @Test func row_57_the_server_name_has_neither_port_nor_trailing_dot_and_is_never_an_address() async throws
    {
        try await Bench.run { bench in
            // server_name_list of one host_name.
            let expected: [UInt8] = [0x00, 0x11, 0x00, 0x00, 0x0E] + Array("broker.example".utf8)
            for host in ["broker.example", "broker.example."] {
                #expect(try await hello(bench, host: host, options: TLSOptions())[0] == expected)
            }
            let renamed = try await hello(
                bench, host: "127.0.0.1", options: TLSOptions(serverName: "broker.example."))
            #expect(renamed[0] == expected)
            #expect(try await hello(bench, host: "127.0.0.1", options: TLSOptions())[0] == nil)
        }
    }

    /// RFC 7301, section 3.1.
    @Test func the_ALPN_list_is_offered_in_its_order() async throws {
        try await Bench.run { bench in
            let options = TLSOptions(applicationProtocols: ["mqtt", "x"])
            let offered = try await hello(bench, host: "h", options: options)
            #expect(offered[16] == [0x00, 0x07, 0x04] + Array("mqtt".utf8) + [0x01] + Array("x".utf8))
            #expect(try await hello(bench, host: "h", options: TLSOptions())[16] == nil)
        }
    }

    @Test func row_59_a_protocols_name_is_offered_byte_for_byte() async throws {
        try await Bench.run { bench in
            let options = TLSOptions(
                applicationProtocols: ["x-amzn-mqtt-ca"], requiresApplicationProtocol: true)
            let offered = try await hello(bench, host: "h", options: options)
            #expect(offered[16] == [0x00, 0x0F, 0x0E] + Array("x-amzn-mqtt-ca".utf8))
        }
    }

    @Test func a_server_name_changed_to_nonsense_fails_locally() async throws {
        try await Bench.run { bench in
            let peer = try bench.peer([.hold])
            var profile = try ConnectionProfile.tls(
                host: "127.0.0.1", port: Int(peer.port), options: try Fixture.trust())
            profile.tls?.serverName = "h:8883"
            let error = await (try bench.client(profile)).outcome()
            #expect(error?.stage == .local)
            #expect(error?.code == .clientInvalidArgument)
        }
    }
}
