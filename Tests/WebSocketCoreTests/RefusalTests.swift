import Testing
import WebSocketCore

/// What a server says instead of 101.
@Suite struct RefusalTests {
    /// The refusal that is reported once these pieces have come; nil while its body is waited for.
    static func reported(_ pieces: [[UInt8]]) throws -> HandshakeError.Refusal? {
        guard
            case .failure(.notSwitchingProtocols(let refusal)) = ClientHandshakeTests.judge(
                pieces, by: try ClientHandshakeTests.client()
            ).0
        else { return nil }
        return refusal
    }

    static func reported(_ text: String) throws -> HandshakeError.Refusal? {
        try reported([Array(text.utf8)])
    }

    /// What is known although more may come.
    static func known(_ text: String) throws -> HandshakeError.Refusal? {
        var client = try ClientHandshakeTests.client()
        try Array(text.utf8).withUnsafeBytes { buffer in
            var input = buffer
            let accepted = try client.receive(&input)
            #expect(accepted == nil)
            #expect(input.isEmpty)
        }
        return client.refusal
    }

    @Test func row_43_each_header_that_matters_is_kept() throws {
        var expected = HandshakeError.Refusal(status: 426, reason: "Upgrade Required")
        expected.location = "https://other.example/mqtt"
        expected.wwwAuthenticate = ["Basic realm=\"x\"", "Bearer"]
        expected.proxyAuthenticate = ["Negotiate"]
        expected.retryAfter = "120"
        expected.server = "nginx"
        expected.upgrade = "websocket"
        expected.webSocketVersion = "13, 8"
        expected.contentType = "text/plain"
        expected.bodyExcerpt = "no"
        #expect(
            try Self.reported(
                """
                HTTP/1.1 426 Upgrade Required\r
                location: https://other.example/mqtt\r
                WWW-Authenticate: Basic realm="x"\r
                www-authenticate: Bearer\r
                Proxy-Authenticate: Negotiate\r
                Retry-After: 120\r
                Server: nginx\r
                Upgrade: websocket\r
                Sec-WebSocket-Version: 13, 8\r
                Content-Type: text/plain\r
                Content-Length: 2\r
                \r
                no
                """) == expected)
    }

    @Test(arguments: [200, 204, 301, 302, 304, 400, 401, 403, 404, 407, 426, 429, 500, 502, 503, 511])
    func every_final_status_refuses(status: Int) throws {
        let refusal = try Self.reported("HTTP/1.1 \(status) Some Reason\r\nContent-Length: 0\r\n\r\n")
        #expect(refusal == HandshakeError.Refusal(status: status, reason: "Some Reason"))
        #expect(
            try Self.reported("HTTP/1.0 \(status)\r\nContent-Length: 0\r\n\r\n")
                == HandshakeError.Refusal(status: status, reason: ""))
    }

    @Test(arguments: [
        "Content-Length: 9\r\n\r\nhere I am", "Content-Length: 9, 9\r\n\r\nhere I am and more",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nhere\r\n5;x=\"y\"\r\n I am\r\n0\r\nTrailer: x\r\n\r\n",
        "Transfer-Encoding: Chunked\r\nContent-Length: 2\r\n\r\n0005\nhere \n4\nI am\n0\n\n",
    ])
    func the_body_is_awaited_to_its_end(fieldsAndBody: String) throws {
        let text = "HTTP/1.1 403 Forbidden\r\n" + fieldsAndBody
        for pieces in everySplit(Array(text.utf8)) {
            #expect(try Self.reported(pieces)?.bodyExcerpt == "here I am")
        }
    }

    @Test(arguments: [
        "\r\nhere I am", "Content-Length: 10\r\n\r\nhere I am", "Content-Length: x\r\n\r\nhere I am",
        "Content-Length: 3\r\nContent-Length: 4\r\n\r\nhere I am",
        "Transfer-Encoding: chunked\r\n\r\n9\r\nhere I am",
        "Transfer-Encoding: chunked\r\n\r\n9\r\nhere I am\r\n",
    ])
    func without_its_end_what_has_come_is_known(fieldsAndBody: String) throws {
        let refusal = try Self.known("HTTP/1.1 403 Forbidden\r\n" + fieldsAndBody)
        #expect(refusal?.status == 403)
        #expect(refusal?.bodyExcerpt == "here I am")
    }

    @Test(arguments: [
        "zz\r\nhere", "\r\nhere", "-1\r\nhere", "FFFFFFFFFFFFFFFFFFFF\r\nhere", " 4\r\nhere",
    ])
    func what_is_no_chunked_coding_ends_the_wait(body: String) throws {
        let refusal = try Self.reported("HTTP/1.1 502 X\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        #expect(refusal?.bodyExcerpt == "")
    }

    @Test func an_endless_body_is_read_for_4096_bytes() throws {
        let head = "HTTP/1.1 200 OK\r\n\r\n"
        #expect(try Self.known(head + String(repeating: "e", count: 4095)) != nil)
        let excerpt = try Self.reported(head + String(repeating: "e", count: 4096))?.bodyExcerpt
        #expect(excerpt == String(repeating: "e", count: 300))
    }

    /// Whoever is sent elsewhere needs no reason.
    @Test func a_redirect_is_reported_without_its_body() throws {
        let refusal = try Self.reported("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 99\r\n\r\n")
        #expect(refusal?.location == "/x")
    }

    @Test(arguments: [
        ("Content-Encoding: gzip", "gzip"), ("content-encoding: BR", "BR"),
        ("Transfer-Encoding: gzip, chunked", "gzip"),
    ])
    func a_compressed_body_is_named_and_not_shown(field: String, coding: String) throws {
        let refusal = try Self.reported("HTTP/1.1 503 X\r\n\(field)\r\n\r\n\u{1f}\u{8b}\u{8}\u{0}")
        #expect(refusal?.bodyCoding == coding)
        #expect(refusal?.bodyExcerpt == "")
        let plain = try Self.known("HTTP/1.1 503 X\r\nContent-Encoding: identity\r\n\r\nplain")
        #expect(plain?.bodyExcerpt == "plain")
    }

    @Test func a_page_is_shown_without_its_markup() throws {
        let page = """
            <!DOCTYPE html>
            <!-- a > b --><html><head><TITLE>Access\tdenied</TITLE>
            <style>p { color: red }</style><SCRIPT src="x">if (a < b) alert("</p>")</SCRIPT></head>
            <body><p class="x">Category:<br/>chat &amp; 1 < 2 <3 </p></body></html>
            """
        for type in ["Content-Type: Text/HTML; charset=utf-8\r\n", ""] {
            let refusal = try Self.known("HTTP/1.1 403 X\r\n\(type)\r\n\(page)")
            #expect(refusal?.bodyExcerpt == "Access denied Category: chat &amp; 1 < 2 <3")
        }
        let text = try Self.known("HTTP/1.1 403 X\r\nContent-Type: application/json\r\n\r\n\(page)")
        #expect(text?.bodyExcerpt.hasPrefix("<!DOCTYPE html> <!--") == true)
    }

    @Test(arguments: [
        "<", "a <", "<p", "a <!-- b", "<script> a", "<style", "<script></script", "a<p title='",
    ])
    func a_page_that_is_cut_shows_what_came_before(page: String) throws {
        let known = try Self.known("HTTP/1.1 403 X\r\nContent-Type: text/html\r\n\r\n\(page)")
        #expect(known?.bodyExcerpt == (page.hasPrefix("a") ? "a" : ""))
    }

    @Test func what_is_not_UTF_8_is_replaced() throws {
        let head = Array("HTTP/1.1 403 X\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\n".utf8)
        let refusal = try Self.reported([head + [0x67, 0x65, 0xE4, 0x6E, 0x0A, 0x07, 0x21]])
        #expect(refusal?.bodyExcerpt == "ge\u{FFFD}n !")
    }

    @Test func the_excerpt_is_cut_between_characters() throws {
        let body = String(repeating: "€", count: 101)
        let excerpt = try Self.reported("HTTP/1.1 403 X\r\nContent-Length: 303\r\n\r\n\(body)")?.bodyExcerpt
        #expect(excerpt == String(repeating: "€", count: 100))
    }
}
