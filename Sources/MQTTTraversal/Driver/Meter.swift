/// Counts what one turn of the loop brings, until it is published. On the loop only.
struct Meter {
    private var received = ClientMetrics.Traffic()
    private var sent = ClientMetrics.Traffic()
    private var messagesDropped = 0
    private var publishTimes: [Duration] = []
    private var pingTimes: [Duration] = []
    private var queue = ClientMetrics.Queue()
    private var hasNews = false
    /// What the present stream had carried when it was last looked at.
    private var readBefore = 0
    private var writtenBefore = 0
    /// The message whose answer is being timed: one at a time.
    private var timed: (identifier: UInt16, sent: ContinuousClock.Instant)?
    private var pingSent: ContinuousClock.Instant?

    /// What one read has brought.
    struct Arrivals {
        fileprivate var traffic = ClientMetrics.Traffic()

        mutating func count(_ packet: ControlPacket) {
            traffic.packets += 1
            if case .publish(let publish) = packet {
                traffic.count(publish.qos.rawValue, isDuplicate: publish.isDuplicate)
            }
        }
    }

    mutating func received(_ arrivals: Arrivals) {
        hasNews = true
        received.add(arrivals.traffic)
    }

    /// The server's first answer to a message.
    mutating func answered(_ identifier: UInt16, now: ContinuousClock.Instant) {
        guard let timed, timed.identifier == identifier else { return }
        publishTimes.append(timed.sent.duration(to: now))
        self.timed = nil
    }

    mutating func pingAnswered(now: ContinuousClock.Instant) {
        if let pingSent { pingTimes.append(pingSent.duration(to: now)) }
        pingSent = nil
    }

    /// Whole packets, as they are handed to the stream.
    mutating func packetsSent(_ bytes: [UInt8], _ packetEnds: [Int], now: ContinuousClock.Instant) {
        hasNews = true
        sent.packets += UInt64(packetEnds.count)
        var start = 0
        /// Of the last message that will be answered.
        var answerable: Int?
        bytes.withUnsafeBufferPointer { bytes in
            for end in packetEnds where start < bytes.count {
                // Section 2.1.1, and the flags of section 3.3.1.
                let first = bytes[start]
                if first >> 4 == 3 {
                    sent.count(first >> 1 & 3, isDuplicate: first & 8 != 0)
                    if first & 6 != 0 { answerable = start }
                } else if first == 0xC0 {
                    pingSent = now
                }
                start = end
            }
        }
        if let answerable, timed == nil {
            timed = (Self.packetIdentifier(bytes, ofPublishAt: answerable), now)
        }
    }

    mutating func messagesDropped(_ count: Int) {
        guard count > 0 else { return }
        hasNews = true
        messagesDropped += count
    }

    /// The times of this connection's unanswered packets say nothing any more.
    mutating func connectionEnded() {
        readBefore = 0
        writtenBefore = 0
        timed = nil
        pingSent = nil
    }

    /// - Parameter stream: the present one.
    mutating func publish(to board: MetricsBoard, _ queue: ClientMetrics.Queue, _ stream: ByteStream?) {
        let read = (stream?.bytesRead ?? 0) - readBefore
        let written = (stream?.bytesWritten ?? 0) - writtenBefore
        if stream != nil {
            readBefore += read
            writtenBefore += written
            received.bytes = UInt64(max(0, read))
            sent.bytes = UInt64(max(0, written))
        }
        guard hasNews || received.bytes > 0 || sent.bytes > 0 || queue != self.queue else { return }
        board.received.add(received)
        board.sent.add(sent)
        if queue != self.queue { board.setQueue(queue) }
        self.queue = queue
        if messagesDropped > 0 || !publishTimes.isEmpty || !pingTimes.isEmpty {
            board.update { metrics in
                metrics.messagesDropped += UInt64(messagesDropped)
                for time in publishTimes { metrics.publishRoundTrip.record(time) }
                for time in pingTimes { metrics.pingRoundTrip.record(time) }
            }
        }
        received = ClientMetrics.Traffic()
        sent = ClientMetrics.Traffic()
        messagesDropped = 0
        publishTimes.removeAll(keepingCapacity: true)
        pingTimes.removeAll(keepingCapacity: true)
        hasNews = false
    }

    private static func packetIdentifier(_ bytes: [UInt8], ofPublishAt start: Int) -> UInt16 {
        var index = start + 1
        // Remaining Length (section 2.1.4), then the Topic Name (section 3.3.2.1).
        while bytes[index] & 0x80 != 0 { index += 1 }
        index += 1
        index += 2 + Int(bytes[index]) << 8 + Int(bytes[index + 1])
        return UInt16(bytes[index]) << 8 | UInt16(bytes[index + 1])
    }
}

extension ClientMetrics.Traffic {
    fileprivate mutating func count(_ qos: UInt8, isDuplicate: Bool) {
        switch qos {
        case 0: atMostOnce += 1
        case 1: atLeastOnce += 1
        default: exactlyOnce += 1
        }
        if isDuplicate { duplicates += 1 }
    }

    fileprivate mutating func add(_ other: Self) {
        bytes += other.bytes
        packets += other.packets
        atMostOnce += other.atMostOnce
        atLeastOnce += other.atLeastOnce
        exactlyOnce += other.exactlyOnce
        duplicates += other.duplicates
    }
}
