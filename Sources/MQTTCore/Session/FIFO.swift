/// A queue whose elements have rising sequence numbers, so that any of them is reached at once.
///
/// Removing at the front costs amortised constant time: the emptied part of the storage is dropped
/// when it is the larger part.
struct FIFO<Element: Sendable>: Sendable {
    private var storage: [Element?] = []
    private var head = 0
    /// The sequence number of the first element, or of the next one appended when there is none.
    private(set) var firstSequence: UInt64 = 0

    init() {}

    var count: Int { storage.count - head }
    var isEmpty: Bool { storage.count == head }
    var first: Element? { isEmpty ? nil : storage[head] }
    var endSequence: UInt64 { firstSequence + UInt64(count) }

    @discardableResult
    mutating func append(_ element: Element) -> UInt64 {
        storage.append(element)
        return endSequence - 1
    }

    mutating func popFirst() -> Element? {
        guard head < storage.count else { return nil }
        let element = storage[head].take()
        head += 1
        firstSequence += 1
        if head == storage.count {
            storage.removeAll(keepingCapacity: storage.count <= 4096)
            head = 0
        } else if head >= 64, head * 2 >= storage.count {
            storage.removeSubrange(..<head)
            head = 0
        }
        return element
    }

    func contains(sequence: UInt64) -> Bool { sequence >= firstSequence && sequence < endSequence }

    /// The element with the sequence number, which must be contained.
    subscript(sequence: UInt64) -> Element {
        get { storage[head + Int(sequence - firstSequence)]! }
        set { storage[head + Int(sequence - firstSequence)] = newValue }
    }

    /// Empties the queue; sequence numbers go on from where they were.
    mutating func removeAll() {
        firstSequence = endSequence
        storage = []
        head = 0
    }

    /// Replaces all elements. Sequence numbers are given anew.
    mutating func replaceAll(with elements: [Element]) {
        removeAll()
        storage = elements
    }

    var elements: [Element] { storage[head...].compactMap(\.self) }
}
