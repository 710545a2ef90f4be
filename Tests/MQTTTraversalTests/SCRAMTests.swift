import MQTTTransport
import MQTTTraversal
import Testing

/// SCRAM-SHA-256 (RFC 5802, RFC 7677), the client's side.
@Suite struct SCRAMTests {
    private static let nonce = "rOprNGfwEbeRWgbNEkqO"
    private static let serverFirst =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"

    private func exchange(
        _ userName: String = "user", _ password: String = "pencil",
        iterations: ClosedRange<Int> = 4096...10_000
    ) throws -> any AuthenticationExchange {
        try SCRAM(userName: userName, password: password, iterations: iterations) { Self.nonce }.begin()
    }

    private func words(_ body: () async throws -> Void) async -> String {
        do {
            try await body()
            return "nothing"
        } catch {
            return "\(error)"
        }
    }

    @Test func `the example of RFC 7677, section 3, byte for byte`() async throws {
        var exchange = try exchange()
        #expect(try await exchange.start() == Array("n,,n=user,r=rOprNGfwEbeRWgbNEkqO".utf8))
        #expect(
            try await exchange.respond(to: Array(Self.serverFirst.utf8))
                == Array(
                    ("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
                        + "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").utf8))
        try await exchange.finish(with: Array("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".utf8))
    }

    @Test(
        arguments: [
            ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", "can't be read"),
            ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95GA=", "signature is wrong"),
            ("v=6rri", "signature is wrong"), ("e=invalid-proof", "says invalid-proof"),
            ("", "can't be read"),
            (nil, "without proving"),
        ] as [(String?, String)])
    func `a server that can't prove the password is refused`(final: String?, reason: String) async throws {
        var exchange = try exchange()
        _ = try await exchange.start()
        _ = try await exchange.respond(to: Array(Self.serverFirst.utf8))
        #expect(
            await words { try await exchange.finish(with: final.map { Array($0.utf8) }) }.contains(reason))
    }

    @Test(arguments: [
        ("r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        ("r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095", "4095 iterations"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=10001", "10001 iterations"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1", "can't be read"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999999999999999", "can't be read"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096", "can't be read"),
        ("r=rOprNGfwEbeRWgbNEkqOx,s=W22,i=4096", "can't be read"),
        ("m=x,r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "can't be read"),
        ("s=W22ZaJ0SNY7soEsUEjb6gQ==,r=rOprNGfwEbeRWgbNEkqOx,i=4096", "can't be read"), ("", "can't be read"),
    ])
    func `a challenge that breaks the rules is refused`(challenge: String, reason: String) async throws {
        var exchange = try exchange()
        _ = try await exchange.start()
        #expect(await words { _ = try await exchange.respond(to: Array(challenge.utf8)) }.contains(reason))
    }

    @Test func `steps out of turn are refused`() async throws {
        var early = try exchange()
        _ = try await early.start()
        #expect(await words { try await early.finish(with: nil) }.contains("without proving"))
        var twice = try exchange()
        _ = try await twice.start()
        _ = try await twice.respond(to: Array(Self.serverFirst.utf8))
        let reason = await words { _ = try await twice.respond(to: Array(Self.serverFirst.utf8)) }
        #expect(reason.contains("doesn't belong"))
    }

    @Test func `commas and equals signs of a user name are escaped`() async throws {  // RFC 5802, section 5.1
        var exchange = try exchange("a=b,c=2C")
        let first = try #require(try await exchange.start())
        #expect(String(decoding: first, as: UTF8.self) == "n,,n=a=3Db=2Cc=3D2C,r=\(Self.nonce)")
        #expect(SCRAMMessage.ClientFirst(first)?.userName == "a=b,c=2C")
        #expect(SCRAMMessage.ClientFirst(Array("n,,n=a=3d,r=x".utf8)) == nil)
    }

    @Test func `each exchange has a nonce of its own`() async throws {
        let handler = try SCRAM(userName: "u", password: "p")
        var one = handler.begin()
        var other = handler.begin()
        let (first, second) = (try await one.start(), try await other.start())
        #expect(first != second)
        #expect(first?.count == "n,,n=u,r=".utf8.count + 32)
    }

    @Test(arguments: ["a b~", "pässwörd", "Ångström", "łódź", "İzmir"])
    func `characters that SASLprep leaves alone are taken`(text: String) throws {  // RFC 4013
        _ = try SCRAM(userName: text, password: text)
    }

    @Test(
        arguments: [
            "", "a\u{0}", "tab\t", "\u{7F}", "\u{AD}x", "\u{A0}", "u\u{308}", "ſ", "ﬁ", "пароль", "密碼",
            "\u{E000}",
            "\u{200B}", "😀",
        ])
    func `characters that SASLprep maps or forbids are refused in words`(text: String) throws {
        for (name, password) in [(text, "p"), ("u", text)] {
            let error = #expect(throws: MQTTError.self) { try SCRAM(userName: name, password: password) }
            #expect(error?.code == .clientInvalidArgument)
            #expect(error?.description.contains(name == text ? "user name" : "password") == true)
        }
    }

    @Test func `bounds that protect nothing are refused`() {
        let error = #expect(throws: MQTTError.self) {
            try SCRAM(userName: "u", password: "p", iterations: 1...4096)
        }
        #expect(error?.code == .clientInvalidArgument)
    }

    @Test func `the password shows nowhere`() throws {
        let handler = try SCRAM(userName: "user", password: "pencil")
        var dumped = ""
        dump(handler, to: &dumped)
        for text in [dumped, "\(handler)", String(reflecting: handler)] { #expect(!text.contains("pencil")) }
    }
}
