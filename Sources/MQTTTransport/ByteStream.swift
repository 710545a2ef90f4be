internal import Glibc

/// What the owner of a `ByteStream` hears, on the loop.
package protocol ByteStreamDelegate: AnyObject {
    /// A stage of the stream's own has passed: TLS or WebSocket. When the last has, `isOpen` is true.
    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String)
    /// Bytes of MQTT, valid during the call only.
    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer)
    /// Everything sent so far has been handed to the kernel.
    func streamFlushed(_ stream: ByteStream)
    /// Nothing more will come and nothing more can be sent; called exactly once.
    /// - Parameter error: nil after `close()`.
    func streamClosed(_ stream: ByteStream, _ error: TransportError?)
}

/// A connected socket with its layers (TLS, WebSocket, both or none), as a stream of MQTT bytes.
///
/// Bytes that arrive together with the end of one layer's handshake go to the next layer. Everything queued in
/// one turn of the loop leaves in one write.
package final class ByteStream {
    /// Who we are on this connection.
    package enum Role {
        case client(Route)
        /// - Parameter path: the one path at which WebSocket is spoken; any where nil.
        case server(webSocket: Bool, path: String? = nil)
    }

    private enum Phase {
        /// TLS or the opening handshake is still going on.
        case establishing
        case open
        /// `close()` was called: the owner waits for the end, at most until the timer.
        case closing(EventLoop.TimerIdentifier)
        /// The owner has been told; what is queued still goes out, and what comes is thrown away, so that no RST
        /// destroys our last words.
        case lingering(EventLoop.TimerIdentifier)
        case closed
    }

    /// Held until the stream has ended, so that the owner lives as long as its connection.
    package var delegate: (any ByteStreamDelegate)?
    package let loop: EventLoop
    /// Whom we are connected to.
    package let peer: String

    private let descriptor: Int32
    private var phase = Phase.establishing
    private let tls: TLSStage?
    private var webSocket: WebSocketStage?
    private var wire: [UInt8] = []
    private var wireStart = 0
    private var plain: [UInt8] = []
    private var isFlushScheduled = false
    private var isWritingShutDown = false
    /// The peer has ended its direction while we close; ours is still to be written.
    private var isDrainingOnly = false
    /// Why writing failed: reported only once reading has shown that the peer said nothing better.
    private var writeError: Int32?

    /// How long a closing connection may take to say goodbye.
    package static let closeDeadline = Duration.seconds(2)
    /// Buffers above this size are given back when they are empty.
    private static let keptCapacity = 16 * 1024
    /// Pongs are left out while more than this waits.
    private static let replyLimit = 1 << 20
    /// Reads of one turn, for fairness among the connections of a loop.
    private static let readsPerTurn = 16

    /// Takes over a connected descriptor.
    ///
    /// - Throws: `TransportError` at stage `local`; the descriptor is then still the caller's.
    package init(
        loop: EventLoop, descriptor: Int32, peer: String, role: Role, tlsContext: TLSContext?
    ) throws(TransportError) {
        let tls: TLSStage?
        let webSocket: WebSocketStage?
        switch role {
        case .client(let route):
            tls = try tlsContext.map { context throws(TransportError) in
                try TLSStage(
                    context: context, serverName: route.serverName,
                    applicationProtocols: route.tls?.applicationProtocols ?? [])
            }
            webSocket = try route.webSocket.map { options throws(TransportError) in
                try WebSocketStage(client: options, host: route.hostField, key: loop.random.bytes(16))
            }
        case .server(let isWebSocket, let path):
            tls = try tlsContext.map { context throws(TransportError) in
                try TLSStage(context: context, serverName: nil, applicationProtocols: [])
            }
            webSocket = isWebSocket ? WebSocketStage(serverPath: path) : nil
        }
        // Last, so that nothing that has failed so far runs `deinit`.
        self.loop = loop
        self.descriptor = descriptor
        self.peer = peer
        self.tls = tls
        self.webSocket = webSocket
    }

    /// Never started, or its loop has ended.
    deinit {
        if case .closed = phase { return }
        Socket.close(descriptor)
    }

    /// Begins to read, and starts the first layer's handshake.
    package func start() {
        loop.register(descriptor, handler: self)
        if tls != nil {
            advanceTLS()
        } else {
            startWebSocket()
        }
        if case .establishing = phase, tls == nil, webSocket == nil { phase = .open }
        flush()
    }

    /// Whether MQTT can be sent.
    package var isOpen: Bool {
        if case .open = phase { return true }
        return false
    }

    /// Whether the descriptor has been given back. A stream whose owner has been told of its end may still be
    /// sending its last words.
    package var isReleased: Bool {
        if case .closed = phase { return true }
        return false
    }

    /// Bytes that the kernel hasn't taken yet.
    package var pendingBytes: Int { wire.count - wireStart }

    /// Queues packets; they leave at the end of this turn of the loop.
    ///
    /// - Parameters:
    ///   - bytes: whole packets; emptied.
    ///   - packetEnds: where each packet ends in `bytes`; emptied.
    package func send(_ bytes: inout [UInt8], packetEnds: inout [Int]) {
        defer {
            bytes.removeAll(keepingCapacity: bytes.capacity <= Self.keptCapacity)
            packetEnds.removeAll(keepingCapacity: packetEnds.capacity <= Self.keptCapacity)
        }
        guard isOpen, !bytes.isEmpty else { return }
        if webSocket == nil, tls == nil, pendingBytes == 0 {
            wire.removeAll(keepingCapacity: true)
            wireStart = 0
            swap(&wire, &bytes)
        } else if webSocket == nil, tls == nil {
            wire.append(contentsOf: bytes)
        } else if webSocket == nil {
            bytes.withUnsafeBytes { encrypt($0) }
        } else {
            bytes.withUnsafeBytes { buffer in
                webSocket?.send(buffer, packetEnds: packetEnds, output: &plain, random: &loop.random)
            }
            passDown()
        }
        scheduleFlush()
    }

    /// Ends the connection in order: what is queued, the WebSocket closing handshake, TLS close_notify, FIN; then
    /// `streamClosed(nil)`, at the latest after `closeDeadline`.
    package func close() {
        switch phase {
        case .establishing:
            finish(nil, lingers: false)
        case .open:
            phase = .closing(startTimer { $0.finish(nil, lingers: false) })
            if webSocket != nil {
                webSocket?.close(output: &plain, random: &loop.random)
                passDown()
            } else {
                shutDownWriting()
            }
            flush()
        case .closing, .lingering, .closed:
            break
        }
    }

    /// Ends the connection at once, without a goodbye of any layer; `streamClosed(error)`.
    ///
    /// - Parameter reset: RST, so that nothing is left in the kernel; otherwise a bare FIN.
    package func abort(_ error: TransportError?, reset: Bool = true) {
        if case .closed = phase { return }
        let owner = delegate
        let wasTold = isLingering
        release(reset: reset)
        if !wasTold { owner?.streamClosed(self, error) }
    }

    private var isLingering: Bool {
        if case .lingering = phase { return true }
        return false
    }
}

// MARK: - Reading

extension ByteStream: EventHandler {
    package func readable() {
        for _ in 0..<Self.readsPerTurn {
            if case .closed = phase { return }
            switch Socket.read(descriptor, into: loop.wireBuffer) {
            case .bytes(let count):
                if isLingering { continue }
                receive(UnsafeMutableRawBufferPointer(rebasing: loop.wireBuffer.prefix(count)))
                if count < loop.wireBuffer.count { return scheduleFlushIfPending() }
            case .wouldBlock:
                return scheduleFlushIfPending()
            case .end:
                return peerEnded(errno: nil)
            case .failed(let number):
                return peerEnded(errno: number)
            }
        }
        scheduleFlushIfPending()
    }

    package func writable() {
        flush()
    }

    private func receive(_ bytes: UnsafeMutableRawBufferPointer) {
        if let tls {
            tls.receive(UnsafeRawBufferPointer(bytes))
            advanceTLS()
        } else {
            receivePlain(bytes)
        }
    }

    /// Moves the TLS handshake on, then hands up what can be decrypted.
    private func advanceTLS() {
        guard let tls else { return }
        do throws(TransportError) {
            if !tls.isHandshakeComplete {
                let isComplete = try tls.handshake()
                tls.drain(into: &wire)
                guard isComplete else { return }
                passed(.tls, tls.summary)
                startWebSocket()
            }
            reading: while !isFinished {
                switch try tls.read(into: loop.plainBuffer) {
                case .bytes(let count):
                    receivePlain(UnsafeMutableRawBufferPointer(rebasing: loop.plainBuffer.prefix(count)))
                case .needsMore:
                    break reading
                case .closed:
                    tls.drain(into: &wire)
                    return peerEnded(errno: nil)
                }
            }
            // Reading may have produced an answer: a KeyUpdate, an alert.
            tls.drain(into: &wire)
        } catch {
            // The alert that says why goes out before we leave.
            tls.drain(into: &wire)
            finish(error, lingers: true)
        }
    }

    /// Whether incoming bytes no longer matter.
    private var isFinished: Bool {
        switch phase {
        case .establishing, .open, .closing: false
        case .lingering, .closed: true
        }
    }

    private func startWebSocket() {
        // The owner may have ended the stream when it heard of TLS.
        guard webSocket != nil, !isFinished else { return }
        webSocket?.start(into: &plain)
        passDown()
    }

    private func receivePlain(_ bytes: UnsafeMutableRawBufferPointer) {
        if webSocket == nil {
            delegate?.stream(self, received: UnsafeRawBufferPointer(bytes))
            return
        }
        var input = bytes
        do throws(TransportError) {
            while let event = try webSocket?.next(in: &input, output: &plain, random: &loop.random) {
                switch event {
                // One Pong answers all Pings before it (RFC 6455, section 5.5.3): a peer that pings and never
                // reads must not fill our memory.
                case .ping: if pendingBytes > Self.replyLimit { plain.removeAll() } else { passDown() }
                case .opened(let detail): passed(.webSocket, detail)
                case .payload(let bytes): delegate?.stream(self, received: bytes)
                case .ended(let error): webSocketEnded(error)
                }
                if isFinished { return }
            }
            passDown()
        } catch {
            passDown()
            finish(error, lingers: true)
        }
    }

    private func webSocketEnded(_ error: TransportError) {
        passDown()
        if case .closing = phase {
            // Our Close has been answered: the client's part is over (RFC 6455, section 7.1.1).
            shutDownWriting()
            flush()
        } else {
            finish(error, lingers: true)
        }
    }

    private func passed(_ stage: ConnectionStage, _ detail: String) {
        let isLast = stage == .webSocket || webSocket == nil
        if isLast, case .establishing = phase { phase = .open }
        delegate?.stream(self, passed: stage, detail: detail)
    }

    private func peerEnded(errno number: Int32?) {
        switch phase {
        case .closed: return
        case .lingering: return release(reset: false)
        case .closing:
            guard number == nil, writeError == nil, pendingBytes > 0 else { break }
            // What is queued still goes out; reading would find the same end again and again.
            isDrainingOnly = true
            return loop.setInterest(descriptor, readable: false, writable: true)
        case .establishing, .open: break
        }
        // A write may have been the first to meet the RST; the read then sees nothing but an end.
        let number = number ?? writeError
        if let tls, number == nil, !tls.isHandshakeComplete {
            // A record that was cut off says more than the end itself.
            tls.receivedEOF()
            do throws(TransportError) { _ = try tls.handshake() } catch {
                return finish(error, lingers: false)
            }
        }
        // Our side says its close_notify too before it ends (RFC 8446, section 6.1).
        let owesCloseNotify = tls?.isHandshakeComplete == true && !isWritingShutDown
        finish(endError(number), lingers: number == nil && owesCloseNotify)
    }

    /// The name of an end that came from the socket itself.
    private func endError(_ number: Int32?) -> TransportError {
        let evidence: TransportError.Evidence = number.map { .errno($0) } ?? .none
        if let tls, !tls.isHandshakeComplete {
            let code: FailureCode = number == nil ? .tlsEOF : .tlsResetAfterHello
            return TransportError(stage: .tls, code: code, evidence: evidence)
        }
        let stage: ConnectionStage = isOpen ? .established : .webSocket
        if number == nil, webSocket?.isOpen == true {
            let close = TransportError.Evidence.webSocketClose(code: 1006, reason: "", clean: false)
            return TransportError(stage: stage, code: .wsClosed, evidence: close)
        }
        switch number {
        case nil: return TransportError(stage: stage, code: .tcpClosed, evidence: evidence)
        case ECONNRESET?, EPIPE?: return TransportError(stage: stage, code: .tcpReset, evidence: evidence)
        case ETIMEDOUT?: return TransportError(stage: stage, code: .tcpTimeout, evidence: evidence)
        case .some: return TransportError(stage: stage, code: .tcpFailed, evidence: evidence)
        }
    }
}

// MARK: - Writing and ending

extension ByteStream {
    /// Hands `plain` to the layer below.
    private func passDown() {
        if plain.isEmpty { return }
        if tls == nil {
            if pendingBytes == 0 {
                wire.removeAll(keepingCapacity: true)
                wireStart = 0
                swap(&wire, &plain)
            } else {
                wire.append(contentsOf: plain)
            }
        } else {
            var bytes: [UInt8] = []
            swap(&bytes, &plain)
            bytes.withUnsafeBytes { encrypt($0) }
            swap(&bytes, &plain)
        }
        plain.removeAll(keepingCapacity: plain.capacity <= Self.keptCapacity)
    }

    private func encrypt(_ bytes: UnsafeRawBufferPointer) {
        guard let tls else { return }
        do throws(TransportError) {
            try tls.write(bytes)
            tls.drain(into: &wire)
        } catch {
            // Not at once: the owner is inside `send`, with its buffer lent to us.
            loop.flushAtEndOfTurn { [self] in finish(error, lingers: true) }
        }
    }

    private func scheduleFlushIfPending() {
        if pendingBytes > 0 { scheduleFlush() }
    }

    private func scheduleFlush() {
        if isFlushScheduled { return }
        isFlushScheduled = true
        loop.flushAtEndOfTurn { [self] in
            isFlushScheduled = false
            flush()
        }
    }

    private func flush() {
        if case .closed = phase { return }
        if writeError != nil { return }
        while pendingBytes > 0 {
            let result = wire.withUnsafeBytes { bytes in
                Socket.write(descriptor, UnsafeRawBufferPointer(rebasing: bytes[wireStart...]))
            }
            switch result {
            case .bytes(let count):
                wireStart += count
            case .wouldBlock:
                compact()
                loop.setInterest(descriptor, readable: !isDrainingOnly, writable: true)
                return
            case .failed(let number) where isDrainingOnly:
                return finish(endError(number), lingers: false)
            case .failed(let number):
                // The peer's last words may still be in our receive buffer: reading goes on until it ends too.
                writeError = number
                loop.setInterest(descriptor, writable: false)
                return
            }
        }
        wire.removeAll(keepingCapacity: wire.capacity <= Self.keptCapacity)
        wireStart = 0
        loop.setInterest(descriptor, readable: !isDrainingOnly, writable: false)
        if isWritingShutDown { Socket.shutdownWriting(descriptor) }
        if isDrainingOnly { return finish(nil, lingers: false) }
        if isOpen { delegate?.streamFlushed(self) }
    }

    /// Keeps a slow peer's queue from growing at its front.
    private func compact() {
        guard wireStart > 1 << 20, wireStart > wire.count / 2 else { return }
        wire.removeSubrange(..<wireStart)
        wireStart = 0
    }

    /// FIN, after close_notify and everything that is queued.
    private func shutDownWriting() {
        if isWritingShutDown { return }
        isWritingShutDown = true
        if let tls {
            tls.close()
            tls.drain(into: &wire)
        }
    }

    /// Tells the owner, and ends the connection.
    ///
    /// - Parameter lingers: there are last words to be sent: an alert, a Close frame.
    private func finish(_ error: TransportError?, lingers: Bool) {
        if isFinished { return }
        let owner = delegate
        delegate = nil
        var error = error
        if case .closing = phase { error = nil }
        if lingers, writeError == nil {
            if case .closing(let timer) = phase { loop.cancel(timer) }
            phase = .lingering(startTimer { $0.release(reset: false) })
            shutDownWriting()
            flush()
        } else {
            release(reset: false)
        }
        if error?.hop == nil { error?.hop = peer }
        owner?.streamClosed(self, error)
    }

    private func startTimer(_ body: @escaping (ByteStream) -> Void) -> EventLoop.TimerIdentifier {
        loop.schedule(at: loop.now + Self.closeDeadline) { [weak self] in
            if let self { body(self) }
        }
    }

    private func release(reset: Bool) {
        switch phase {
        case .closed: return
        case .closing(let timer), .lingering(let timer): loop.cancel(timer)
        case .establishing, .open: break
        }
        phase = .closed
        delegate = nil
        loop.unregister(descriptor)
        if reset { Socket.reset(descriptor) } else { Socket.close(descriptor) }
        wire = []
        wireStart = 0
        plain = []
    }
}
