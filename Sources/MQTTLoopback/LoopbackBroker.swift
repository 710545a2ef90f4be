public import MQTTCore
public import MQTTTransport

/// An MQTT 3.1.1 and 5.0 broker inside this process, for tests and demos: on TCP, TLS, WebSocket and secure
/// WebSocket at once, with certificates made at run time.
///
/// ```swift
/// let broker = try await LoopbackBroker.start()
/// var profile = try ConnectionProfile(url: broker.url(.webSocketSecure))
/// profile.tls?.trust = .file(broker.authorityFile)
/// …
/// await broker.stop()
/// ```
///
/// It isn't a production broker: nothing survives the process, passwords are compared as they are, one thread
/// serves everybody, and its switches break connections on purpose.
public final class LoopbackBroker: Sendable {
    /// The transports it listens on.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case tcp
        case tls
        case webSocket
        case webSocketSecure
    }

    /// One port to listen on.
    public struct Listening: Sendable, Hashable {
        public var kind: Kind
        /// 0 lets the system choose.
        public var port: UInt16
        /// How the port is blocked from the start; nil lets clients in.
        public var blocked: Blocking?

        public init(_ kind: Kind, port: UInt16 = 0, blocked: Blocking? = nil) {
            self.kind = kind
            self.port = port
            self.blocked = blocked
        }
    }

    /// How a blocked port treats new connections.
    public enum Blocking: Sendable, Hashable {
        /// As a port where nobody listens: RST.
        case refusing
        /// As behind a firewall that drops: no answer at all.
        case dropping
    }

    /// How a connection is broken.
    public enum Drop: Sendable, Hashable {
        /// A bare FIN: no DISCONNECT, no WebSocket Close frame, no close_notify.
        case fin
        /// RST.
        case reset
    }

    /// Which of the certificates the TLS listeners show.
    public enum ServerCertificate: Sendable, Hashable {
        case valid
        case expired
        case notYetValid
        case wrongName
        case untrusted
    }

    /// The certificates in use, a client's among them.
    public let certificates: TestCertificates
    /// Their PEM files, gone after `stop()`.
    public let files: TestCertificates.Files
    /// What each listener listens on.
    public let ports: [Kind: UInt16]

    private enum Life {
        case running(LoopBound<BrokerDriver>)
        case stopping(LoopBound<BrokerDriver>, waiting: [CheckedContinuation<Void, Never>])
        case stopped(Counters)
    }

    private let address: String
    private let webSocketPath: String
    private let directory: PrivateDirectory
    private let life: Lock<Life>

    /// Starts a broker.
    ///
    /// - Parameters:
    ///   - listeners: at most one of a kind.
    ///   - certificates: made afresh where nil, which takes some milliseconds.
    ///   - requiresClientCertificate: whether the TLS listeners ask for one signed by
    ///     `certificates.authority`.
    ///   - address: an IPv4 or IPv6 address of this machine in text form.
    ///   - webSocketPath: the one path at which WebSocket is spoken; all others are answered with 404.
    ///   - compressesWebSocket: whether it agrees to permessage-deflate where a client offers it (RFC 7692).
    /// - Throws: `TransportError` where a port can't be had, `CertificateError`.
    public static func start(
        _ configuration: BrokerConfiguration = .init(),
        listeners: [Listening] = Kind.allCases.map { Listening($0) },
        certificates: TestCertificates? = nil, serverCertificate: ServerCertificate = .valid,
        requiresClientCertificate: Bool = false, address: String = "127.0.0.1",
        webSocketPath: String = "/mqtt", compressesWebSocket: Bool = false
    ) async throws -> LoopbackBroker {
        let certificates = try certificates ?? TestCertificates()
        let directory = try PrivateDirectory()
        do {
            let files = try certificates.write(to: directory.path)
            let identity = files.server(serverCertificate)
            let context = try TLSContext(
                serverCertificateFile: identity.certificate, privateKeyFile: identity.key,
                clientCAFile: requiresClientCertificate ? files.authority : nil)
            let loop = try EventLoop()
            let driver = LoopBound(
                BrokerDriver(
                    loop: loop, configuration: configuration, webSocketPath: webSocketPath,
                    compressesWebSocket: compressesWebSocket,
                    tlsContext: context),
                on: loop)
            let ports = await withCheckedContinuation { continuation in
                driver.execute {
                    continuation.resume(returning: Self.listen($0, listeners, address))
                }
            }
            switch ports {
            case .success(let ports):
                return LoopbackBroker(
                    certificates, files, ports, address, webSocketPath, directory, driver)
            case .failure(let error):
                loop.stopAndJoin()
                throw error
            }
        } catch {
            directory.remove()
            throw error
        }
    }

    private init(
        _ certificates: TestCertificates, _ files: TestCertificates.Files, _ ports: [Kind: UInt16],
        _ address: String, _ webSocketPath: String, _ directory: PrivateDirectory,
        _ driver: LoopBound<BrokerDriver>
    ) {
        self.certificates = certificates
        self.files = files
        self.ports = ports
        self.address = address
        self.webSocketPath = webSocketPath
        self.directory = directory
        life = Lock(.running(driver))
    }

    deinit {
        guard case .running(let driver) = life.withLock({ $0 }) else { return }
        driver.execute { $0.abandon() }
        driver.loop.stopAndJoin()
        directory.remove()
    }

    /// Stops listening, tells the clients (DISCONNECT 0x8B to those with 5.0), and ends all connections; sessions
    /// and retained messages are gone. Returns when nothing is left: no thread, no descriptor, no file.
    ///
    /// Takes up to two seconds where a client doesn't close its side.
    public func stop() async {
        await withCheckedContinuation { continuation in
            life.withLock { life in
                switch life {
                case .running(let driver):
                    life = .stopping(driver, waiting: [continuation])
                    driver.execute { driver in driver.shutDown { self.finish(driver.counters) } }
                case .stopping(let driver, let waiting):
                    life = .stopping(driver, waiting: waiting + [continuation])
                case .stopped:
                    continuation.resume()
                }
            }
        }
    }

    /// Called on the loop, which can't join itself.
    private func finish(_ counters: Counters) {
        Task.detached { [self] in
            join()
            directory.remove()
            let waiting = life.withLock { life -> [CheckedContinuation<Void, Never>] in
                guard case .stopping(_, let waiting) = life else { return [] }
                // Lets go of the loop, and with it of its descriptors.
                life = .stopped(counters)
                return waiting
            }
            for continuation in waiting { continuation.resume() }
        }
    }

    private func join() {
        guard case .stopping(let driver, _) = life.withLock({ $0 }) else { return }
        driver.loop.stopAndJoin()
    }

    /// Runs `body` on the loop; `fallback` where the broker has been stopped.
    private func onLoop<Value: Sendable>(
        _ fallback: @autoclosure () -> Value, _ body: @escaping @Sendable (BrokerDriver) -> Value
    ) async -> Value {
        let result: Value? = await withCheckedContinuation { continuation in
            // Under the lock, so that the loop can't be stopped in between.
            life.withLock { life in
                switch life {
                case .running(let driver): driver.execute { continuation.resume(returning: body($0)) }
                case .stopping, .stopped: continuation.resume(returning: nil)
                }
            }
        }
        return result ?? fallback()
    }

    private static func listen(
        _ driver: BrokerDriver, _ listeners: [Listening], _ address: String
    ) -> Result<[Kind: UInt16], TransportError> {
        do throws(TransportError) {
            var ports: [Kind: UInt16] = [:]
            for listening in listeners {
                guard let socketAddress = SocketAddress(literal: address, port: listening.port) else {
                    throw invalidArgument("\"\(address)\" is no IP address")
                }
                guard ports[listening.kind] == nil else {
                    throw invalidArgument("two listeners are of the kind \(listening.kind)")
                }
                ports[listening.kind] = try driver.listen(
                    listening.kind, at: socketAddress, blocked: listening.blocked)
            }
            return .success(ports)
        } catch {
            driver.abandon()
            return .failure(error)
        }
    }

    private static func invalidArgument(_ text: String) -> TransportError {
        TransportError(stage: .local, code: .clientInvalidArgument, evidence: .text(text))
    }
}

// MARK: - Where it is

extension LoopbackBroker {
    /// What a client's profile takes, such as `wss://127.0.0.1:40123/mqtt`.
    ///
    /// The host is the broker's address. The certificate is for `localhost` too; but that name has a second address
    /// on most machines, ::1, which refuses where this broker drops.
    ///
    /// - Precondition: the broker has a listener of this kind.
    public func url(_ kind: Kind) -> String {
        guard let port = ports[kind] else {
            preconditionFailure("this broker has no listener of the kind \(kind)")
        }
        let host = address.contains(":") ? "[\(address)]" : address
        switch kind {
        case .tcp: return "mqtt://\(host):\(port)"
        case .tls: return "mqtts://\(host):\(port)"
        case .webSocket: return "ws://\(host):\(port)\(webSocketPath)"
        case .webSocketSecure: return "wss://\(host):\(port)\(webSocketPath)"
        }
    }

    /// A profile for a listener that trusts this broker's authority, where there is TLS.
    ///
    /// - Precondition: the broker has a listener of this kind.
    /// - Throws: `ProfileError` where the address or the path makes no URL.
    public func profile(_ kind: Kind) throws(ProfileError) -> ConnectionProfile {
        var profile = try ConnectionProfile(url: url(kind))
        profile.tls?.trust = .file(authorityFile)
        return profile
    }

    /// The PEM file of the authority that signed the server certificate.
    public var authorityFile: String { files.authority }

    public var authorityPEM: String { certificates.authority.certificate }
}

// MARK: - What a test does to it

extension LoopbackBroker {
    /// New connections to this listener fail from now on; those that stand live on. Has no effect on a listener
    /// that isn't there.
    ///
    /// - Throws: `TransportError` at stage `local` where the system doesn't let the port drop.
    public func block(_ kind: Kind, by means: Blocking) async throws {
        let result = await onLoop(.success(())) { driver -> Result<Void, TransportError> in
            do throws(TransportError) { return .success(try driver.block(kind, by: means)) } catch {
                return .failure(error)
            }
        }
        try result.get()
    }

    public func unblock(_ kind: Kind) async {
        await onLoop(()) { $0.unblock(kind) }
    }

    /// Breaks a client's network connection; its will is published.
    ///
    /// - Returns: whether the client had one.
    @discardableResult
    public func dropConnections(clientID: String, by means: Drop = .reset) async -> Bool {
        await onLoop(0) { $0.dropConnections(clientID: clientID, by: means) } > 0
    }

    /// Breaks all network connections.
    ///
    /// - Returns: how many there were.
    @discardableResult
    public func dropAll(by means: Drop = .reset) async -> Int {
        await onLoop(0) { $0.dropConnections(clientID: nil, by: means) }
    }

    /// Ends a client's connection in order: DISCONNECT with this reason to a client with 5.0; its will is published.
    public func disconnect(clientID: String, because reason: ReasonCode = .administrativeAction) async {
        await onLoop(()) { $0.disconnect(clientID, because: reason) }
    }

    /// Sends clients elsewhere as they connect (5.0, section 4.11), from now on; nil lets them in again. Those with 3.1.1
    /// are refused as if the server weren't available.
    public func redirectConnects(to redirection: Redirection?) async {
        await onLoop(()) { $0.core.redirection = redirection }
    }

    /// Sends a client elsewhere by DISCONNECT; one with 3.1.1 just loses its connection. Its will is published.
    public func redirect(clientID: String, to redirection: Redirection) async {
        await onLoop(()) { $0.redirect(clientID, to: redirection) }
    }

    /// Publishes a message to all whose subscriptions match.
    ///
    /// - Throws: `TransportError` (`client.invalid_argument`) for a topic that is no Topic Name.
    public func publish(
        _ payload: some Sequence<UInt8>, to topic: String, qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties()
    ) async throws {
        let publish: Publish
        do {
            publish = Publish(
                topicName: try TopicName(topic).string, payload: Array(payload), qos: qos, retain: retain,
                properties: properties)
        } catch {
            throw Self.invalidArgument("the Topic Name \"\(topic)\": \(error)")
        }
        await onLoop(()) { $0.publish(publish) }
    }

    /// Publishes text.
    public func publish(
        _ payload: some StringProtocol, to topic: String, qos: QoS = .atMostOnce, retain: Bool = false,
        properties: Properties = Properties()
    ) async throws {
        try await publish(payload.utf8, to: topic, qos: qos, retain: retain, properties: properties)
    }

    /// The identifiers of all clients that have a connection, sorted.
    public var connectedClients: [String] {
        get async { await onLoop([]) { $0.core.connectedClients.sorted() } }
    }

    /// Present numbers; after `stop()` the last ones.
    public var counters: Counters {
        get async {
            if let present = await onLoop(nil, { Optional($0.counters) }) { return present }
            if case .stopped(let counters) = life.withLock({ $0 }) { return counters }
            return Counters()
        }
    }
}

extension LoopbackBroker.Kind {
    var isEncrypted: Bool { self == .tls || self == .webSocketSecure }
    var isWebSocket: Bool { self == .webSocket || self == .webSocketSecure }
}

extension TestCertificates.Files {
    fileprivate func server(
        _ certificate: LoopbackBroker.ServerCertificate
    ) -> TestCertificates.IdentityFiles {
        switch certificate {
        case .valid: server
        case .expired: expiredServer
        case .notYetValid: notYetValidServer
        case .wrongName: wrongNameServer
        case .untrusted: untrustedServer
        }
    }
}
