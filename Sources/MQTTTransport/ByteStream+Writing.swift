// What goes down to the socket, and how it ends.

extension ByteStream {
    /// Hands `plain` to the layer below.
    func passDown() {
        if plain.isEmpty { return }
        if !isEncrypted {
            if pendingBytes == 0 {
                wire.removeAll(keepingCapacity: true)
                wireStart = 0
                swap(&wire, &plain)
            } else {
                wire.append(contentsOf: plain)
            }
        } else {
            var bytes: [UInt8] = []
            swap(&bytes, &plain)
            bytes.withUnsafeBytes { encrypt($0) }
            swap(&bytes, &plain)
        }
        plain.removeAll(keepingCapacity: plain.capacity <= Self.keptCapacity)
    }

    /// Whether a layer of TLS stands between MQTT or WebSocket and the socket.
    var isEncrypted: Bool { tls != nil || proxyTLS != nil }

    func encrypt(_ bytes: UnsafeRawBufferPointer) {
        guard let outermost = tls ?? proxyTLS else { return }
        do throws(TransportError) {
            try outermost.write(bytes)
            try drainTLS()
        } catch {
            // Not at once: the owner is inside `send`, with its buffer lent to us.
            loop.flushAtEndOfTurn { [self] in finish(error, lingers: true) }
        }
    }

    /// Moves what TLS has to say on to the socket, inside the proxy's where there is one.
    func drainTLS() throws(TransportError) {
        guard let proxyTLS else {
            tls?.drain(into: &wire)
            return
        }
        if let tls {
            var records: [UInt8] = []
            tls.drain(into: &records)
            try proxyTLS.write(records)
        }
        proxyTLS.drain(into: &wire)
    }

    func scheduleFlushIfPending() {
        if pendingBytes > 0 { scheduleFlush() }
    }

    func scheduleFlush() {
        if isFlushScheduled { return }
        isFlushScheduled = true
        loop.flushAtEndOfTurn { [self] in
            isFlushScheduled = false
            flush()
        }
    }

    func flush() {
        if case .closed = phase { return }
        if writeError != nil { return }
        var hasProgressed = false
        while pendingBytes > 0 {
            let result = wire.withUnsafeBytes { bytes in
                Socket.write(descriptor, UnsafeRawBufferPointer(rebasing: bytes[wireStart...]))
            }
            switch result {
            case .bytes(let count):
                bytesWritten += count
                wireStart += count
                hasProgressed = true
            case .wouldBlock:
                compact()
                loop.setInterest(descriptor, readable: !isDrainingOnly, writable: true)
                if hasProgressed, isOpen {
                    webSocket?.progressed(now: loop.now)
                    delegate?.streamProgressed(self)
                }
                return
            case .failed(let number) where isDrainingOnly:
                return finish(endError(number), lingers: false)
            case .failed(let number):
                // The peer's last words may still be in our receive buffer: reading goes on until it ends too.
                writeError = number
                loop.setInterest(descriptor, writable: false)
                return
            }
        }
        wire.removeAll(keepingCapacity: wire.capacity <= Self.keptCapacity)
        wireStart = 0
        loop.setInterest(descriptor, readable: !isDrainingOnly, writable: false)
        if isWritingShutDown { Socket.shutdownWriting(descriptor) }
        if isDrainingOnly { return finish(nil, lingers: false) }
        if isOpen {
            webSocket?.flushed(now: loop.now)
            if webSocket?.nextDeadline != nil { armPingTimer() }
            delegate?.streamFlushed(self)
        }
    }

    /// Keeps a slow peer's queue from growing at its front.
    func compact() {
        guard wireStart > 1 << 20, wireStart > wire.count / 2 else { return }
        wire.removeSubrange(..<wireStart)
        wireStart = 0
    }

    /// FIN, after close_notify and everything that is queued.
    func shutDownWriting() {
        if isWritingShutDown { return }
        isWritingShutDown = true
        tls?.close()
        // A TLS to the proxy that is broken carries no last words.
        try? drainTLS()
        proxyTLS?.close()
        proxyTLS?.drain(into: &wire)
    }

    /// Tells the owner, and ends the connection.
    ///
    /// - Parameter lingers: there are last words to be sent: an alert, a Close frame.
    func finish(_ error: TransportError?, lingers: Bool) {
        if isFinished { return }
        let owner = delegate
        delegate = nil
        var error = error
        if case .closing = phase { error = nil }
        if error != nil, let refusal { error = refusal }
        if lingers, writeError == nil {
            if case .closing(let timer) = phase { loop.cancel(timer) }
            phase = .lingering(startTimer { $0.release(reset: false) })
            shutDownWriting()
            flush()
        } else {
            release(reset: false)
        }
        if error?.hop == nil { error?.hop = peer }
        owner?.streamClosed(self, error)
    }

    func startTimer(_ body: @escaping (ByteStream) -> Void) -> EventLoop.TimerIdentifier {
        loop.schedule(at: loop.now + Self.closeDeadline) { [weak self] in
            if let self { body(self) }
        }
    }

    func release(reset: Bool) {
        switch phase {
        case .closed: return
        case .closing(let timer), .lingering(let timer): loop.cancel(timer)
        case .establishing, .open: break
        }
        phase = .closed
        pingTimer.cancel()
        delegate = nil
        loop.unregister(descriptor)
        if reset { Socket.reset(descriptor) } else { Socket.close(descriptor) }
        wire = []
        wireStart = 0
        plain = []
    }
}
