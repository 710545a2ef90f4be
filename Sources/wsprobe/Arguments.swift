package import MQTTProbe
package import MQTTTransport
internal import MQTTTraversal

/// The command line, read.
package struct Arguments: Sendable, Hashable {
    package enum Command: Sendable, Hashable {
        case help
        case probe
        /// In the simulated network of this name, or a list of them.
        case demo(String)
    }

    package enum PasswordSource: Sendable, Hashable {
        case environment
        case file(String)
    }

    package var command = Command.probe
    package var options: ProbeOptions
    package var isJSON = false
    package var authorityFile: String?
    package var passwordSource = PasswordSource.environment
    package var proxySource = ProxySource.none
    package var measurements = MeasurementOptions()
    /// Asked for all names instead of the system.
    package var nameServer: SocketAddress?

    package enum ProxySource: Sendable, Hashable {
        case none
        case fixed(Proxy)
        case environment
    }

    /// - Parameter words: without the program's own name.
    /// - Throws: `UsageError`.
    package init(_ words: [String]) throws(UsageError) {
        options = ProbeOptions(host: "")
        var hosts: [String] = []
        var passwordFile: String?
        var rest = words[...]
        var onlyHosts = false
        while let word = rest.popFirst() {
            guard word.hasPrefix("-"), word != "-", !onlyHosts else {
                hosts.append(word)
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            let attached = parts.count == 2 ? String(parts[1]) : nil
            func value() throws(UsageError) -> String {
                guard let value = attached ?? rest.popFirst(), !value.isEmpty else {
                    throw UsageError("\(name) needs a value")
                }
                return value
            }
            switch name {
            case "--help", "-h":
                command = .help
                return
            case "--": onlyHosts = true
            case "--json": isJSON = true
            case "--demo": command = .demo(try value())
            case "--v3": options.version = .v3_1_1
            case "--resolver": nameServer = try Self.nameServer(try value())
            case "--echo": measurements.echo = true
            case "--size": measurements.size = true
            case "--throughput": measurements.throughput = true
            case "--repeat": measurements.repetitions = try Self.number(name, try value(), in: 2...1000)
            case "--watch":
                measurements.watch = .seconds(try Self.number(name, try value(), in: 1...86_400))
            case "--idle":
                measurements.idle = .seconds(try Self.number(name, try value(), in: 10...86_400))
            case "--ca": authorityFile = try value()
            case "--client-id": options.clientID = try value()
            case "--username": options.userName = try value()
            case "--password-file": passwordFile = try value()
            case "--timeout": options.timeout = try Self.timeout(try value())
            case "--proxy": proxySource = try Self.proxy(try value())
            case "--port": try Self.setPort(try value(), in: &options.ports)
            default: throw UsageError("unknown option \(name)")
            }
            if attached != nil, ["--json", "--v3", "--", "--echo", "--size", "--throughput"].contains(name) {
                throw UsageError("\(name) takes no value")
            }
        }
        if case .demo = command {
            guard hosts.isEmpty else { throw UsageError("--demo has a broker of its own: give no host") }
            return
        }
        guard let host = hosts.first else { throw UsageError("the host is missing") }
        guard hosts.count == 1 else {
            throw UsageError("one host at a time: \(hosts.joined(separator: " "))")
        }
        options.host = try Self.host(host)
        if let passwordFile {
            guard options.userName != nil else { throw UsageError("--password-file needs --username") }
            passwordSource = .file(passwordFile)
        }
    }

    private static func host(_ host: String) throws(UsageError) -> String {
        if host.contains("/") {
            throw UsageError("give the host alone, such as broker.example.com: wsprobe tries all transports")
        }
        if host.split(separator: ":", omittingEmptySubsequences: false).count == 2 {
            throw UsageError("give the host alone; other ports are set with --port, such as --port tls=9883")
        }
        return host
    }

    private static func proxy(_ text: String) throws(UsageError) -> ProxySource {
        if text == "environment" { return .environment }
        let proxy: Proxy
        do throws(ProfileError) { proxy = try Proxy(url: text) } catch {
            throw UsageError(
                "--proxy takes a URL, such as http://proxy.example:3128, or environment: \(error)")
        }
        guard proxy.password == nil else {
            throw UsageError(
                "every user of this machine can read a password on a command line: put the proxy's URL into "
                    + "HTTPS_PROXY or ALL_PROXY, and use --proxy environment")
        }
        return .fixed(proxy)
    }

    /// An address, with or without a port: a name would have to be looked up first.
    private static func nameServer(_ text: String) throws(UsageError) -> SocketAddress {
        if let address = SocketAddress(literal: text, port: 53) { return address }
        if let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), port > 0
        {
            var host = text[..<colon]
            if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
            if let address = SocketAddress(literal: String(host), port: port) { return address }
        }
        throw UsageError("--resolver takes the address of a name server, such as 9.9.9.9 or [2620:fe::fe]:53")
    }

    private static func number(
        _ name: String, _ text: String, in range: ClosedRange<Int>
    ) throws(UsageError) -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw UsageError("\(name) takes \(range.lowerBound) to \(range.upperBound), not \(text)")
        }
        return number
    }

    private static func timeout(_ text: String) throws(UsageError) -> Duration {
        guard let seconds = Double(text), seconds >= 0.1, seconds <= 300 else {
            throw UsageError("--timeout takes 0.1 to 300 seconds, not \(text)")
        }
        return .milliseconds(Int((seconds * 1000).rounded()))
    }

    private static func setPort(_ text: String, in ports: inout ProbePorts) throws(UsageError) {
        let names = ProbeRoute.allCases.map(\.rawValue).joined(separator: ", ")
        let parts = text.split(separator: "=", omittingEmptySubsequences: false)
        guard parts.count == 2, let route = ProbeRoute(rawValue: String(parts[0])) else {
            throw UsageError("--port takes ROUTE=PORT, ROUTE one of \(names); not \(text)")
        }
        guard let port = UInt16(parts[1]), port > 0 else {
            throw UsageError("the port \(parts[1]) is outside 1…65535")
        }
        ports[route] = Int(port)
    }

    package static let help = """
        Usage: wsprobe [options] HOST

        Tries to reach an MQTT broker in four ways at once, and says which of them this
        network lets through, why the others fail, and what to use:

          tls      MQTT over TLS, port 8883; the preferred way
          wss      MQTT over secure WebSocket, port 8084, path /mqtt
          wss-alt  the same on port 443
          tcp      MQTT in plaintext, port 1883; never sees a password

        Each goes as far as the broker's answer to CONNECT and then disconnects. It
        publishes nothing unless a measurement is asked for, and leaves no session and
        no will.

        Options:
          --ca FILE             trust the CAs in this PEM file, and no others
          --username NAME       log in; the password is read from a file or from the
                                environment variable MQTT_PASSWORD. The plaintext way is
                                skipped then
          --password-file FILE  the password is this file's first line
          --client-id ID        use this client identifier instead of random ones, one
                                attempt after the other. A live device with the same one
                                is disconnected and loses its session: probe with an
                                identifier of its own, or while the device is off
          --proxy URL           go through this proxy: http://, https://, socks5://
                                (names are looked up here) or socks5h:// (by the
                                proxy); or, by the word environment, through those of
                                HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY
          --port ROUTE=PORT     another port, such as --port tls=9883; may be repeated
          --timeout SECONDS     for each stage of each attempt; 0.1 to 300, 5 by default
          --v3                  speak MQTT 3.1.1 instead of 5.0
          --resolver ADDRESS    look names up at this name server, port 53 or as given,
                                and say what it answered

        Measured on the way to use, over connections of their own:
          --echo                send a message to a random topic, wsprobe/…, and back
          --size                find the largest message that comes back, up to 4 MiB
          --throughput          bytes per second there and back, for 2 s each
          --repeat N            connect N times: loss, latencies
          --watch SECONDS       an echo a second: loss, latencies, outages
          --idle SECONDS        find how long a silent connection lives, within this
                                time, and how it dies

          --demo NETWORK        probe a simulated network on this machine, such as
                                hotel, corporate or 443-only; --demo list lists them
          --json                print one JSON object, schema wsprobe/1, and no text
          -h, --help            print this

        The report goes to standard output, everything else to standard error. Colours
        only on a terminal, never where NO_COLOR is set. Ctrl-C prints what is known.

        Exit status: 0 TLS works; 1 only another way works; 2 none works; 64 the command
        line is wrong; 70 internal error; 130 interrupted.

        """
}

/// What is wrong with the command line; exit status 64.
package struct UsageError: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
