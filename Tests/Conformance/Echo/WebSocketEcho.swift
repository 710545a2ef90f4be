internal import Glibc
internal import MQTTLoopback
internal import MQTTTransport
internal import WebSocketCore

/// `websocket-echo`: our WebSocket as the Autobahn test suite wants to meet it, as a client and as a server.
///
/// Both talk to 127.0.0.1 alone.
@main
enum WebSocketEcho {
    /// sysexits.h: EX_USAGE and EX_SOFTWARE.
    private static let usageStatus: Int32 = 64
    private static let failureStatus: Int32 = 70

    static func main() async {
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch let error as UsageError {
            fail("\(error.description)\n\n\(usage)", status: usageStatus)
        } catch {
            fail("\(error)", status: failureStatus)
        }
    }

    private static let usage = """
        Usage:
          websocket-echo client --port PORT --agent NAME [--ca FILE] [--deflate]
              runs all cases of the fuzzing server on that port; over TLS with --ca
          websocket-echo server [--certificate FILE --key FILE] [--deflate]
              echoes on a free port, which it prints, until its standard input ends
          websocket-echo certificates --directory DIRECTORY
              writes ca.crt, server.crt and server.key there
        """

    private static func run(_ words: [String]) async throws {
        guard let command = words.first else { throw UsageError("the command is missing") }
        var options = try Options(words.dropFirst())
        // Short messages are compressed too, and fast: the suite looks at what arrives, not at how small it was.
        let compressing = PerMessageDeflate.Options(compression: .init(level: 1, threshold: 0))
        let deflate = options.take(flag: "--deflate") ? compressing : nil
        switch command {
        case "client":
            guard let port = UInt16(try options.required("--port")) else {
                throw UsageError("--port takes a port")
            }
            let agent = try options.required("--agent")
            let authorityFile = try options.take("--ca")
            try options.checkAllTaken()
            let client = try FuzzedClient(port: port, authorityFile: authorityFile, deflate: deflate)
            try await client.runAllCases(agent: agent)
        case "server":
            var context: TLSContext?
            if let certificate = try options.take("--certificate") {
                context = try TLSContext(
                    serverCertificateFile: certificate, privateKeyFile: try options.required("--key"))
            }
            try options.checkAllTaken()
            print(try await EchoServer.start(tlsContext: context, deflate: deflate))
            // All streams: `stdout` itself is a variable that Swift 6 doesn't let through.
            fflush(nil)
            while readLine() != nil {}
        case "certificates":
            let directory = try options.required("--directory")
            try options.checkAllTaken()
            _ = try TestCertificates().write(to: directory)
        default:
            throw UsageError("unknown command \(command)")
        }
    }

    private static func fail(_ text: String, status: Int32) -> Never {
        let line = Array("websocket-echo: \(text)\n".utf8)
        _ = write(STDERR_FILENO, line, line.count)
        exit(status)
    }
}

/// `--name value` pairs and flags.
private struct Options {
    private var values: [String: String] = [:]

    init(_ words: ArraySlice<String>) throws(UsageError) {
        var rest = words
        while let name = rest.popFirst() {
            guard name.hasPrefix("--") else { throw UsageError("\(name) is not an option") }
            values[name] = rest.first?.hasPrefix("--") == false ? rest.removeFirst() : ""
        }
    }

    mutating func take(flag name: String) -> Bool { values.removeValue(forKey: name) == "" }

    /// - Throws: where it has no value.
    mutating func take(_ name: String) throws(UsageError) -> String? {
        let value = values.removeValue(forKey: name)
        guard value != "" else { throw UsageError("\(name) needs a value") }
        return value
    }

    mutating func required(_ name: String) throws(UsageError) -> String {
        guard let value = try take(name) else { throw UsageError("\(name) is missing") }
        return value
    }

    func checkAllTaken() throws(UsageError) {
        if let name = values.keys.first { throw UsageError("unknown option \(name)") }
    }
}

struct UsageError: Error {
    let description: String

    init(_ description: String) { self.description = description }
}
