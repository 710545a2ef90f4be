import CTraversalOpenSSL
import Glibc
package import MQTTTransport

/// A server that does exactly what its script says, byte for byte: for scenarios that no well-behaved broker
/// would play.
///
/// The first connection gets the first script, the second the second; the last script repeats. Everything
/// that a client sends is recorded.
package final class ScriptedPeer: Sendable {
    /// One step of a script. Bytes are those above TLS, where the peer has TLS.
    package enum Step: Sendable {
        /// These bytes come next; anything else is a mismatch, which is recorded and answered by a RST.
        case expect([UInt8])
        case expectCount(Int)
        /// Reads up to and with these bytes, such as CR LF CR LF.
        case expectUntil([UInt8])
        /// Reads until the client ends the connection.
        case expectEnd
        /// One write.
        case send([UInt8])
        /// A write for each.
        case sendSlices([[UInt8]])
        /// Reads an opening handshake and accepts it (RFC 6455, section 4.2.2) with the subprotocol `mqtt`.
        case upgradeWebSocket
        /// Reads an opening handshake and answers with these bytes, in which `{accept}` stands for the right
        /// value of Sec-WebSocket-Accept, followed by others; in writes of `writeSize` bytes, or in one.
        case answerUpgrade(String, following: [UInt8] = [], writeSize: Int? = nil)
        /// Reads a CONNECT, and answers as its version wants it.
        case answerConnect(v5: [UInt8], v311: [UInt8])
        case pause(Duration)
        /// close_notify where there is TLS, and FIN.
        case close
        /// FIN alone: under TLS a truncation.
        case closeWithoutNotify
        case reset
        /// Silent for ever, but still reading.
        case hold
        /// As the first step: accepts and never reads, nor does a TLS handshake.
        case ignore
    }

    /// What became of one connection.
    package struct Record: Sendable {
        package var received: [UInt8] = []
        /// All steps were done.
        package var isScriptDone = false
        /// Where the client left the script.
        package var mismatch: String?
        /// How the connection has ended; nil while it lives.
        package var end: End?
    }

    package enum End: Sendable, Hashable {
        /// As this script wanted it.
        case closedHere
        /// The client's FIN, its RST, a failed handshake: as the transport names it.
        case byClient(TransportError)

        /// How the client ended it, in short.
        package var code: FailureCode? {
            switch self {
            case .closedHere: nil
            case .byClient(let error): error.code
            }
        }
    }

    package let port: UInt16
    private let listener: LoopBound<Listener>
    private let acceptor: LoopBound<Acceptor>
    private let records = Watched<[Record]>([])

    /// Listens at once.
    ///
    /// - Parameters:
    ///   - loop: better not the client's, so that neither waits for the other's turn.
    ///   - address: port 0 of 127.0.0.1 by default.
    ///   - scripts: not empty.
    /// - Throws: `TransportError` at stage `local`.
    package init(
        on loop: EventLoop, address: String = "127.0.0.1", tls: TLSContext? = nil, scripts: [[Step]]
    ) throws(TransportError) {
        guard let bound = SocketAddress(literal: address, port: 0) else {
            throw TransportError(
                stage: .local, code: .clientInvalidArgument, evidence: .text("\(address) is no address"))
        }
        let acceptor = Acceptor(loop: loop, tls: tls, scripts: scripts, records: records)
        let listener = try Listener(loop: loop, address: bound) { acceptor.accept($0, $1) }
        port = listener.address.port
        self.acceptor = LoopBound(acceptor, on: loop)
        self.listener = LoopBound(listener, on: loop)
        self.listener.execute { $0.start() }
    }

    /// Stops listening and resets what is still connected.
    package func stop() {
        listener.execute { $0.close() }
        acceptor.execute { $0.stop() }
    }

    /// How many connections were accepted so far.
    package var connectionCount: Int { records.value.count }

    /// The record of a connection as soon as its script is done or was left, or the connection has ended.
    package func finished(connection index: Int = 0) async -> Record {
        await record(index) { $0.isScriptDone || $0.mismatch != nil || $0.end != nil }
    }

    /// The record of a connection once it has ended.
    package func ended(connection index: Int = 0) async -> Record {
        await record(index) { $0.end != nil }
    }

    /// The record of a connection once it meets a condition.
    package func record(
        _ index: Int = 0, when isMet: @escaping @Sendable (Record) -> Bool
    ) async -> Record {
        let all = await records.first { $0.count > index && isMet($0[index]) }
        return all.count > index ? all[index] : Record()
    }
}

/// Lives on the loop.
private final class Acceptor {
    private let loop: EventLoop
    private let tls: TLSContext?
    private let scripts: [[ScriptedPeer.Step]]
    private let records: Watched<[ScriptedPeer.Record]>
    private var connections: [ScriptedConnection] = []
    private var ignored: [Int32] = []
    private var accepted = 0

    init(
        loop: EventLoop, tls: TLSContext?, scripts: [[ScriptedPeer.Step]],
        records: Watched<[ScriptedPeer.Record]>
    ) {
        self.loop = loop
        self.tls = tls
        self.scripts = scripts
        self.records = records
    }

    func accept(_ descriptor: Int32, _ peer: String) {
        let index = accepted
        accepted += 1
        records.update { $0.append(ScriptedPeer.Record()) }
        let script = scripts[min(index, scripts.count - 1)]
        if case .ignore? = script.first {
            ignored.append(descriptor)
            return
        }
        do throws(TransportError) {
            let stream = try ByteStream(
                loop: loop, descriptor: descriptor, peer: peer, role: .server(webSocket: false),
                tlsContext: tls)
            let connection = ScriptedConnection(
                stream: stream, descriptor: descriptor, script: script,
                record: { [records] change in records.update { change(&$0[index]) } },
                ended: { [weak self] connection in self?.connections.removeAll { $0 === connection } })
            connections.append(connection)
            connection.start()
        } catch {
            close(descriptor)
            records.update { $0[index].end = .byClient(error) }
        }
    }

    func stop() {
        for connection in connections { connection.reset() }
        for descriptor in ignored { close(descriptor) }
        ignored = []
    }
}

/// One connection and what is left of its script; lives on the loop.
private final class ScriptedConnection: ByteStreamDelegate {
    private enum Outcome {
        case done
        /// More bytes, a timer or the end of this turn of the loop will go on.
        case waits
    }

    private let stream: ByteStream
    private let descriptor: Int32
    private var script: ArraySlice<ScriptedPeer.Step>
    private let record: ((inout ScriptedPeer.Record) -> Void) -> Void
    private let ended: (ScriptedConnection) -> Void
    private var unread: [UInt8] = []
    /// A pause or the end of this turn of the loop is due: bytes that come don't move the script on.
    private var isWaitingForLoop = false
    private var isEnding = false

    init(
        stream: ByteStream, descriptor: Int32, script: [ScriptedPeer.Step],
        record: @escaping ((inout ScriptedPeer.Record) -> Void) -> Void,
        ended: @escaping (ScriptedConnection) -> Void
    ) {
        self.stream = stream
        self.descriptor = descriptor
        self.script = script[...]
        self.record = record
        self.ended = ended
    }

    func start() {
        stream.delegate = self
        stream.start()
        if stream.isOpen { run() }
    }

    func reset() {
        isEnding = true
        stream.abort(nil)
    }

    // MARK: The stream

    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {
        if stream.isOpen { run() }
    }

    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
        record { $0.received.append(contentsOf: bytes) }
        if script.isEmpty { return }
        unread.append(contentsOf: bytes)
        run()
    }

    func streamFlushed(_ stream: ByteStream) {}

    func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
        if case .expectEnd? = script.first { script.removeFirst() }
        let isDone = script.isEmpty
        script = []
        record { record in
            if isDone, record.mismatch == nil { record.isScriptDone = true }
            record.end = error.map { isEnding ? .closedHere : .byClient($0) } ?? .closedHere
        }
        ended(self)
    }

    // MARK: The script

    private func run() {
        while !isWaitingForLoop, let step = script.first {
            // Taken before it is done: ending the stream calls back.
            script.removeFirst()
            if case .waits = perform(step) { return }
        }
        if script.isEmpty, !isWaitingForLoop { record { if $0.mismatch == nil { $0.isScriptDone = true } } }
    }

    private func perform(_ step: ScriptedPeer.Step) -> Outcome {
        switch step {
        case .expect(let bytes):
            if !unread.prefix(bytes.count).elementsEqual(bytes.prefix(unread.count)) {
                return leave("expected \(bytes), received \(Array(unread.prefix(bytes.count)))")
            }
            return take(bytes.count, for: step) == nil ? .waits : .done
        case .expectCount(let count):
            return take(count, for: step) == nil ? .waits : .done
        case .expectUntil(let end):
            return take(until: end, for: step) == nil ? .waits : .done
        case .expectEnd, .hold, .ignore:
            // Nothing that is received matters any more, except for the record.
            unread = []
            script = [step]
            return .waits
        case .send(let bytes):
            return send(bytes)
        case .sendSlices(let slices):
            guard let first = slices.first else { return .done }
            script = [.sendSlices(Array(slices.dropFirst()))] + script
            return send(first)
        case .upgradeWebSocket:
            return answer(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    + "Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
                following: [], writeSize: nil, step)
        case .answerUpgrade(let head, let following, let writeSize):
            return answer(head, following: following, writeSize: writeSize, step)
        case .answerConnect(let v5, let v311):
            guard let version = takeConnect(for: step) else { return .waits }
            return send(version == 5 ? v5 : v311)
        case .pause(let duration):
            isWaitingForLoop = true
            _ = stream.loop.schedule(at: stream.loop.now + duration) { [weak self] in self?.goOn() }
            return .waits
        case .close:
            isEnding = true
            stream.close()
        case .closeWithoutNotify:
            isEnding = true
            shutdown(descriptor, Int32(SHUT_WR))
        case .reset:
            reset()
        }
        return .done
    }

    private func leave(_ mismatch: String) -> Outcome {
        script = []
        record { $0.mismatch = mismatch }
        reset()
        return .waits
    }

    /// The next bytes; nil, with the step put back, until so many have come.
    private func take(_ count: Int, for step: ScriptedPeer.Step) -> [UInt8]? {
        guard unread.count >= count else {
            script = [step] + script
            return nil
        }
        let taken = Array(unread.prefix(count))
        unread.removeFirst(count)
        return taken
    }

    private func take(until end: [UInt8], for step: ScriptedPeer.Step) -> [UInt8]? {
        var count = end.count
        while count <= unread.count, !unread[..<count].suffix(end.count).elementsEqual(end) { count += 1 }
        return take(count, for: step)
    }

    /// The Protocol Level of the CONNECT that comes (3.1.2.2); nil, with the step put back, until it is there.
    private func takeConnect(for step: ScriptedPeer.Step) -> UInt8? {
        var length = 0
        var position = 1
        while position < 5, position < unread.count {
            length |= Int(unread[position] & 0x7F) << (7 * (position - 1))
            position += 1
            if unread[position - 1] & 0x80 != 0 { continue }
            guard let packet = take(position + length, for: step) else { return nil }
            return packet.count > position + 6 ? packet[position + 6] : 0
        }
        script = [step] + script
        return nil
    }

    /// The script goes on when this has been written.
    private func send(_ bytes: [UInt8]) -> Outcome {
        var bytes = bytes
        var ends = [bytes.count]
        stream.send(&bytes, packetEnds: &ends)
        isWaitingForLoop = true
        stream.loop.flushAtEndOfTurn { [self] in goOn() }
        return .waits
    }

    private func goOn() {
        isWaitingForLoop = false
        run()
    }

    private func answer(
        _ head: String, following: [UInt8], writeSize: Int?, _ step: ScriptedPeer.Step
    ) -> Outcome {
        guard let request = take(until: [13, 10, 13, 10], for: step) else { return .waits }
        guard let key = Self.key(in: String(decoding: request, as: UTF8.self)) else {
            return leave("the request has no Sec-WebSocket-Key")
        }
        let parts = head.split(separator: "{accept}", omittingEmptySubsequences: false)
        let bytes = Array(parts.joined(separator: Self.accept(forKey: key)).utf8) + following
        let size = max(1, writeSize ?? bytes.count)
        let slices = stride(from: 0, to: bytes.count, by: size).map {
            Array(bytes[$0..<min($0 + size, bytes.count)])
        }
        script = [.sendSlices(slices)] + script
        return .done
    }

    private static func key(in request: String) -> Substring? {
        for line in request.split(separator: "\r\n") {
            guard let colon = line.firstIndex(of: ":") else { continue }
            if line[..<colon].lowercased() == "sec-websocket-key" {
                return line[line.index(after: colon)...].drop { $0 == " " }
            }
        }
        return nil
    }

    /// RFC 6455, section 4.2.2, item 5.4; computed here rather than by the code that scripts test.
    private static func accept(forKey key: Substring) -> String {
        let text = Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)
        var digest = [UInt8](repeating: 0, count: Int(SHA_DIGEST_LENGTH))
        SHA1(text, text.count, &digest)
        var encoded = [UInt8](repeating: 0, count: 29)
        EVP_EncodeBlock(&encoded, digest, Int32(digest.count))
        return String(decoding: encoded.prefix(28), as: UTF8.self)
    }
}
