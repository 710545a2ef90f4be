import Foundation
import MQTTExampleSupport
import MQTTLoopback
import MQTTTraversal
import Testing

/// The dashboard on a terminal of the system's making.
@Suite(.timeLimit(.minutes(1))) struct TerminalTests {
    @Test(arguments: [nil, SIGTERM, SIGINT, SIGHUP, SIGQUIT])
    func keys_work_and_the_terminal_is_left_as_it_was(_ signal: Int32?) async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let terminal = try PseudoTerminal()
        try await MQTTClient.withConnection(profile: try broker.profile(.tcp)) { observer in
            let commands = try await observer.subscribe(to: "p/fan/set", qos: .atLeastOnce)
            var orders = commands.makeAsyncIterator()
            let before = terminal.localModes
            let dashboard = try RunningProgram(
                "mqtt-dashboard", [broker.url(.tcp), "--prefix", "p"], terminal: terminal.handle)
            #expect(await terminal.shows("f toggles the fan, q quits"))
            #expect(terminal.localModes & tcflag_t(ICANON | ECHO) == 0)

            terminal.type("f")
            #expect(try await orders.next()?.text == "ON")
            #expect(await terminal.shows("Fan         ON"))
            // The arrow key upwards, then the key End: sequences that hold letters.
            terminal.type("\u{1B}[A")
            terminal.type("f")
            #expect(try await orders.next()?.text == "OFF")

            if let signal { dashboard.send(signal) } else { terminal.type("q") }
            #expect(await dashboard.exitCode == 0)
            #expect(terminal.localModes == before)
            #expect(await terminal.shows("\u{1B}[?25h\u{1B}[?1049l"))
        }
        await broker.stop()
    }

    @Test(arguments: [
        ("f", "f"), ("fq", "fq"), ("\u{1B}[A", ""), ("\u{1B}[Ff", "f"), ("\u{1B}OQq", "q"),
        ("\u{1B}[15;2~f", "f"),
        ("\u{1B}", ""), ("\u{1B}f", "f"), ("\u{1B}[", ""), ("é", ""),
    ])
    func keys_that_send_sequences_are_left_out(_ sent: String, _ keys: String) {
        #expect(MQTTExampleSupport.keys(in: Array(sent.utf8)).map(String.init).joined() == keys)
    }

    @Test func without_colour_nothing_is_styled() async throws {
        let broker = try await LoopbackBroker.start(listeners: [.init(.tcp)])
        let terminal = try PseudoTerminal()
        let dashboard = try RunningProgram(
            "mqtt-dashboard", [broker.url(.tcp), "--prefix", "p"], environment: ["NO_COLOR": "1"],
            terminal: terminal.handle)
        #expect(await terminal.shows("\u{1B}[HConnection  connected to mqtt://"))
        terminal.type("q")
        #expect(await dashboard.exitCode == 0)
        await broker.stop()
    }
}

/// Both ends of a pseudo-terminal: the program's, and that of the person in front of it.
private final class PseudoTerminal: Sendable {
    let handle: FileHandle
    private let person: FileHandle
    private let chunks: AsyncStream<String>

    // TIOCSPTLCK and TIOCGPTN of Linux, which aren't imported; nor are posix_openpt and its like.
    private static let setLock: UInt = 0x4004_5431
    private static let getNumber: UInt = 0x8004_5430

    init() throws {
        let master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (locked, number) = (Int32(0), UInt32(0))
        let isReady = ioctl(master, Self.setLock, &locked) == 0 && ioctl(master, Self.getNumber, &number) == 0
        try #require(master >= 0 && isReady)
        person = FileHandle(fileDescriptor: master, closeOnDealloc: true)
        let slave = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        try #require(slave >= 0)
        handle = FileHandle(fileDescriptor: slave, closeOnDealloc: true)
        let (chunks, continuation) = AsyncStream.makeStream(of: String.self)
        self.chunks = chunks
        Thread.detachNewThread { [person] in
            var bytes = [UInt8](repeating: 0, count: 4096)
            // EIO when the other end is closed.
            while case let count = read(person.fileDescriptor, &bytes, bytes.count), count > 0 {
                continuation.yield(String(decoding: bytes[..<count], as: UTF8.self))
            }
            continuation.finish()
        }
    }

    var localModes: tcflag_t {
        var mode = termios()
        tcgetattr(handle.fileDescriptor, &mode)
        return mode.c_lflag
    }

    func type(_ keys: String) { person.write(Data(keys.utf8)) }

    /// Whether `text` is written from now on.
    func shows(_ text: String) async -> Bool {
        var seen = ""
        for await chunk in chunks {
            seen += chunk
            if seen.contains(text) { return true }
        }
        return false
    }
}
