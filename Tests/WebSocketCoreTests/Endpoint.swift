import Testing
import WebSocketCore

/// What an endpoint tells its owner, with messages put together.
enum Observed: Equatable {
    case text([UInt8])
    case binary([UInt8])
    case ping([UInt8])
    case pong([UInt8])
    case close(UInt16, String)
    case failed(WebSocketError)

    static func text(_ string: String) -> Observed { .text(Array(string.utf8)) }
}

/// A connection with its output, fed with scripted pieces.
struct Endpoint: ~Copyable {
    var connection: WebSocketConnection
    var output: [UInt8] = []
    var observed: [Observed] = []
    var keysAsked = 0
    private var message: [UInt8] = []

    /// The masking key of the examples in RFC 6455 §5.7.
    static let key: UInt32 = 0x37FA_213D

    init(
        _ role: WebSocketRole, frameLimit: UInt64 = .max, messageLimit: UInt64 = .max,
        deflate: PerMessageDeflate.Agreement? = nil
    ) {
        connection = WebSocketConnection(
            role: role, maximumFrameSize: frameLimit, maximumMessageSize: messageLimit, deflate: deflate)
    }

    mutating func feed(_ pieces: [[UInt8]]) {
        for piece in pieces { feed(piece) }
    }

    /// Takes events until there is none; every byte must be used by then.
    mutating func feed(_ piece: [UInt8]) {
        var bytes = piece
        var rest = -1
        bytes.withUnsafeMutableBytes { buffer in
            var input = buffer
            // DEFLATE gives at most 1032 bytes for each of its own.
            for _ in 0...piece.count * 1032 + 1 {
                var keys = 0
                let event = connection.next(in: &input, output: &output) {
                    keys += 1
                    return Self.key
                }
                keysAsked += keys
                guard let event else {
                    rest = input.count
                    return
                }
                record(event)
            }
        }
        #expect(rest == 0, "bytes left, or more events than bytes")
    }

    mutating func send(
        _ kind: MessageKind, _ payload: [UInt8], endsMessage: Bool = true, key: UInt32 = Endpoint.key
    ) {
        payload.withUnsafeBytes {
            connection.send(kind, payload: $0, endsMessage: endsMessage, maskingKey: key, into: &output)
        }
    }

    mutating func close(_ code: CloseCode, reason: String = "") {
        connection.close(code, reason: reason, maskingKey: Self.key, into: &output)
    }

    private mutating func record(_ event: WebSocketEvent) {
        switch event {
        case .payload(let kind, let piece, let endsMessage):
            message.append(contentsOf: piece)
            guard endsMessage else { return }
            observed.append(kind == .text ? .text(message) : .binary(message))
            message = []
        case .ping(let payload): observed.append(.ping(payload))
        case .pong(let payload): observed.append(.pong(payload))
        case .closeReceived(let code, let reason): observed.append(.close(code.rawValue, reason))
        case .failed(let error): observed.append(.failed(error))
        }
    }
}

/// The bytes whole, one at a time, and split in two at every position.
func everySplit(_ bytes: [UInt8]) -> [[[UInt8]]] {
    var ways = [[bytes], bytes.map { [$0] }]
    for position in 1..<max(bytes.count, 1) {
        ways.append([Array(bytes[..<position]), Array(bytes[position...])])
    }
    return ways
}

/// Feeds a fresh endpoint in every way; events and output must be the same in all of them.
func expect(
    _ role: WebSocketRole, deflate: PerMessageDeflate.Agreement? = nil, receiving bytes: [UInt8],
    gives events: [Observed], answering answer: [UInt8] = [],
    sourceLocation: SourceLocation = #_sourceLocation
) {
    for pieces in everySplit(bytes) {
        var endpoint = Endpoint(role, deflate: deflate)
        endpoint.feed(pieces)
        #expect(endpoint.observed == events, "\(pieces.map(\.count))", sourceLocation: sourceLocation)
        #expect(endpoint.output == answer, "\(pieces.map(\.count))", sourceLocation: sourceLocation)
    }
}

/// SplitMix64: the same sequence in every run.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
