/// Questions and answers of the Domain Name System (RFC 1035, section 4), as far as a look-up of addresses needs them.
enum DNSMessage {
    /// What kind of address is asked for; the raw value is the TYPE (RFC 1035, section 3.2.2; RFC 3596).
    enum RecordType: UInt16, Sendable, CaseIterable {
        case aaaa = 28
        case a = 1
    }

    struct Question: Sendable, Hashable {
        var identifier: UInt16
        /// In lower case, without a dot at the end.
        var name: String
        var type: RecordType
    }

    /// What an answer says to a question.
    enum Answer: Sendable, Hashable {
        /// Four or sixteen bytes each; none where the name has no address of this kind.
        case addresses([[UInt8]])
        /// Asked again over TCP, the server says the rest.
        case truncated
        case error(ResponseCode)
    }

    /// RCODE; the server's to extend.
    struct ResponseCode: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        let rawValue: UInt8

        static let noError = ResponseCode(rawValue: 0)
        static let nameError = ResponseCode(rawValue: 3)
        static let refused = ResponseCode(rawValue: 5)

        /// As RFC 1035 and RFC 6895, section 2.3, call it.
        var description: String {
            switch rawValue {
            case 0: "NOERROR"
            case 1: "FORMERR"
            case 2: "SERVFAIL"
            case 3: "NXDOMAIN"
            case 4: "NOTIMP"
            case 5: "REFUSED"
            default: "RCODE \(rawValue)"
            }
        }
    }

    /// A query that asks the server to look further where it doesn't know (RD).
    ///
    /// - Returns: nil for a name that can't be asked for: an empty label, one of more than 63 bytes, more than 255 in all.
    static func query(_ question: Question) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.append(bigEndian: question.identifier)
        bytes += [0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0]
        for label in question.name.split(separator: ".", omittingEmptySubsequences: false) {
            guard 1...63 ~= label.utf8.count else { return nil }
            bytes.append(UInt8(label.utf8.count))
            bytes += label.utf8
        }
        bytes.append(0)
        guard bytes.count - headerSize <= 255 else { return nil }
        bytes.append(bigEndian: question.type.rawValue)
        bytes.append(bigEndian: classIN)
        return bytes
    }

    /// The name as it is asked for and compared.
    static func canonical(_ name: some StringProtocol) -> String {
        let lower = name.lowercased()
        return lower.hasSuffix(".") ? String(lower.dropLast()) : lower
    }

    /// - Returns: nil where the bytes are no answer to this question.
    static func answer(_ bytes: [UInt8], to question: Question) -> Answer? {
        var reader = Reader(bytes: bytes)
        guard let identifier = reader.integer(), identifier == question.identifier,
            let flags = reader.integer(), flags & 0x8000 != 0, flags & 0x7800 == 0,
            let questions = reader.integer(), let records = reader.integer(), reader.skip(4)
        else { return nil }
        let code = ResponseCode(rawValue: UInt8(flags & 0x0F))
        // A server that can't make anything of the query may leave it out of its answer.
        if questions > 0 || code == .noError || code == .nameError {
            guard questions == 1, reader.name() == question.name, reader.integer() == question.type.rawValue,
                reader.integer() == classIN
            else { return nil }
        }
        guard code == .noError else { return .error(code) }
        if flags & 0x0200 != 0 { return .truncated }
        return reader.addresses(of: question, among: Int(records)).map(Answer.addresses)
    }

    private static let headerSize = 12
    fileprivate static let classIN: UInt16 = 1
    fileprivate static let typeCNAME: UInt16 = 5
}

extension DNSMessage {
    /// Reads from the beginning on; nil where the bytes end too soon or break a rule.
    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        mutating func integer() -> UInt16? {
            guard bytes.count - position >= 2 else { return nil }
            defer { position += 2 }
            return UInt16(bytes[position]) << 8 | UInt16(bytes[position + 1])
        }

        mutating func skip(_ count: Int) -> Bool {
            guard bytes.count - position >= count else { return false }
            position += count
            return true
        }

        /// A name with its pointers followed (section 4.1.4). Each has to lead further back, so there is an end.
        mutating func name() -> String? {
            var labels: [String] = []
            var length = 0
            var at = position
            var end: Int?
            while at < bytes.count {
                let size = Int(bytes[at])
                switch size {
                case 0:
                    position = end ?? at + 1
                    return labels.joined(separator: ".").lowercased()
                case 1...63:
                    length += size + 1
                    guard at + size < bytes.count, length <= 254 else { return nil }
                    // Compared with what was asked for, and never shown.
                    labels.append(String(decoding: bytes[(at + 1)...(at + size)], as: UTF8.self))
                    at += size + 1
                case 0xC0...:
                    guard at + 1 < bytes.count else { return nil }
                    let target = (size & 0x3F) << 8 | Int(bytes[at + 1])
                    guard target < at else { return nil }
                    if end == nil { end = at + 2 }
                    at = target
                default: return nil
                }
            }
            return nil
        }

        /// The addresses of the name, or of those that it is an alias of.
        mutating func addresses(of question: Question, among records: Int) -> [[UInt8]]? {
            var aliases: [(owner: String, target: String)] = []
            var addresses: [(owner: String, bytes: [UInt8])] = []
            for _ in 0..<records {
                guard let owner = name(), let type = integer(), let recordClass = integer(), skip(4),
                    let size = integer(), bytes.count - position >= Int(size)
                else { return nil }
                let end = position + Int(size)
                if recordClass == classIN, type == typeCNAME {
                    guard let target = name() else { return nil }
                    aliases.append((owner, target))
                } else if recordClass == classIN, type == question.type.rawValue {
                    guard size == (question.type == .a ? 4 : 16) else { return nil }
                    addresses.append((owner, Array(bytes[position..<end])))
                }
                position = end
            }
            var names: Set = [question.name]
            // In whatever order they come, each round finds one more at least.
            for _ in aliases {
                for alias in aliases where names.contains(alias.owner) { names.insert(alias.target) }
            }
            return addresses.filter { names.contains($0.owner) }.map(\.bytes)
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian value: UInt16) {
        append(UInt8(value >> 8))
        append(UInt8(truncatingIfNeeded: value))
    }
}
