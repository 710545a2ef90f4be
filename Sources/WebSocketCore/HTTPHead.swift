/// The head of an HTTP/1.x message (RFC 9112 §2.1): start line and fields, without the body.
public struct HTTPHead: Sendable, Hashable {
    /// RFC 9110 §2.5.
    public struct Version: Sendable, Hashable, Comparable {
        public var major: Int
        public var minor: Int

        public static let http10 = Version(major: 1, minor: 0)
        public static let http11 = Version(major: 1, minor: 1)

        public static func < (a: Version, b: Version) -> Bool { (a.major, a.minor) < (b.major, b.minor) }
    }

    /// The first line.
    public enum StartLine: Sendable, Hashable {
        /// RFC 9112 §4. The status is 100–999; the reason may be empty.
        case status(Version, Int, reason: String)
        /// RFC 9112 §3. The target as it came.
        case request(Version, method: String, target: String)
    }

    /// RFC 9110 §5.
    public struct Field: Sendable, Hashable {
        /// As it came; compared without regard to case.
        public var name: String
        /// Without the white space around it; folded lines joined by one space (RFC 9112 §5.2).
        public var value: String
    }

    public var startLine: StartLine
    /// In order, with duplicates.
    public var fields: [Field]

    /// The values of all lines of that name, in any case, in order.
    public func values(_ name: String) -> [String] {
        fields.lazy.filter { $0.name.equalsIgnoringASCIICase(name) }.map(\.value)
    }

    /// The lines of that name joined by ", " (RFC 9110 §5.3); nil when there is none.
    public func value(_ name: String) -> String? {
        let all = values(name)
        return all.isEmpty ? nil : all.joined(separator: ", ")
    }

    /// The elements of a comma-separated list over all lines of that name, without empty ones (RFC 9110 §5.6.1).
    /// A comma inside a quoted string doesn't separate.
    public func list(_ name: String) -> [String] {
        values(name).flatMap(Self.elements)
    }

    private static func elements(of value: String) -> [String] {
        var elements: [String] = []
        var current: [UInt8] = []
        var isQuoted = false
        var isEscaped = false
        func finished() -> String? {
            let text = String(decoding: current, as: UTF8.self).trimmingHTTPWhitespace()
            return text.isEmpty ? nil : text
        }
        for byte in value.utf8 {
            if byte == UInt8(ascii: ","), !isQuoted {
                if let element = finished() { elements.append(element) }
                current.removeAll(keepingCapacity: true)
                continue
            }
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\"), isQuoted {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            }
            current.append(byte)
        }
        if let element = finished() { elements.append(element) }
        return elements
    }
}

package enum HTTPHeadError: Error, Sendable, Hashable {
    /// No end of the head within `limit` bytes.
    case tooLarge(limit: Int)
    /// What is wrong, in words, with the line at fault.
    case malformed(String)
    /// The peer doesn't speak HTTP; its first bytes, at most 64.
    case notHTTP([UInt8])
}

extension StringProtocol {
    func equalsIgnoringASCIICase(_ other: some StringProtocol) -> Bool {
        utf8.elementsEqual(other.utf8) { $0.lowercasedASCII == $1.lowercasedASCII }
    }

    /// Without leading and trailing SP and HTAB (OWS, RFC 9110 §5.6.3).
    func trimmingHTTPWhitespace() -> String {
        var kept = Array(utf8)[...]
        while let first = kept.first, first.isHTTPWhitespace { kept.removeFirst() }
        while let last = kept.last, last.isHTTPWhitespace { kept.removeLast() }
        return String(decoding: kept, as: UTF8.self)
    }
}

extension UInt8 {
    var isHTTPWhitespace: Bool { self == 0x20 || self == 0x09 }

    /// tchar (RFC 9110 §5.6.2).
    var isHTTPTokenCharacter: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"),
            UInt8(ascii: "%"), UInt8(ascii: "&"), UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"),
            UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "^"), UInt8(ascii: "_"), UInt8(ascii: "`"),
            UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    fileprivate var lowercasedASCII: UInt8 {
        UInt8(ascii: "A")...UInt8(ascii: "Z") ~= self ? self | 0x20 : self
    }
}
