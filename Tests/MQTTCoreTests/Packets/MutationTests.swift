import MQTTCore
import Testing

@Suite struct MutationTests {
    /// Whatever is decoded can be encoded again, and means the same; everything else is an error.
    @Test(arguments: [PacketDecoder.Role.client, .server], ProtocolVersion.allCases)
    func mutated_packets_are_errors_or_survive_a_round_trip(
        _ role: PacketDecoder.Role, _ version: ProtocolVersion
    ) throws {
        let seeds = GoldenPacket.all.filter { $0.reader == role && $0.version == version }.map(\.bytes)
        let ready = try readyDecoder(role, version).decoder
        var generator = SplitMix64(state: 0xC0FFEE + UInt64(version.rawValue))
        var errors: Set<String> = []
        var survivors = 0
        for _ in 0..<20_000 {
            var bytes = try #require(seeds.randomElement(using: &generator))
            let isConnect = bytes[0] >> 4 == PacketType.connect.rawValue
            for _ in 0..<Int.random(in: 1...3, using: &generator) { mutate(&bytes, &generator) }
            // Mostly keeps the Remaining Length true, so that what follows it is reached.
            if bytes.count >= 2, bytes.count < 130, Int.random(in: 0..<4, using: &generator) > 0 {
                bytes[1] = UInt8(bytes.count - 2)
            }
            var decoder = isConnect ? PacketDecoder(role: role) : ready
            do throws(DecodeError) {
                let packets = try decode(bytes, by: &decoder, &generator)
                survivors += packets.count
                for packet in packets { try expectRoundTrip(packet, decoder.version, ready) }
            } catch {
                errors.insert(error.name)
            }
        }
        #expect(survivors > 2_000)
        #expect(errors.count > 8)
    }

    private func mutate(_ bytes: inout [UInt8], _ generator: inout SplitMix64) {
        let index = Int.random(in: 0...max(0, bytes.count - 1), using: &generator)
        switch Int.random(in: 0..<6, using: &generator) {
        case 0 where !bytes.isEmpty: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        case 1 where !bytes.isEmpty: bytes[index] = UInt8.random(in: 0...255, using: &generator)
        case 2 where !bytes.isEmpty: bytes.remove(at: index)
        case 3: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: min(index, bytes.count))
        case 4: bytes.removeLast(min(bytes.count, 3))
        case 5: bytes += bytes[min(index, bytes.count)...]
        default: break  // Nothing to change in no bytes.
        }
    }

    private func decode(
        _ bytes: [UInt8], by decoder: inout PacketDecoder, _ generator: inout SplitMix64
    ) throws(DecodeError) -> [ControlPacket] {
        var packets: [ControlPacket] = []
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + Int.random(in: 1...24, using: &generator))
            packets += try decoder.packets(in: Array(bytes[start..<end]))
            start = end
        }
        return packets
    }

    private func expectRoundTrip(
        _ packet: ControlPacket, _ version: ProtocolVersion, _ ready: PacketDecoder
    ) throws(DecodeError) {
        var output: [UInt8] = []
        do {
            try packet.encode(for: version, into: &output)
            guard try output.count == packet.encodedSize(for: version) else {
                Issue.record("the size of \(packet) is wrong")
                return
            }
        } catch {
            Issue.record("\(packet) was decoded but can't be encoded: \(error)")
            return
        }
        var decoder =
            packet.type == .connect
            ? PacketDecoder(role: .server) : PacketDecoder(role: ready.role, version: version)
        if packet.type != .connect, ready.role == .server {
            // A mutated CONNECT may have changed the version.
            guard version == ready.version else { return }
            decoder = ready
        }
        let again = try decoder.packets(in: output)
        if again != [packet] { Issue.record("\(packet) came back as \(again)") }
    }
}
