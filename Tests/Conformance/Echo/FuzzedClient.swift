internal import MQTTTransport
internal import WebSocketCore

/// The client role: one connection to the fuzzing server for each case, one after the other.
struct FuzzedClient: Sendable {
    fileprivate let loop: EventLoop
    fileprivate let route: Route
    fileprivate let contexts = TLSContextStore()
    fileprivate let deflate: PerMessageDeflate.Options?

    /// - Parameters:
    ///   - authorityFile: whom to trust; plaintext where nil.
    ///   - deflate: what to offer of permessage-deflate; nothing where nil.
    init(port: UInt16, authorityFile: String?, deflate: PerMessageDeflate.Options?) throws {
        self.deflate = deflate
        loop = try EventLoop()
        if let authorityFile {
            let options = TLSOptions(trust: .file(authorityFile))
            route = Route(try .tls(host: "127.0.0.1", port: Int(port), options: options))
            _ = try contexts.context(for: options)
        } else {
            route = Route(try .tcp(host: "127.0.0.1", port: Int(port)))
        }
    }

    /// - Throws: where the fuzzing server can't be reached or doesn't tell the number of its cases. How a case
    ///   ends is for the server to judge.
    func runAllCases(agent: String) async throws {
        let answer = try await converse("/getCaseCount", .listen)
        guard let count = Int(String(decoding: answer, as: UTF8.self)), count > 0 else {
            throw FuzzingError.noCaseCount(answer: answer)
        }
        for number in 1...count {
            _ = try await converse("/runCase?case=\(number)&agent=\(agent)", .echo)
        }
        _ = try await converse("/updateReports?agent=\(agent)", .listen)
    }

    /// - Returns: the last message where the purpose is to listen.
    private func converse(_ path: String, _ purpose: EchoSession.Purpose) async throws -> [UInt8] {
        try await withCheckedThrowingContinuation { continuation in
            loop.execute {
                Conversation(of: self, path, purpose) { continuation.resume(with: $0) }.start()
            }
        }
    }
}

enum FuzzingError: Error {
    case noCaseCount(answer: [UInt8])
}

/// One connection of the client's. On the loop only.
private final class Conversation {
    private let client: FuzzedClient
    private let path: String
    private let purpose: EchoSession.Purpose
    private let completion: (Result<[UInt8], any Error>) -> Void
    /// Keeps the attempt alive; its completion in turn keeps us.
    private var connector: Connector?

    init(
        of client: FuzzedClient, _ path: String, _ purpose: EchoSession.Purpose,
        completion: @escaping (Result<[UInt8], any Error>) -> Void
    ) {
        self.client = client
        self.path = path
        self.purpose = purpose
        self.completion = completion
    }

    func start() {
        let connector = Connector(
            loop: client.loop, route: client.route, contexts: client.contexts, observe: { _ in },
            completion: {
                self.connector = nil
                self.connected($0)
            })
        self.connector = connector
        connector.start()
    }

    private func connected(_ result: Result<ByteStream, TransportError>) {
        do {
            let stream = try result.get()
            let handshake = try OpeningHandshake.Client(
                host: client.route.hostField, path: path, key: client.loop.random.bytes(16), subprotocols: [],
                deflate: client.deflate)
            let completion = completion
            let session = EchoSession(.client(handshake), purpose: purpose) {
                completion(.success($0.lastMessage))
            }
            session.take(over: stream)
        } catch {
            completion(.failure(error))
        }
    }
}
