import MQTTConformance
import MQTTCore
import Testing

/// What CONNECT looks like on the wire, read by hand: encoder and decoder can't share a mistake.
@Suite("Rules of CONNECT")
struct ConnectRules {
    @Test(
        .mqtt311("3.1.2-1", "3.1.2-2", "3.1.2-3"), .mqtt5("3.1.2-1", "3.1.2-2", "3.1.2-3"),
        arguments: ProtocolVersion.allCases)
    func name_version_and_the_reserved_flag(version: ProtocolVersion) throws {
        for connect in Self.variants(version) {
            let read = try ConnectFields(connect)
            #expect(read.name == Array("MQTT".utf8))
            #expect(read.level == (version == .v5 ? 5 : 4))
            #expect(read.flags & 0b0000_0001 == 0)
            #expect((read.flags & 0b0000_0010 != 0) == connect.cleanStart)
        }
    }

    @Test(
        .mqtt311("3.1.2-9", "3.1.2-14"), .mqtt5("3.1.2-9", "3.1.2-12"),
        arguments: ProtocolVersion.allCases, QoS.allCases)
    func a_will_has_its_flag_its_qos_its_topic_and_its_payload(version: ProtocolVersion, qos: QoS) throws {
        for retain in [false, true] {
            let will = Will(topicName: "w", payload: [], qos: qos, retain: retain)
            let read = try ConnectFields(Connect(version: version, clientIdentifier: "c", will: will))
            #expect(read.flags & 0b0000_0100 != 0)
            #expect((read.flags >> 3) & 0b11 == qos.rawValue && qos.rawValue < 3)
            #expect((read.flags & 0b0010_0000 != 0) == retain)
            #expect(read.payload == [Array("c".utf8), Array("w".utf8), []])
            #expect(read.willProperties == (version == .v5 ? [] : nil))
        }
    }

    @Test(
        .mqtt311("3.1.2-11", "3.1.2-13", "3.1.2-15"), .mqtt5("3.1.2-11", "3.1.2-13"),
        arguments: ProtocolVersion.allCases)
    func without_a_will_its_bits_are_zero_and_its_fields_absent(version: ProtocolVersion) throws {
        for connect in Self.variants(version) where connect.will == nil {
            let read = try ConnectFields(connect)
            #expect(read.flags & 0b0011_1100 == 0)
            let others = [connect.userName != nil, connect.password != nil].filter { $0 }.count
            #expect(read.payload.count == 1 + others && read.willProperties == nil)
        }
    }

    @Test(
        .mqtt311("3.1.2-18", "3.1.2-19", "3.1.2-20", "3.1.2-21"),
        .mqtt5("3.1.2-16", "3.1.2-17", "3.1.2-18", "3.1.2-19"),
        arguments: ProtocolVersion.allCases)
    func user_name_and_password_are_there_exactly_when_their_flags_are(version: ProtocolVersion) throws {
        for connect in Self.variants(version) {
            let read = try ConnectFields(connect)
            #expect((read.flags & 0b1000_0000 != 0) == (connect.userName != nil))
            #expect((read.flags & 0b0100_0000 != 0) == (connect.password != nil))
            let expected = [connect.userName.map { Array($0.utf8) }, connect.password].compactMap { $0 }
            #expect(Array(read.payload.suffix(expected.count)) == expected)
            #expect(read.payload.count == (connect.will == nil ? 1 : 3) + expected.count)
        }
    }

    @Test(.mqtt311("3.1.2-22"))
    func a_password_alone_is_for_5_0_only() throws {
        var connect = Connect(version: .v3_1_1, clientIdentifier: "c", password: [1])
        #expect(throws: EncodeError.passwordWithoutUserName) { try ConnectFields(connect) }
        connect.version = .v5
        #expect(try ConnectFields(connect).payload == [Array("c".utf8), [1]])
    }

    @Test(
        .mqtt311("3.1.3-1", "3.1.3-3"), .mqtt5("3.1.3-1", "3.1.3-3"),
        arguments: ProtocolVersion.allCases)
    func the_payload_has_one_order(version: ProtocolVersion) throws {
        let properties = version == .v5 ? Properties([.willDelayInterval(1)]) : Properties()
        let connect = Connect(
            version: version, clientIdentifier: "1",
            will: Will(topicName: "3", payload: wire("'4'"), properties: properties), userName: "5",
            password: wire("'6'"))
        let read = try ConnectFields(connect)
        #expect(read.payload == ["1", "3", "4", "5", "6"].map { Array($0.utf8) })
        #expect(read.willProperties == (version == .v5 ? wire("18 00000001") : nil))
        let bare = try ConnectFields(Connect(version: version, clientIdentifier: ""))
        #expect(bare.payload == [[]])
    }

    @Test(
        .mqtt311("1.5.3-2", "1.5.3-3", "3.1.3-4", "3.1.3-10", "3.1.3-11"),
        .mqtt5("1.5.4-2", "1.5.4-3", "3.1.3-4", "3.1.3-11", "3.1.3-12"),
        arguments: ProtocolVersion.allCases)
    func its_strings_are_utf8_just_as_given(version: ProtocolVersion) throws {
        let text = "\u{FEFF}ä/\u{10FFFF}"
        let bytes = wire("EFBBBF C3A4 2F F48FBFBF")
        let connect = Connect(
            version: version, clientIdentifier: text, will: Will(topicName: text, payload: []),
            userName: text)
        #expect(try ConnectFields(connect).payload == [bytes, bytes, [], bytes])
        for change: (inout Connect) -> Void in [
            { $0.clientIdentifier = "\0" }, { $0.will?.topicName = "\0" }, { $0.userName = "\0" },
        ] {
            var broken = connect
            change(&broken)
            #expect(throws: EncodeError.nullCharacter) { try ConnectFields(broken) }
        }
    }

    @Test(.mqtt311("3.1.3-7"))
    func an_empty_client_identifier_asks_for_a_clean_session() throws {
        let connect = Connect(version: .v3_1_1, clientIdentifier: "", cleanStart: false)
        #expect(throws: EncodeError.clientIdentifierMissing) { try ConnectFields(connect) }
        #expect(try ConnectFields(Connect(clientIdentifier: "", cleanStart: false)).payload == [[]])
        var harness = SessionHarness(
            SessionConfiguration(version: .v3_1_1, clientIdentifier: "", cleanStart: false))
        harness.open()
        let output = harness.take()
        #expect(output.bytes.isEmpty)
        #expect(output.actions == [.close(.notEncodable(.clientIdentifierMissing))])
    }

    /// All combinations of what CONNECT may carry.
    private static func variants(_ version: ProtocolVersion) -> [Connect] {
        var variants: [Connect] = []
        for will in [nil, Will(topicName: "w", payload: [7], qos: .exactlyOnce, retain: true)] {
            for userName in [nil, "", "user"] {
                for password in [nil, [], [1, 2]] as [[UInt8]?] where userName != nil || version == .v5 {
                    for cleanStart in [false, true] {
                        variants.append(
                            Connect(
                                version: version, clientIdentifier: "c", cleanStart: cleanStart, will: will,
                                userName: userName, password: password))
                    }
                }
            }
        }
        return variants
    }
}

/// CONNECT taken apart (section 3.1).
private struct ConnectFields {
    private(set) var name: [UInt8] = []
    private(set) var level: UInt8 = 0
    private(set) var flags: UInt8 = 0
    /// Of the payload, all but the Will Properties.
    private(set) var payload: [[UInt8]] = []
    private(set) var willProperties: [UInt8]?
    private var rest: ArraySlice<UInt8> = []

    init(_ connect: Connect) throws {
        var bytes: [UInt8] = []
        try ControlPacket.connect(connect).encode(for: connect.version, into: &bytes)
        try #require(bytes.count < 130 && bytes[0] == 0x10 && Int(bytes[1]) == bytes.count - 2)
        rest = bytes[2...]
        name = try take(2)
        level = try take(byteCount: 1)[0]
        flags = try take(byteCount: 1)[0]
        _ = try take(byteCount: 2)
        if level == 5 { _ = try take(1) }
        payload.append(try take(2))
        if flags & 0b0000_0100 != 0, level == 5 { willProperties = try take(1) }
        while !rest.isEmpty { payload.append(try take(2)) }
    }

    /// A field behind its length, which takes `lengthBytes` bytes.
    private mutating func take(_ lengthBytes: Int) throws -> [UInt8] {
        let length = try take(byteCount: lengthBytes).reduce(0) { $0 << 8 | Int($1) }
        return try take(byteCount: length)
    }

    private mutating func take(byteCount: Int) throws -> [UInt8] {
        try #require(rest.count >= byteCount)
        defer { rest = rest.dropFirst(byteCount) }
        return Array(rest.prefix(byteCount))
    }
}
