import Glibc
import Testing
import WebSocketCore

/// RFC 9112 §2–§5.
@Suite struct HTTPHeadTests {
    static func parse(
        _ text: String, _ kind: HTTPHeadParser.Kind = .response,
        limit: Int = OpeningHandshake.defaultHeadLimit
    ) throws -> HTTPHead? {
        var parser = HTTPHeadParser(kind, limit: limit)
        return try Array(text.utf8).withUnsafeBytes { buffer in
            var input = buffer
            return try parser.receive(&input)
        }
    }

    @Test func status_lines() throws {
        for (line, version, status, reason) in [
            (
                "HTTP/1.1 407 Proxy Authentication Required", HTTPHead.Version.http11, 407,
                "Proxy Authentication Required"
            ),
            ("HTTP/1.0 200 Connection established", .http10, 200, "Connection established"),
            ("HTTP/1.1 200 ", .http11, 200, ""),
            ("HTTP/1.1 200", .http11, 200, ""),
        ] {
            let head = try #require(try Self.parse(line + "\r\n\r\n"))
            #expect(head.startLine == .status(version, status, reason: reason))
        }
    }

    @Test(arguments: [
        "HTTP/1.1\r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n", "HTTP/1.1 099 x\r\n\r\n",
        "HTTP/1.x 200 x\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 200 OK\r\n: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : x\r\n\r\n", "HTTP/1.1 200 OK\r\n A: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: x\ry\r\n\r\n", "HTTP/1.1 200 OK\r\nA: x\u{0}y\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\r\n\r\n",
    ])
    func malformed_heads(text: String) {
        let error = #expect(throws: HTTPHeadError.self) { try Self.parse(text) }
        guard case .malformed? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func fields_by_name_in_any_case_and_in_order() throws {
        let head = try #require(
            try Self.parse("HTTP/1.1 200 OK\r\nVia: a\r\nX:\r\nVIA:b \t\r\nvia: \t c d\r\n\r\n"))
        #expect(head.values("Via") == ["a", "b", "c d"])
        #expect(head.value("via") == "a, b, c d")
        #expect(head.value("x") == "")
        #expect(head.value("y") == nil)
    }

    @Test func lists_over_several_lines_with_quoted_commas() throws {
        let head = try #require(
            try Self.parse("HTTP/1.1 200 OK\r\nL: a, ,b;q=\"x,\\\",y\" ,\r\nl: c\r\nL: ,\r\n\r\n"))
        #expect(head.list("L") == ["a", "b;q=\"x,\\\",y\"", "c"])
        #expect(head.list("M").isEmpty)
    }

    @Test func folded_lines_are_joined_by_a_space() throws {
        let head = try #require(try Self.parse("HTTP/1.1 200 OK\r\nA: x\r\n  y\r\n\tz\r\nB:\r\n 1\r\n\r\n"))
        #expect(head.value("A") == "x y z")
        #expect(head.value("B") == "1")
        #expect(try Self.parse("HTTP/1.1 200 OK\r\nA: x\r\n \r\n y\r\nB: 1\r\n\r\n")?.value("A") == "x y")
    }

    /// Joined one by one, so many folds would cost four times as much as the lines.
    @Test func folds_cost_no_more_than_as_many_lines() throws {
        func processorTime(of line: String) throws -> UInt64 {
            let text = "HTTP/1.1 200 OK\r\nA: b\r\n" + String(repeating: line, count: 80_000) + "\r\n"
            let start = Self.threadNanoseconds()
            #expect(try Self.parse(text, limit: 1 << 20) != nil)
            return Self.threadNanoseconds() - start
        }
        let folds = try processorTime(of: " x\n")
        let lines = try processorTime(of: "a:\n")
        #expect(folds < 3 * lines)
    }

    private static func threadNanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    @Test func a_bare_line_feed_ends_a_line() throws {
        let head = try #require(try Self.parse("HTTP/1.1 200 OK\nA: x\n\n"))
        #expect(head.value("A") == "x")
        #expect(try Self.parse("HTTP/1.1 200 OK\r\nA: x\r\n") == nil)
    }

    @Test func request_lines() throws {
        let head = try #require(try Self.parse("CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", .request))
        #expect(head.startLine == .request(.http11, method: "CONNECT", target: "h:443"))
        for line in ["GET /", "GET / x HTTP/1.1", "G@T / HTTP/1.1", "GET / HTTP/1.1 ", "GET / HTTP/3"] {
            #expect(throws: HTTPHeadError.self) { try Self.parse(line + "\r\n\r\n", .request) }
        }
    }
}
