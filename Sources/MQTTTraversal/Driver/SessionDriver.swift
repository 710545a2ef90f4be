/// The client's loop: reads, steps the machines, carries out what they say, waits for their next deadline.
///
/// It decides nothing: whether to connect is `ConnectionLifecycle`'s word, what to send `ClientSession`'s. On its
/// event loop only.
final class SessionDriver {
    let loop: EventLoop
    let profile: ConnectionProfile
    let configuration: ClientConfiguration
    let inbox: ClientInbox
    let events: EventHub
    let board: MetricsBoard
    /// Before anything was restored.
    let initialSession: SessionConfiguration

    // For as long as the client lives.
    var session: ClientSession
    var lifecycle: ConnectionLifecycle
    var servers: ServerTrail
    var router = SubscriptionRouter()
    let tlsContexts = TLSContextStore()
    var negotiation: VersionNegotiation
    var publishes: [OperationToken: ClientInbox.PublishCompletion] = [:]
    var subscribes: [OperationToken: ClientInbox.SubscribeRequest] = [:]
    /// Cancelled while their SUBSCRIBE was under way: what it grants is given back.
    var abandonedSubscribes: [OperationToken: [TopicFilter]] = [:]
    var unsubscribes: [OperationToken: UnsafeContinuation<UnsubscribeOutcome, any Error>] = [:]
    var connects: [OperationToken: UnsafeContinuation<ConnectOutcome, any Error>] = [:]
    var disconnects: [CheckedContinuation<Void, Never>] = []
    /// Under way by `disconnect(drain:)`.
    var drain: Drain?
    var suspensions: [CheckedContinuation<Void, Never>] = []
    var reauthentications: [OperationToken: UnsafeContinuation<Void, any Error>] = [:]
    var requests = Requests()
    /// Asked for while a disconnect was under way.
    var connectsAfterEnd: [OperationToken: UnsafeContinuation<ConnectOutcome, any Error>] = [:]
    /// Why the last attempt or connection failed.
    var lastError: MQTTError?

    var idleLimit = IdleLimit()
    /// Proxies that have refused their logins since `connect()` was called last.
    var refusals: [Proxy: TransportError] = [:]
    /// What the last attempt has taught the route memory is being kept.
    var remembering: Task<Void, Never>?
    /// The program's answer that the server has refused since then: the same isn't tried twice.
    var refusedLogin: Credentials?
    var takeovers = TakeoverSuspicion()
    var networkChanges = NetworkChanges()
    /// While there is something to hold or to reach.
    var networkRegistration: NetworkWatcher.Registration?

    var storage: Storage
    /// Of this turn, for the store.
    var changes: [SessionChange] = []
    var lastChange: PersistenceToken?
    var isSyncScheduled = false

    // For one attempt.
    var attemptNumber = 0
    /// Tells the answer to a preparation from one that came too late.
    var preparations: UInt64 = 0
    var preparation = AttemptPreparation(ways: [])
    /// Which of the ways CONNECT was sent on last.
    var takenWay: ConnectionProfile

    // For one connection.
    var link = Link.none
    /// The way that was taken, or what redirects of WebSocket have made of it.
    var takenProfile: ConnectionProfile
    var decoder: PacketDecoder
    var outcome: ConnectOutcome?
    /// Why the session ended the connection, or will: it outweighs what the socket says afterwards.
    var endCause: TransportError?
    /// The server has ended the connection by this.
    var redirection: RedirectionNotice?
    var connectSent: ContinuousClock.Instant
    /// What came before CONNACK.
    var firstAnswer = FirstAnswer()
    var exchange: (any AuthenticationExchange)?
    /// The handler's step under way.
    var authenticating: Task<Void, Never>?

    // For one turn of the loop; kept for their memory.
    var output = SessionOutput()
    var meter = Meter()
    private var spareActions: [SessionAction] = []
    var operations: [ClientInbox.Operation] = []
    private var isTurnEndScheduled = false
    private var pumpedTurn: ContinuousClock.Instant?
    private var pumpedChunks = 0
    /// What waited in the stream after the last piece.
    private var pumpedBytes = 0
    private var timer: DeadlineTimer

    /// Packets are encoded in pieces of this size, and only while less than that waits in the stream.
    private static let chunkSize = 64 * 1024
    /// Acknowledgements that may wait behind the last piece. A server that keeps the rules is owed at most 65,535
    /// of each kind, of 4 bytes; one that sends on and reads nothing would fill the memory.
    private static let replyLimit = 1 << 20
    /// Pieces of one turn, so that sending never starves reading.
    private static let chunksPerTurn = 16

    init(
        loop: EventLoop, profile: ConnectionProfile, configuration: ClientConfiguration,
        sessionConfiguration: SessionConfiguration, inbox: ClientInbox, events: EventHub,
        board: MetricsBoard
    ) {
        self.loop = loop
        timer = DeadlineTimer(on: loop)
        self.profile = profile
        takenProfile = profile
        takenWay = profile
        self.configuration = configuration
        self.inbox = inbox
        self.events = events
        self.board = board
        initialSession = sessionConfiguration
        storage =
            switch configuration.sessionStore {
            case .memory: .memory
            case .directory: .closed
            }
        session = ClientSession(configuration: sessionConfiguration)
        negotiation = configuration.versionNegotiation(for: profile, now: .now)
        lifecycle = ConnectionLifecycle(
            policy: configuration.reconnectPolicy, asksForLogin: configuration.credentials != nil)
        servers = ServerTrail(
            profile: profile, configuration: configuration, stableAfter: lifecycle.policy.stableAfter)
        decoder = PacketDecoder(
            role: .client, version: negotiation.version, maximumPacketSize: configuration.maximumPacketSize)
        connectSent = .now
        session.speak(negotiation.version)
    }

    /// Takes what callers have asked for since the last time.
    func drainInbox() {
        // What this turn has read came before what callers ask for now.
        performActions()
        guard storage.isReady else { return }
        inbox.drain(&operations)
        if case .closed = storage {
            let connects = operations.contains { if case .connect = $0 { true } else { false } }
            if connects, openStorage() { return }
        }
        performTaken()
    }

    // MARK: The end of a turn

    /// Everything that this turn brings is handed on and sent at its end, together.
    func scheduleTurnEnd() {
        if isTurnEndScheduled { return }
        isTurnEndScheduled = true
        loop.flushAtEndOfTurn { [self] in
            isTurnEndScheduled = false
            turnEnded()
        }
    }

    private func turnEnded() {
        performActions()
        let (heldBytes, dropped) = router.commit { session.acknowledge($0, into: &output) }
        meter.messagesDropped(dropped)
        performActions()
        if heldBytes > configuration.subscriptionByteLimit { endForFullBuffer(heldBytes) }
        pump()
        submitChanges()
        publishMetrics()
        checkDrain()
        let deadlines = [
            session.nextDeadline, lifecycle.nextDeadline, requests.table.nextDeadline,
            networkChanges.nextDeadline, drain?.deadline,
        ]
        timer.arm(for: deadlines.lazy.compactMap { $0 }.min()) { [weak self] in self?.timerFired() }
    }

    /// Carries out what the session has said, until it says nothing more.
    ///
    /// Actions lead back to here (a `close` ends the connection, whose end has actions of its own), so a batch
    /// is taken out before it is carried out.
    func performActions() {
        // Who is told by an action finds it counted.
        if !output.actions.isEmpty { publishMetrics() }
        while !output.actions.isEmpty {
            var batch: [SessionAction] = []
            swap(&batch, &spareActions)
            swap(&batch, &output.actions)
            for action in batch { perform(action) }
            batch.removeAll(keepingCapacity: batch.capacity <= 4096)
            spareActions = batch
        }
    }

    func publishMetrics() {
        meter.publish(
            to: board,
            ClientMetrics.Queue(
                waiting: session.queuedCount, waitingBytes: session.queuedBytes,
                inFlight: session.inFlightCount),
            link.stream)
    }

    /// Encodes what may be sent now and hands it to the stream.
    func pump() {
        guard let stream = link.stream else { return updateAcceptance() }
        if pumpedTurn != loop.now {
            pumpedTurn = loop.now
            pumpedChunks = 0
        }
        if stream.pendingBytes < Self.chunkSize {
            if pumpedChunks == Self.chunksPerTurn {
                let bound = LoopBound(self, on: loop)
                loop.execute { bound.value.scheduleTurnEnd() }
            } else {
                pumpedChunks += 1
                session.encodePending(upTo: Self.chunkSize, now: loop.now, into: &output)
                performActions()
            }
            sendOutput()
            pumpedBytes = stream.pendingBytes
        } else {
            sendOutput()
            if stream.pendingBytes > pumpedBytes + Self.replyLimit {
                endForUnreadReplies(stream.pendingBytes)
            }
        }
        updateAcceptance()
    }

    func sendOutput() {
        guard !output.bytes.isEmpty else { return }
        guard let stream = link.stream else {
            // Bytes for a connection that has just gone.
            output.bytes.removeAll(keepingCapacity: true)
            output.packetEnds.removeAll(keepingCapacity: true)
            return
        }
        // Taken out, since both are parts of one property.
        var bytes: [UInt8] = []
        var packetEnds: [Int] = []
        swap(&bytes, &output.bytes)
        swap(&packetEnds, &output.packetEnds)
        meter.packetsSent(bytes, packetEnds, now: loop.now)
        stream.send(&bytes, packetEnds: &packetEnds)
        swap(&bytes, &output.bytes)
        swap(&packetEnds, &output.packetEnds)
    }

    private func updateAcceptance() {
        guard let stream = link.stream, session.state == .established else {
            inbox.setAcceptance(nil)
            return
        }
        inbox.setAcceptance(
            ClientInbox.Acceptance(
                backlog: session.queuedBytes + session.queuedCount * Publish.bookkeepingSize
                    + stream.pendingBytes,
                maximumPacketSize: session.limits.maximumPacketSize.map { Int(clamping: $0) } ?? .max,
                retainAvailable: session.limits.retainAvailable))
    }

    private func timerFired() {
        timer.fired()
        session.deadlineReached(now: loop.now, into: &output)
        expireRequests()
        checkNetwork()
        perform(lifecycle.deadlineReached(now: loop.now))
        scheduleTurnEnd()
    }
}
