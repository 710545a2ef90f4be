internal import MQTTTransport
internal import WebSocketCore

/// One WebSocket on a raw byte stream, from the opening handshake to the end of the stream. On the loop only.
final class EchoSession: ByteStreamDelegate {
    enum Opening {
        case client(OpeningHandshake.Client)
        /// What is agreed to of permessage-deflate; nothing where nil.
        case server(OpeningHandshake.Server, deflate: PerMessageDeflate.Options?)
    }

    /// What becomes of a whole message.
    enum Purpose {
        /// It is sent back as it is.
        case echo
        /// It is kept as `lastMessage`.
        case listen
    }

    private enum State {
        case opening(Opening)
        case open(Open)
        case closed
    }

    private final class Open {
        var connection: WebSocketConnection
        /// The pieces so far of the message that is arriving.
        var message: [UInt8] = []

        init(_ role: WebSocketRole, _ deflate: PerMessageDeflate.Agreement?) {
            connection = WebSocketConnection(
                role: role, maximumFrameSize: EchoSession.sizeLimit,
                maximumMessageSize: EchoSession.sizeLimit, deflate: deflate)
        }
    }

    /// The suite's largest messages have 16 MiB (9.1.6, 9.2.6).
    private static let sizeLimit: UInt64 = 32 << 20

    private(set) var lastMessage: [UInt8] = []
    private var state: State
    private let purpose: Purpose
    private let whenClosed: (EchoSession) -> Void

    init(_ opening: Opening, purpose: Purpose, whenClosed: @escaping (EchoSession) -> Void = { _ in }) {
        state = .opening(opening)
        self.purpose = purpose
        self.whenClosed = whenClosed
    }

    /// Takes a stream over whose TLS, if it has any, has passed or is about to begin.
    func take(over stream: ByteStream) {
        stream.delegate = self
        guard case .opening(.client(let handshake)) = state else { return }
        Self.send(handshake.requestBytes, on: stream)
    }

    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
        var input = bytes
        if case .opening(let opening) = state { receive(&input, opening, on: stream) }
        guard case .open(let open) = state, !input.isEmpty else { return }
        // A copy, since unmasking changes the bytes.
        var frames = Array(input)
        frames.withUnsafeMutableBytes { receive($0, open, on: stream) }
    }

    func streamFlushed(_ stream: ByteStream) {}

    func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
        state = .closed
        whenClosed(self)
    }

    private func receive(_ input: inout UnsafeRawBufferPointer, _ opening: Opening, on stream: ByteStream) {
        switch opening {
        case .client(var handshake):
            do {
                let accepted = try handshake.receive(&input)
                state = accepted.map { .open(Open(.client, $0.deflate)) } ?? .opening(.client(handshake))
            } catch {
                stream.close()
            }
        case .server(var handshake, let options):
            do throws(HandshakeError) {
                guard let request = try handshake.receive(&input) else {
                    state = .opening(.server(handshake, deflate: options))
                    return
                }
                let agreement = options.flatMap(request.deflateAgreement)
                Self.send(try request.accept(subprotocol: nil, deflate: agreement), on: stream)
                state = .open(Open(.server, agreement))
            } catch {
                Self.send(OpeningHandshake.Server.reject(error), on: stream)
                stream.close()
            }
        }
    }

    private func receive(_ bytes: UnsafeMutableRawBufferPointer, _ open: Open, on stream: ByteStream) {
        var input = bytes
        var output: [UInt8] = []
        let loop = stream.loop
        var isOver = false
        while !isOver,
            let event = open.connection.next(
                in: &input, output: &output, maskingKey: { loop.random.next() })
        {
            switch event {
            case .payload(let kind, let piece, let endsMessage):
                open.message.append(contentsOf: piece)
                guard endsMessage else { continue }
                switch purpose {
                case .echo:
                    open.message.withUnsafeBytes { message in
                        open.connection.send(
                            kind, payload: message, maskingKey: loop.random.next(), into: &output)
                    }
                case .listen: lastMessage = open.message
                }
                open.message = []
            case .ping, .pong: continue
            case .closeReceived, .failed: isOver = true
            }
        }
        Self.send(output, on: stream)
        if isOver { stream.close() }
    }

    private static func send(_ bytes: [UInt8], on stream: ByteStream) {
        var bytes = bytes
        var ends: [Int] = []
        stream.send(&bytes, packetEnds: &ends)
    }
}
