internal import Glibc

/// Prints a line that is there at once, whether a person or a file reads it.
package func say(_ line: String) {
    print(line)
    // All streams: `stdout` itself is a variable that Swift 6 doesn't let through.
    fflush(nil)
}

package func printError(_ line: String) {
    write(line + "\n", to: STDERR_FILENO)
}

/// Writes all of `text`, past the buffers of standard output.
package func write(_ text: String, to descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return }
        rest = rest.dropFirst(count)
    }
}

/// Text from the network, unable to move the cursor or to recolour the screen.
package func printable(_ text: some StringProtocol) -> String {
    var result = String.UnicodeScalarView()
    for scalar in text.unicodeScalars { result.append(scalar.isControl ? "\u{FFFD}" : scalar) }
    return String(result)
}
