internal import CTraversalZlib

/// What the bytes of a compressed message end with before they are cut off (RFC 7692 §7.2.1): an empty block
/// without compression, but for its header bits.
let deflateTail: [UInt8] = [0x00, 0x00, 0xFF, 0xFF]

/// Compresses the messages of one direction (RFC 7692 §7.2.1), in one window.
///
/// Its memory is its own and it is nowhere else, so it may move between threads.
struct Deflater: ~Copyable, @unchecked Sendable {
    // zlib notes the address of its z_stream.
    private let stream: UnsafeMutablePointer<z_stream>

    init(_ messages: PerMessageDeflate.Messages) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let windowBits = max(messages.windowBits, 9)
        // The hash table has 2^(memory level + 7) entries, all of which are gone through for each window's worth of
        // bytes: where they are many more than the window has bytes, most of the time goes there.
        let memoryLevel = min(messages.compression.memoryLevel, windowBits - 6)
        let status = deflateInit2_(
            stream, Int32(messages.compression.level), Z_DEFLATED, -Int32(windowBits), Int32(memoryLevel),
            Z_DEFAULT_STRATEGY, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        precondition(status == Z_OK, "zlib can't compress: status \(status)")
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Appends the next part of a message in such a way that the peer can inflate all of it at once.
    mutating func append(
        _ part: UnsafeRawBufferPointer, endsMessage: Bool, to output: inout [UInt8]
    ) {
        let start = output.count
        var rest = part
        repeat {
            let piece = UnsafeRawBufferPointer(rebasing: rest.prefix(Self.pieceSize))
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(piece.count))
            deflate(piece, rest.isEmpty ? Z_SYNC_FLUSH : Z_NO_FLUSH, to: &output)
        } while !rest.isEmpty
        guard endsMessage else { return }
        if output.count > start {
            output.removeLast(deflateTail.count)
        } else {
            // All has been flushed with the part before, which was the last with data (§7.2.3.6).
            output.append(0x00)
        }
    }

    private static let pieceSize = 65_536

    private func deflate(_ piece: UnsafeRawBufferPointer, _ flush: Int32, to output: inout [UInt8]) {
        stream.pointee.next_in = piece.baseAddress.map {
            UnsafeMutablePointer(mutating: $0.assumingMemoryBound(to: UInt8.self))
        }
        stream.pointee.avail_in = UInt32(piece.count)
        // More than the 6 bytes of a flush, so that none is begun that doesn't fit (zlib.h, deflate).
        let room = min(piece.count, 16_384) + 64
        repeat {
            output.append(addingCapacity: room) { span in
                span.withUnsafeMutableBufferPointer { buffer, count in
                    stream.pointee.next_out = buffer.baseAddress.map { $0 + count }
                    stream.pointee.avail_out = UInt32(room)
                    // Z_BUF_ERROR only says that there was nothing to do.
                    _ = CTraversalZlib.deflate(stream, flush)
                    count += room - Int(stream.pointee.avail_out)
                }
            }
        } while stream.pointee.avail_out == 0
    }
}
