/// A non-blocking connect to one address.
final class TCPAttempt: EventHandler {
    private let loop: EventLoop
    private let address: SocketAddress
    private let options: SocketOptions
    private var completion: ((Result<Int32, TransportError>) -> Void)?
    private var descriptor: Int32 = -1

    init(
        loop: EventLoop, address: SocketAddress, options: SocketOptions,
        completion: @escaping (Result<Int32, TransportError>) -> Void
    ) {
        self.loop = loop
        self.address = address
        self.options = options
        self.completion = completion
    }

    /// Its loop has ended.
    deinit {
        if descriptor >= 0 { Socket.close(descriptor) }
    }

    func start() {
        switch Socket.make(address.domain) {
        case .failure(let error): return finish(errno: error.number)
        case .success(let descriptor): self.descriptor = descriptor
        }
        do throws(TransportError) { try Socket.apply(options, to: descriptor) } catch {
            return fail(error)
        }
        switch Socket.connect(descriptor, to: address) {
        case .connected: finish(errno: 0)
        case .inProgress: loop.register(descriptor, handler: self, writable: true)
        case .failed(let number): finish(errno: number)
        }
    }

    func cancel() {
        completion = nil
        if descriptor >= 0 {
            loop.unregister(descriptor)
            Socket.close(descriptor)
            descriptor = -1
        }
    }

    func readable() {}

    func loopEnded() {
        cancel()
    }

    func writable() {
        finish(errno: Socket.pendingError(descriptor))
    }

    private func finish(errno number: Int32) {
        guard number == 0 else {
            return fail(
                TransportError(
                    stage: .tcp, code: Socket.code(forConnect: number), evidence: .errno(number)))
        }
        guard let completion else { return }
        self.completion = nil
        loop.unregister(descriptor)
        let connected = descriptor
        descriptor = -1
        completion(.success(connected))
    }

    private func fail(_ error: TransportError) {
        guard let completion else { return }
        cancel()
        var error = error
        error.hop = address.description
        completion(.failure(error))
    }
}
