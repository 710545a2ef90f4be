/// The beginning of a refusal's body, whose length is found as RFC 9112 §6.3 has it.
struct RefusalBody: Sendable {
    private enum Framing {
        case complete
        case length(Int)
        case chunked(Chunk)
        case untilEnd
    }

    /// Where in the chunked coding (RFC 9112 §7.1).
    private enum Chunk {
        case size(UInt64, hasDigits: Bool)
        /// Behind the digits: an extension, until LF.
        case sizeEnd(UInt64)
        case data(UInt64)
        /// The CRLF behind the data.
        case dataEnd
    }

    /// Bytes that are looked at: pages have some thousands of them before their first words.
    private static let limit = 4096
    /// Bytes of the excerpt.
    private static let excerptLimit = 300

    /// The coding that hides the text, such as `gzip`; nil where there is none.
    let coding: String?
    private let isHTML: Bool?
    private var framing: Framing
    private var bytes: [UInt8] = []

    init(of head: HTTPHead, status: Int) {
        let transferCodings = head.list("Transfer-Encoding")
        let isChunked = transferCodings.last?.equalsIgnoringASCIICase("chunked") == true
        let codings =
            head.list("Content-Encoding").filter { !$0.equalsIgnoringASCIICase("identity") }
            + transferCodings.filter { !$0.equalsIgnoringASCIICase("chunked") }
        coding = codings.isEmpty ? nil : codings.joined(separator: ", ")
        isHTML = head.value("Content-Type").map { type in
            ["text/html", "application/xhtml"].contains { type.prefix($0.count).equalsIgnoringASCIICase($0) }
        }
        let isRedirect = 300...399 ~= status && head.value("Location") != nil
        if coding != nil || isRedirect || status == 204 || status == 205 || status == 304 {
            // None, or nothing that is worth a wait.
            framing = .complete
        } else if isChunked {
            framing = .chunked(.size(0, hasDigits: false))
        } else if let length = Self.contentLength(head) {
            framing = length == 0 ? .complete : .length(length)
        } else {
            framing = .untilEnd
        }
    }

    /// Whether nothing that comes would change the excerpt.
    var isComplete: Bool {
        if case .complete = framing { return true }
        return bytes.count >= Self.limit
    }

    mutating func receive(_ input: UnsafeRawBufferPointer) {
        var rest = input[...]
        while !rest.isEmpty, !isComplete {
            switch framing {
            case .complete: return
            case .untilEnd: append(&rest, UInt64.max)
            case .length(let length):
                let left = length - Int(append(&rest, UInt64(length)))
                framing = left == 0 ? .complete : .length(left)
            case .chunked(let chunk): framing = receive(chunk, &rest)
            }
        }
    }

    /// One line of text, at most 300 bytes; a page without its tags. Ill-formed UTF-8 is replaced.
    var excerpt: String {
        if coding != nil { return "" }
        let begin = bytes.first { $0 > 0x20 }
        let visible = isHTML ?? (begin == UInt8(ascii: "<")) ? Self.withoutTags(bytes[...]) : bytes
        let words = visible.split { $0 <= 0x20 || $0 == 0x7F }.joined(separator: [0x20])
        var text = String.UnicodeScalarView()
        var count = 0
        for scalar in String(decoding: Array(words), as: UTF8.self).unicodeScalars {
            count += UTF8.width(scalar)
            if count > Self.excerptLimit { break }
            text.append(scalar)
        }
        return String(text)
    }

    @discardableResult
    private mutating func append(_ rest: inout Slice<UnsafeRawBufferPointer>, _ most: UInt64) -> UInt64 {
        let taken = rest.prefix(Int(min(most, UInt64(rest.count))))
        bytes.append(contentsOf: taken.prefix(Self.limit - bytes.count))
        rest = rest.dropFirst(taken.count)
        return UInt64(taken.count)
    }

    private mutating func receive(_ chunk: Chunk, _ rest: inout Slice<UnsafeRawBufferPointer>) -> Framing {
        if case .data(let count) = chunk {
            let left = count - append(&rest, count)
            return .chunked(left == 0 ? .dataEnd : .data(left))
        }
        let byte = rest.removeFirst()
        switch chunk {
        case .size(let size, let hasDigits):
            if let digit = Character(Unicode.Scalar(byte)).hexDigitValue, size < 1 << 60 {
                return .chunked(.size(size << 4 | UInt64(digit), hasDigits: true))
            }
            // What isn't a size isn't the chunked coding: there is no more to be had.
            guard hasDigits, size > 0, size < 1 << 60 else { return .complete }
            return .chunked(byte == UInt8(ascii: "\n") ? .data(size) : .sizeEnd(size))
        case .sizeEnd(let size):
            return .chunked(byte == UInt8(ascii: "\n") ? .data(size) : chunk)
        case .dataEnd:
            return .chunked(byte == UInt8(ascii: "\n") ? .size(0, hasDigits: false) : chunk)
        case .data: return .chunked(chunk)
        }
    }

    /// Nil for none, or for several that differ (RFC 9110 §8.6).
    private static func contentLength(_ head: HTTPHead) -> Int? {
        let lengths = Set(head.list("Content-Length"))
        guard lengths.count == 1, let text = lengths.first,
            text.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 })
        else { return nil }
        return Int(text)
    }

    /// Without tags, comments, scripts and styles.
    private static func withoutTags(_ page: ArraySlice<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        var rest = page
        while let open = rest.firstIndex(of: UInt8(ascii: "<")) {
            text += rest[..<open]
            rest = rest[open...]
            guard let second = rest.dropFirst().first else { return text }
            guard UInt8(ascii: "a")...UInt8(ascii: "z") ~= second | 0x20 || "/!?".utf8.contains(second) else {
                text.append(rest.removeFirst())
                continue
            }
            text.append(0x20)
            rest = rest.dropFirst(count(ofMarkup: rest))
        }
        return text + rest
    }

    /// Up to and with what ends the tag, comment, script or style that begins here.
    private static func count(ofMarkup rest: ArraySlice<UInt8>) -> Int {
        var end = Array(">".utf8)
        for (begin, itsEnd) in [("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>")]
        where String(decoding: rest.prefix(begin.utf8.count), as: UTF8.self).equalsIgnoringASCIICase(begin) {
            end = Array(itsEnd.utf8)
        }
        var index = rest.startIndex
        while index + end.count <= rest.endIndex {
            let here = String(decoding: rest[index..<index + end.count], as: UTF8.self)
            if here.equalsIgnoringASCIICase(String(decoding: end, as: UTF8.self)) {
                return index + end.count - rest.startIndex
            }
            index += 1
        }
        return rest.count
    }
}
