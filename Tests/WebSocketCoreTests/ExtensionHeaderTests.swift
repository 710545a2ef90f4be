import Testing
import WebSocketCore

/// Sec-WebSocket-Extensions: RFC 6455 §9.1.
@Suite struct ExtensionHeaderTests {
    typealias Element = ExtensionHeader.Element

    static let wellFormed: [([String], [Element])] = [
        (["foo"], [Element("foo")]),
        (["foo, bar; baz=2"], [Element("foo"), Element("bar", [.init("baz", "2")])]),
        (["foo", "bar; baz=2"], [Element("foo"), Element("bar", [.init("baz", "2")])]),
        (["foo; a; b=c; d=\"e\""], [Element("foo", [.init("a"), .init("b", "c"), .init("d", "e")])]),
        (["foo;a;b=c,bar"], [Element("foo", [.init("a"), .init("b", "c")]), Element("bar")]),
        (
            [" \tfoo \t; \t a\t=\tb ; c = \"d\" \t, \tbar "],
            [Element("foo", [.init("a", "b"), .init("c", "d")]), Element("bar")]
        ),
        (["foo; a=\"\\b\\c\""], [Element("foo", [.init("a", "bc")])]),
        (["foo; a; a=1"], [Element("foo", [.init("a"), .init("a", "1")])]),
        (["foo, foo"], [Element("foo"), Element("foo")]),
        (["!#$%&'*+-.^_`|~09azAZ; ~=!"], [Element("!#$%&'*+-.^_`|~09azAZ", [.init("~", "!")])]),
        // RFC 9110 §5.6.1.2: empty elements.
        ([",foo,, ,bar,"], [Element("foo"), Element("bar")]),
        ([], []), ([""], []), ([" ", ",", ""], []),
    ]

    @Test(arguments: wellFormed)
    func the_grammar_of_section_9_1(lines: [String], elements: [Element]) throws {
        #expect(try ExtensionHeader.parse(lines) == elements)
        #expect(try ExtensionHeader.parse([ExtensionHeader.value(elements)]) == elements)
    }

    @Test(arguments: [
        ";", ";a", "foo;", "foo; ;a", "foo; a=", "foo; a=,bar", "foo; a=;b", "foo; =b", "foo bar", "foo; a b",
        "foo; a=b c", "foo; a=\"b", "foo; a=\"b\\", "foo; a=\"b\\\"", "foo; a=\"\"", "foo; a=\"b c\"",
        "foo; a=\"b,c\"", "foo; a=\"\\\"\"", "foo; a=\"b\"c", "foo; a=b\"c\"", "foo; a=\"b\"\"c\"", "\"foo\"",
        "foo=bar", "foo/1", "fo\u{7F}o", "föö", "foo; a=ö", "foo, (", "foo; a==b", "foo\u{B}; a",
    ])
    func what_the_grammar_does_not_allow(line: String) {
        #expect(throws: ExtensionHeader.Malformed.self) { try ExtensionHeader.parse([line]) }
        #expect(throws: ExtensionHeader.Malformed.self) { try ExtensionHeader.parse(["good", line]) }
    }

    @Test func a_quoted_value_does_not_go_on_in_the_next_line() {
        #expect(throws: ExtensionHeader.Malformed.self) {
            try ExtensionHeader.parse(["foo; a=\"b", "c\""])
        }
    }
}
