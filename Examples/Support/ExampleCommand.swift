internal import Glibc
package import MQTTTraversal

/// The command line that the example programs share: a broker URL, who to be there, and what to talk about.
package struct ExampleCommand: Sendable {
    /// An option that only this program has; all options take a value.
    package struct Option: Sendable {
        package var name: String
        package var value: String
        package var help: String

        package init(_ name: String, _ value: String, _ help: String) {
            self.name = name
            self.value = value
            self.help = help
        }
    }

    package var name: String
    package var summary: String
    /// The argument besides the broker's URL, such as `NAME`.
    package var operand: String?
    package var options: [Option]
    package var requiresPrefix: Bool

    package init(
        name: String, summary: String, operand: String? = nil, options: [Option] = [], requiresPrefix: Bool
    ) {
        self.name = name
        self.summary = summary
        self.operand = operand
        self.options = options
        self.requiresPrefix = requiresPrefix
    }

    /// Reads this process's arguments. `--help` prints the help and exits 0; a mistake is told on standard
    /// error, with exit code 64 (`EX_USAGE`).
    package func parseOrExit<Settings>(_ settings: (ExampleOptions) throws(UsageError) -> Settings)
        -> Settings
    {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.contains("--help") || arguments.contains("-h") { exit(printing: help) }
        do throws(UsageError) {
            return try settings(
                parse(
                    arguments, password: getenv("MQTT_PASSWORD").map { String(cString: $0) },
                    proxies: .process))
        } catch {
            exit(name, misusedBy: error)
        }
    }

    /// - Parameters:
    ///   - password: the value of `MQTT_PASSWORD`, if set.
    ///   - proxies: what `--proxy environment` means.
    package func parse(
        _ arguments: [String], password: String?, proxies: ProxyEnvironment = ProxyEnvironment([:])
    ) throws(UsageError) -> ExampleOptions {
        let (values, positional) = try sort(arguments)
        let (url, operand) = try assign(positional, url: values["--url"])

        var profile = try ExampleOptions.profile(url: url)
        if let file = values["--ca"] {
            // Has no meaning for mqtt:// and ws://, so that only the URL changes from network to network.
            profile.tls?.trust = .file(file)
        }
        if let proxy = values["--proxy"] {
            profile.proxy = try ExampleOptions.proxy(proxy, for: profile, proxies)
        }
        if let userName = values["--username"] { profile.userName = userName }
        if let file = values["--password-file"] {
            guard profile.userName != nil else { throw UsageError("--password-file needs --username") }
            profile.password = try ExampleOptions.password(file: file)
        } else if profile.userName != nil, let password {
            profile.password = Array(password.utf8)
        }
        if requiresPrefix, values["--prefix"] == nil {
            throw UsageError("--prefix is missing: the topic prefix that all programs of one set-up share")
        }
        if let prefix = values["--prefix"] { try ExampleOptions.check(prefix: prefix) }
        if values["--client-id"] == "" { throw UsageError("the value of --client-id is empty") }
        return ExampleOptions(
            profile: profile, version: values["--v3"] == nil ? .automatic : .v3_1_1,
            clientID: values["--client-id"], prefix: values["--prefix"], operand: operand, values: values)
    }

    package var help: String {
        let rows = options + sharedOptions
        let width = rows.map { $0.name.count + $0.value.count + 1 }.max() ?? 0
        let lines = rows.map { row in
            let left = row.value.isEmpty ? row.name : "\(row.name) \(row.value)"
            return "  \(left)\(String(repeating: " ", count: width - left.count))  \(row.help)"
        }
        return """
            \(summary)

            Usage: \(name)\(operand.map { " \($0)" } ?? "") URL\(requiresPrefix ? " --prefix PREFIX" : "") [options]

            URL is the broker's: mqtt://host (port 1883), mqtts://host (8883), ws://host/mqtt (80) or
            wss://host:8084/mqtt (443 if no port is given). A password is read from the environment variable
            MQTT_PASSWORD or from a file, never from the command line.

            \(lines.joined(separator: "\n"))

            Exit code: 0 after Ctrl-C or SIGTERM, 1 when the connection fails, 64 for a mistake on the command line.
            """
    }

    private var sharedOptions: [Option] {
        let prefix = "where the topics begin, such as connectmq/demo/1a2b3c4d"
        return [
            Option("--url", "URL", "the broker's URL, where it doesn't stand by itself"),
            Option("--ca", "FILE", "trust the CAs in this PEM file, and no others"),
            Option(
                "--proxy", "URL",
                "go through this proxy, or by the word environment through that of HTTPS_PROXY and its like"),
            Option("--prefix", "PREFIX", requiresPrefix ? prefix : "\(prefix); random by default"),
            Option("--client-id", "ID", "the MQTT client identifier; made up by default"),
            Option("--username", "NAME", "the MQTT user name"),
            Option("--password-file", "FILE", "a file whose first line is the password"),
            Option("--v3", "", "speak MQTT 3.1.1; 5.0 by default"),
            Option("--help", "", "print this help"),
        ]
    }

    /// Parts options with their values from the arguments that stand by themselves.
    private func sort(_ arguments: [String]) throws(UsageError) -> ([String: String], [String]) {
        let known = options + sharedOptions
        var values: [String: String] = [:]
        var positional: [String] = []
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            guard argument.hasPrefix("-"), argument != "-" else {
                positional.append(argument)
                continue
            }
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            guard name != "--password" else {
                throw UsageError(
                    "a password on the command line can be read by every user of this machine: "
                        + "use MQTT_PASSWORD or --password-file")
            }
            guard let option = known.first(where: { $0.name == name }) else {
                throw UsageError("the option \(name) is unknown")
            }
            guard values[name] == nil else { throw UsageError("\(name) is given twice") }
            if option.value.isEmpty {
                guard parts.count == 1 else { throw UsageError("\(name) takes no value") }
                values[name] = ""
            } else if parts.count == 2 {
                values[name] = String(parts[1])
            } else if let value = rest.popFirst() {
                values[name] = value
            } else {
                throw UsageError("\(name) needs a value: \(name) \(option.value)")
            }
        }
        return (values, positional)
    }

    /// Tells the URL from the operand, which may come in either order.
    private func assign(_ positional: [String], url: String?) throws(UsageError) -> (String, String?) {
        var rest = positional
        var url = url
        if url == nil, let index = rest.firstIndex(where: { $0.contains("://") }) {
            url = rest.remove(at: index)
        }
        var operandValue: String?
        if let operand {
            guard !rest.isEmpty else { throw UsageError("\(operand) is missing") }
            operandValue = rest.removeFirst()
        }
        if url == nil, !rest.isEmpty { url = rest.removeFirst() }
        if let extra = rest.first {
            // Whatever it is, it may hold a password.
            throw UsageError(
                extra.contains("://") ? "there is more than one URL" : "\"\(extra)\" is one argument too many"
            )
        }
        guard let url else { throw UsageError("the broker's URL is missing, such as mqtts://broker.example") }
        return (url, operandValue)
    }
}

/// A mistake on the command line, as one sentence.
package struct UsageError: Error, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

package func exit(printing help: String) -> Never {
    print(help)
    exit(0)
}

/// Tells the mistake on standard error; exit code 64 is `EX_USAGE`.
package func exit(_ name: String, misusedBy error: UsageError) -> Never {
    printError("\(name): \(error.description)\nTry: \(name) --help")
    exit(64)
}
