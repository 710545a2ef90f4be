internal import CTraversalShims

/// Unpredictable bytes from the kernel's generator, fetched in blocks: a system call for every masking key
/// would cost more than the frame that it masks.
package struct RandomPool {
    private var block: [UInt8] = []
    private var used = 0

    package init() {}

    /// Fills `count` unpredictable bytes.
    package mutating func bytes(_ count: Int) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(count)
        while result.count < count {
            if used == block.count { refill() }
            let taken = min(count - result.count, block.count - used)
            result.append(contentsOf: block[used..<used + taken])
            used += taken
        }
        return result
    }

    /// A masking key (RFC 6455, section 5.3) or another 32-bit nonce.
    package mutating func next() -> UInt32 {
        if used + 4 > block.count { refill() }
        let value = block.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: used, as: UInt32.self) }
        used += 4
        return value
    }

    private mutating func refill() {
        block = [UInt8](repeating: 0, count: 4096)
        used = 0
        var filled = 0
        while filled < block.count {
            let count = block.withUnsafeMutableBytes { bytes in
                traversal_random(bytes.baseAddress?.advanced(by: filled), UInt(bytes.count - filled))
            }
            if count > 0 {
                filled += count
            } else {
                // getrandom fails only with EINTR here: 4 KiB from the kernel's own pool, without flags.
                continue
            }
        }
    }
}
