import MQTTCore
import Testing

@Suite struct PacketCodingTests {
    private func decoder(for golden: GoldenPacket) throws -> TestDecoder {
        // CONNECT has to be the first packet.
        golden.packet.type == .connect
            ? TestDecoder(role: .server) : try readyDecoder(golden.reader, golden.version)
    }

    @Test(arguments: GoldenPacket.all)
    func a_packet_is_encoded_to_its_bytes(_ golden: GoldenPacket) throws {
        var output: [UInt8] = [0xAA]
        try golden.packet.encode(for: golden.version, into: &output)
        #expect(output == [0xAA] + golden.bytes)
        #expect(try golden.packet.encodedSize(for: golden.version) == golden.bytes.count)
    }

    @Test(arguments: GoldenPacket.all)
    func a_packet_is_decoded_from_its_bytes(_ golden: GoldenPacket) throws {
        let decoder = try decoder(for: golden)
        #expect(try decoder.packets(in: golden.bytes) == [golden.packet])
        #expect(!decoder.hasPartialPacket)
        #expect(decoder.version == golden.version)
    }

    @Test(arguments: GoldenPacket.all)
    func a_packet_is_decoded_one_byte_at_a_time(_ golden: GoldenPacket) throws {
        let decoder = try decoder(for: golden)
        for (index, byte) in golden.bytes.enumerated() {
            let isLast = index == golden.bytes.count - 1
            #expect(try decoder.packets(in: [byte]) == (isLast ? [golden.packet] : []))
            #expect(decoder.hasPartialPacket == !isLast)
        }
    }

    @Test(arguments: GoldenPacket.all)
    func a_packet_is_decoded_when_split_at_any_position(_ golden: GoldenPacket) throws {
        for position in 0...golden.bytes.count {
            let decoder = try decoder(for: golden)
            var packets = try decoder.packets(in: Array(golden.bytes[..<position]))
            packets += try decoder.packets(in: Array(golden.bytes[position...]))
            #expect(packets == [golden.packet], "split at \(position)")
        }
    }

    @Test(arguments: [PacketDecoder.Role.client, .server], ProtocolVersion.allCases)
    func packets_back_to_back_are_decoded_across_any_cut(
        _ role: PacketDecoder.Role, _ version: ProtocolVersion
    ) throws {
        let all = GoldenPacket.all.filter {
            $0.reader == role && $0.version == version && $0.packet.type != .connect
        }
        let stream = all.flatMap(\.bytes)
        for length in [1, 2, 3, 7, 64, stream.count] {
            let decoder = try readyDecoder(role, version)
            var packets: [ControlPacket] = []
            for start in stride(from: 0, to: stream.count, by: length) {
                packets += try decoder.packets(in: Array(stream[start..<min(start + length, stream.count)]))
            }
            #expect(packets == all.map(\.packet), "pieces of \(length)")
        }
    }

    @Test func all_packet_types_of_both_versions_have_a_golden_packet() {
        let version5 = Set(GoldenPacket.all.filter { $0.version == .v5 }.map(\.packet.type))
        let version3 = Set(GoldenPacket.all.filter { $0.version == .v3_1_1 }.map(\.packet.type))
        #expect(version5 == Set(PacketType.allCases))
        #expect(version3 == Set(PacketType.allCases).subtracting([.auth]))
    }

    /// Reason Code and Property Length may be left out, but needn't be (sections 3.4.2 and 3.14.2).
    @Test(arguments: [
        ("40 03 0001 00", ControlPacket.puback(Acknowledgement(packetIdentifier: 1))),
        ("40 04 0001 00 00", .puback(Acknowledgement(packetIdentifier: 1))),
        (
            "62 04 0001 92 00",
            .pubrel(Acknowledgement(packetIdentifier: 1, reasonCode: .packetIdentifierNotFound))
        ),
        ("E0 01 00", .disconnect(Disconnect())),
        ("E0 02 00 00", .disconnect(Disconnect())),
        ("F0 02 00 00", .auth(Auth())),
    ])
    func longer_forms_mean_the_same(_ bytes: String, _ packet: ControlPacket) throws {
        let decoder = try readyDecoder(.client, .v5)
        #expect(try decoder.packets(in: wire(bytes)) == [packet])
    }

    @Test func nothing_of_5_0_is_written_on_3_1_1() throws {
        let properties = Properties([.userProperty(UserProperty(name: "k", value: "v"))])
        let packets: [(ControlPacket, String)] = [
            (.publish(Publish(topicName: "a", payload: [], properties: properties)), "30 03 0001'a'"),
            (
                .puback(
                    Acknowledgement(packetIdentifier: 1, reasonCode: .notAuthorized, properties: properties)),
                "40 02 0001"
            ),
            (
                .subscribe(
                    Subscribe(
                        packetIdentifier: 1,
                        subscriptions: [
                            .init(
                                topicFilter: "a",
                                options: .init(
                                    qos: .atMostOnce, noLocal: true, retainAsPublished: true,
                                    retainHandling: .doNotSend))
                        ], properties: properties)),
                "82 06 0001 0001'a' 00"
            ),
            (
                .disconnect(Disconnect(reasonCode: .disconnectWithWillMessage, properties: properties)),
                "E0 00"
            ),
        ]
        for (packet, bytes) in packets {
            var output: [UInt8] = []
            try packet.encode(for: .v3_1_1, into: &output)
            #expect(output == wire(bytes))
        }
    }

    @Test func a_resent_publish_keeps_its_stored_value() throws {
        let stored = Publish(topicName: "a", payload: [7], qos: .atLeastOnce)
        var output: [UInt8] = []
        try stored.encode(for: .v3_1_1, isDuplicate: true, packetIdentifier: 258, into: &output)
        #expect(output == wire("3A 06 0001'a' 0102 07"))
        #expect(stored.packetIdentifier == nil && !stored.isDuplicate)
    }

    /// The edges of Table 1-1 and of 16-bit arithmetic: 2 bytes of topic length, 1 of topic, the payload.
    @Test(arguments: [
        (0, "03"), (124, "7F"), (125, "8001"), (16_380, "FF7F"), (16_381, "808001"), (65_535, "828004"),
        (65_536, "838004"), (200_000, "C39A0C"), (2_097_148, "FFFF7F"), (2_097_149, "80808001"),
    ])
    func remaining_length_is_exact(_ payloadSize: Int, _ length: String) throws {
        let payload = [UInt8](repeating: 0x5A, count: payloadSize)
        let packet = ControlPacket.publish(Publish(topicName: "t", payload: payload))
        var output: [UInt8] = []
        try packet.encode(for: .v3_1_1, into: &output)
        #expect(output == wire("30" + length + "0001't'") + payload)

        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        var received: [ControlPacket] = []
        for start in stride(from: 0, to: output.count, by: 1400) {
            received += try decoder.packets(in: Array(output[start..<min(start + 1400, output.count)]))
        }
        #expect(received == [packet])
    }

    @Test func the_topic_follows_the_bytes_when_it_changes_and_returns() throws {
        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        let names = ["sensors/kitchen/a", "sensors/kitchen/b", "sensors/kitchen/b", "t", "sensors/kitchen/b"]
        for name in names {
            var output: [UInt8] = []
            try Publish(topicName: name, payload: []).encode(for: .v3_1_1, into: &output)
            #expect(try decoder.packets(in: output) == [.publish(Publish(topicName: name, payload: []))])
        }
    }

    @Test func a_3_1_1_peer_may_pad_the_remaining_length() throws {
        let decoder = TestDecoder(role: .client, version: .v3_1_1)
        #expect(try decoder.packets(in: wire("D0 80 80 80 00")) == [.pingresp])
    }
}
