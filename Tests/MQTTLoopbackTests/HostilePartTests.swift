import Testing

@testable import MQTTLoopback

/// What the parts of simulated networks do to bytes.
struct HostilePartTests {
    private let start = ContinuousClock.now

    @Test func `silence ends a connection as its network does it, and any byte puts that off`() {
        for (end, action) in [
            (HostilePart.IdleEnd.fin, HinderedFlow.Action.close), (.reset, .reset),
        ] {
            var flow = HinderedFlow(.idle(.seconds(2), end), now: start)
            #expect(flow.nextDeadline == start + .seconds(2))
            #expect(flow.received([1], isFromClient: false, now: start + .seconds(1)) == [.toClient([1])])
            #expect(flow.nextDeadline == start + .seconds(3))
            #expect(flow.deadlineReached(now: start + .seconds(2)) == [])
            #expect(flow.deadlineReached(now: start + .seconds(3)) == [action])
        }
    }

    @Test func `a black hole swallows what comes after it, and the end of the server too`() {
        var flow = HinderedFlow(.idle(.seconds(2), .blackhole), now: start)
        #expect(flow.deadlineReached(now: start + .seconds(2)) == [])
        #expect(flow.nextDeadline == nil)
        #expect(flow.received([1], isFromClient: true, now: start + .seconds(3)) == [])
        #expect(flow.serverEnded(byReset: false, now: start + .seconds(4)) == [])
    }

    @Test func `a buffering relay lets the first head through and holds the rest until there is enough`() {
        var flow = HinderedFlow(.buffers(4), now: start)
        #expect(
            flow.received(Array("101\r\n\r\nab".utf8), isFromClient: false, now: start)
                == [.toClient(Array("101\r\n\r\n".utf8))])
        #expect(flow.received(Array("c".utf8), isFromClient: false, now: start) == [])
        #expect(
            flow.received(Array("d".utf8), isFromClient: false, now: start)
                == [.toClient(Array("abcd".utf8))])
        #expect(flow.received(Array("e".utf8), isFromClient: false, now: start) == [])
        #expect(
            flow.serverEnded(byReset: false, now: start) == [.toClient(Array("e".utf8)), .close])
    }

    @Test func `a packet above the limit resets, wherever its bytes are cut`() {
        let packet: [UInt8] = [0x30, 0x80, 0x01] + [UInt8](repeating: 0, count: 128)
        for cut in 0...packet.count {
            var flow = HinderedFlow(.longestPacket(130), now: start)
            let parts = [packet[..<cut], packet[cut...]].filter { !$0.isEmpty }
            let actions = parts.flatMap { flow.received(Array($0), isFromClient: true, now: start) }
            #expect(actions.contains(.reset), "cut at \(cut)")
        }
        var flow = HinderedFlow(.longestPacket(131), now: start)
        #expect(flow.received(packet, isFromClient: true, now: start) == [.toServer(packet)])
    }

    @Test func `publishes get lost, wherever their bytes are cut, and nothing else does`() {
        let before: [UInt8] = [0xC0, 0]
        let publish: [UInt8] = [0x30, 3, 0, 1, 97]
        let after: [UInt8] = [0x82, 6, 0, 1, 0, 1, 97, 0]
        let bytes = before + publish + after
        for cut in 0...bytes.count {
            var flow = HinderedFlow(.losesPublishes, now: start)
            var passed: [UInt8] = []
            for part in [bytes[..<cut], bytes[cut...]] {
                for case .toServer(let some) in flow.received(Array(part), isFromClient: true, now: start) {
                    passed += some
                }
            }
            #expect(passed == before + after, "cut at \(cut)")
        }
    }

    @Test func `the name and the protocols of a ClientHello are read once it is complete`() {
        let name: [UInt8] = [0, 0, 0, 8, 0, 6, 0, 0, 3] + Array("A.b".utf8)
        let protocols: [UInt8] = [0, 16, 0, 7, 0, 5, 4] + Array("mqtt".utf8)
        let extensions = name + protocols
        let body: [UInt8] =
            [3, 3] + [UInt8](repeating: 7, count: 32) + [0, 0, 2, 0x13, 1, 1, 0, 0, UInt8(extensions.count)]
            + extensions
        let message: [UInt8] = [1, 0, 0, UInt8(body.count)] + body
        let record = { (bytes: ArraySlice<UInt8>) -> [UInt8] in [22, 3, 1, 0, UInt8(bytes.count)] + bytes }
        let whole = record(message[...])
        let twice = record(message[..<9]) + record(message[9...])
        for bytes in [whole, twice] {
            for count in 0..<bytes.count {
                #expect(ClientHello.read(Array(bytes[..<count])) == .needsMore, "\(count) bytes")
            }
            guard case .hello(let hello) = ClientHello.read(bytes) else {
                Issue.record("no ClientHello")
                continue
            }
            #expect(hello.serverName == "a.b")
            #expect(hello.applicationProtocols == ["mqtt"])
        }
        #expect(ClientHello.read(Array("GET /".utf8)) == .other)
        #expect(ClientHello.read([22, 3, 1, 0, 1, 2]) == .needsMore)
        #expect(ClientHello.read([22, 3, 1, 0, 4, 2, 0, 0, 0]) == .other)
    }
}
