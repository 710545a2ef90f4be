/// A connection to one of a host's addresses, as an `AddressRace` decides.
///
/// It calls `completion` exactly once, unless it is cancelled first.
final class TCPRace {
    enum Outcome {
        /// The descriptor is the receiver's now.
        case connected(Int32, SocketAddress, detail: String)
        case failed([TransportError])
    }

    private let loop: EventLoop
    private let options: SocketOptions
    private var race: AddressRace
    private var attempts: [Int: TCPAttempt] = [:]
    private var timer: DeadlineTimer
    private var completion: ((Outcome) -> Void)?

    init(
        loop: EventLoop, race: AddressRace, options: SocketOptions,
        completion: @escaping (Outcome) -> Void
    ) {
        self.loop = loop
        self.options = options
        self.race = race
        timer = DeadlineTimer(on: loop)
        self.completion = completion
    }

    func start() { perform(race.start(now: loop.now)) }

    func cancel() {
        completion = nil
        timer.cancel()
        for attempt in attempts.values { attempt.cancel() }
        attempts = [:]
    }

    private func start(_ index: Int) {
        let address = race.addresses[index]
        let attempt = TCPAttempt(loop: loop, address: address, options: options) { [weak self] result in
            guard let self else {
                if case .success(let descriptor) = result { Socket.close(descriptor) }
                return
            }
            self.attempts[index] = nil
            switch result {
            case .success(let descriptor): self.perform(self.race.connected(index), descriptor)
            case .failure(let error): self.perform(self.race.failed(index, error, now: self.loop.now))
            }
        }
        attempts[index] = attempt
        attempt.start()
    }

    /// - Parameter descriptor: of the connection that may win by these actions.
    private func perform(_ actions: [AddressRace.Action], _ descriptor: Int32? = nil) {
        for action in actions {
            switch action {
            case .start(let index): start(index)
            case .cancel(let index): attempts.removeValue(forKey: index)?.cancel()
            case .won(let index, let detail):
                guard let descriptor else { continue }
                finish(.connected(descriptor, race.addresses[index], detail: detail))
            case .failed(let errors): finish(.failed(errors))
            }
        }
        timer.arm(for: race.nextDeadline) { [weak self] in
            guard let self else { return }
            self.timer.fired()
            self.perform(self.race.deadlineReached(now: self.loop.now))
        }
    }

    private func finish(_ outcome: Outcome) {
        let completion = completion
        self.completion = nil
        completion?(outcome)
    }
}
