/// Reads over the body of a response, so that its connection can be used again (RFC 9112 §6.3).
package struct HTTPBodyReader: Sendable {
    private enum State {
        case complete
        case length(Int)
        /// The line with a chunk's size, and what of it is known (RFC 9112 §7.1).
        case size(Int, isInDigits: Bool)
        case chunk(Int)
        /// The line end behind a chunk.
        case chunkEnd
        /// Trailer fields, up to an empty line.
        case trailer(isLineEmpty: Bool)
    }

    private var state: State

    /// - Parameter limit: bytes above which a new connection is the cheaper way.
    /// - Returns: nil where the end of the body can't be told or isn't worth the wait.
    package init?(of head: HTTPHead, limit: Int = 65_536) {
        if let coding = head.value("Transfer-Encoding") {
            guard coding.equalsIgnoringASCIICase("chunked") else { return nil }
            state = .size(0, isInDigits: true)
        } else {
            let lengths = Set(head.list("Content-Length"))
            guard lengths.count == 1, let length = lengths.first.flatMap({ Int($0) }), 0...limit ~= length
            else { return nil }
            state = length == 0 ? .complete : .length(length)
        }
    }

    package var isComplete: Bool {
        if case .complete = state { return true }
        return false
    }

    /// Moves `input` to the end of the body, or to its own.
    ///
    /// - Returns: whether this can be a body.
    package mutating func receive(_ input: inout UnsafeRawBufferPointer) -> Bool {
        while !input.isEmpty {
            switch state {
            case .complete: return true
            case .length(let left):
                let taken = Self.drop(left, from: &input)
                state = taken == left ? .complete : .length(left - taken)
            case .chunk(let left):
                let taken = Self.drop(left, from: &input)
                state = taken == left ? .chunkEnd : .chunk(left - taken)
            case .size(let size, let isInDigits):
                let byte = input[0]
                _ = Self.drop(1, from: &input)
                if byte == UInt8(ascii: "\n") {
                    state = size == 0 ? .trailer(isLineEmpty: true) : .chunk(size)
                } else if isInDigits, let digit = Character(Unicode.Scalar(byte)).hexDigitValue {
                    guard size < 1 << 24 else { return false }
                    state = .size(size << 4 | digit, isInDigits: true)
                } else {
                    state = .size(size, isInDigits: false)
                }
            case .chunkEnd:
                let byte = input[0]
                _ = Self.drop(1, from: &input)
                if byte == UInt8(ascii: "\n") {
                    state = .size(0, isInDigits: true)
                } else if byte != UInt8(ascii: "\r") {
                    return false
                }
            case .trailer(let isLineEmpty):
                let byte = input[0]
                _ = Self.drop(1, from: &input)
                if byte == UInt8(ascii: "\n") {
                    state = isLineEmpty ? .complete : .trailer(isLineEmpty: true)
                } else if byte != UInt8(ascii: "\r") {
                    state = .trailer(isLineEmpty: false)
                }
            }
        }
        return true
    }

    private static func drop(_ count: Int, from input: inout UnsafeRawBufferPointer) -> Int {
        let count = min(count, input.count)
        input = UnsafeRawBufferPointer(rebasing: input.dropFirst(count))
        return count
    }
}
