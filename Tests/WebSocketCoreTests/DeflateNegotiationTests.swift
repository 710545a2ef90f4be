import Testing
import WebSocketCore

/// RFC 7692 §5, §7, §7.1, through the opening handshake of both roles.
@Suite struct DeflateNegotiationTests {
    typealias Options = PerMessageDeflate.Options

    static let bothBounded = Options(serverMaxWindowBits: 10, clientMaxWindowBits: 9)
    static let noTakeover = Options(serverNoContextTakeover: true, clientNoContextTakeover: true)

    /// The four parameters of an agreement, in the order of §7.1.
    struct Terms: Equatable, Sendable {
        var serverNoContextTakeover = false
        var clientNoContextTakeover = false
        var serverMaxWindowBits = 15
        var clientMaxWindowBits = 15
    }

    static func terms(_ agreement: PerMessageDeflate.Agreement) -> Terms {
        Terms(
            serverNoContextTakeover: agreement.serverNoContextTakeover,
            clientNoContextTakeover: agreement.clientNoContextTakeover,
            serverMaxWindowBits: agreement.serverMaxWindowBits,
            clientMaxWindowBits: agreement.clientMaxWindowBits)
    }

    // MARK: - The client

    @Test(arguments: [
        (Options(), "permessage-deflate; client_max_window_bits"),
        (
            noTakeover,
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits"
        ),
        (bothBounded, "permessage-deflate; server_max_window_bits=10; client_max_window_bits=9"),
    ])
    func what_a_client_offers(options: Options, header: String) throws {
        let request = String(decoding: try Self.client(options).requestBytes, as: UTF8.self)
        #expect(request.contains("\r\nSec-WebSocket-Extensions: \(header)\r\n"))
    }

    static let answers: [(Options, String, Terms?)] = [
        (Options(), "", nil),
        (Options(), "permessage-deflate", Terms()),
        (Options(), " permessage-deflate ; client_max_window_bits = 10", Terms(clientMaxWindowBits: 10)),
        (Options(), "permessage-deflate; client_max_window_bits=\"10\"", Terms(clientMaxWindowBits: 10)),
        (Options(), "permessage-deflate; client_max_window_bits=\"1\\0\"", Terms(clientMaxWindowBits: 10)),
        (Options(), "permessage-deflate; client_max_window_bits=8", Terms(clientMaxWindowBits: 8)),
        (Options(), "permessage-deflate; client_max_window_bits=15", Terms()),
        // Neither has to be asked for (§7.1.1.1, §7.1.2.1).
        (Options(), "permessage-deflate; server_max_window_bits=8", Terms(serverMaxWindowBits: 8)),
        (
            Options(), "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
            Terms(serverNoContextTakeover: true, clientNoContextTakeover: true)
        ),
        (bothBounded, "permessage-deflate; server_max_window_bits=10", Terms.bounded(10, 9)),
        (bothBounded, "permessage-deflate; server_max_window_bits=9", Terms.bounded(9, 9)),
        // What the client announced of itself is a promise (§7.1.2.2).
        (
            bothBounded, "permessage-deflate; client_max_window_bits=15; server_max_window_bits=10",
            Terms.bounded(10, 9)
        ),
        (
            bothBounded, "permessage-deflate; client_max_window_bits=8; server_max_window_bits=10",
            Terms.bounded(10, 8)
        ),
        (
            noTakeover, "permessage-deflate; server_no_context_takeover",
            Terms(serverNoContextTakeover: true, clientNoContextTakeover: true)
        ),
    ]

    @Test(arguments: answers)
    func what_an_answer_means_to_the_client(options: Options, answer: String, terms: Terms?) throws {
        let accepted = try Self.judge([answer], by: options).get()
        #expect(accepted.deflate.map(Self.terms) == terms)
        #expect(accepted.extensions.isEmpty)
    }

    static let wrongAnswers: [(Options, [String], String)] = [
        (
            Options(), ["permessage-deflate; client_max_window_bits"],
            "client_max_window_bits is without a value, not 8 to 15"
        ),
        (
            Options(), ["permessage-deflate; server_max_window_bits"],
            "server_max_window_bits is without a value, not 8 to 15"
        ),
        (
            Options(), ["permessage-deflate; server_max_window_bits=7"],
            "server_max_window_bits is 7, not 8 to 15"
        ),
        (
            Options(), ["permessage-deflate; client_max_window_bits=16"],
            "client_max_window_bits is 16, not 8 to 15"
        ),
        (
            Options(), ["permessage-deflate; client_max_window_bits=010"],
            "client_max_window_bits is 010, not 8 to 15"
        ),
        (
            Options(), ["permessage-deflate; client_max_window_bits=+9"],
            "client_max_window_bits is +9, not 8 to 15"
        ),
        (
            Options(), ["permessage-deflate; client_max_window_bits=a"],
            "client_max_window_bits is a, not 8 to 15"
        ),
        (
            Options(), ["permessage-deflate; server_no_context_takeover=1"],
            "server_no_context_takeover has a value"
        ),
        (
            Options(), ["permessage-deflate; client_no_context_takeover=\"true\""],
            "client_no_context_takeover has a value"
        ),
        (
            Options(),
            ["permessage-deflate; server_no_context_takeover; server_no_context_takeover"],
            "server_no_context_takeover stands there twice"
        ),
        (
            Options(), ["permessage-deflate; client_max_window_bits=9; client_max_window_bits=9"],
            "client_max_window_bits stands there twice"
        ),
        (Options(), ["permessage-deflate; foo"], "the parameter foo is unknown"),
        (
            Options(), ["permessage-deflate; Server_No_Context_Takeover"],
            "the parameter Server_No_Context_Takeover is unknown"
        ),
        (noTakeover, ["permessage-deflate"], "server_no_context_takeover was asked for and isn't answered"),
        (bothBounded, ["permessage-deflate"], "server_max_window_bits is to be at most 10"),
        (
            bothBounded, ["permessage-deflate; server_max_window_bits=11"],
            "server_max_window_bits is to be at most 10"
        ),
    ]

    @Test(arguments: wrongAnswers)
    func a_wrong_answer_fails_the_handshake(options: Options, answer: [String], reason: String) throws {
        let error = HandshakeError.extensionInvalid("\(reason): \(try ExtensionHeader.parse(answer)[0])")
        #expect(throws: error) { try Self.judge(answer, by: options).get() }
    }

    @Test(arguments: [
        ["permessage-deflate, permessage-deflate"],
        ["permessage-deflate", "permessage-deflate; client_max_window_bits=9"],
    ])
    func two_acceptances_fail_the_handshake(answer: [String]) {
        #expect(throws: HandshakeError.extensionInvalid("permessage-deflate stands there twice")) {
            try Self.judge(answer, by: Options()).get()
        }
    }

    @Test func a_malformed_answer_fails_the_handshake() {
        let error = HandshakeError.extensionInvalid(
            "a quoted value without an end: permessage-deflate; client_max_window_bits=\"10")
        #expect(throws: error) {
            try Self.judge(["permessage-deflate; client_max_window_bits=\"10"], by: Options()).get()
        }
        #expect(throws: HandshakeError.extensionInvalid("an extension's name is missing: ;")) {
            try Self.judge([";"], by: nil).get()
        }
    }

    @Test func row_34_an_answer_to_no_offer_fails_the_handshake() {
        #expect(throws: HandshakeError.extensionUnrequested("permessage-deflate")) {
            try Self.judge(["permessage-deflate"], by: nil).get()
        }
        #expect(throws: HandshakeError.extensionUnrequested("x-webkit-deflate-frame")) {
            try Self.judge(["x-webkit-deflate-frame"], by: Options()).get()
        }
    }

    @Test func row_34_the_offer_cannot_be_put_in_by_hand() {
        for element in [
            ExtensionHeader.Element("permessage-deflate"), .init("a b"), .init("a", [.init("b", "")]),
        ] {
            #expect(throws: HandshakeError.invalidRequest("extensions")) {
                try OpeningHandshake.Client(
                    host: "h", path: "/", key: ClientHandshakeTests.key, extensions: [element])
            }
        }
    }

    // MARK: - The server

    static let offers: [(Options, [String], String?, Terms?)] = [
        (Options(), ["permessage-deflate"], "permessage-deflate", Terms()),
        (Options(), ["permessage-deflate; client_max_window_bits"], "permessage-deflate", Terms()),
        (Options(), ["permessage-deflate; client_max_window_bits=15"], "permessage-deflate", Terms()),
        (
            Options(), ["permessage-deflate; client_max_window_bits=10"],
            "permessage-deflate; client_max_window_bits=10", Terms(clientMaxWindowBits: 10)
        ),
        (
            Options(), ["permessage-deflate; server_max_window_bits=\"8\""],
            "permessage-deflate; server_max_window_bits=8", Terms(serverMaxWindowBits: 8)
        ),
        // A value that asks for nothing is answered all the same (§7.1.2.1).
        (
            Options(), ["permessage-deflate; server_max_window_bits=15"],
            "permessage-deflate; server_max_window_bits=15", Terms()
        ),
        (
            Options(), ["permessage-deflate; client_no_context_takeover; server_no_context_takeover"],
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
            Terms(serverNoContextTakeover: true, clientNoContextTakeover: true)
        ),
        (
            noTakeover, ["permessage-deflate"],
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
            Terms(serverNoContextTakeover: true, clientNoContextTakeover: true)
        ),
        (
            bothBounded, ["permessage-deflate; client_max_window_bits"],
            "permessage-deflate; server_max_window_bits=10; client_max_window_bits=9", Terms.bounded(10, 9)
        ),
        (
            bothBounded, ["permessage-deflate; client_max_window_bits=8; server_max_window_bits=9"],
            "permessage-deflate; server_max_window_bits=9; client_max_window_bits=8", Terms.bounded(9, 8)
        ),
        (
            bothBounded, ["permessage-deflate; client_max_window_bits=12; server_max_window_bits=12"],
            "permessage-deflate; server_max_window_bits=10; client_max_window_bits=9", Terms.bounded(10, 9)
        ),
        // This client can't be limited to 9, so its second offer is taken.
        (
            bothBounded,
            ["permessage-deflate; server_max_window_bits=9, permessage-deflate; client_max_window_bits"],
            "permessage-deflate; server_max_window_bits=10; client_max_window_bits=9", Terms.bounded(10, 9)
        ),
        (bothBounded, ["permessage-deflate"], nil, nil),
        // Each of these is declined (§7), and the next one taken.
        (Options(), ["permessage-deflate; foo, permessage-deflate"], "permessage-deflate", Terms()),
        (
            Options(),
            [
                "permessage-bzip2; a=\"9\"", "permessage-deflate; server_max_window_bits",
                "permessage-deflate; server_max_window_bits=7",
                "permessage-deflate; server_max_window_bits=16",
                "permessage-deflate; server_max_window_bits=08",
                "permessage-deflate; client_max_window_bits=08",
                "permessage-deflate; client_max_window_bits=99999999999999999999",
                "permessage-deflate; server_no_context_takeover=true",
                "permessage-deflate; client_no_context_takeover=1",
                "permessage-deflate; client_max_window_bits; client_max_window_bits=10",
                "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
                "permessage-deflate; server_max_window_bits=11",
            ],
            "permessage-deflate; server_max_window_bits=11", Terms(serverMaxWindowBits: 11)
        ),
        (Options(), ["permessage-deflate; foo"], nil, nil),
        (Options(), ["x-webkit-deflate-frame"], nil, nil),
        (Options(), [], nil, nil),
    ]

    @Test(arguments: offers)
    func what_a_server_agrees_to(options: Options, offers: [String], answer: String?, terms: Terms?) throws {
        let request = try Self.request(offering: offers)
        let agreement = request.deflateAgreement(options)
        #expect(agreement.map(Self.terms) == terms)
        #expect(agreement?.answer.description == answer)
        let response = String(
            decoding: try request.accept(subprotocol: "mqtt", deflate: agreement), as: UTF8.self)
        #expect(response.contains("Sec-WebSocket-Extensions") == (answer != nil))
        if let answer { #expect(response.contains("\r\nSec-WebSocket-Extensions: \(answer)\r\n")) }
    }

    @Test func a_malformed_offer_fails_the_handshake() {
        let error = HandshakeError.extensionInvalid("no comma between two extensions: permessage deflate")
        #expect(throws: error) { try Self.request(offering: ["permessage deflate"]) }
        #expect(
            String(decoding: OpeningHandshake.Server.reject(error), as: UTF8.self)
                .hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
    }

    // MARK: - Both

    @Test func whatever_both_sides_want_they_agree_on_the_same_or_on_nothing() throws {
        var agreements = 0
        let all = [8, 9, 12, 15].flatMap { serverBits in
            [8, 10, 15].flatMap { clientBits in
                [(false, false), (true, false), (false, true), (true, true)].map {
                    Options(
                        serverNoContextTakeover: $0.0, clientNoContextTakeover: $0.1,
                        serverMaxWindowBits: serverBits, clientMaxWindowBits: clientBits)
                }
            }
        }
        for clientOptions in all {
            let client = try Self.client(clientOptions)
            let request = try #require(try ServerHandshakeTests.receive([client.requestBytes]).0)
            for serverOptions in all {
                let ours = request.deflateAgreement(serverOptions)
                let response = try request.accept(subprotocol: "mqtt", deflate: ours)
                let accepted = try #require(try ClientHandshakeTests.judge([response], by: client).0?.get())
                #expect(accepted.deflate.map(Self.terms) == ours.map(Self.terms))
                if let ours {
                    agreements += 1
                    for options in [clientOptions, serverOptions] {
                        #expect(ours.serverMaxWindowBits <= options.serverMaxWindowBits)
                        #expect(ours.clientMaxWindowBits <= options.clientMaxWindowBits)
                        #expect(ours.serverNoContextTakeover || !options.serverNoContextTakeover)
                        #expect(ours.clientNoContextTakeover || !options.clientNoContextTakeover)
                    }
                }
            }
        }
        #expect(agreements == all.count * all.count, "each of our clients lets itself be limited")
    }

    private static func client(_ options: Options?) throws -> OpeningHandshake.Client {
        try OpeningHandshake.Client(
            host: "h", path: "/mqtt", key: ClientHandshakeTests.key, subprotocols: ["mqtt"], deflate: options)
    }

    private static func judge(
        _ answer: [String], by options: Options?
    ) throws -> Result<OpeningHandshake.Client.Accepted, HandshakeError> {
        let lines = answer.map { "Sec-WebSocket-Extensions: \($0)\r\n" }.joined()
        let response = ClientHandshakeTests.good.replacing(
            "Upgrade: websocket", with: lines + "Upgrade: websocket")
        return try #require(ClientHandshakeTests.verdict(response, by: try client(options)))
    }

    private static func request(offering offers: [String]) throws -> OpeningHandshake.ServerRequest {
        let lines = offers.map { "Sec-WebSocket-Extensions: \($0)\r\n" }.joined()
        let request = ServerHandshakeTests.good.replacing(
            "Upgrade: websocket", with: lines + "Upgrade: websocket")
        return try #require(try ServerHandshakeTests.receive([Array(request.utf8)]).0)
    }
}

extension DeflateNegotiationTests.Terms {
    static func bounded(_ server: Int, _ client: Int) -> Self {
        Self(serverMaxWindowBits: server, clientMaxWindowBits: client)
    }
}
