/// One challenge of WWW-Authenticate or Proxy-Authenticate (RFC 9110 §11.3).
package struct HTTPChallenge: Sendable, Hashable {
    /// As it came; compared in any case.
    package let scheme: String
    /// What schemes with several rounds have in place of parameters (`token68`).
    package private(set) var token: String?
    private var parameters: [Parameter] = []

    private struct Parameter: Sendable, Hashable {
        let name: String
        let value: String
    }

    /// The value of that parameter, in any case; the first where there are several.
    package subscript(name: String) -> String? {
        parameters.first { $0.name.equalsIgnoringASCIICase(name) }?.value
    }

    /// By their names in lower case; the first where there are several.
    package var parametersByName: [String: String] {
        Dictionary(parameters.map { ($0.name.lowercased(), $0.value) }) { first, _ in first }
    }

    package func isScheme(_ name: String) -> Bool { scheme.equalsIgnoringASCIICase(name) }

    /// The challenges of all lines of that name, in order. What can't be read is left out: it may belong to a
    /// scheme that nobody here speaks.
    package static func all(in head: HTTPHead, _ name: String) -> [HTTPChallenge] {
        var challenges: [HTTPChallenge] = []
        for element in head.list(name) {
            let word = element.prefix { $0 != " " && $0 != "\t" && $0 != "=" }
            let rest = element.dropFirst(word.utf8.count).trimmingHTTPWhitespace()
            if rest.hasPrefix("=") {
                // A comma separates both challenges and the parameters of one.
                if !challenges.isEmpty { challenges[challenges.count - 1].append(element) }
            } else {
                challenges.append(HTTPChallenge(scheme: String(word)))
                challenges[challenges.count - 1].begin(with: rest)
            }
        }
        return challenges
    }

    private init(scheme: String) { self.scheme = scheme }

    private mutating func begin(with rest: String) {
        let digits = rest.utf8.reversed().drop { $0 == UInt8(ascii: "=") }
        // `a=` may be either.
        if !digits.isEmpty, digits.allSatisfy(Self.isOfToken) { token = rest }
        append(rest)
    }

    private static func isOfToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "+"),
            UInt8(ascii: "/"):
            true
        default: false
        }
    }

    private mutating func append(_ parameter: String) {
        guard let equals = parameter.firstIndex(of: "=") else { return }
        let name = parameter[..<equals].trimmingHTTPWhitespace()
        let value = parameter[parameter.index(after: equals)...].trimmingHTTPWhitespace()
        parameters.append(Parameter(name: name, value: Self.unquoted(value)))
    }

    /// RFC 9110 §5.6.4.
    private static func unquoted(_ value: String) -> String {
        guard value.utf8.count >= 2, value.hasPrefix("\""), value.hasSuffix("\"") else { return value }
        var bytes: [UInt8] = []
        var isEscaped = false
        for byte in value.utf8.dropFirst().dropLast() {
            if byte == UInt8(ascii: "\\"), !isEscaped {
                isEscaped = true
            } else {
                bytes.append(byte)
                isEscaped = false
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
