import CTraversalOpenSSL
import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

/// What a server of TLS may send once the handshake is over.
@Suite("TLS, after the handshake", .timeLimit(.minutes(1)))
struct TLSPostHandshakeTests {
    private func client(
        _ bench: Bench, _ server: OpenSSLServer, options: TLSOptions? = nil
    ) throws -> TestClient {
        try bench.client(
            .tls(host: "127.0.0.1", port: Int(server.port), options: options ?? Fixture.trust()))
    }

    private static let connack: [UInt8] = [0x20, 0x02, 0x00, 0x00]

    /// Bytes that don't repeat at any power of two.
    private static func pattern(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8 &+ $0 >> 16) }
    }

    @Test func row_70_tickets_between_and_behind_the_data_lose_none_of_it() async throws {
        try await Bench.run { bench in
            let server = try OpenSSLServer { connection in
                connection.send(Self.connack)
                connection.sendTicket()
                connection.sendTicket()
                _ = connection.receive(2)
                // The line has been idle since.
                connection.sendTicket()
                connection.sendTicket()
                _ = connection.receive(2)
                connection.send([0xD0, 0x00])
                connection.sendTicket()
                connection.send([0xD0, 0x00])
                _ = connection.receive(1)
            }
            defer { server.stop() }
            let client = try client(bench, server)
            #expect(await client.received(4) == Self.connack)
            client.send([0xC0, 0x00])
            client.send([0xC0, 0x00])
            #expect(await client.received(8) == Self.connack + [0xD0, 0x00, 0xD0, 0x00])
            #expect(client.state.ends.isEmpty)
            client.withStream { $0.close() }
            #expect(await client.end() == nil)
        }
    }

    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func row_72_all_of_one_record_arrives_although_nothing_follows(_ version: TLSOptions.Version) async throws
    {
        try await Bench.run { bench in
            let payloads = [6000, 6000, 4366].map { Self.pattern($0) }
            let packets = payloads.flatMap { payload -> [UInt8] in
                let length = payload.count + 3
                return [0x30, UInt8(length % 128 | 0x80), UInt8(length / 128), 0x00, 0x01, 0x74] + payload
            }
            #expect(packets.count <= 16_384)
            let server = try OpenSSLServer(
                prepare: {
                    let number = version == .v1_2 ? TLS1_2_VERSION : TLS1_3_VERSION
                    SSL_CTX_ctrl($0, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(number), nil)
                },
                serve: { connection in
                    connection.send(packets)
                    // Silence, until the client has everything and leaves.
                    _ = connection.receive(1)
                })
            defer { server.stop() }
            let client = try client(bench, server)
            #expect(await client.received(packets.count) == packets)
            #expect(client.state.ends.isEmpty)
            client.withStream { $0.close() }
            #expect(await client.end() == nil)
        }
    }

    /// The server asks for new keys while our bytes wait for it to read, and after.
    @Test func row_74_keys_change_in_the_middle_of_a_blocked_write() async throws {
        try await Bench.run { bench in
            let bytes = Self.pattern(8 << 20)
            let isBlocked = DispatchSemaphore(value: 0)
            let received = Watched<[UInt8]>([])
            let server = try OpenSSLServer { connection in
                connection.send(Self.connack)
                guard isBlocked.wait(timeout: .now() + 20) == .success else { return }
                connection.sendKeyUpdate()
                connection.send([0xD0, 0x00])
                var all = connection.receive(bytes.count / 2)
                connection.sendKeyUpdate()
                all += connection.receive(bytes.count - all.count)
                connection.sendKeyUpdate()
                connection.send([0xD0, 0x00])
                all += connection.receive(2)
                received.update { [all] in $0 = all }
                connection.send([0x40])
                _ = connection.receive(1)
            }
            defer { server.stop() }
            let client = try client(bench, server)
            #expect(await client.received(4) == Self.connack)
            client.send(bytes)
            // The kernel takes no more.
            _ = await client.watched.first { $0.partialWrites > 0 }
            isBlocked.signal()
            #expect(await client.received(8) == Self.connack + [0xD0, 0x00, 0xD0, 0x00])
            client.send([0xC0, 0x00])
            #expect(await client.received(9).last == 0x40)
            #expect(received.value == bytes + [0xC0, 0x00])
            #expect(client.state.ends.isEmpty)
            client.withStream { $0.close() }
            #expect(await client.end() == nil)
        }
    }

    // MARK: ALPN, on servers that ours isn't

    /// What a server answers to an offer, within the handshake; no extension at all where nil.
    private static func answering(_ name: String?) -> (OpaquePointer) -> Void {
        { context in
            guard let name else { return }
            // Lives as long as the process: few and small.
            let text = UnsafeMutablePointer<UInt8>.allocate(capacity: name.utf8.count + 1)
            text.initialize(from: [UInt8(name.utf8.count)] + name.utf8, count: name.utf8.count + 1)
            SSL_CTX_set_alpn_select_cb(
                context,
                { _, selected, length, _, _, name in
                    guard let name = name?.assumingMemoryBound(to: UInt8.self) else {
                        return SSL_TLSEXT_ERR_NOACK
                    }
                    selected?.pointee = UnsafePointer(name + 1)
                    length?.pointee = name.pointee
                    return SSL_TLSEXT_ERR_OK
                }, text)
        }
    }

    /// AWS IoT Core on port 443 speaks MQTT only to who offers exactly this.
    private static let aws = "x-amzn-mqtt-ca"

    @Test(arguments: [TLSOptions.Version.v1_2, .v1_3])
    func row_59_a_required_protocol_that_is_not_selected_ends_it_before_CONNECT(
        _ version: TLSOptions.Version
    ) async throws {
        try await Bench.run { bench in
            for answer in [Self.aws, nil, "h2", "\u{1B}[2J"] {
                let received = Watched<[[UInt8]]>([])
                let server = try OpenSSLServer(
                    prepare: { context in
                        let number = version == .v1_2 ? TLS1_2_VERSION : TLS1_3_VERSION
                        SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(number), nil)
                        Self.answering(answer)(context)
                    },
                    serve: { connection in
                        let bytes = connection.receive(2)
                        received.update { $0.append(bytes) }
                    })
                defer { server.stop() }
                var options = try Fixture.trust()
                options.applicationProtocols = [Self.aws]
                options.requiresApplicationProtocol = true
                let client = try bench.client(
                    .tls(host: "127.0.0.1", port: Int(server.port), options: options)
                ) { event, stream in
                    if event == .connected { stream.send([[0x10, 0x00]]) }
                }
                let error = await client.outcome()
                if answer == Self.aws {
                    #expect(error == nil)
                    #expect(client.state.observations.last?.detail?.hasSuffix("ALPN \(Self.aws)") == true)
                    #expect(await received.first { !$0.isEmpty } == [[0x10, 0x00]])
                } else {
                    #expect(error?.stage == .tls)
                    #expect(error?.code == .tlsALPNNotSelected)
                    #expect(error?.description.contains(Self.aws) == true)
                    #expect(error?.description.contains("\u{1B}") == false)
                    // OpenSSL itself refuses an answer that wasn't offered: there never is a connection then.
                    if answer == nil { #expect(await received.first { !$0.isEmpty } == [[]]) }
                    #expect(!received.value.contains { !$0.isEmpty })
                }
            }
        }
    }

    @Test func a_protocol_that_is_not_required_may_be_ignored() async throws {
        try await Bench.run { bench in
            let server = try OpenSSLServer(prepare: Self.answering(nil)) { connection in
                connection.send(Self.connack)
                _ = connection.receive(1)
            }
            defer { server.stop() }
            var options = try Fixture.trust()
            options.applicationProtocols = [Self.aws]
            let client = try client(bench, server, options: options)
            #expect(await client.received(4) == Self.connack)
        }
    }

    @Test func to_require_a_protocol_one_has_to_be_offered() async throws {
        try await Bench.run { bench in
            let server = try OpenSSLServer { _ in }
            defer { server.stop() }
            var options = try Fixture.trust()
            options.requiresApplicationProtocol = true
            let error = await (try client(bench, server, options: options)).outcome()
            #expect(error?.stage == .local)
            #expect(error?.code == .clientInvalidArgument)
        }
    }
}
