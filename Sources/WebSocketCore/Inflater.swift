internal import CTraversalZlib

/// Inflates the messages of one direction (RFC 7692 §7.2.2), a bounded piece at a time.
///
/// Its memory is its own and it is nowhere else, so it may move between threads.
struct Inflater: ~Copyable, @unchecked Sendable {
    struct Piece {
        /// Valid until the next call.
        var bytes: UnsafeRawBufferPointer
        /// Whether all that the input gives has been handed out; otherwise a call without input goes on.
        var isDrained: Bool
        var endsMessage: Bool
    }

    private let noContextTakeover: Bool
    // zlib notes the address of its z_stream.
    private let stream: UnsafeMutablePointer<z_stream>
    private let scratch: UnsafeMutableRawBufferPointer
    private var tailUsed = 0
    /// zlib had no room left, and may have more to say without new input.
    private var mayHoldOutput = false
    /// The last byte ended a block with BFINAL set.
    private var isAfterFinalBlock = false
    private var error: WebSocketError?

    init(_ messages: PerMessageDeflate.Messages) {
        noContextTakeover = messages.noContextTakeover
        scratch = .allocate(byteCount: 65_536, alignment: 16)
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let status = inflateInit2_(
            stream, -Int32(messages.windowBits), ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        precondition(status == Z_OK, "zlib can't inflate: status \(status)")
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
        scratch.deallocate()
    }

    /// The next piece of a message, which may be empty.
    ///
    /// - Parameters:
    ///   - input: is moved past what was used.
    ///   - endsMessage: whether the message ends with `input`.
    ///   - limit: bytes of the piece, at least 1.
    /// - Throws: `.compressedDataInvalid`, after all that comes before the bad place was handed out.
    mutating func next(
        in input: inout UnsafeRawBufferPointer, endsMessage: Bool, limit: Int
    ) throws(WebSocketError) -> Piece {
        if let error { throw error }
        let room = min(limit, scratch.count)
        var count = 0
        while count < room, error == nil {
            if !input.isEmpty || mayHoldOutput {
                inflate(&input, to: &count, room)
            } else if endsMessage, tailUsed < deflateTail.count {
                deflateTail.withUnsafeBytes { tail in
                    var rest = UnsafeRawBufferPointer(rebasing: tail[tailUsed...])
                    inflate(&rest, to: &count, room)
                    tailUsed = tail.count - rest.count
                }
            } else {
                break
            }
        }
        var isDrained = input.isEmpty && !mayHoldOutput && error == nil
        if endsMessage, isDrained {
            isDrained = tailUsed == deflateTail.count
            if isDrained { messageEnded() }
        }
        if count == 0, let error { throw error }
        isDrained = isDrained && error == nil
        return Piece(
            bytes: UnsafeRawBufferPointer(rebasing: scratch[..<count]), isDrained: isDrained,
            endsMessage: isDrained && endsMessage)
    }

    private mutating func messageEnded() {
        // zlib.h, inflate: 128 stands for the end of a block, the low bits for bits of the last byte left over.
        guard isAfterFinalBlock || stream.pointee.data_type & 0b1000_0111 == 128 else {
            error = .compressedDataInvalid("it ends inside a block")
            return
        }
        tailUsed = 0
        if noContextTakeover { inflateReset(stream) }
    }

    private mutating func inflate(_ input: inout UnsafeRawBufferPointer, to count: inout Int, _ room: Int) {
        let offered = min(input.count, Int(UInt32.max))
        stream.pointee.next_in = input.baseAddress.map {
            UnsafeMutablePointer(mutating: $0.assumingMemoryBound(to: UInt8.self))
        }
        stream.pointee.avail_in = UInt32(offered)
        stream.pointee.next_out = scratch.baseAddress.map {
            ($0 + count).assumingMemoryBound(to: UInt8.self)
        }
        stream.pointee.avail_out = UInt32(room - count)
        let status = CTraversalZlib.inflate(stream, Z_NO_FLUSH)
        let used = offered - Int(stream.pointee.avail_in)
        input = UnsafeRawBufferPointer(rebasing: input[used...])
        count = room - Int(stream.pointee.avail_out)
        mayHoldOutput = stream.pointee.avail_out == 0
        switch status {
        case Z_OK:
            isAfterFinalBlock = false
        case Z_BUF_ERROR:
            // There was nothing to do.
            break
        case Z_STREAM_END:
            // More blocks may follow one with BFINAL (§7.2.3.4, §7.2.3.5), and refer back beyond it. The window
            // stays where it is: copied out and in, two bytes of input would cost 64 KiB of copying.
            isAfterFinalBlock = true
            inflateResetKeep(stream)
        case Z_MEM_ERROR:
            // The window, 32 KiB at most, couldn't be had: where Swift's own allocations end the process too. No
            // input of the peer's asks for more.
            preconditionFailure("zlib is out of memory")
        default:
            error = .compressedDataInvalid(
                stream.pointee.msg.map { String(cString: $0) } ?? "status \(status)")
        }
    }
}
