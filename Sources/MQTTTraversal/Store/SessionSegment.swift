internal import CTraversalZlib
internal import MQTTCore

/// The bytes of a file of the store: a header with the client identifier, then records, each with its length and its
/// checksum, and a checksum of these two: a damaged length is told from a record that ends too early.
struct SessionSegment {
    /// The configured one; empty where the server chooses.
    var clientIdentifier: String
    var changes: [SessionChange] = []
    var damage: [Damage] = []

    /// Bytes that hold no change.
    enum Damage: Sendable, Hashable {
        /// Between records, and passed over.
        case corrupt(at: Int, count: Int)
        /// What was being written when the process or the power went.
        case tornTail(at: Int, count: Int)
    }

    enum HeaderProblem: Error, Equatable {
        case damaged
        case otherVersion(UInt16)
    }

    static let recordHeaderSize = 12
    private static let magic = Array("MQTTSESS".utf8)
    private static let version: UInt16 = 1

    /// - Parameter clientIdentifier: at most 65,535 bytes of UTF-8, as in CONNECT.
    static func header(clientIdentifier: String) -> [UInt8] {
        var bytes = magic
        bytes.append(integer: version)
        bytes.append(integer: UInt16(clamping: clientIdentifier.utf8.count))
        bytes.append(contentsOf: clientIdentifier.utf8)
        bytes.append(integer: checksum(bytes[...]))
        return bytes
    }

    static func append(_ change: SessionChange, to output: inout [UInt8]) throws(EncodeError) {
        let start = output.count
        output.append(contentsOf: repeatElement(0, count: recordHeaderSize))
        do { try SessionRecord.append(change, to: &output) } catch {
            output.removeSubrange(start...)
            throw error
        }
        // Without a slice, which would make the write below copy everything before it.
        let length = output.count - start - recordHeaderSize
        let sum = output.withUnsafeBytes { checksum(UnsafeRawBufferPointer(rebasing: $0.suffix(length))) }
        var header: [UInt8] = []
        header.append(integer: UInt32(clamping: length))
        header.append(integer: sum)
        header.append(integer: checksum(header[...]))
        for (offset, byte) in header.enumerated() { output[start + offset] = byte }
    }

    /// Reads a whole file.
    init(_ bytes: [UInt8]) throws(HeaderProblem) {
        let fixed = Self.magic.count + 4
        guard bytes.count >= fixed, bytes.starts(with: Self.magic) else { throw .damaged }
        let version = UInt16(bigEndian: bytes[8..<10])
        guard version == Self.version else { throw .otherVersion(version) }
        let end = fixed + Int(UInt16(bigEndian: bytes[10..<12]))
        guard bytes.count >= end + 4,
            UInt32(bigEndian: bytes[end..<(end + 4)]) == Self.checksum(bytes[..<end]),
            let identifier = String(validating: bytes[fixed..<end], as: UTF8.self)
        else { throw .damaged }
        clientIdentifier = identifier
        readRecords(bytes, from: end + 4)
    }

    private mutating func readRecords(_ bytes: [UInt8], from start: Int) {
        var offset = start
        while offset < bytes.count {
            switch Self.record(bytes, at: offset) {
            case .whole(let body):
                if let change = SessionRecord.change(in: bytes[body]) {
                    changes.append(change)
                } else {
                    damage.append(.corrupt(at: offset, count: body.upperBound - offset))
                }
                offset = body.upperBound
            case .damaged(let end) where end < bytes.count:
                damage.append(.corrupt(at: offset, count: end - offset))
                offset = end
            case .headless:
                guard let next = Self.nextRecord(bytes, after: offset) else { fallthrough }
                damage.append(.corrupt(at: offset, count: next - offset))
                offset = next
            case .damaged, .cut:
                damage.append(.tornTail(at: offset, count: bytes.count - offset))
                return
            }
        }
    }

    private enum Found {
        case whole(Range<Int>)
        /// With a header, which says where it ends.
        case damaged(end: Int)
        /// With a header, and the file ends earlier than it says.
        case cut
        case headless
    }

    private static func record(_ bytes: [UInt8], at offset: Int) -> Found {
        let start = offset + recordHeaderSize
        guard start < bytes.count else { return .headless }
        let length = Int(UInt32(bigEndian: bytes[offset..<(offset + 4)]))
        guard length > 0,
            UInt32(bigEndian: bytes[(offset + 8)..<start]) == checksum(bytes[offset..<(offset + 8)])
        else { return .headless }
        guard length <= bytes.count - start else { return .cut }
        let body = start..<(start + length)
        return UInt32(bigEndian: bytes[(offset + 4)..<(offset + 8)]) == checksum(bytes[body])
            ? .whole(body) : .damaged(end: body.upperBound)
    }

    private static func nextRecord(_ bytes: [UInt8], after offset: Int) -> Int? {
        var next = offset + 1
        while next + recordHeaderSize < bytes.count {
            if case .whole = record(bytes, at: next) { return next }
            next += 1
        }
        return nil
    }

    private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.withUnsafeBytes { checksum($0) }
    }

    private static func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
        UInt32(truncatingIfNeeded: crc32_z(0, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count))
    }
}

extension SessionSegment.Damage: CustomStringConvertible {
    var description: String {
        switch self {
        case .corrupt(let offset, let count): "\(count) bytes at \(offset) are damaged, and are passed over"
        case .tornTail(let offset, let count):
            "the last \(count) bytes, from \(offset) on, are incomplete, and are cut"
        }
    }
}
