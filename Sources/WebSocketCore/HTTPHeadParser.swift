/// Collects and parses one HTTP/1.x head that may arrive in pieces.
///
/// A bare LF ends a line like CRLF (RFC 9112 §2.2 allows it; some middleboxes write it); a CR anywhere else
/// is an error. Peers that don't speak HTTP are found out with their first bytes.
package struct HTTPHeadParser: Sendable {
    package enum Kind: Sendable { case request, response }

    private let kind: Kind
    private let limit: Int
    private var bytes: [UInt8] = []
    private var consumed = 0
    private var lineStart = 0

    /// - Parameter limit: bytes of the whole head, its end included.
    package init(_ kind: Kind, limit: Int = OpeningHandshake.defaultHeadLimit) {
        self.kind = kind
        self.limit = limit
    }

    /// - Returns: the head once it is complete; what comes after it is left in `input`. Nil when all of
    ///   `input` was used and more is needed.
    package mutating func receive(
        _ input: inout UnsafeRawBufferPointer
    ) throws(HTTPHeadError) -> HTTPHead? {
        var index = 0
        defer { input = UnsafeRawBufferPointer(rebasing: input[index...]) }
        while index < input.count {
            guard consumed < limit else { throw .tooLarge(limit: limit) }
            let byte = input[index]
            index += 1
            consumed += 1
            bytes.append(byte)
            if byte == UInt8(ascii: "\n") {
                if let head = try lineEnded() { return head }
            } else {
                try checkStart(followedBy: input[index...])
            }
        }
        return nil
    }

    private mutating func lineEnded() throws(HTTPHeadError) -> HTTPHead? {
        let line = bytes[lineStart...].dropLast()
        guard line.isEmpty || line.elementsEqual([UInt8(ascii: "\r")]) else {
            lineStart = bytes.count
            return nil
        }
        guard lineStart > 0 else {
            switch kind {
            case .request:
                // RFC 9112 §2.2: a server should ignore an empty line before the request line.
                bytes.removeAll(keepingCapacity: true)
                return nil
            case .response:
                throw .notHTTP(bytes)
            }
        }
        return try parse(bytes[..<lineStart])
    }

    private func checkStart(followedBy rest: Slice<UnsafeRawBufferPointer>) throws(HTTPHeadError) {
        let expected = "HTTP/".utf8
        guard bytes.count <= expected.count else { return }
        let isPlausible =
            switch kind {
            case .request: bytes[0].isHTTPTokenCharacter || bytes[0] == UInt8(ascii: "\r")
            case .response: bytes.elementsEqual(expected.prefix(bytes.count))
            }
        guard isPlausible else { throw .notHTTP(bytes + rest.prefix(64 - bytes.count)) }
    }

    private func parse(_ head: ArraySlice<UInt8>) throws(HTTPHeadError) -> HTTPHead {
        var startLine: HTTPHead.StartLine?
        var fields: [HTTPHead.Field] = []
        // Of the last field; joined at once, since a head may hold a fold in every third byte.
        var folds: [String] = []
        func join() {
            guard !folds.isEmpty else { return }
            let value = ([fields[fields.count - 1].value] + folds).joined(separator: " ")
            fields[fields.count - 1].value = value.trimmingHTTPWhitespace()
            folds = []
        }
        for lineWithEnd in head.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: true) {
            let line = lineWithEnd.last == UInt8(ascii: "\r") ? lineWithEnd.dropLast() : lineWithEnd
            guard !line.contains(where: { $0 == 0 || $0 == UInt8(ascii: "\r") }) else {
                throw Self.malformed("CR or NUL inside a line", line)
            }
            if startLine == nil {
                startLine = try Self.startLine(line, kind)
            } else if let first = line.first, first.isHTTPWhitespace {
                // obs-fold (RFC 9112 §5.2); before the first field it is an error (§2.2).
                guard !fields.isEmpty else { throw Self.malformed("a fold before the first field", line) }
                let folded = String(decoding: line, as: UTF8.self).trimmingHTTPWhitespace()
                if !folded.isEmpty { folds.append(folded) }
            } else {
                join()
                fields.append(try Self.field(line))
            }
        }
        join()
        guard let startLine else { throw .malformed("no start line") }
        return HTTPHead(startLine: startLine, fields: fields)
    }

    /// RFC 9112 §5: no white space between name and colon.
    private static func field(_ line: ArraySlice<UInt8>) throws(HTTPHeadError) -> HTTPHead.Field {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else {
            throw malformed("a field without a colon", line)
        }
        let name = line[..<colon]
        guard !name.isEmpty, name.allSatisfy(\.isHTTPTokenCharacter) else {
            throw malformed("a field name that isn't a token", line)
        }
        let value = String(decoding: line[(colon + 1)...], as: UTF8.self).trimmingHTTPWhitespace()
        return HTTPHead.Field(name: String(decoding: name, as: UTF8.self), value: value)
    }

    private static func startLine(
        _ line: ArraySlice<UInt8>, _ kind: Kind
    ) throws(HTTPHeadError) -> HTTPHead.StartLine {
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        switch kind {
        case .response:
            // RFC 9112 §4. The space after the code is often left out with the reason.
            guard parts.count >= 2, let version = version(parts[0]) else {
                throw malformed("not a status line of HTTP/1", line)
            }
            let digits = parts[1]
            guard digits.count == 3, digits.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }),
                let status = Int(String(decoding: digits, as: UTF8.self)), status >= 100
            else { throw malformed("not a status code", line) }
            let reason = parts.count == 3 ? String(decoding: parts[2], as: UTF8.self) : ""
            return .status(version, status, reason: reason)
        case .request:
            // RFC 9112 §3.
            guard parts.count == 3, let version = version(parts[2]),
                !parts[0].isEmpty, parts[0].allSatisfy(\.isHTTPTokenCharacter), !parts[1].isEmpty
            else { throw malformed("not a request line of HTTP/1", line) }
            return .request(
                version, method: String(decoding: parts[0], as: UTF8.self),
                target: String(decoding: parts[1], as: UTF8.self))
        }
    }

    /// RFC 9112 §2.3: `HTTP/1.` and one digit.
    private static func version(_ bytes: ArraySlice<UInt8>) -> HTTPHead.Version? {
        guard bytes.dropLast().elementsEqual("HTTP/1.".utf8), let digit = bytes.last,
            UInt8(ascii: "0")...UInt8(ascii: "9") ~= digit
        else { return nil }
        return HTTPHead.Version(major: 1, minor: Int(digit - UInt8(ascii: "0")))
    }

    private static func malformed(_ what: String, _ line: ArraySlice<UInt8>) -> HTTPHeadError {
        .malformed("\(what): \(String(decoding: line.prefix(80), as: UTF8.self))")
    }
}
