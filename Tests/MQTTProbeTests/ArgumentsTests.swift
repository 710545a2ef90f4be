import MQTTProbe
import MQTTTraversal
import Testing
import wsprobe

struct ArgumentsTests {
    @Test func a_host_alone_means_the_defaults() throws {
        let arguments = try Arguments(["broker.connectmq.com"])
        #expect(arguments.command == .probe)
        #expect(arguments.options == ProbeOptions(host: "broker.connectmq.com"))
        #expect(arguments.options.timeout == .seconds(5))
        #expect(!arguments.isJSON)
        #expect(arguments.authorityFile == nil)
        #expect(arguments.passwordSource == .environment)
    }

    @Test func all_options_are_read_before_and_after_the_host() throws {
        let arguments = try Arguments([
            "--json", "--v3", "--ca", "ca.pem", "host", "--client-id=a=b", "--username", "u",
            "--password-file", "p", "--timeout", "0.5", "--port", "tls=1", "--port=wss-alt=2",
        ])
        var ports = ProbePorts()
        ports[.tls] = 1
        ports[.webSocketSecureAlternative] = 2
        #expect(
            arguments.options
                == ProbeOptions(
                    host: "host", ports: ports, version: .v3_1_1, clientID: "a=b", userName: "u",
                    timeout: .milliseconds(500)))
        #expect(arguments.isJSON)
        #expect(arguments.authorityFile == "ca.pem")
        #expect(arguments.passwordSource == .file("p"))
    }

    @Test func a_proxy_is_a_url_or_the_environment() throws {
        #expect(try Arguments(["h"]).proxySource == .none)
        #expect(try Arguments(["h", "--proxy", "environment"]).proxySource == .environment)
        let proxy = try Proxy(url: "http://u@[::1]")
        #expect(try Arguments(["--proxy=http://u@[::1]", "h"]).proxySource == .fixed(proxy))
    }

    @Test func a_password_of_a_proxy_is_refused_and_not_repeated() throws {
        for url in ["http://u:hunter2@h", "http://u:hunter2@h/x", "ftp://u:hunter2@h"] {
            let error = #expect(throws: UsageError.self) { try Arguments(["h", "--proxy", url]) }
            #expect(try #require(error).description.contains("hunter2") == false)
        }
    }

    @Test(arguments: [["--help"], ["-h"], ["host", "--help", "--nonsense"]])
    func help_is_given_whatever_else_stands_there(words: [String]) throws {
        #expect(try Arguments(words).command == .help)
    }

    @Test(arguments: [
        ([], "the host is missing"),
        (["a", "b"], "one host at a time: a b"),
        (["--nonsense", "h"], "unknown option --nonsense"),
        (["h", "--ca"], "--ca needs a value"),
        (["h", "--ca="], "--ca needs a value"),
        (["h", "--json=yes"], "--json takes no value"),
        (["h", "--timeout", "0"], "--timeout takes 0.1 to 300 seconds, not 0"),
        (["h", "--timeout", "nan"], "--timeout takes 0.1 to 300 seconds, not nan"),
        (["h", "--timeout", "1e9"], "--timeout takes 0.1 to 300 seconds, not 1e9"),
        (["h", "--port", "8883"], "--port takes ROUTE=PORT, ROUTE one of tls, wss, wss-alt, tcp; not 8883"),
        (
            ["h", "--port", "ws=80"],
            "--port takes ROUTE=PORT, ROUTE one of tls, wss, wss-alt, tcp; not ws=80"
        ),
        (["h", "--port", "tls=0"], "the port 0 is outside 1…65535"),
        (["h", "--port", "tls=65536"], "the port 65536 is outside 1…65535"),
        (["h", "--password-file", "f"], "--password-file needs --username"),
        (
            ["mqtts://h:8883"],
            "give the host alone, such as broker.example.com: wsprobe tries all transports"
        ),
        (["h:8883"], "give the host alone; other ports are set with --port, such as --port tls=9883"),
    ])
    func what_is_wrong_is_said_in_a_sentence(words: [String], sentence: String) {
        #expect(throws: UsageError(sentence)) { try Arguments(words) }
    }

    @Test func no_option_takes_a_password() {
        #expect(throws: UsageError("unknown option --password")) { try Arguments(["h", "--password", "x"]) }
    }

    @Test func help_fits_80_columns_and_names_every_option() {
        #expect(Arguments.help.split(separator: "\n").allSatisfy { $0.count <= 80 })
        for option in [
            "--ca", "--username", "--password-file", "--client-id", "--port", "--timeout", "--v3", "--json",
            "--help", "--proxy",
        ] {
            #expect(Arguments.help.contains(option))
        }
    }
}

struct DemoArgumentsTests {
    @Test func `a demo brings its own host`() throws {
        #expect(try Arguments(["--demo", "hotel"]).command == .demo("hotel"))
        #expect(throws: UsageError.self) { try Arguments(["--demo", "hotel", "broker.example.com"]) }
        #expect(throws: UsageError.self) { try Arguments(["--demo"]) }
    }
}

struct MeasurementArgumentsTests {
    @Test func `measurements are asked for one by one`() throws {
        let words = "--echo --size --throughput --repeat 5 --watch 60 --idle 120 h"
        let arguments = try Arguments(words.split(separator: " ").map(String.init))
        var options = MeasurementOptions()
        options.echo = true
        options.size = true
        options.throughput = true
        options.repetitions = 5
        options.watch = .seconds(60)
        options.idle = .seconds(120)
        #expect(arguments.measurements == options)
        #expect(try Arguments(["h"]).measurements.isEmpty)
    }

    @Test(arguments: [
        "--repeat=1", "--repeat=x", "--watch=0", "--idle=9", "--idle", "--echo=1", "--resolver=name",
    ])
    func `a value out of range is refused in words`(_ word: String) {
        #expect(throws: UsageError.self) { try Arguments(["h", word]) }
    }

    @Test(arguments: [
        ("9.9.9.9", "9.9.9.9:53"), ("127.0.0.1:5353", "127.0.0.1:5353"), ("2620:fe::fe", "[2620:fe::fe]:53"),
        ("[2620:fe::fe]:54", "[2620:fe::fe]:54"),
    ])
    func `a name server is an address`(_ text: String, _ address: String) throws {
        #expect(try Arguments(["--resolver", text, "h"]).nameServer?.description == address)
    }
}
