/// What the owner of a `ByteStream` hears, on the loop.
package protocol ByteStreamDelegate: AnyObject {
    /// A stage of the stream's own has passed: TLS or WebSocket. When the last has, `isOpen` is true.
    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String)
    /// Bytes of MQTT, valid during the call only.
    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer)
    /// Some of what was sent has been handed to the kernel and the rest waits for the peer to read.
    func streamProgressed(_ stream: ByteStream)
    /// Everything sent so far has been handed to the kernel.
    func streamFlushed(_ stream: ByteStream)
    /// Nothing more will come and nothing more can be sent; called exactly once.
    /// - Parameter error: nil after `close()`.
    func streamClosed(_ stream: ByteStream, _ error: TransportError?)
}

extension ByteStreamDelegate {
    package func streamProgressed(_ stream: ByteStream) {}
}

/// A connected socket with its layers (TLS, WebSocket, both or none), as a stream of MQTT bytes.
///
/// Bytes that arrive together with the end of one layer's handshake go to the next layer. Everything queued in
/// one turn of the loop leaves in one write.
package final class ByteStream {
    /// Who we are on this connection.
    package enum Role {
        case client(Route)
        /// - Parameters:
        ///   - path: the one path at which WebSocket is spoken; any where nil.
        ///   - compresses: whether permessage-deflate is agreed to where it is offered (RFC 7692).
        case server(webSocket: Bool, path: String? = nil, compresses: Bool = false)
    }

    enum Phase {
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

    let descriptor: Int32
    /// TLS to a proxy, below everything else.
    let proxyTLS: TLSStage?
    /// What the server sent before there was a stream.
    var early: [UInt8]
    var phase = Phase.establishing
    let tls: TLSStage?
    var webSocket: WebSocketStage?
    var wire: [UInt8] = []
    var wireStart = 0
    var plain: [UInt8] = []
    var isFlushScheduled = false
    var isWritingShutDown = false
    /// The peer has ended its direction while we close; ours is still to be written.
    var isDrainingOnly = false
    var pingTimer: DeadlineTimer
    /// What the kernel has given and taken, in bytes.
    package internal(set) var bytesRead = 0
    package internal(set) var bytesWritten = 0
    /// Why writing failed: reported only once reading has shown that the peer said nothing better.
    var writeError: Int32?

    /// How long a closing connection may take to say goodbye.
    package static let closeDeadline = Duration.seconds(2)
    /// How long the body of a refused opening handshake is waited for.
    static let refusalBodyDeadline = Duration.milliseconds(500)
    /// Buffers above this size are given back when they are empty.
    static let keptCapacity = 16 * 1024
    /// Pongs are left out while more than this waits.
    static let replyLimit = 1 << 20
    /// Reads of one turn, for fairness among the connections of a loop.
    static let readsPerTurn = 4
    /// In a turn that has lasted this long each connection reads once: many small messages, or many busy
    /// connections, mustn't keep the timers of the others waiting.
    static let turnBudget = Duration.milliseconds(5)

    /// Takes over a connected descriptor.
    ///
    /// - Throws: `TransportError` at stage `local`; the descriptor is then still the caller's.
    init(
        loop: EventLoop, descriptor: Int32, peer: String, role: Role, tlsContext: TLSContext?,
        tunnel: ProxyTunnel?
    ) throws(TransportError) {
        let tls: TLSStage?
        let webSocket: WebSocketStage?
        switch role {
        case .client(let route):
            tls = try tlsContext.map { context throws(TransportError) in
                try TLSStage(
                    context: context,
                    target: TLSTarget(serverName: route.serverName, port: route.port, options: route.tls))
            }
            webSocket = try route.webSocket.map { options throws(TransportError) in
                try WebSocketStage(client: options, host: route.hostField, key: loop.random.bytes(16))
            }
        case .server(let isWebSocket, let path, let compresses):
            tls = try tlsContext.map { context throws(TransportError) in
                try TLSStage(context: context)
            }
            webSocket = isWebSocket ? WebSocketStage(serverPath: path, compresses: compresses) : nil
        }
        // Last, so that nothing that has failed so far runs `deinit`.
        self.loop = loop
        pingTimer = DeadlineTimer(on: loop)
        self.descriptor = descriptor
        self.peer = peer
        proxyTLS = tunnel?.tls
        early = tunnel?.early ?? []
        self.tls = tls
        self.webSocket = webSocket
    }

    package convenience init(
        loop: EventLoop, descriptor: Int32, peer: String, role: Role, tlsContext: TLSContext?
    ) throws(TransportError) {
        try self.init(
            loop: loop, descriptor: descriptor, peer: peer, role: role, tlsContext: tlsContext, tunnel: nil)
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
        // Not at once: where there is no layer, the owner isn't there yet.
        if proxyTLS != nil || !early.isEmpty { loop.flushAtEndOfTurn { [self] in receiveEarly() } }
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

    /// What the server said instead of switching to WebSocket; nil while it has said nothing of the kind.
    var refusal: TransportError? {
        var refusal = webSocket?.refusal
        refusal?.hop = peer
        return refusal
    }

    /// What the deadline of the opening handshake means for a client.
    func webSocketTimeout(_ deadline: Duration) -> TransportError {
        if let refusal { return refusal }
        if webSocket?.isHeadUnfinished == true {
            return TransportError(
                stage: .webSocket, code: .wsHeadMalformed, hop: peer,
                evidence: .text("the head of the answer began and didn't end within \(deadline)"))
        }
        return TransportError(
            stage: .webSocket, code: .tcpSilent, hop: peer, evidence: .deadline(deadline))
    }

    /// Where a refusal leads, as it came.
    var refusalLocation: String? { webSocket?.location }

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
        if webSocket == nil, !isEncrypted, pendingBytes == 0 {
            wire.removeAll(keepingCapacity: true)
            wireStart = 0
            swap(&wire, &bytes)
        } else if webSocket == nil, !isEncrypted {
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

    var isLingering: Bool {
        if case .lingering = phase { return true }
        return false
    }
}
