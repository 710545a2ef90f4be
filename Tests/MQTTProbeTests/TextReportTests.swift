import MQTTProbe
import MQTTTraversal
import Testing
import wsprobe

struct TextReportTests {
    @Test func a_report_reads_like_this() {
        #expect(
            TextReport(Reports.corporate).text == """
                broker.connectmq.com  MQTT 5.0, at most 5 s a stage, 2026-11-30T09:41:00Z

                Route            DNS   TCP   TLS    WS  MQTT   Result
                TLS 8883          <1 5001✗     –           –   tcp.timeout
                WSS 8084 /mqtt     5     5     5     5     5   ok
                WSS 443 /mqtt     <1    <1   12✗     –     –   tls.untrusted
                TCP 1883          <1   12✗                 –   tcp.refused
                Times in ms; ✗ ended there, – not reached

                TLS 8883: tcp.timeout
                  203.0.113.5:8883: no answer within 5.0 seconds
                  → Packets to that port get no answer: try wss on 8084 or 443, or ask for
                    outbound TCP to this address and port.

                WSS 443 /mqtt: tls.untrusted
                  203.0.113.5:443: unable to get local issuer certificate at depth 0: subject CN
                  = broker, issuer O = Example Proxy, CN = Inspection
                  → The certificate's issuer isn't trusted here: give the broker's CA file, or,
                    if the issuer is your company's, ask about TLS inspection.

                TCP 1883: tcp.refused
                  203.0.113.5:1883: Connection refused
                  → Nothing listens on that port, or something between refuses it: check the
                    port, then try another transport, such as wss.

                TLS 8883 gets no answer at all; WSS 8084 /mqtt works.

                The certificate on port 443 isn't trusted (issuer O = Example Proxy, CN =
                Inspection), while the one on port 8084 is. Either different servers answer, or
                something between answers on port 443 in the broker's place: compare that issuer
                with what the broker's owner says.

                The host accepts connections on ports 8084 and 443, so what stops ports 8883 and
                1883 concerns those ports alone: a firewall, or no listener there. The broker's
                owner can tell which.

                Use: wss://broker.connectmq.com:8084/mqtt
                     let profile = try ConnectionProfile(url: "wss://broker.connectmq.com:8084/mqtt")

                """)
    }

    @Test func a_way_through_a_proxy_says_so() {
        let attempt = ProbeReport.Attempt(
            route: .tls, url: "mqtts://h:8883", port: 8883, proxy: "http://p:3128", isEncrypted: true,
            outcome: .ok,
            stages: [.resolve, .tcp, .proxy, .tls, .mqttConnect].map { .init($0, .passed, milliseconds: 5) })
        let text = TextReport(Reports.report([attempt, Reports.skipped(.tcp)])).text
        #expect(
            text.contains(
                """
                Route      DNS   TCP Proxy   TLS    WS  MQTT   Result
                TLS 8883     5     5     5     5           5   ok
                TCP 1883     –     –                       –   skipped
                DNS and TCP are those of the proxy http://p:3128
                """))
        #expect(
            text.hasSuffix(
                """
                     var profile = try ConnectionProfile(url: "mqtts://h:8883")
                     profile.proxy = try Proxy(url: "http://p:3128")

                """))
    }

    @Test func with_a_ca_file_the_recommendation_names_it() {
        let text = TextReport(Reports.report([Reports.passing(.tls)]), authorityFile: "my \"ca\".pem").text
        #expect(
            text.hasSuffix(
                """

                Use: mqtts://broker.connectmq.com:8883
                     var profile = try ConnectionProfile(url: "mqtts://broker.connectmq.com:8883")
                     profile.tls?.trust = .file("my \\"ca\\".pem")

                """))
    }

    @Test func plaintext_is_called_by_its_name() {
        let text = TextReport(
            Reports.report([Reports.failing(.tls, .tcpRefused, at: .tcp), Reports.passing(.tcp)])
        ).text
        #expect(text.contains("   ok, not encrypted\n"))
        #expect(text.contains("Use: mqtt://broker.connectmq.com:1883  (in plaintext, if it must be)\n"))
    }

    @Test func a_skipped_way_says_why() {
        let text = TextReport(Reports.report([Reports.passing(.tls), Reports.skipped(.tcp)])).text
        #expect(text.contains("TCP 1883     –     –                 –   skipped\n"))
        #expect(
            text.contains("\nTCP 1883: skipped, since user name and password are never sent in plaintext.\n"))
    }

    @Test func a_way_that_was_redirected_says_where_to() throws {
        let passed = Reports.passing(.webSocketSecure)
        let attempt = ProbeReport.Attempt(
            route: passed.route, url: passed.url, port: passed.port, isEncrypted: true, outcome: .ok,
            redirects: ["wss://h:9001/a", "wss://h:9002/\u{1B}b"], stages: passed.stages)
        let text = TextReport(Reports.report([attempt])).text
        #expect(
            text.contains(
                "\nWSS 8084 /mqtt: redirected to wss://h:9001/a, then to wss://h:9002/?b.\n"))
        let json = try Reports.report([attempt]).json()
        #expect(json.contains("\"redirects\" : ["))
        #expect(try !Reports.report([passed]).json().contains("redirects"))
    }

    @Test func an_unfinished_way_shows_where_it_was() {
        let text = TextReport(Reports.report([Reports.unfinished(.tls)])).text
        #expect(text.contains("TLS 8883     1     …     –           –   not finished\n"))
        #expect(text.contains("\nUse: nothing, for now\n"))
    }

    @Test func ways_that_failed_alike_share_their_reason() {
        let text = TextReport(
            Reports.report([
                Reports.failing(.tls, .tcpRefused, at: .tcp, evidence: "Connection refused", hop: "h:8883"),
                Reports.failing(
                    .webSocketSecure, .tcpRefused, at: .tcp, evidence: "Connection refused", hop: "h:8084"),
            ])
        ).text
        #expect(
            text.contains(
                """

                TLS 8883, WSS 8084 /mqtt: tcp.refused
                  h:8883, h:8084: Connection refused
                  → Nothing listens
                """))
    }

    @Test(arguments: FailureCode.allCases) func no_line_is_wider_than_80_columns(code: FailureCode) {
        let evidence = String(repeating: "evidence of many words, ", count: 30)
        let report = Reports.report(
            ProbeRoute.allCases.map {
                Reports.failing($0, code, at: .mqttConnect, evidence: evidence, hop: "203.0.113.5:8883")
            } + [Reports.passing(.webSocketSecure), Reports.skipped(.tcp), Reports.unfinished(.tls)])
        for line in TextReport(report).text.split(separator: "\n") where !line.contains("ConnectionProfile(")
        {
            #expect(line.count <= 80)
        }
    }

    @Test func what_a_peer_sends_cannot_drive_the_terminal() {
        let evidence = "\u{1B}[2J\u{9B}31m\r\n\u{7}\u{202E}text"
        let attempt = Reports.failing(
            .tls, .mqttRefused, at: .mqttConnect, evidence: evidence, hop: "\u{1B}c")
        let text = TextReport(Reports.report([attempt], host: "\u{1B}]0;x")).text
        #expect(text.contains("  ?c: ?[2J?31m????text\n"))
        let isClean = text.unicodeScalars.allSatisfy { scalar in
            scalar == "\n" || ![.control, .format].contains(scalar.properties.generalCategory)
        }
        #expect(isClean)
    }

    @Test func colours_change_nothing_but_colours() throws {
        let plain = TextReport(Reports.corporate).text
        let coloured = TextReport(Reports.corporate, isColoured: true).text
        #expect(!plain.contains("\u{1B}"))
        #expect(coloured.contains("\u{1B}[32mok\u{1B}[0m"))
        #expect(coloured.contains("\u{1B}[31mtcp.timeout\u{1B}[0m"))
        #expect(coloured.replacing(try Regex("\u{1B}\\[[0-9]+m"), with: "") == plain)
    }
}
