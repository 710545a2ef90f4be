import Foundation
import MQTTLoopback
import MQTTTransport
import Testing

/// Two loops of a test's own: one for the code under test, one for its peer.
struct Bench: Sendable {
    let loop: EventLoop
    let peerLoop: EventLoop

    init() throws {
        loop = try EventLoop()
        peerLoop = try EventLoop()
    }

    /// Runs a test and ends its loops.
    static func run<Result>(_ body: (Bench) async throws -> Result) async throws -> Result {
        let bench = try Bench()
        defer {
            bench.loop.stopAndJoin()
            bench.peerLoop.stopAndJoin()
        }
        return try await body(bench)
    }

    func peer(tls: TLSContext? = nil, _ scripts: [ScriptedPeer.Step]...) throws -> ScriptedPeer {
        try ScriptedPeer(on: peerLoop, tls: tls, scripts: scripts)
    }

    func client(
        _ profile: ConnectionProfile, deadlines: StageDeadlines = StageDeadlines(),
        contexts: TLSContextStore = TLSContextStore(), resolver: Resolver = .system,
        react: @escaping TestClient.Reaction = { _, _ in }, proxyLogin: ProxyLoginHandler? = nil
    ) throws -> TestClient {
        var profile = profile
        profile.deadlines = deadlines
        return try TestClient(
            loop: loop, profile: profile, contexts: contexts, resolver: resolver, proxyLogin: proxyLogin,
            react: react)
    }
}

extension ConnectionProfile {
    static func to(_ peer: ScriptedPeer, isTLS: Bool) throws -> ConnectionProfile {
        let port = Int(peer.port)
        return isTLS
            ? try .tls(host: "127.0.0.1", port: port, options: try Fixture.trust())
            : try .tcp(host: "127.0.0.1", port: port)
    }
}

extension StageDeadlines {
    /// For a peer whose opening handshake is known never to be answered.
    static let silent = StageDeadlines(webSocket: .milliseconds(300))
}

/// A connector and then the owner of its stream; remembers all that it is told.
final class TestClient: Sendable {
    enum Event: Sendable {
        case connected
        case received
        case flushed
        case closed
    }

    struct State: Sendable {
        var observations: [StageObservation] = []
        var completions: [TransportError?] = []
        var received: [UInt8] = []
        /// Writes after which something still waits.
        var partialWrites = 0
        var flushes = 0
        /// One for each call of `streamClosed`.
        var ends: [TransportError?] = []
    }

    /// Called on the loop after each event.
    typealias Reaction = @Sendable (Event, ByteStream) -> Void

    let watched = Watched(State())
    private let owner: LoopBound<Owner>

    init(
        loop: EventLoop, profile: ConnectionProfile, contexts: TLSContextStore, resolver: Resolver,
        proxyLogin: ProxyLoginHandler?,
        react: @escaping Reaction
    ) throws {
        let route = Route(profile)
        for options in [profile.tls, profile.proxy?.tls].compactMap({ $0 }) {
            _ = try contexts.context(for: options)
        }
        owner = LoopBound(
            Owner(
                loop: loop, route: route, contexts: contexts, resolver: resolver, proxyLogin: proxyLogin,
                watched: watched, react: react
            ),
            on: loop)
        owner.execute { $0.start() }
    }

    /// What the connector said; nil for success.
    func outcome() async -> TransportError? {
        let state = await watched.first { !$0.completions.isEmpty }
        return state.completions.last.flatMap { $0 }
    }

    /// What the stream's end was said to be.
    func end() async -> TransportError? {
        let state = await watched.first { !$0.ends.isEmpty }
        return state.ends.last.flatMap { $0 }
    }

    func received(_ count: Int) async -> [UInt8] {
        await watched.first { $0.received.count >= count }.received
    }

    var state: State { watched.value }

    func withStream(_ body: @escaping @Sendable (ByteStream) -> Void) {
        owner.execute { if let stream = $0.stream { body(stream) } }
    }

    /// Waits until everything queued on the loop so far has run.
    func settle() async {
        await withCheckedContinuation { continuation in owner.execute { _ in continuation.resume() } }
    }

    func send(_ packets: [UInt8]...) {
        withStream { $0.send(packets) }
    }

    func cancel() {
        owner.execute { $0.connector?.cancel() }
    }

    private final class Owner: ByteStreamDelegate {
        let loop: EventLoop
        let route: Route
        let contexts: TLSContextStore
        let resolver: Resolver
        let proxyLogin: ProxyLoginHandler?
        let watched: Watched<State>
        let react: Reaction
        var connector: Connector?
        var stream: ByteStream?

        init(
            loop: EventLoop, route: Route, contexts: TLSContextStore, resolver: Resolver,
            proxyLogin: ProxyLoginHandler?, watched: Watched<State>, react: @escaping Reaction
        ) {
            self.loop = loop
            self.route = route
            self.contexts = contexts
            self.resolver = resolver
            self.proxyLogin = proxyLogin
            self.watched = watched
            self.react = react
        }

        func start() {
            let connector = Connector(
                loop: loop, route: route, contexts: contexts, proxyLogin: proxyLogin, resolver: resolver,
                observe: { [watched] observation in watched.update { $0.observations.append(observation) } },
                completion: { [unowned self] result in completed(result) })
            self.connector = connector
            connector.start()
        }

        private func completed(_ result: Result<ByteStream, TransportError>) {
            switch result {
            case .success(let stream):
                self.stream = stream
                stream.delegate = self
                watched.update { $0.completions.append(nil) }
                react(.connected, stream)
            case .failure(let error):
                watched.update { $0.completions.append(error) }
            }
        }

        func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

        func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
            watched.update { $0.received.append(contentsOf: bytes) }
            react(.received, stream)
        }

        func streamProgressed(_ stream: ByteStream) {
            watched.update { $0.partialWrites += 1 }
        }

        func streamFlushed(_ stream: ByteStream) {
            watched.update { $0.flushes += 1 }
            react(.flushed, stream)
        }

        func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
            watched.update { $0.ends.append(error) }
            react(.closed, stream)
        }
    }
}

extension ByteStream {
    func send(_ packets: [[UInt8]]) {
        var bytes: [UInt8] = []
        var ends: [Int] = []
        for packet in packets {
            bytes.append(contentsOf: packet)
            ends.append(bytes.count)
        }
        send(&bytes, packetEnds: &ends)
    }
}

extension StageObservation {
    var failure: TransportError? {
        if case .failed(let error) = outcome { return error }
        return nil
    }
}

/// That each stage was observed once and in order, all passed but the last, with sane times.
func expectObservations(
    _ client: TestClient, _ stages: [ConnectionStage], failure: FailureCode?,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    let observations = client.state.observations
    #expect(observations.map(\.stage) == stages, sourceLocation: sourceLocation)
    let failures = observations.map { $0.failure?.code }
    let expected = stages.dropLast().map { _ in nil as FailureCode? } + [failure]
    #expect(failures == expected, sourceLocation: sourceLocation)
    for (earlier, later) in zip(observations, observations.dropFirst()) {
        #expect(earlier.ended <= later.started, sourceLocation: sourceLocation)
    }
    for observation in observations {
        #expect(observation.duration >= .zero, sourceLocation: sourceLocation)
        #expect(observation.duration < .seconds(20), sourceLocation: sourceLocation)
    }
    #expect(client.state.completions.count == 1, sourceLocation: sourceLocation)
}

/// Certificates made once for all tests.
enum Fixture {
    private static let directory = FileManager.default.temporaryDirectory
        .appendingPathComponent("mqtt-transport-tests-\(UUID().uuidString)")
    private static let made = Result {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        return try TestCertificates().write(to: directory.path)
    }

    static func files() throws -> TestCertificates.Files { try made.get() }

    static func file(_ text: String) throws -> String {
        _ = try files()
        let path = directory.appendingPathComponent("\(UUID().uuidString).pem").path
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    static func files(_ identity: CertificateIdentity) throws -> TestCertificates.IdentityFiles {
        TestCertificates.IdentityFiles(
            certificate: try file(identity.certificate), key: try file(identity.key))
    }

    static func server(
        _ identity: TestCertificates.IdentityFiles? = nil, clientCAFile: String? = nil,
        maximumVersion: TLSOptions.Version? = nil
    ) throws -> TLSContext {
        let identity = try identity ?? files().server
        return try TLSContext(
            serverCertificateFile: identity.certificate, privateKeyFile: identity.key,
            clientCAFile: clientCAFile, maximumVersion: maximumVersion)
    }

    static func trust() throws -> TLSOptions { TLSOptions(trust: .file(try files().authority)) }
}

/// What follows the head of an HTTP message; empty before its end has come.
func afterHead(_ bytes: [UInt8]) -> [UInt8] {
    var index = 0
    while index + 4 <= bytes.count {
        if bytes[index..<index + 4].elementsEqual([13, 10, 13, 10]) { return Array(bytes[(index + 4)...]) }
        index += 1
    }
    return []
}

/// The payload of a short masked frame (RFC 6455, section 5.3).
func unmasked(_ frame: [UInt8]) -> [UInt8] {
    guard frame.count >= 6 else { return [] }
    return frame[6...].enumerated().map { $1 ^ frame[2 + $0 % 4] }
}

/// The processor time that a loop's thread uses while the test waits.
func cpuTime(of loop: EventLoop, over duration: Duration) async -> Duration {
    func used() async -> Duration {
        await withCheckedContinuation { continuation in
            loop.execute {
                var time = timespec()
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
                continuation.resume(
                    returning: .seconds(time.tv_sec) + .nanoseconds(Int64(time.tv_nsec)))
            }
        }
    }
    let before = await used()
    await withCheckedContinuation { continuation in
        loop.execute { _ = loop.schedule(at: loop.now + duration) { continuation.resume() } }
    }
    return await used() - before
}
