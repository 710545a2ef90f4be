internal import Glibc

/// An open way through a proxy: what comes from the descriptor now is the server's.
struct ProxyTunnel {
    let descriptor: Int32
    /// TLS to the proxy, inside which everything goes on.
    let tls: TLSStage?
    /// What has come behind the proxy's reply.
    let early: [UInt8]
}

/// From a connection to a proxy to an open tunnel. Decides nothing: it moves bytes between the socket, TLS to the
/// proxy where there is some, and the protocol's machine.
final class ProxyAttempt: EventHandler {
    enum Machine {
        case http(HTTPConnect)
        case socks5(SOCKS5)
    }

    private let loop: EventLoop
    private let route: Route
    /// Of the proxy.
    private let address: SocketAddress
    private let context: TLSContext?
    private let handler: ProxyLoginHandler?
    private var machine: Machine
    private var completion: ((Result<ProxyTunnel, TransportError>) -> Void)?

    private var descriptor: Int32 = -1
    private var tls: TLSStage?
    private var wire: [UInt8] = []
    /// What reading shows to be the proxy's reason comes first.
    private var writeError: Int32?
    /// Where the proxy wants the next request on a new connection.
    private var reconnecting: TCPAttempt?
    /// What the proxy's question waits for.
    private var asking: Asking?
    private var kerberos: Kerberos?

    private enum Asking {
        case program(Task<Void, Never>)
        case kerberos
    }

    init(
        loop: EventLoop, route: Route, address: SocketAddress, context: TLSContext?, machine: Machine,
        handler: ProxyLoginHandler?,
        completion: @escaping (Result<ProxyTunnel, TransportError>) -> Void
    ) {
        self.loop = loop
        self.route = route
        self.address = address
        self.context = context
        self.handler = handler
        self.machine = machine
        self.completion = completion
    }

    /// Its loop has ended.
    deinit {
        if descriptor >= 0 { Socket.close(descriptor) }
    }

    /// Takes over a connected descriptor.
    func start(_ descriptor: Int32) {
        self.descriptor = descriptor
        wire = []
        writeError = nil
        loop.register(descriptor, handler: self)
        do throws(TransportError) {
            if let context, let proxy = route.proxy {
                tls = try TLSStage(
                    context: context,
                    target: TLSTarget(
                        serverName: proxy.tls?.serverName ?? proxy.host, port: proxy.port, options: proxy.tls)
                )
                try advanceTLS()
            } else {
                startMachine()
            }
        } catch {
            return fail(error)
        }
        flush()
    }

    func cancel() {
        completion = nil
        stopAsking()
        reconnecting?.cancel()
        reconnecting = nil
        disconnect()
    }

    /// Who on this side has been asked and hasn't answered, for a person; nil where it is the proxy's turn.
    var awaited: String? {
        switch asking {
        case nil: nil
        case .program: "the proxy's login handler"
        case .kerberos: "Kerberos, asked for a ticket for the proxy,"
        }
    }

    /// What SOCKS has logged in with.
    var credentials: ProxyCredentials? {
        switch machine {
        case .http: nil
        case .socks5(let socks): socks.credentials
        }
    }

    func readable() {
        for _ in 0..<ByteStream.readsPerTurn where descriptor >= 0 {
            switch Socket.read(descriptor, into: loop.wireBuffer) {
            case .bytes(let count):
                do throws(TransportError) {
                    try receive(UnsafeRawBufferPointer(rebasing: loop.wireBuffer.prefix(count)))
                } catch {
                    return fail(error)
                }
                flush()
            case .wouldBlock: return
            case .end: return ended(errno: writeError)
            case .failed(let number): return ended(errno: number)
            }
        }
    }

    func writable() { flush() }

    func loopEnded() { cancel() }

    private func receive(_ bytes: UnsafeRawBufferPointer) throws(TransportError) {
        guard let tls else { return try receivePlain(bytes) }
        tls.receive(bytes)
        try advanceTLS()
    }

    private func advanceTLS() throws(TransportError) {
        guard let tls else { return }
        // What an open tunnel has to say is for its owner to send.
        defer { if descriptor >= 0 { tls.drain(into: &wire) } }
        if !tls.isHandshakeComplete {
            guard try tls.handshake() else { return }
            startMachine()
        }
        // Once the tunnel is open, what is left in there is the next owner's.
        while descriptor >= 0, self.tls === tls {
            switch try tls.read(into: loop.plainBuffer) {
            case .bytes(let count):
                try receivePlain(UnsafeRawBufferPointer(rebasing: loop.plainBuffer.prefix(count)))
            case .needsMore: return
            case .closed: return ended(errno: nil)
            }
        }
    }

    private func startMachine() {
        var output: [UInt8] = []
        machine.start(into: &output)
        send(output)
    }

    private func receivePlain(_ bytes: UnsafeRawBufferPointer) throws(TransportError) {
        var input = bytes
        var output: [UInt8] = []
        let progress = try machine.receive(&input, output: &output)
        advance(progress, output, early: input)
    }

    private func advance(
        _ progress: ProxyProgress, _ output: [UInt8],
        early: UnsafeRawBufferPointer = .init(start: nil, count: 0)
    ) {
        switch progress {
        case .needsMore: send(output)
        case .open: opened(early: Array(early))
        case .reconnect: reconnect()
        case .asks(let question): ask(question)
        }
    }

    // MARK: Questions

    private func ask(_ question: ProxyQuestion) {
        guard let proxy = route.proxy else { return }
        let bound = LoopBound(WeakAttempt(attempt: self), on: loop)
        switch question {
        case .program(let schemes, let attempt, let tried):
            guard let handler else { return }
            let challenge = ProxyChallenge(proxy: proxy, schemes: schemes, attempt: attempt, tried: tried)
            // A deadline runs: ahead of work that has none.
            asking = .program(
                Task(priority: .high) {
                    let answer: ProxyAnswer
                    do {
                        answer = .program(try await handler(challenge))
                    } catch {
                        answer = .failed("\(error)")
                    }
                    bound.execute { $0.attempt?.answered(answer) }
                })
        case .negotiate(let token):
            asking = .kerberos
            let kerberos = kerberos ?? Kerberos(host: proxy.host)
            self.kerberos = kerberos
            kerberos.step(token) { answer in bound.execute { $0.attempt?.answered(answer) } }
        }
    }

    private func answered(_ answer: ProxyAnswer) {
        guard asking != nil else { return }
        asking = nil
        var output: [UInt8] = []
        do throws(TransportError) {
            advance(try machine.answer(answer, output: &output), output)
        } catch {
            return fail(error)
        }
        tls?.drain(into: &wire)
        flush()
    }

    private func stopAsking() {
        if case .program(let task) = asking { task.cancel() }
        asking = nil
    }

    // MARK: The wire

    private func send(_ output: [UInt8]) {
        guard let tls else { return wire.append(contentsOf: output) }
        // Over a memory BIO only a broken TLS fails, which reading finds too.
        try? tls.write(output)
    }

    private func flush() {
        guard descriptor >= 0, writeError == nil else { return }
        var isBlocked = false
        while !wire.isEmpty, !isBlocked {
            switch wire.withUnsafeBytes({ Socket.write(descriptor, $0) }) {
            case .bytes(let count): wire.removeFirst(count)
            case .wouldBlock: isBlocked = true
            case .failed(let number):
                writeError = number
                wire = []
            }
        }
        loop.setInterest(descriptor, writable: isBlocked)
    }

    private func opened(early: [UInt8]) {
        loop.unregister(descriptor)
        let tunnel = ProxyTunnel(descriptor: descriptor, tls: tls, early: early)
        descriptor = -1
        finish(.success(tunnel))
    }

    /// On a new connection, with what is known by now.
    func reconnect() {
        disconnect()
        let attempt = TCPAttempt(loop: loop, address: address, options: route.socket) { [weak self] result in
            guard let self else {
                if case .success(let descriptor) = result { Socket.close(descriptor) }
                return
            }
            self.reconnecting = nil
            switch result {
            case .success(let descriptor): self.start(descriptor)
            case .failure(let error): self.fail(error.atProxy)
            }
        }
        reconnecting = attempt
        attempt.start()
    }

    private func ended(errno number: Int32?) {
        if let tls, !tls.isHandshakeComplete {
            // A record that was cut off says more than the end itself.
            tls.receivedEOF()
            do throws(TransportError) { _ = try tls.handshake() } catch {
                return fail(error)
            }
        }
        if let progress = machine.connectionEnded() {
            disconnect()
            return advance(progress, [])
        }
        let code: FailureCode =
            switch number {
            case nil: .tcpClosed
            case ECONNRESET?, EPIPE?: .tcpReset
            case .some: .tcpFailed
            }
        fail(TransportError(stage: .proxy, code: code, evidence: number.map { .errno($0) } ?? .none))
    }

    private func fail(_ error: TransportError) {
        // The alert that says why goes out before we leave.
        tls?.drain(into: &wire)
        flush()
        stopAsking()
        disconnect()
        var error = error
        if error.stage != .local { error.stage = .proxy }
        if error.hop == nil { error.hop = address.description }
        finish(.failure(error))
    }

    private func finish(_ result: Result<ProxyTunnel, TransportError>) {
        let completion = completion
        self.completion = nil
        completion?(result)
    }

    private func disconnect() {
        tls = nil
        guard descriptor >= 0 else { return }
        loop.unregister(descriptor)
        Socket.close(descriptor)
        descriptor = -1
    }
}

extension ProxyAttempt.Machine {
    fileprivate mutating func start(into output: inout [UInt8]) {
        switch self {
        case .http(var connect):
            connect.start(into: &output)
            self = .http(connect)
        case .socks5(var socks):
            socks.start(into: &output)
            self = .socks5(socks)
        }
    }

    fileprivate mutating func receive(
        _ input: inout UnsafeRawBufferPointer, output: inout [UInt8]
    ) throws(TransportError) -> ProxyProgress {
        switch self {
        case .http(var connect):
            defer { self = .http(connect) }
            return try connect.receive(&input, output: &output)
        case .socks5(var socks):
            defer { self = .socks5(socks) }
            return try socks.receive(&input, output: &output)
        }
    }

    fileprivate mutating func answer(
        _ answer: ProxyAnswer, output: inout [UInt8]
    ) throws(TransportError) -> ProxyProgress {
        switch self {
        case .http(var connect):
            defer { self = .http(connect) }
            return try connect.answer(answer, output: &output)
        case .socks5(var socks):
            defer { self = .socks5(socks) }
            return try socks.answer(answer, output: &output)
        }
    }

    fileprivate mutating func connectionEnded() -> ProxyProgress? {
        switch self {
        case .http(var connect):
            defer { self = .http(connect) }
            return connect.connectionEnded()
        case .socks5: return nil
        }
    }
}

/// A handler that hangs keeps no attempt alive.
private struct WeakAttempt {
    weak var attempt: ProxyAttempt?
}
