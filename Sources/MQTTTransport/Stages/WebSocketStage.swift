internal import WebSocketCore

/// MQTT's byte stream over a WebSocket: packets and messages needn't align [MQTT-6.0.0-2], only binary
/// messages count [MQTT-6.0.0-1], and the subprotocol is `mqtt` [MQTT-6.0.0-3].
struct WebSocketStage {
    enum Event {
        /// The opening handshake is over; its detail in words.
        case opened(String)
        /// The server has refused, and its body, which may say why, is still coming: `refusal` tells.
        case refused
        /// Bytes of MQTT, valid until the next call.
        case payload(UnsafeRawBufferPointer)
        /// A Ping came; its Pong is in the output.
        case ping
        /// A Pong came, so that the next Ping is due at another time.
        case pong
        /// The closing handshake is over, or the peer broke a rule: nothing more will come. What is left to be
        /// sent is in the output.
        case ended(TransportError)
    }

    private enum State {
        case clientHandshake(OpeningHandshake.Client, Settings)
        /// Only `path` is served, unless it is nil.
        case serverHandshake(OpeningHandshake.Server, path: String?, compresses: Bool)
        case open(Open)
        case ended
    }

    /// What the profile says of the time after the opening handshake.
    private struct Settings {
        var packing = WebSocketOptions.Packing.onePacketPerMessage
        var pings: WebSocketOptions.Pings?
    }

    /// Boxed: the enum's payload would be copied for each event.
    private final class Open {
        var connection: WebSocketConnection
        let packing: WebSocketOptions.Packing
        var pings: PingSchedule?

        init(
            _ role: WebSocketRole, _ settings: Settings, _ deflate: PerMessageDeflate.Agreement?,
            now: ContinuousClock.Instant
        ) {
            packing = settings.packing
            pings = settings.pings.map {
                PingSchedule(interval: $0.interval, timeout: $0.timeout, now: now)
            }
            // The largest MQTT packet fits (268,435,455 bytes and its fixed header); MQTT's own limit is
            // stricter and names the packet. A message may hold many packets; where it is compressed, a few bytes
            // would make very many.
            connection = WebSocketConnection(
                role: role, maximumFrameSize: 1 << 29, maximumMessageSize: deflate == nil ? 1 << 40 : 1 << 29,
                deflate: deflate)
        }
    }

    static let subprotocol = "mqtt"
    /// Packets share a message up to this size: a TLS record's.
    static let sharedMessageSize = 16 * 1024

    private var state: State

    /// - Throws: `TransportError` at stage `local` for options that can't be used: a profile checks them, but they
    ///   can be changed later.
    init(client options: WebSocketOptions, host: String, key: [UInt8]) throws(TransportError) {
        do {
            try ProfileValidation.webSocket(options)
            state = .clientHandshake(
                try OpeningHandshake.Client(
                    host: host, path: options.path, key: key, subprotocols: [Self.subprotocol],
                    deflate: options.compression.map { PerMessageDeflate.Options($0) },
                    headers: options.headers.map { (name: $0.name, value: $0.value) },
                    origin: options.origin),
                Settings(packing: options.packing, pings: options.pings))
        } catch {
            throw TransportError(
                stage: .local, code: .clientInvalidArgument, evidence: .text("\(error)"))
        }
    }

    init(serverPath path: String?, compresses: Bool) {
        state = .serverHandshake(OpeningHandshake.Server(), path: path, compresses: compresses)
    }

    /// What opens the conversation.
    func start(into output: inout [UInt8]) {
        guard case .clientHandshake(let handshake, _) = state else { return }
        output.append(contentsOf: handshake.requestBytes)
    }

    /// The next event in `input`, which is moved past what was used; nil once all of it was.
    ///
    /// - Throws: `TransportError` at stage `webSocket` when the opening handshake fails.
    mutating func next(
        in input: inout UnsafeMutableRawBufferPointer, output: inout [UInt8], random: inout RandomPool,
        now: ContinuousClock.Instant
    ) throws(TransportError) -> Event? {
        switch state {
        case .clientHandshake(var handshake, let settings):
            // Taken out, so that what it collects isn't copied each time.
            state = .ended
            let wasRefused = handshake.isRefused
            let opened: Opened?
            do throws(TransportError) {
                opened = try Self.receive(&input, with: &handshake)
            } catch {
                if handshake.isRefused { state = .clientHandshake(handshake, settings) }
                throw error
            }
            guard let opened else {
                state = .clientHandshake(handshake, settings)
                return handshake.isRefused && !wasRefused ? .refused : nil
            }
            state = .open(Open(.client, settings, opened.deflate, now: now))
            return .opened(opened.detail)
        case .serverHandshake(var handshake, let path, let compresses):
            // As above; a request that is refused ends it.
            state = .ended
            let opened = try Self.receive(
                &input, with: &handshake, servedPath: path, compresses: compresses, output: &output)
            guard let opened else {
                state = .serverHandshake(handshake, path: path, compresses: compresses)
                return nil
            }
            state = .open(Open(.server, Settings(), opened.deflate, now: now))
            return .opened(opened.detail)
        case .open(let open):
            let event = Self.next(in: &input, of: open, output: &output, random: &random, now: now)
            if case .ended? = event { state = .ended }
            return event
        case .ended:
            return nil
        }
    }

    /// What the server said instead of 101, as far as it has come. It outweighs whatever ends the connection.
    var refusal: TransportError? {
        guard case .clientHandshake(let handshake, _) = state, let refusal = handshake.refusal else {
            return nil
        }
        return TransportError(handshake: .notSwitchingProtocols(refusal))
    }

    /// Whether the answer to the opening handshake has begun, and its head hasn't ended.
    var isHeadUnfinished: Bool {
        guard case .clientHandshake(let handshake, _) = state else { return false }
        return handshake.hasBegun && !handshake.isRefused
    }

    /// Where a refusal leads, as it came.
    var location: String? {
        guard case .clientHandshake(let handshake, _) = state else { return nil }
        return handshake.refusal?.location
    }

    /// Frames `bytes`; a packet is never split over messages.
    func send(
        _ bytes: UnsafeRawBufferPointer, packetEnds: [Int], output: inout [UInt8], random: inout RandomPool
    ) {
        guard case .open(let open) = state else { return }
        var start = 0
        var packetStart = 0
        var holdsSecret = false
        for (index, end) in packetEnds.enumerated() {
            if Self.isSecret(bytes[packetStart]) { holdsSecret = true }
            packetStart = end
            switch open.packing {
            case .onePacketPerMessage: break
            case .packetsShareMessages:
                let next = index + 1 < packetEnds.count ? packetEnds[index + 1] : .max
                if next - start <= Self.sharedMessageSize { continue }
            }
            let message = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
            open.connection.send(
                .binary, payload: message, isSecret: holdsSecret, maskingKey: random.next(), into: &output)
            start = end
            holdsSecret = false
        }
    }

    /// CONNECT and AUTH hold credentials; the packet type is in the upper half of the first byte (MQTT 2.1.2).
    private static func isSecret(_ firstByte: UInt8) -> Bool {
        firstByte >> 4 == 1 || firstByte >> 4 == 15
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

    // MARK: Pings of our own

    /// nil where there are none.
    var nextDeadline: ContinuousClock.Instant? {
        guard case .open(let open) = state else { return nil }
        return open.pings?.nextDeadline
    }

    func received(now: ContinuousClock.Instant) {
        if case .open(let open) = state { open.pings?.received(now: now) }
    }

    func progressed(now: ContinuousClock.Instant) {
        if case .open(let open) = state { open.pings?.progressed(now: now) }
    }

    func flushed(now: ContinuousClock.Instant) {
        if case .open(let open) = state { open.pings?.flushed(now: now) }
    }

    /// - Returns: why the connection is dead; nil while it isn't, with a Ping in the output where one was due.
    func deadlineReached(
        now: ContinuousClock.Instant, output: inout [UInt8], random: inout RandomPool
    ) -> TransportError? {
        guard case .open(let open) = state, let due = open.pings?.deadlineReached(now: now) else {
            return nil
        }
        switch due {
        case .nothing: return nil
        case .ping(let payload):
            open.connection.sendPing(payload: payload, maskingKey: random.next(), into: &output)
            return nil
        case .peerIsSilent:
            return TransportError(
                stage: .established, code: .idlePingIgnored,
                evidence: .deadline(open.pings?.timeout ?? .zero))
        }
    }

    // MARK: The opening handshake

    private struct Opened {
        /// In words.
        var detail: String
        var deflate: PerMessageDeflate.Agreement?
    }

    private static func receive(
        _ input: inout UnsafeMutableRawBufferPointer, with handshake: inout OpeningHandshake.Client
    ) throws(TransportError) -> Opened? {
        var bytes = UnsafeRawBufferPointer(input)
        do {
            let accepted = try handshake.receive(&bytes)
            input = UnsafeMutableRawBufferPointer(rebasing: input.suffix(bytes.count))
            return accepted.map {
                let compression = $0.deflate == nil ? "" : ", compressed"
                return Opened(
                    detail: "subprotocol \($0.subprotocol ?? "none")\(compression)", deflate: $0.deflate)
            }
        } catch {
            throw TransportError(handshake: error)
        }
    }

    private static func receive(
        _ input: inout UnsafeMutableRawBufferPointer, with handshake: inout OpeningHandshake.Server,
        servedPath: String?, compresses: Bool, output: inout [UInt8]
    ) throws(TransportError) -> Opened? {
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
            try append(to: &output) { () throws(HandshakeError) in
                try OpeningHandshake.Server.reject(status: 404, reason: "Not Found")
            }
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
        let deflate = compresses ? request.deflateAgreement(PerMessageDeflate.Options()) : nil
        try append(to: &output) { () throws(HandshakeError) in
            try request.accept(subprotocol: offered.isEmpty ? nil : subprotocol, deflate: deflate)
        }
        return Opened(detail: request.path, deflate: deflate)
    }

    private static func append(
        to output: inout [UInt8], _ response: () throws(HandshakeError) -> [UInt8]
    ) throws(TransportError) {
        do throws(HandshakeError) {
            output.append(contentsOf: try response())
        } catch {
            throw TransportError(handshake: error)
        }
    }

    // MARK: Frames

    private static func next(
        in input: inout UnsafeMutableRawBufferPointer, of open: Open, output: inout [UInt8],
        random: inout RandomPool, now: ContinuousClock.Instant
    ) -> Event? {
        while let event = open.connection.next(in: &input, output: &output, maskingKey: { random.next() }) {
            switch event {
            case .payload(.binary, let bytes, _):
                if !bytes.isEmpty { return .payload(bytes) }
            case .payload(.text, let bytes, _):
                open.connection.close(.unsupportedData, maskingKey: random.next(), into: &output)
                let firstBytes = TransportError.Evidence.firstBytes(Array(bytes.prefix(48)))
                return .ended(TransportError(stage: .webSocket, code: .wsTextFrame, evidence: firstBytes))
            case .ping: return .ping
            case .pong(let payload):
                guard open.pings != nil else { continue }
                open.pings?.ponged(payload, now: now)
                return .pong
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

extension PerMessageDeflate.Options {
    fileprivate init(_ compression: WebSocketOptions.Compression) {
        self.init(
            serverNoContextTakeover: !compression.contextTakeover,
            clientNoContextTakeover: !compression.contextTakeover,
            serverMaxWindowBits: compression.windowBits, clientMaxWindowBits: compression.windowBits,
            compression: PerMessageDeflate.Compression(threshold: compression.threshold))
    }
}
