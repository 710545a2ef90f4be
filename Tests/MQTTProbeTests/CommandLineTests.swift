import Foundation
import MQTTLoopback
import MQTTProbe
import MQTTTransport
import Testing

/// Runs the built program.
struct CommandLineTests {
    private struct Ended {
        var status: Int32
        var output: String
        var errors: String
    }

    private static func start(
        _ arguments: [String], environment: [String: String] = [:]
    ) throws -> (process: Process, ended: Task<Ended, any Error>) {
        let process = Process()
        // The test bundle lies beside the programs.
        process.executableURL = URL(
            filePath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        )
        .deletingLastPathComponent().appending(path: "wsprobe")
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment
            .filter { $0.key != "MQTT_PASSWORD" }.merging(environment) { $1 }
        let output = Pipe()
        let errors = Pipe()
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let ended = Task.detached {
            let text = try output.fileHandleForReading.readToEnd() ?? Data()
            let complaints = try errors.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            return Ended(
                status: process.terminationStatus, output: String(decoding: text, as: UTF8.self),
                errors: String(decoding: complaints, as: UTF8.self))
        }
        return (process, ended)
    }

    private static func run(_ arguments: [String], environment: [String: String] = [:]) async throws -> Ended
    {
        try await start(arguments, environment: environment).ended.value
    }

    private static func portArguments(_ broker: LoopbackBroker) throws -> [String] {
        let routes: [(String, LoopbackBroker.Kind)] = [
            ("tls", .tls), ("wss", .webSocketSecure), ("wss-alt", .webSocketSecure), ("tcp", .tcp),
        ]
        return try routes.flatMap { ["--port", "\($0.0)=\(try #require(broker.ports[$0.1]))"] }
    }

    @Test func a_demo_probes_a_simulated_network() async throws {
        let ended = try await Self.run(["--demo", "443-only", "--timeout", "1"])
        #expect(ended.status == 1)
        #expect(ended.output.contains("TLS 8883, WSS 8084 /mqtt, TCP 1883: tcp.timeout"))
        #expect(ended.output.contains("Use: wss://broker.test:443/mqtt"))
        let list = try await Self.run(["--demo", "list"])
        #expect(list.status == 0)
        #expect(
            list.output.split(separator: "\n").map { $0.prefix { $0 != " " } }
                == HostileNetwork.catalogue.map { $0.name[...] })
        let unknown = try await Self.run(["--demo", "elsewhere"])
        #expect(unknown.status == 64)
        #expect(unknown.errors.contains("there is no network elsewhere"))
    }

    @Test func a_proxy_that_is_not_there_is_not_the_brokers_fault() async throws {
        let broker = try await LoopbackBroker.start()
        await broker.stop()
        let port = try #require(broker.ports[.tcp])
        for (arguments, environment) in [
            (["--proxy", "http://127.0.0.1:\(port)"], [:]),
            (
                ["--proxy", "environment"],
                ["all_proxy": "127.0.0.1:\(port)", "https_proxy": "", "http_proxy": ""]
            ),
        ] {
            let ended = try await Self.run(["broker.example"] + arguments, environment: environment)
            #expect(ended.status == 2)
            #expect(ended.output.contains("DNS   TCP Proxy   TLS"))
            #expect(ended.output.contains("TLS 8883, WSS 8084 /mqtt, WSS 443 /mqtt, TCP 1883: proxy.refused"))
            let sentence = "The proxy http://127.0.0.1:\(port) can't be reached or doesn't answer"
            #expect(ended.output.replacing("\n", with: " ").contains(sentence))
            #expect(!ended.output.contains("the host may be down"))
        }
    }

    @Test func status_0_where_tls_works() async throws {
        let broker = try await LoopbackBroker.start()
        let ended = try await Self.run(
            ["127.0.0.1", "--ca", broker.authorityFile] + Self.portArguments(broker))
        await broker.stop()
        #expect(ended.status == 0)
        #expect(ended.errors.isEmpty)
        #expect(ended.output.contains("Use: \(broker.url(.tls))\n"))
        #expect(ended.output.contains("profile.tls?.trust = .file(\"\(broker.authorityFile)\")\n"))
        #expect(!ended.output.contains("\u{1B}"))
    }

    @Test func status_1_where_only_another_way_works_and_json_is_one_object() async throws {
        let broker = try await LoopbackBroker.start()
        try await broker.block(.tls, by: .refusing)
        let ended = try await Self.run(
            ["--json", "--v3", "localhost", "--ca", broker.authorityFile] + Self.portArguments(broker))
        await broker.stop()
        #expect(ended.status == 1)
        #expect(ended.errors.isEmpty)
        let report = try ProbeReport(json: ended.output)
        #expect(report.schema == "wsprobe/1")
        #expect(report.mqtt == "3.1.1")
        #expect(report.attempts.map(\.outcome) == [.failed, .ok, .ok, .ok])
        #expect(report.diagnosis.recommendation?.route == .webSocketSecure)
    }

    @Test func status_2_where_nothing_works() async throws {
        let broker = try await LoopbackBroker.start()
        for kind in LoopbackBroker.Kind.allCases { try await broker.block(kind, by: .refusing) }
        let ended = try await Self.run(["localhost"] + Self.portArguments(broker))
        await broker.stop()
        #expect(ended.status == 2)
        #expect(ended.output.contains("Use: nothing, for now\n"))
    }

    @Test(arguments: [
        [], ["h", "--nonsense"], ["mqtt://h"], ["two words"], ["h", "--ca", "/nonexistent/ca.pem"],
        ["h", "--username", "u", "--password-file", "/nonexistent/password"],
    ])
    func status_64_where_the_command_line_is_wrong(arguments: [String]) async throws {
        let ended = try await Self.run(arguments)
        #expect(ended.status == 64)
        #expect(ended.output.isEmpty)
        #expect(ended.errors.hasPrefix("wsprobe: "))
        #expect(ended.errors.hasSuffix("\nTry: wsprobe --help\n"))
    }

    @Test func help_goes_to_standard_output() async throws {
        let ended = try await Self.run(["--help"])
        #expect(ended.status == 0)
        #expect(ended.errors.isEmpty)
        #expect(ended.output.hasPrefix("Usage: wsprobe [options] HOST\n"))
    }

    @Test func the_password_comes_from_the_environment_or_a_file_and_is_never_shown() async throws {
        var configuration = BrokerConfiguration()
        configuration.users = [BrokerConfiguration.User(name: "sensor", password: "s3cret")]
        configuration.allowsAnonymous = false
        let broker = try await LoopbackBroker.start(configuration)
        let file = FileManager.default.temporaryDirectory.appending(path: "wsprobe-\(UUID()).txt")
        try Data("s3cret\n".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let common =
            try ["localhost", "--ca", broker.authorityFile, "--username", "sensor"]
            + Self.portArguments(broker)

        let environment = try await Self.run(common, environment: ["MQTT_PASSWORD": "s3cret"])
        let fromFile = try await Self.run(common + ["--password-file", file.path])
        let wrong = try await Self.run(common, environment: ["MQTT_PASSWORD": "wr0ng"])
        await broker.stop()

        #expect(environment.status == 0)
        #expect(fromFile.status == 0)
        #expect(wrong.status == 2)
        #expect(wrong.output.contains("mqtt.refused"))
        for ended in [environment, fromFile, wrong] {
            #expect(
                ended.output.contains("skipped, since user name and password are never sent in plaintext"))
            #expect(!(ended.output + ended.errors).contains("s3cret"))
            #expect(!(ended.output + ended.errors).contains("wr0ng"))
        }
    }

    @Test func an_interrupt_prints_what_is_known_and_ends_with_130() async throws {
        let loop = try EventLoop()
        let silent = try ScriptedPeer(on: loop, scripts: [[.hold]])
        let ports = ["tls", "wss", "wss-alt", "tcp"].flatMap { ["--port", "\($0)=\(silent.port)"] }
        let (process, ended) = try Self.start(["127.0.0.1", "--timeout", "60"] + ports)
        for index in 0..<4 { _ = await silent.record(index) { !$0.received.isEmpty } }
        process.interrupt()
        let result = try await ended.value
        silent.stop()
        loop.stopAndJoin()
        #expect(result.status == 130)
        #expect(process.terminationReason == .exit)
        #expect(result.output.contains("not finished\n"))
        #expect(result.output.contains("Interrupted before anything was known to work.\n"))
    }
}
