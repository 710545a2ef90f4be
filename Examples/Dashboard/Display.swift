import Dispatch
import Glibc
import MQTTExampleSupport

/// The terminal, redrawn in place; or plain lines, where standard output is no terminal.
@MainActor
final class Display {
    enum Input {
        case key(Character)
        /// The window has another size, or the program is back in the foreground.
        case redraw
    }

    /// What the user does.
    let inputs: AsyncStream<Input>

    private let isTerminal =
        isatty(STDOUT_FILENO) == 1 && getenv("TERM").map { strcmp($0, "dumb") != 0 } ?? true
    private let hasKeys: Bool
    private let screen: DashboardScreen
    private let continuation: AsyncStream<Input>.Continuation
    private var keyboard: (any DispatchSourceRead)?
    private var savedMode: termios?
    private var shown: [String] = []

    // Alternate screen and cursor.
    private static let enter = "\u{1B}[?1049h\u{1B}[?25l"
    private static let leave = "\u{1B}[?25h\u{1B}[?1049l"

    init() {
        hasKeys = isTerminal && isatty(STDIN_FILENO) == 1
        let noColor = getenv("NO_COLOR").map { $0.pointee != 0 } ?? false
        screen = DashboardScreen(isStyled: isTerminal && !noColor, showsKeys: hasKeys)
        (inputs, continuation) = AsyncStream.makeStream()
    }

    func open() {
        guard isTerminal else { return }
        takeTerminal()
        if hasKeys { readKeys() }
        Task { [self] in
            for await signal in Signals.stream(of: [SIGWINCH, SIGTSTP, SIGCONT]) { receive(signal) }
        }
    }

    /// Leaves the terminal as it was.
    func close() {
        guard isTerminal else { return }
        keyboard?.cancel()
        giveTerminalBack()
    }

    func show(_ model: DashboardModel) {
        guard isTerminal else {
            let lines = screen.lines(model, now: .now)
            for line in DashboardScreen.news(in: lines, since: shown) { say(line) }
            shown = lines
            return
        }
        var size = winsize()
        // 0 where a terminal doesn't know its size.
        let isKnown = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0 && size.ws_row > 0
        let columns = isKnown ? Int(size.ws_col) : 80
        let rows = isKnown ? Int(size.ws_row) : 24
        let lines = screen.lines(model, now: .now, columns: columns, rows: rows).prefix(rows)
        // Each line is cleared to its end rather than the whole screen first, which would flicker.
        let text = lines.map { "\($0)\u{1B}[K" }.joined(separator: "\r\n")
        write("\u{1B}[H\(text)\u{1B}[J", to: STDOUT_FILENO)
    }

    /// Time has passed: what counts seconds is drawn anew, but not told to a file.
    func tick(_ model: DashboardModel) {
        if isTerminal { show(model) }
    }

    private func receive(_ signal: Int32) {
        switch signal {
        case SIGTSTP:
            giveTerminalBack()
            kill(getpid(), SIGSTOP)
        case SIGCONT:
            takeTerminal()
            continuation.yield(.redraw)
        default: continuation.yield(.redraw)
        }
    }

    private func takeTerminal() {
        var mode = termios()
        if hasKeys, tcgetattr(STDIN_FILENO, &mode) == 0 {
            if savedMode == nil { savedMode = mode }
            // Keys at once and unseen; Ctrl-C stays a signal.
            mode.c_lflag &= ~tcflag_t(ICANON | ECHO)
            tcsetattr(STDIN_FILENO, TCSANOW, &mode)
        }
        write(Self.enter, to: STDOUT_FILENO)
    }

    private func giveTerminalBack() {
        write(Self.leave, to: STDOUT_FILENO)
        if var savedMode { tcsetattr(STDIN_FILENO, TCSANOW, &savedMode) }
    }

    private func readKeys() {
        let source = DispatchSource.makeReadSource(fileDescriptor: STDIN_FILENO, queue: .main)
        source.setEventHandler { [continuation] in
            var bytes = [UInt8](repeating: 0, count: 64)
            let count = read(STDIN_FILENO, &bytes, bytes.count)
            guard count > 0 else {
                if count == 0 { source.cancel() }
                return
            }
            for key in keys(in: Array(bytes.prefix(count))) { continuation.yield(.key(key)) }
        }
        source.resume()
        keyboard = source
    }
}
