internal import Glibc

extension Resolver {
    /// Asks one name server instead of the system, which tells more: the system's resolver doesn't say why it failed.
    ///
    /// - Parameters:
    ///   - server: usually on port 53, over UDP, and over TCP where an answer is too long for that.
    ///   - limit: for all that one name takes.
    package static func asking(_ server: SocketAddress, within limit: Duration = .seconds(5)) -> Resolver {
        Resolver { host, port in
            DNSExchange(server: server).lookUp(host, within: limit)
                .map { $0.compactMap { SocketAddress(bytes: $0, port: port) } }
        }
    }
}

/// Carries a look-up out with sockets of its own, on a thread that may block.
private struct DNSExchange {
    let server: SocketAddress

    func lookUp(_ host: String, within limit: Duration) -> Result<[[UInt8]], TransportError> {
        var lookup = DNSLookup(
            name: host, identifiers: (.random(in: 0...UInt16.max), .random(in: 0...UInt16.max)),
            within: limit, now: .now)
        guard let datagrams = lookup.datagrams else {
            return failure(
                .clientInvalidArgument, .text("\(host) is no name that a name server can be asked for"))
        }
        let descriptor = open(SOCK_DGRAM)
        guard descriptor >= 0 else { return failure(.clientResources, .errno(errno)) }
        defer { close(descriptor) }
        // Connected, so that nobody else's datagrams get in, and so that we hear where nobody listens.
        if server.withSockaddr({ connect(descriptor, $0, $1) }) != 0 {
            return failure(.dnsTimeout, .errno(errno))
        }
        var isRefused = isRefused(sending: datagrams, on: descriptor)
        while !isRefused {
            if let outcome = lookup.outcome(now: .now) { return result(outcome) }
            if !lookup.streamQueries.isEmpty { askOverTCP(&lookup) }
            if let outcome = lookup.outcome(now: .now) { return result(outcome) }
            if isReady(descriptor, POLLIN, until: lookup.nextDeadline) {
                var buffer = [UInt8](repeating: 0, count: 65536)
                let count = recv(descriptor, &buffer, buffer.count, 0)
                isRefused = count < 0 && errno == ECONNREFUSED
                if count >= 0 { lookup.receive(Array(buffer[..<count]), now: .now) }
            } else if lookup.deadlineReached(now: .now) {
                isRefused = self.isRefused(sending: lookup.datagrams ?? [], on: descriptor)
            }
        }
        return failure(.dnsRefused, .errno(ECONNREFUSED))
    }

    /// - Returns: whether nobody listens there, as an earlier datagram was told; one that gets lost here is sent again
    ///   like one that gets lost on the way.
    private func isRefused(sending datagrams: [[UInt8]], on descriptor: Int32) -> Bool {
        datagrams.contains { datagram in
            Glibc.send(descriptor, datagram, datagram.count, Int32(MSG_NOSIGNAL)) < 0 && errno == ECONNREFUSED
        }
    }

    /// What doesn't come over this connection isn't asked for again: the look-up's time runs out.
    private func askOverTCP(_ lookup: inout DNSLookup) {
        let descriptor = open(SOCK_STREAM)
        guard descriptor >= 0 else { return waitOut(lookup) }
        defer { close(descriptor) }
        let deadline = lookup.nextDeadline
        var rest: [UInt8] = []
        for query in lookup.streamQueries {
            rest += [UInt8(query.count >> 8), UInt8(truncatingIfNeeded: query.count)] + query
        }
        let began = server.withSockaddr { connect(descriptor, $0, $1) }
        guard began == 0 || errno == EINPROGRESS, isReady(descriptor, POLLOUT, until: deadline) else {
            return waitOut(lookup)
        }
        guard Glibc.send(descriptor, rest, rest.count, Int32(MSG_NOSIGNAL)) == rest.count else {
            return waitOut(lookup)
        }
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while !lookup.streamQueries.isEmpty, isReady(descriptor, POLLIN, until: deadline) {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count < 0, errno == EAGAIN || errno == EINTR { continue }
            guard count > 0 else { return waitOut(lookup) }
            received += buffer[..<count]
            while received.count >= 2 {
                let size = Int(received[0]) << 8 | Int(received[1])
                guard received.count >= size + 2 else { break }
                lookup.receive(Array(received[2..<(size + 2)]), overTCP: true, now: .now)
                received.removeFirst(size + 2)
            }
        }
    }

    /// A connection that failed at once mustn't be tried again at once.
    private func waitOut(_ lookup: DNSLookup) { _ = isReady(-1, 0, until: lookup.nextDeadline) }

    private func open(_ kind: __socket_type) -> Int32 {
        socket(
            server.domain,
            Int32(kind.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    }

    /// - Returns: whether the descriptor is ready; false at the deadline.
    private func isReady(_ descriptor: Int32, _ events: Int32, until deadline: ContinuousClock.Instant)
        -> Bool
    {
        while true {
            let left = ContinuousClock.now.duration(to: deadline)
            guard left > .zero else { return false }
            let (seconds, attoseconds) = left.components
            // Rounded up, or the last millisecond would spin.
            let milliseconds = Int32(clamping: seconds * 1000 + attoseconds / 1_000_000_000_000_000 + 1)
            var entry = pollfd(fd: descriptor, events: Int16(events), revents: 0)
            if poll(&entry, 1, milliseconds) > 0 { return true }
        }
    }

    private func result(_ outcome: DNSLookup.Outcome) -> Result<[[UInt8]], TransportError> {
        switch outcome {
        case .addresses(let addresses): .success(addresses)
        case .failed(let code, let seen): failure(code, .text("the name server \(server) was asked: \(seen)"))
        }
    }

    private func failure<Value>(
        _ code: FailureCode, _ evidence: TransportError.Evidence
    ) -> Result<Value, TransportError> {
        .failure(TransportError(stage: .resolve, code: code, hop: server.description, evidence: evidence))
    }
}
