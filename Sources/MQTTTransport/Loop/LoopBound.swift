/// A value that lives on one event loop, carried by code that runs elsewhere.
///
/// The compiler can't know that a closure handed to `EventLoop.execute` runs on the loop's thread; this
/// box knows, and stops the program if the value is touched anywhere else.
package struct LoopBound<Value>: @unchecked Sendable {
    private let storage: Value
    package let loop: EventLoop

    /// Wraps a value that nothing else uses until the loop has it.
    package init(_ value: Value, on loop: EventLoop) {
        storage = value
        self.loop = loop
    }

    package var value: Value {
        loop.preconditionIsCurrent()
        return storage
    }

    /// Runs `body` with the value on the loop.
    package func execute(_ body: @escaping @Sendable (Value) -> Void) {
        loop.execute { body(value) }
    }
}
