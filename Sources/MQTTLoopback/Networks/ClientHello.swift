/// What can be read on the way of the first message of TLS (RFC 8446, section 4.1.2).
struct ClientHello: Sendable, Hashable {
    /// In lower case.
    var serverName: String?
    var applicationProtocols: [String] = []

    enum Reading: Sendable, Hashable {
        case needsMore
        /// Something else than TLS, or TLS that breaks its rules.
        case other
        case hello(ClientHello)
    }

    /// - Parameter bytes: of the connection, from its first on.
    static func read(_ bytes: [UInt8]) -> Reading {
        // The message may be spread over several records of the type handshake (section 5.1).
        var message: [UInt8] = []
        var rest = bytes[...]
        while true {
            guard let type = rest.first else { return .needsMore }
            guard type == 22 else { return .other }
            guard rest.count >= 5 else { return .needsMore }
            let start = rest.startIndex
            let length = Int(rest[start + 3]) << 8 | Int(rest[start + 4])
            guard length > 0, length <= 16384 else { return .other }
            message += rest.dropFirst(5).prefix(length)
            if message.count >= 4 {
                guard message[0] == 1 else { return .other }
                let size = Int(message[1]) << 16 | Int(message[2]) << 8 | Int(message[3])
                if message.count >= size + 4 {
                    return ClientHello(message[4..<(size + 4)]).map { .hello($0) } ?? .other
                }
            }
            guard rest.count >= 5 + length else { return .needsMore }
            rest = rest.dropFirst(5 + length)
        }
    }

    private init?(_ body: ArraySlice<UInt8>) {
        var reader = Reader(rest: body)
        // legacy_version and random.
        guard reader.skip(34), reader.vector(1) != nil, reader.vector(2) != nil, reader.vector(1) != nil
        else {
            return nil
        }
        guard !reader.rest.isEmpty else { return }
        guard let extensions = reader.vector(2) else { return nil }
        var list = Reader(rest: extensions)
        while !list.rest.isEmpty {
            guard let type = list.integer(2), let data = list.vector(2) else { return nil }
            switch type {
            case 0: serverName = Self.serverName(data)
            case 16: applicationProtocols = Self.protocols(data)
            default: break
            }
        }
    }

    private static func serverName(_ data: ArraySlice<UInt8>) -> String? {
        var reader = Reader(rest: data)
        guard let names = reader.vector(2) else { return nil }
        var list = Reader(rest: names)
        while let type = list.integer(1), let name = list.vector(2) {
            if type == 0 { return String(decoding: name, as: UTF8.self).lowercased() }
        }
        return nil
    }

    private static func protocols(_ data: ArraySlice<UInt8>) -> [String] {
        var reader = Reader(rest: data)
        guard let names = reader.vector(2) else { return [] }
        var list = Reader(rest: names)
        var protocols: [String] = []
        while let name = list.vector(1) { protocols.append(String(decoding: name, as: UTF8.self)) }
        return protocols
    }

    /// nil where the bytes end too soon.
    private struct Reader {
        var rest: ArraySlice<UInt8>

        mutating func skip(_ count: Int) -> Bool {
            guard rest.count >= count else { return false }
            rest = rest.dropFirst(count)
            return true
        }

        mutating func integer(_ size: Int) -> Int? {
            guard rest.count >= size else { return nil }
            defer { rest = rest.dropFirst(size) }
            return rest.prefix(size).reduce(0) { $0 << 8 | Int($1) }
        }

        /// With its length before it, in so many bytes.
        mutating func vector(_ size: Int) -> ArraySlice<UInt8>? {
            guard let length = integer(size), rest.count >= length else { return nil }
            defer { rest = rest.dropFirst(length) }
            return rest.prefix(length)
        }
    }
}
