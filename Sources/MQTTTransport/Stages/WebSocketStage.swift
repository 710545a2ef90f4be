internal import WebSocketCore

/// MQTT's byte stream over a WebSocket: packets and messages needn't align [MQTT-6.0.0-2], only binary
/// messages count [MQTT-6.0.0-1], and the subprotocol is `mqtt` [MQTT-6.0.0-3].
struct WebSocketStage {
    enum Event {
        /// The opening handshake is over; its detail in words.
        case opened(String)
        /// Bytes of MQTT, valid until the next call.
        case payload(UnsafeRawBufferPointer)
        /// A Ping came; its Pong is in the output.
        case ping
        /// The closing handshake is over, or the peer broke a rule: nothing more will come. What is left to be
        /// sent is in the output.
        case ended(TransportError)
    }

    private enum State {
        case clientHandshake(OpeningHandshake.Client)
        /// Only `path` is served, unless it is nil.
        case serverHandshake(OpeningHandshake.Server, path: String?)
        case open(Open)
        case ended
    }

    /// Boxed: the enum's payload would be copied for each event.
    private final class Open {
        var connection: WebSocketConnection

        init(_ role: WebSocketRole) {
            // The largest MQTT packet fits (268,435,455 bytes and its fixed header); MQTT's own limit is
            // stricter and names the packet.
            connection = WebSocketConnection(
                role: role, maximumFrameSize: 1 << 29, maximumMessageSize: 1 << 40)
        }
    }

    static let subprotocol = "mqtt"

    private var state: State

    /// - Throws: `TransportError` at stage `local` for a path or header that can't be sent.
    init(client options: WebSocketOptions, host: String, key: [UInt8]) throws(TransportError) {
        do {
            state = .clientHandshake(
                try OpeningHandshake.Client(
                    host: host, path: options.path, key: key, subprotocols: [Self.subprotocol],
                    headers: options.headers.map { (name: $0.name, value: $0.value) }))
        } catch {
            throw TransportError(
                stage: .local, code: .clientInvalidArgument,
                evidence: .text("the WebSocket request can't be written: \(error)"))
        }
    }

    init(serverPath path: String?) {
        state = .serverHandshake(OpeningHandshake.Server(), path: path)
    }

    /// What opens the conversation.
    func start(into output: inout [UInt8]) {
        if case .clientHandshake(let handshake) = state { output.append(contentsOf: handshake.requestBytes) }
    }

    /// The next event in `input`, which is moved past what was used; nil once all of it was.
    ///
    /// - Throws: `TransportError` at stage `webSocket` when the opening handshake fails.
    mutating func next(
        in input: inout UnsafeMutableRawBufferPointer, output: inout [UInt8], random: inout RandomPool
    ) throws(TransportError) -> Event? {
        switch state {
        case .clientHandshake(var handshake):
            let opened = try Self.receive(&input, with: &handshake)
            state = opened == nil ? .clientHandshake(handshake) : .open(Open(.client))
            return opened.map { .opened($0) }
        case .serverHandshake(var handshake, let path):
            let opened = try Self.receive(&input, with: &handshake, servedPath: path, output: &output)
            state = opened == nil ? .serverHandshake(handshake, path: path) : .open(Open(.server))
            return opened.map { .opened($0) }
        case .open(let open):
            let event = Self.next(in: &input, of: &open.connection, output: &output, random: &random)
            if case .ended? = event { state = .ended }
            return event
        case .ended:
            return nil
        }
    }

    /// Frames `bytes`: one message for each packet, since some servers want a whole packet in a message.
    func send(
        _ bytes: UnsafeRawBufferPointer, packetEnds: [Int], output: inout [UInt8], random: inout RandomPool
    ) {
        guard case .open(let open) = state else { return }
        var start = 0
        for end in packetEnds {
            let packet = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
            open.connection.send(.binary, payload: packet, maskingKey: random.next(), into: &output)
            start = end
        }
    }

    /// Begins the closing handshake.
    func close(output: inout [UInt8], random: inout RandomPool) {
        guard case .open(let open) = state else { return }
        open.connection.close(.normalClosure, maskingKey: random.next(), into: &output)
    }

    /// The stream below has ended: how the WebSocket was closed by that (RFC 6455, section 7.1.5); nil where none
    /// was open.
    func streamEnded() -> TransportError.Evidence? {
        guard case .open(let open) = state else { return nil }
        open.connection.streamEnded()
        guard case .closed(let code, let reason, let wasClean) = open.connection.state else { return nil }
        return .webSocketClose(code: code.rawValue, reason: reason, clean: wasClean)
    }

    private static func receive(
        _ input: inout UnsafeMutableRawBufferPointer, with handshake: inout OpeningHandshake.Client
    ) throws(TransportError) -> String? {
        var bytes = UnsafeRawBufferPointer(input)
        do {
            let accepted = try handshake.receive(&bytes)
            input = UnsafeMutableRawBufferPointer(rebasing: input.suffix(bytes.count))
            return accepted.map { "subprotocol \($0.subprotocol ?? "none")" }
        } catch {
            throw TransportError(handshake: error)
        }
    }

    private static func receive(
        _ input: inout UnsafeMutableRawBufferPointer, with handshake: inout OpeningHandshake.Server,
        servedPath: String?, output: inout [UInt8]
    ) throws(TransportError) -> String? {
        var bytes = UnsafeRawBufferPointer(input)
        let received: OpeningHandshake.ServerRequest?
        do {
            received = try handshake.receive(&bytes)
        } catch {
            output.append(contentsOf: OpeningHandshake.Server.reject(error))
            throw TransportError(handshake: error)
        }
        input = UnsafeMutableRawBufferPointer(rebasing: input.suffix(bytes.count))
        guard let request = received else { return nil }
        // The query is the application's own.
        if let servedPath, request.path.prefix(while: { $0 != "?" }) != servedPath {
            output.append(contentsOf: OpeningHandshake.Server.reject(status: 404, reason: "Not Found"))
            throw TransportError(
                stage: .webSocket, code: .httpNotFound, evidence: .text("the client asked for another path"))
        }
        let offered = request.offeredSubprotocols
        guard offered.isEmpty || offered.contains(subprotocol) else {
            // What the client wants to speak isn't MQTT [MQTT-6.0.0-3].
            output.append(contentsOf: OpeningHandshake.Server.reject(.subprotocolMissing))
            throw TransportError(
                stage: .webSocket, code: .wsSubprotocolWrong,
                evidence: .text("the client doesn't offer \(subprotocol)"))
        }
        // Selecting one that wasn't offered would break the handshake (RFC 6455, section 4.2.2).
        output.append(contentsOf: request.accept(subprotocol: offered.isEmpty ? nil : subprotocol))
        return request.path
    }

    private static func next(
        in input: inout UnsafeMutableRawBufferPointer, of connection: inout WebSocketConnection,
        output: inout [UInt8], random: inout RandomPool
    ) -> Event? {
        while let event = connection.next(in: &input, output: &output, maskingKey: { random.next() }) {
            switch event {
            case .payload(.binary, let bytes, _):
                if !bytes.isEmpty { return .payload(bytes) }
            case .payload(.text, let bytes, _):
                connection.close(.unsupportedData, maskingKey: random.next(), into: &output)
                let firstBytes = TransportError.Evidence.firstBytes(Array(bytes.prefix(48)))
                return .ended(TransportError(stage: .webSocket, code: .wsTextFrame, evidence: firstBytes))
            case .ping: return .ping
            case .pong: break
            case .closeReceived(let code, let reason):
                let close = TransportError.Evidence.webSocketClose(
                    code: code.rawValue, reason: reason, clean: true)
                return .ended(TransportError(stage: .webSocket, code: .wsClosed, evidence: close))
            case .failed(let error):
                return .ended(TransportError(frame: error))
            }
        }
        return nil
    }
}
