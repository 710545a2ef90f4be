import WebSocketCore

// The example of WebSocketCore's documentation, with a server of the same library at the other end of two arrays.

/// Ends the program with a failure, in words.
struct Unexpected: Error {
    let what: String
}

/// What each side has written and the other not yet read.
nonisolated(unsafe) var toServer: [UInt8] = []
nonisolated(unsafe) var toClient: [UInt8] = []
nonisolated(unsafe) var serverHandshake = OpeningHandshake.Server()
nonisolated(unsafe) var server: WebSocketConnection?

/// Echoes one message and says goodbye.
func serve() throws {
    if server == nil {
        guard let request = try serverHandshake.receive(&toServer) else { return }
        let deflate = request.deflateAgreement(.init())
        toClient += try request.accept(subprotocol: request.offeredSubprotocols.first, deflate: deflate)
        server = WebSocketConnection(role: .server, deflate: deflate)
    }
    let input = toServer
    toServer = []
    var message: [UInt8] = []
    var isWhole = false
    server?.receive(input, output: &toClient, maskingKey: 0) { event in
        guard case .payload(_, let bytes, let endsMessage) = event else { return }
        message += bytes
        isWhole = endsMessage
    }
    guard isWhole else { return }
    server?.send(String(decoding: message, as: UTF8.self), maskingKey: 0, into: &toClient)
    server?.close(.normalClosure, reason: "bye", maskingKey: 0, into: &toClient)
}

func write(_ bytes: [UInt8]) { toServer += bytes }

func read() throws -> [UInt8] {
    try serve()
    // Cut anywhere: here into pieces of seven bytes.
    let piece = Array(toClient.prefix(7))
    toClient.removeFirst(piece.count)
    return piece
}

var random = SystemRandomNumberGenerator()
let key = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &random) }
var handshake = try OpeningHandshake.Client(
    host: "example.org", path: "/chat", key: key, subprotocols: ["chat"], deflate: .init())
write(handshake.requestBytes)

var input = try read()
var accepted = try handshake.receive(&input)
while accepted == nil {
    input += try read()
    accepted = try handshake.receive(&input)
}
guard accepted?.subprotocol == "chat", accepted?.deflate != nil else {
    throw Unexpected(what: "the server agreed to something else")
}

var connection = WebSocketConnection(role: .client, deflate: accepted?.deflate)
var output: [UInt8] = []
let text = String(repeating: "hello ", count: 100)
connection.send(text, maskingKey: random.next(), into: &output)
write(output)

var received: [UInt8] = []
var close: (CloseCode, String)?
while case .open = connection.state {
    output = []
    connection.receive(input, output: &output, maskingKey: random.next()) { event in
        switch event {
        case .payload(_, let bytes, _): received += bytes
        case .ping, .pong: break
        case .closeReceived(let code, let reason): close = (code, reason)
        case .failed(let error): print("failed:", error)
        }
    }
    write(output)
    input = try read()
}
print("\(received.count) bytes came back; closed with \(close?.0.rawValue ?? 0) \(close?.1 ?? "")")
guard received == Array(text.utf8), close?.0 == .normalClosure, close?.1 == "bye" else {
    throw Unexpected(what: "the echo differs")
}
