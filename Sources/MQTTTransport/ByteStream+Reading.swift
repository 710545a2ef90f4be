internal import Glibc

// What comes from the socket, up through the layers.

extension ByteStream: EventHandler {
    package func readable() {
        for read in 0..<Self.readsPerTurn {
            if case .closed = phase { return }
            if read > 0, ContinuousClock.now - loop.now > Self.turnBudget { break }
            switch Socket.read(descriptor, into: loop.wireBuffer) {
            case .bytes(let count):
                bytesRead += count
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

    package func loopEnded() {
        release(reset: false)
    }

    func receive(_ bytes: UnsafeMutableRawBufferPointer) {
        if let proxyTLS {
            proxyTLS.receive(UnsafeRawBufferPointer(bytes))
            readProxyTLS()
        } else {
            receiveFromServer(bytes)
        }
    }

    /// What came behind the proxy's reply.
    func receiveEarly() {
        var bytes: [UInt8] = []
        swap(&bytes, &early)
        if !bytes.isEmpty, !isFinished { bytes.withUnsafeMutableBytes { receiveFromServer($0) } }
        readProxyTLS()
        flush()
    }

    private func readProxyTLS() {
        guard let proxyTLS else { return }
        do throws(TransportError) {
            while !isFinished {
                // What was read from the socket has been copied: its buffer is free.
                switch try proxyTLS.read(into: loop.wireBuffer) {
                case .bytes(let count):
                    receiveFromServer(UnsafeMutableRawBufferPointer(rebasing: loop.wireBuffer.prefix(count)))
                case .needsMore:
                    proxyTLS.drain(into: &wire)
                    return
                case .closed:
                    proxyTLS.drain(into: &wire)
                    return peerEnded(errno: nil)
                }
            }
        } catch {
            var error = error
            error.stage = .proxy
            finish(error, lingers: true)
        }
    }

    private func receiveFromServer(_ bytes: UnsafeMutableRawBufferPointer) {
        if let tls {
            tls.receive(UnsafeRawBufferPointer(bytes))
            advanceTLS()
        } else {
            receivePlain(bytes)
        }
    }

    /// Moves the TLS handshake on, then hands up what can be decrypted.
    func advanceTLS() {
        guard let tls else { return }
        do throws(TransportError) {
            if !tls.isHandshakeComplete {
                let isComplete = try tls.handshake()
                try drainTLS()
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
                    try drainTLS()
                    return peerEnded(errno: nil)
                }
            }
            // Reading may have produced an answer: a KeyUpdate, an alert.
            try drainTLS()
        } catch {
            // The alert that says why goes out before we leave.
            try? drainTLS()
            finish(error, lingers: true)
        }
    }

    /// Whether incoming bytes no longer matter.
    var isFinished: Bool {
        switch phase {
        case .establishing, .open, .closing: false
        case .lingering, .closed: true
        }
    }

    func startWebSocket() {
        // The owner may have ended the stream when it heard of TLS.
        guard webSocket != nil, !isFinished else { return }
        webSocket?.start(into: &plain)
        passDown()
    }

    func receivePlain(_ bytes: UnsafeMutableRawBufferPointer) {
        if webSocket == nil {
            delegate?.stream(self, received: UnsafeRawBufferPointer(bytes))
            return
        }
        var input = bytes
        do throws(TransportError) {
            webSocket?.received(now: loop.now)
            while let event = try webSocket?.next(
                in: &input, output: &plain, random: &loop.random, now: loop.now)
            {
                switch event {
                // One Pong answers all Pings before it (RFC 6455, section 5.5.3): a peer that pings and never
                // reads must not fill our memory.
                case .ping: if pendingBytes > Self.replyLimit { plain.removeAll() } else { passDown() }
                case .pong: armPingTimer()
                case .opened(let detail):
                    armPingTimer()
                    passed(.webSocket, detail)
                case .refused: awaitRefusalBody()
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

    func armPingTimer() {
        pingTimer.arm(for: webSocket?.nextDeadline) { [weak self] in self?.pingTimerFired() }
    }

    private func pingTimerFired() {
        pingTimer.fired()
        guard case .open = phase else { return }
        if let error = webSocket?.deadlineReached(now: loop.now, output: &plain, random: &loop.random) {
            var error = error
            error.hop = peer
            return abort(error)
        }
        passDown()
        flush()
        armPingTimer()
    }

    /// A refusal is reported with what has come of its body by then; its sender may keep the connection open.
    private func awaitRefusalBody() {
        _ = loop.schedule(at: loop.now + Self.refusalBodyDeadline) { [weak self] in
            guard let self else { return }
            self.finish(self.refusal, lingers: true)
        }
    }

    func webSocketEnded(_ error: TransportError) {
        passDown()
        if case .closing = phase {
            // Our Close has been answered: the client's part is over (RFC 6455, section 7.1.1).
            shutDownWriting()
            flush()
        } else {
            finish(error, lingers: true)
        }
    }

    func passed(_ stage: ConnectionStage, _ detail: String) {
        let isLast = stage == .webSocket || webSocket == nil
        if isLast, case .establishing = phase { phase = .open }
        delegate?.stream(self, passed: stage, detail: detail)
    }

    func peerEnded(errno number: Int32?) {
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
    func endError(_ number: Int32?) -> TransportError {
        let evidence: TransportError.Evidence = number.map { .errno($0) } ?? .none
        if let tls, !tls.isHandshakeComplete {
            let code: FailureCode = number == nil ? .tlsEOF : .tlsResetAfterHello
            return TransportError(stage: .tls, code: code, evidence: evidence)
        }
        let stage: ConnectionStage = isOpen ? .established : .webSocket
        if number == nil, let close = webSocket?.streamEnded() {
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
