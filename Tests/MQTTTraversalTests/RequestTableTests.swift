import MQTTCore
import Testing

@testable import MQTTTraversal

@Suite struct RequestTableTests {
    private let start = ContinuousClock.now

    private func table(_ deadlines: [Int]) -> RequestTable {
        var table = RequestTable()
        for (index, seconds) in deadlines.enumerated() {
            table.insert(token(index), correlation: [UInt8(index)], deadline: start + .seconds(seconds))
        }
        return table
    }

    private func token(_ index: Int) -> OperationToken { OperationToken(rawValue: UInt64(index)) }

    @Test func `answers come in any order, each once`() {
        var table = table([5, 5, 5])
        for index in [2, 0, 1] {
            let first = table.answer([UInt8(index)])
            let second = table.answer([UInt8(index)])
            #expect(first == token(index))
            #expect(second == nil)
        }
        let unknown = table.answer([9])
        #expect(unknown == nil)
        #expect(table.nextDeadline == nil)
    }

    @Test func `a request expires at its deadline and not before`() {
        var table = table([3, 1, 2, 1])
        #expect(table.nextDeadline == start + .seconds(1))
        let early = table.expire(now: start + .seconds(1) - .nanoseconds(1))
        #expect(early.isEmpty)
        let first = table.expire(now: start + .seconds(1))
        #expect(first == [token(1), token(3)])
        #expect(table.nextDeadline == start + .seconds(2))
        let late = table.answer([1])
        #expect(late == nil)
        let rest = table.expire(now: start + .seconds(9))
        #expect(rest == [token(0), token(2)])
        #expect(table.nextDeadline == nil)
    }

    @Test func `what is removed neither expires nor is answered`() {
        var table = table([1, 2])
        table.remove(token(0))
        #expect(!table.contains(token(0)))
        let answered = table.answer([0])
        #expect(answered == nil)
        let expired = table.expire(now: start + .seconds(5))
        #expect(expired == [token(1)])
    }
}
