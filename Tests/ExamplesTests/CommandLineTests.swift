import Foundation
import MQTTExampleSupport
import MQTTTraversal
import Testing

@Suite struct CommandLineTests {
    private static let sensor = ExampleCommand(
        name: "mqtt-sensor", summary: "A sensor.", operand: "NAME",
        options: [.init("--interval", "SECONDS", "between two readings")], requiresPrefix: true)
    private static let dashboard = ExampleCommand(
        name: "mqtt-dashboard", summary: "A dashboard.", requiresPrefix: false)

    @Test(arguments: [
        ["kitchen", "mqtts://broker.example", "--prefix", "a/b"],
        ["mqtts://broker.example", "kitchen", "--prefix", "a/b"],
        ["--prefix", "a/b", "--url", "mqtts://broker.example", "kitchen"],
        ["--prefix=a/b", "--url=mqtts://broker.example", "kitchen"],
    ])
    func the_url_and_the_name_come_in_any_order(_ arguments: [String]) throws {
        let options = try Self.sensor.parse(arguments, password: nil)
        #expect(options.profile.description == "mqtts://broker.example:8883")
        #expect(options.operand == "kitchen")
        #expect(options.prefix == "a/b")
        #expect(options.version == .automatic)
        #expect(options.clientID == nil)
    }

    @Test func all_options_arrive() throws {
        let options = try Self.sensor.parse(
            [
                "kitchen", "wss://broker.example:8084/mqtt", "--prefix", "p", "--ca", "ca.pem", "--client-id",
                "me",
                "--username", "ann", "--v3", "--interval", "0.5",
            ], password: "secret")
        #expect(options.profile.tls?.trust == .file("ca.pem"))
        #expect(options.profile.userName == "ann")
        #expect(options.profile.password == Array("secret".utf8))
        #expect(options.clientID == "me")
        #expect(options.version == .v3_1_1)
        #expect(options.values["--interval"] == "0.5")
    }

    @Test func a_proxy_is_a_url_or_what_the_environment_says() throws {
        let environment = ProxyEnvironment([
            "ALL_PROXY": "http://u:p@q.example:3128", "no_proxy": "near.example",
        ])
        for (host, proxy, expected) in [
            ("broker.example", "socks5h://p.example", "socks5h://p.example:1080"),
            ("broker.example", "environment", "http://q.example:3128"), ("near.example", "environment", nil),
        ] {
            let options = try Self.dashboard.parse(
                ["mqtts://\(host)", "--proxy", proxy], password: nil, proxies: environment)
            #expect(options.profile.proxy?.description == expected)
        }
    }

    @Test func a_ca_file_is_no_mistake_where_there_is_no_tls() throws {
        let options = try Self.dashboard.parse(["mqtt://broker.example", "--ca", "ca.pem"], password: nil)
        #expect(options.profile.description == "mqtt://broker.example:1883")
    }

    @Test func a_password_without_a_user_name_stays_in_the_environment() throws {
        let options = try Self.dashboard.parse(["mqtt://broker.example"], password: "secret")
        #expect(options.profile.password == nil)
    }

    @Test func a_user_name_in_the_url_goes_with_the_password_of_the_environment() throws {
        let options = try Self.dashboard.parse(["mqtt://ann@broker.example"], password: "secret")
        #expect(options.profile.userName == "ann")
        #expect(options.profile.password == Array("secret".utf8))
    }

    @Test(arguments: [("secret\nmore\n", "secret"), ("secret\r\n", "secret"), ("s p", "s p")])
    func the_password_is_the_first_line_of_its_file(_ content: String, _ password: String) throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID())").path
        #expect(FileManager.default.createFile(atPath: file, contents: Data(content.utf8)))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let options = try Self.dashboard.parse(
            ["mqtt://broker.example", "--username", "ann", "--password-file", file], password: "other")
        #expect(options.profile.password == Array(password.utf8))
    }

    /// Each with a part of the sentence that the user sees.
    @Test(arguments: [
        ([], "NAME is missing"),
        (["kitchen"], "URL is missing"),
        (["kitchen", "mqtt://h"], "--prefix is missing"),
        (["kitchen", "mqtt://h", "--prefix"], "--prefix needs a value"),
        (["kitchen", "mqtt://h", "--prefix", "a/+"], "a level of --prefix"),
        (["kitchen", "mqtt://h", "--prefix", "a/"], "a level of --prefix is empty"),
        (["kitchen", "mqtt://h", "--prefix", ""], "a level of --prefix is empty"),
        (["kitchen", "mqtt://h", "--prefix", "$SYS"], "begins with $"),
        (["kitchen", "mqtt://h", "--prefix", "p", "--prefix", "q"], "given twice"),
        (["kitchen", "mqtt://h", "--prefix", "p", "--v3=yes"], "takes no value"),
        (["kitchen", "mqtt://h", "--prefix", "p", "--colour", "red"], "--colour is unknown"),
        (["kitchen", "mqtt://h", "mqtt://i", "--prefix", "p"], "more than one URL"),
        (["kitchen", "mqtt://h", "hall", "--prefix", "p"], "one argument too many"),
        (["kitchen", "mqtt://h", "--prefix", "p", "--proxy", "p:1"], "--proxy can't be used"),
        (["kitchen", "http://h", "--prefix", "p"], "the scheme \"http\" is unknown"),
        (["kitchen", "mqtt://h:0", "--prefix", "p"], "port 0"),
        (["kitchen", "mqtt://h", "--prefix", "p", "--client-id", ""], "--client-id is empty"),
        (["kitchen", "mqtt://h", "--prefix", "p", "--password-file", "/f"], "needs --username"),
        (
            ["kitchen", "mqtt://h", "--prefix", "p", "--username", "u", "--password-file", "/nowhere/f"],
            "No such file"
        ),
    ])
    func a_mistake_is_named(_ arguments: [String], _ sentence: String) throws {
        let error = #expect(throws: UsageError.self) { try Self.sensor.parse(arguments, password: nil) }
        #expect(try #require(error).description.contains(sentence))
    }

    @Test(arguments: [
        ["mqtts://ann:hunter2@broker.example"], ["--url", "mqtts://ann:hunter2@broker.example"],
        ["mqtts://h", "--password", "hunter2"], ["mqtts://h", "--password=hunter2"],
        ["mqtts://h", "mqtts://ann:hunter2@broker.example"],
        ["mqtts://h", "--proxy", "http://ann:hunter2@p"],
    ])
    func a_password_on_the_command_line_is_refused_and_not_repeated(_ arguments: [String]) throws {
        let error = #expect(throws: UsageError.self) { try Self.dashboard.parse(arguments, password: nil) }
        #expect(try #require(error).description.contains("hunter2") == false)
    }

    @Test(arguments: [
        "--ca", "--prefix", "--client-id", "--username", "--password-file", "--v3", "--interval", "--proxy",
    ])
    func the_help_names_every_option(_ option: String) {
        #expect(Self.sensor.help.contains(option))
    }

    @Test func the_help_says_where_a_prefix_is_made_up() {
        #expect(Self.dashboard.help.contains("connectmq/demo/1a2b3c4d; random by default"))
        #expect(!Self.sensor.help.contains("random by default"))
    }

    @Test(arguments: ["", "a/b", "+", "a#", "a\u{1}", "a\u{1B}[2J"])
    func a_level_of_a_topic_is_checked(_ level: String) {
        #expect(throws: UsageError.self) { try ExampleOptions.check(level: level, "NAME") }
    }

    @Test func a_stable_client_identifier_depends_on_the_topic() {
        // FNV-1a of "a" and "b", as published with the algorithm.
        #expect(ExampleOptions.stableClientID("sensor", for: "a") == "sensor-e40c292c")
        #expect(ExampleOptions.stableClientID("sensor", for: "b") == "sensor-e70c2de5")
    }

    @Test func random_prefixes_are_eight_hexadecimal_digits_and_differ() {
        let prefixes = (0..<20).map { _ in ExampleOptions.randomPrefix() }
        #expect(Set(prefixes).count == 20)
        #expect(prefixes.allSatisfy { $0.wholeMatch(of: /connectmq\/demo\/[0-9a-f]{8}/) != nil })
    }
}
