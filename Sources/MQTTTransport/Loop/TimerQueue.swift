/// Deadlines in order, equal ones in the order of their insertion: a binary heap with lazy removal.
struct TimerQueue {
    typealias Work = () -> Void

    private var heap: [(deadline: ContinuousClock.Instant, identifier: UInt64)] = []
    private var work: [UInt64: Work] = [:]
    private var lastIdentifier: UInt64 = 0

    mutating func insert(at deadline: ContinuousClock.Instant, _ body: @escaping Work) -> UInt64 {
        lastIdentifier &+= 1
        work[lastIdentifier] = body
        heap.append((deadline, lastIdentifier))
        siftUp(heap.count - 1)
        return lastIdentifier
    }

    mutating func remove(_ identifier: UInt64) {
        work[identifier] = nil
        // Cancelled entries stay in the heap until they surface; sweep when they are the majority.
        if heap.count > 64, heap.count > 2 * work.count {
            let live = heap.filter { work[$0.identifier] != nil }
            heap.removeAll(keepingCapacity: true)
            for entry in live {
                heap.append(entry)
                siftUp(heap.count - 1)
            }
        }
    }

    /// The earliest deadline that is still wanted.
    mutating func nextDeadline() -> ContinuousClock.Instant? {
        while let first = heap.first {
            if work[first.identifier] != nil { return first.deadline }
            removeFirst()
        }
        return nil
    }

    /// Removes and returns the work of the earliest deadline not later than `now`.
    mutating func popDue(_ now: ContinuousClock.Instant) -> Work? {
        while let first = heap.first, first.deadline <= now {
            removeFirst()
            if let body = work.removeValue(forKey: first.identifier) { return body }
        }
        return nil
    }

    private func isBefore(_ a: Int, _ b: Int) -> Bool {
        (heap[a].deadline, heap[a].identifier) < (heap[b].deadline, heap[b].identifier)
    }

    private mutating func removeFirst() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var smallest = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && isBefore(child, smallest) {
                smallest = child
            }
            if smallest == parent { return }
            heap.swapAt(parent, smallest)
            parent = smallest
        }
    }

    private mutating func siftUp(_ start: Int) {
        var child = start
        while child > 0 {
            let parent = (child - 1) / 2
            if !isBefore(child, parent) { return }
            heap.swapAt(parent, child)
            child = parent
        }
    }
}
