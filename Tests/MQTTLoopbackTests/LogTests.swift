import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

@Suite(.timeLimit(.minutes(1))) struct LogTests {
    private struct Line: Sendable {
        var level: LogLevel
        var event: LogEvent
    }

    private func lines(from level: LogLevel, _ body: (MQTTClient) async throws -> Void) async throws -> [Line]
    {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let heard = Watched<[Line]>([])
        let configuration = ClientConfiguration(
            clientID: "c", userName: "ann", password: Array("hunter2".utf8), reconnect: .never,
            log: { level, event in heard.update { $0.append(Line(level: level, event: event)) } },
            logLevel: level)
        let client = MQTTClient(profile: try broker.profile(.tcp), configuration: configuration)
        try await client.connect()
        await broker.dropAll()
        for await event in client.events {
            if case .disconnected = event { break }
        }
        try await broker.block(.tcp, by: .refusing)
        await #expect(throws: MQTTError.self) { try await client.connect() }
        try await body(client)
        await client.disconnect()
        await broker.stop()
        return await heard.first { _ in true }
    }

    @Test func stages_are_told_in_detail_and_failures_as_warnings() async throws {
        let lines = try await lines(from: .debug) { _ in }
        #expect(lines.allSatisfy { $0.level == $0.event.level })
        let levels = Set(lines.map(\.level))
        #expect(levels == [.debug, .warning])
        let texts = lines.map { "\($0.level): \($0.event)" }
        #expect(
            texts.contains { $0.hasPrefix("debug: mqtt://127.0.0.1:") && $0.contains(": tcp passed in ") })
        #expect(
            texts.contains { $0.hasPrefix("warning: mqtt://127.0.0.1:") && $0.contains("tcp.refused at tcp") }
        )
        #expect(texts.contains { $0.hasPrefix("warning: user name or password go over mqtt://127.0.0.1:") })
        #expect(!texts.contains { $0.contains("hunter2") || $0.contains("ann@") })
    }

    @Test func what_is_below_the_level_is_not_told() async throws {
        let warnings = try await lines(from: .warning) { _ in }
        #expect(!warnings.isEmpty)
        #expect(warnings.allSatisfy { $0.level == .warning })
        #expect(try await lines(from: .error) { _ in }.isEmpty)
    }

    @Test func levels_are_in_order() {
        #expect(LogLevel.allCases == LogLevel.allCases.sorted())
        #expect(LogLevel.allCases.map(\.description) == ["debug", "info", "notice", "warning", "error"])
    }
}
