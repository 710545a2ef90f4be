import MQTTTransport
import Testing

/// RFC 6455, sections 4.1 and 5.3: keys that nobody can foretell.
struct RandomPoolTests {
    @Test func pools_and_their_blocks_share_nothing() {
        // Keys over several of the blocks in which they come; with 4096 of 32 bits two may be equal.
        var first = RandomPool()
        var second = RandomPool()
        var keys: Set<UInt32> = []
        for _ in 0..<2048 {
            keys.insert(first.next())
            keys.insert(second.next())
        }
        #expect(keys.count > 4090)
    }

    @Test func every_bit_is_as_often_set_as_not() {
        var pool = RandomPool()
        var counts = [Int](repeating: 0, count: 32)
        for _ in 0..<10_000 {
            let key = pool.next()
            for bit in 0..<32 where key >> UInt32(bit) & 1 == 1 { counts[bit] += 1 }
        }
        // The standard deviation is 50; ten of them.
        for count in counts { #expect((4500...5500).contains(count)) }
    }

    @Test func bytes_are_taken_across_the_end_of_a_block() {
        var pool = RandomPool()
        _ = pool.bytes(4090)
        let nonces = [pool.bytes(16), pool.bytes(16)]
        #expect(nonces.allSatisfy { $0.count == 16 && Set($0).count > 4 })
        #expect(nonces[0] != nonces[1])
    }
}
