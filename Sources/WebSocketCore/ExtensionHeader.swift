/// Sec-WebSocket-Extensions (RFC 6455 §9.1): what a client offers and what a server agrees to.
public enum ExtensionHeader {
    /// One extension with its parameters, in the order of the header.
    public struct Element: Sendable, Hashable, CustomStringConvertible {
        /// A token; compared as it is.
        public var name: String
        public var parameters: [Parameter]

        public init(_ name: String, _ parameters: [Parameter] = []) {
            self.name = name
            self.parameters = parameters
        }

        /// As it stands in the header; values are written as tokens, which they always are.
        public var description: String {
            parameters.reduce(name) { text, parameter in
                text + "; " + parameter.name + (parameter.value.map { "=" + $0 } ?? "")
            }
        }

        /// Whether the description keeps the grammar.
        var isWellFormed: Bool {
            ExtensionHeader.isToken(name)
                && parameters.allSatisfy {
                    ExtensionHeader.isToken($0.name) && ($0.value.map(ExtensionHeader.isToken) ?? true)
                }
        }
    }

    /// A name, perhaps with a value.
    public struct Parameter: Sendable, Hashable {
        /// A token.
        public var name: String
        /// Unquoted; a token; nil for a parameter without a value.
        public var value: String?

        public init(_ name: String, _ value: String? = nil) {
            self.name = name
            self.value = value
        }
    }

    /// What is wrong, in words, with the line at fault.
    package struct Malformed: Error, Sendable, Hashable {
        package var reason: String
    }

    /// The elements of all lines of the header, which together are one list.
    ///
    /// Empty elements count for nothing, as RFC 9110 §5.6.1.2 asks, and so does a header that has no others:
    /// §9.1 doesn't allow it, but it can't be misread.
    package static func parse(_ lines: [String]) throws(Malformed) -> [Element] {
        var elements: [Element] = []
        for line in lines {
            var scanner = Scanner(line)
            do throws(Malformed) {
                elements += try scanner.elements()
            } catch {
                throw Malformed(reason: "\(error.reason): \(String(line.prefix(200)))")
            }
        }
        return elements
    }

    /// The header's value for these elements.
    package static func value(_ elements: [Element]) -> String {
        elements.map(\.description).joined(separator: ", ")
    }

    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy(\.isHTTPTokenCharacter)
    }
}

extension ExtensionHeader {
    /// The productions of §9.1, with RFC 2616's implied white space between any two of their words (§2.1).
    private struct Scanner {
        private var rest: ArraySlice<UInt8>

        init(_ line: String) { rest = Array(line.utf8)[...] }

        /// `1#extension`, with empty elements.
        mutating func elements() throws(Malformed) -> [Element] {
            var elements: [Element] = []
            while true {
                skipWhitespace()
                if let first = rest.first, first != UInt8(ascii: ",") { elements.append(try element()) }
                guard !rest.isEmpty else { return elements }
                guard take(",") else { throw Malformed(reason: "no comma between two extensions") }
            }
        }

        /// `extension-token *( ";" extension-param )`
        private mutating func element() throws(Malformed) -> Element {
            var element = Element(try token("an extension's name"))
            while take(";") { element.parameters.append(try parameter()) }
            return element
        }

        /// `token [ "=" (token | quoted-string) ]`
        private mutating func parameter() throws(Malformed) -> Parameter {
            let name = try token("a parameter's name")
            guard take("=") else { return Parameter(name) }
            skipWhitespace()
            guard rest.first == UInt8(ascii: "\"") else {
                return Parameter(name, try token("a parameter's value"))
            }
            return Parameter(name, try quotedString())
        }

        /// A quoted-string of RFC 2616 §2.2; "the value after quoted-string unescaping MUST conform to the
        /// 'token' ABNF".
        private mutating func quotedString() throws(Malformed) -> String {
            rest.removeFirst()
            var bytes: [UInt8] = []
            while let byte = rest.popFirst() {
                switch byte {
                case UInt8(ascii: "\""):
                    let value = String(decoding: bytes, as: UTF8.self)
                    guard ExtensionHeader.isToken(value) else {
                        throw Malformed(reason: "a quoted value that isn't a token")
                    }
                    skipWhitespace()
                    return value
                case UInt8(ascii: "\\"):
                    guard let escaped = rest.popFirst() else { break }
                    bytes.append(escaped)
                default: bytes.append(byte)
                }
            }
            throw Malformed(reason: "a quoted value without an end")
        }

        private mutating func token(_ what: String) throws(Malformed) -> String {
            skipWhitespace()
            let token = rest.prefix(while: \.isHTTPTokenCharacter)
            guard !token.isEmpty else { throw Malformed(reason: "\(what) is missing") }
            rest = rest[token.endIndex...]
            skipWhitespace()
            return String(decoding: token, as: UTF8.self)
        }

        private mutating func take(_ separator: Unicode.Scalar) -> Bool {
            guard rest.first == UInt8(ascii: separator) else { return false }
            rest.removeFirst()
            return true
        }

        private mutating func skipWhitespace() { rest = rest.drop(while: \.isHTTPWhitespace) }
    }
}
