internal import Glibc
package import MQTTTraversal

/// What the command line says.
package struct ExampleOptions: Sendable {
    package var profile: ConnectionProfile
    package var version: ClientConfiguration.Version
    package var clientID: String?
    /// nil only where the program makes one up.
    package var prefix: String?
    /// The argument besides the URL.
    package var operand: String?
    /// The values of all options, by name.
    package var values: [String: String]

    /// A client identifier of `role` and eight hexadecimal digits: short enough for every broker (3.1.3.1).
    package static func randomClientID(_ role: String) -> String { "\(role)-\(randomDigits())" }

    /// A client identifier that is the same for every run with the same topic.
    ///
    /// A device that comes back after a crash then takes its old connection over, so that the broker publishes
    /// the old will before the new `online`, and not a minute after it.
    package static func stableClientID(_ role: String, for topic: String) -> String {
        // FNV-1a.
        let hash = topic.utf8.reduce(0x811C_9DC5 as UInt32) { ($0 ^ UInt32($1)) &* 0x0100_0193 }
        return "\(role)-\(digits(hash))"
    }

    /// A prefix that nobody else uses, for brokers that are shared.
    package static func randomPrefix() -> String { "connectmq/demo/\(randomDigits())" }

    /// Checks text that becomes one level of a topic.
    package static func check(level: String, _ what: String) throws(UsageError) {
        guard !level.isEmpty else { throw UsageError("\(what) is empty") }
        guard level.unicodeScalars.allSatisfy({ $0 != "/" && $0 != "+" && $0 != "#" && !$0.isControl }) else {
            throw UsageError(
                "\(what) becomes one level of a topic: it can't hold / + # or control characters")
        }
        guard level.utf8.count <= 256 else { throw UsageError("\(what) is longer than 256 bytes") }
    }

    static func check(prefix: String) throws(UsageError) {
        for level in prefix.split(separator: "/", omittingEmptySubsequences: false) {
            try check(level: String(level), "a level of --prefix")
        }
        guard !prefix.hasPrefix("$") else {
            throw UsageError("--prefix begins with $, which brokers keep to themselves")
        }
        guard prefix.utf8.count <= 1024 else { throw UsageError("--prefix is longer than 1024 bytes") }
    }

    static func profile(url: String) throws(UsageError) -> ConnectionProfile {
        let profile: ConnectionProfile
        do {
            profile = try ConnectionProfile(url: url)
        } catch {
            throw UsageError("the URL can't be used: \(error)")
        }
        guard profile.password == nil else {
            throw UsageError(
                "the URL holds a password, and every user of this machine can read a command line: "
                    + "leave it out and use MQTT_PASSWORD or --password-file")
        }
        return profile
    }

    static func proxy(
        _ text: String, for profile: ConnectionProfile, _ environment: ProxyEnvironment
    ) throws(UsageError) -> Proxy? {
        let proxy: Proxy
        do throws(ProfileError) {
            if text == "environment" { return try environment.proxy(for: profile) }
            proxy = try Proxy(url: text)
        } catch {
            throw UsageError("--proxy can't be used: \(error)")
        }
        guard proxy.password == nil else {
            throw UsageError(
                "--proxy holds a password, and every user of this machine can read a command line: put the URL "
                    + "into HTTPS_PROXY or ALL_PROXY, and use --proxy environment")
        }
        return proxy
    }

    /// The first line of a file.
    static func password(file: String) throws(UsageError) -> [UInt8] {
        guard let stream = fopen(file, "re") else {
            throw UsageError("can't read the password file \(file): \(String(cString: strerror(errno)))")
        }
        defer { fclose(stream) }
        var line: [UInt8] = []
        while true {
            let byte = getc(stream)
            guard byte != EOF, byte != 0x0A else { break }
            // A password has a length of two bytes in CONNECT (3.1.3.6).
            guard line.count < 65535 else {
                throw UsageError("the password in \(file) is longer than 65535 bytes")
            }
            line.append(UInt8(truncatingIfNeeded: byte))
        }
        if line.last == 0x0D { line.removeLast() }
        guard !line.isEmpty else { throw UsageError("the first line of the password file \(file) is empty") }
        return line
    }

    private static func randomDigits() -> String { digits(.random(in: .min ... .max)) }

    private static func digits(_ number: UInt32) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }
}

extension Unicode.Scalar {
    /// Whether it would move the cursor, ring the bell or turn the writing round, rather than show something.
    package var isControl: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: true
        default: false
        }
    }
}
