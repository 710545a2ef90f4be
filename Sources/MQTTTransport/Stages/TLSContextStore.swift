/// The contexts of TLS that a client's routes share, each made when it is first needed.
package final class TLSContextStore: Sendable {
    private let made = Lock<[TLSOptions.OfContext: TLSContext]>([:])

    package init() {}

    /// What is there already.
    package func madeContext(for options: TLSOptions) -> TLSContext? {
        made.withLock { $0[options.ofContext] }
    }

    /// Reads the trust store and the options' files, where that hasn't been done: not for the loop.
    ///
    /// - Throws: as `TLSContext(client:)`; the next call reads again.
    package func context(for options: TLSOptions) throws(TransportError) -> TLSContext {
        if let context = madeContext(for: options) { return context }
        let context = try TLSContext(client: options)
        return made.withLock { made in
            // Two that came at once share the first, with what it will remember of the server.
            if let first = made[options.ofContext] { return first }
            made[options.ofContext] = context
            return context
        }
    }
}
