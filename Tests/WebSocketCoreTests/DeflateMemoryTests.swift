import Foundation
import Testing
import WebSocketCore

/// What a compressed connection holds between two messages, in a process where nobody else allocates.
@Suite struct DeflateMemoryTests {
    private final class Connection {
        var webSocket: WebSocketConnection

        init(_ agreement: PerMessageDeflate.Agreement) {
            webSocket = WebSocketConnection(role: .client, deflate: agreement)
        }
    }

    /// Memory that each of 500 connections has in use after one message either way, in KiB.
    private static func held(takeover: Bool, bits: Int) throws -> Int {
        let agreement = try DeflateTests.agree(
            serverTakeover: takeover, clientTakeover: takeover, serverBits: bits, clientBits: bits)
        let message = FrameTests.payload(300)
        var peer = Endpoint(.server, deflate: agreement)
        peer.send(.binary, message)
        let wire = peer.output
        let connections = (0..<500).map { _ in Connection(agreement) }
        let before = try residentPages()
        for connection in connections {
            var output: [UInt8] = []
            connection.webSocket.send(message, maskingKey: 1, into: &output)
            connection.webSocket.receive(wire, output: &output, maskingKey: 1) { _ in }
        }
        return (try residentPages() - before) * 4 / connections.count
    }

    private static func residentPages() throws -> Int {
        let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
        return try #require(Int(fields[1]))
    }

    @Test func without_takeover_nothing_is_held() async {
        await #expect(processExitsWith: .success) {
            let held = try Self.held(takeover: false, bits: 15)
            exit(held < 5 ? EXIT_SUCCESS : EXIT_FAILURE)
        }
    }

    @Test func a_small_window_needs_little_memory() async {
        await #expect(processExitsWith: .success) {
            let small = try Self.held(takeover: true, bits: 9)
            let large = try Self.held(takeover: true, bits: 15)
            exit(large > 60 && small < large / 2 ? EXIT_SUCCESS : EXIT_FAILURE)
        }
    }
}
