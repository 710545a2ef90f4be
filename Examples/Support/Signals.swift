internal import Dispatch
internal import Glibc

/// Signals as a sequence, in place of what they do by default.
package enum Signals {
    /// Asked to stop: Ctrl-C, `kill`, a closed terminal. The first begins the goodbye; a second ends the process
    /// at once.
    package static func termination() -> AsyncStream<Int32> {
        let numbers = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
        return stream(of: numbers) { for number in numbers { signal(number, SIG_DFL) } }
    }

    package static func stream(
        of numbers: [Int32], onSignal: @escaping @Sendable () -> Void = {}
    ) -> AsyncStream<Int32> {
        let (stream, continuation) = AsyncStream.makeStream(of: Int32.self)
        for number in numbers {
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler {
                // Held by its own handler, the source lives as long as the process.
                withExtendedLifetime(source) {
                    onSignal()
                    _ = continuation.yield(number)
                }
            }
            source.resume()
        }
        return stream
    }
}
