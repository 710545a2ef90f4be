/// A look-up of one name's addresses at one name server, without its sockets: both kinds at once, asked again when no
/// answer comes, over TCP where an answer is cut short (RFC 7766, section 5).
struct DNSLookup: Sendable {
    enum Outcome: Sendable, Hashable {
        /// Four or sixteen bytes each; those of IPv6 first.
        case addresses([[UInt8]])
        /// With what was seen.
        case failed(FailureCode, String)
    }

    private enum State: Sendable {
        case asked
        case truncated
        case answered([[UInt8]])
        case refused(DNSMessage.ResponseCode)
    }

    private var questions: [(question: DNSMessage.Question, state: State)] = []
    private let start: ContinuousClock.Instant
    private let end: ContinuousClock.Instant
    private var resendings: ArraySlice<Duration> = [.seconds(1), .seconds(3)]
    /// When the first of the two answers had an address.
    private var firstAnswer: ContinuousClock.Instant?
    private var unreadable = 0

    /// How long the other kind of address is waited for: longer than RFC 8305, section 3, has it, since whoever names a
    /// server wants to see what it says.
    static let patience = Duration.milliseconds(500)

    /// - Parameters:
    ///   - name: taken as a whole: search domains of this machine aren't tried.
    ///   - identifiers: random, so that nobody can answer who hasn't seen the question (RFC 5452, section 9.2).
    init(
        name: String, identifiers: (UInt16, UInt16), within limit: Duration, now: ContinuousClock.Instant
    ) {
        start = now
        end = now + limit
        let name = DNSMessage.canonical(name)
        // Told apart by nothing but the identifier.
        let second = identifiers.1 == identifiers.0 ? identifiers.0 &+ 1 : identifiers.1
        for (identifier, type) in zip([identifiers.0, second], DNSMessage.RecordType.allCases) {
            questions.append(
                (DNSMessage.Question(identifier: identifier, name: name, type: type), .asked))
        }
    }

    /// What has to be sent, now and once more at each deadline; nil where the name can't be asked for.
    var datagrams: [[UInt8]]? {
        var datagrams: [[UInt8]] = []
        for (question, state) in questions {
            guard case .asked = state else { continue }
            guard let query = DNSMessage.query(question) else { return nil }
            datagrams.append(query)
        }
        return datagrams
    }

    /// Queries for a connection of their own, each after its length.
    var streamQueries: [[UInt8]] {
        questions.compactMap { question, state in
            guard case .truncated = state else { return nil }
            return DNSMessage.query(question)
        }
    }

    /// Takes a datagram, or a message of a stream; whatever answers none of the questions is passed over.
    mutating func receive(_ bytes: [UInt8], overTCP: Bool = false, now: ContinuousClock.Instant) {
        for index in questions.indices {
            switch questions[index].state {
            case .asked, .truncated: break
            case .answered, .refused: continue
            }
            guard let answer = DNSMessage.answer(bytes, to: questions[index].question) else { continue }
            switch answer {
            case .addresses(let addresses):
                questions[index].state = .answered(addresses)
                if !addresses.isEmpty, firstAnswer == nil { firstAnswer = now }
            case .truncated where overTCP: break
            case .truncated: questions[index].state = .truncated
            case .error(let code): questions[index].state = .refused(code)
            }
            return
        }
        unreadable += 1
    }

    /// The next time to ask again, or to have ended.
    var nextDeadline: ContinuousClock.Instant {
        if let firstAnswer { return min(end, firstAnswer + Self.patience) }
        return resendings.first.map { min(end, start + $0) } ?? end
    }

    /// - Returns: whether the datagrams are to be sent again.
    mutating func deadlineReached(now: ContinuousClock.Instant) -> Bool {
        guard firstAnswer == nil, let next = resendings.first, now >= start + next else { return false }
        resendings.removeFirst()
        return true
    }

    /// What has come out so far; nil while an answer may still change it.
    func outcome(now: ContinuousClock.Instant) -> Outcome? {
        var addresses: [[UInt8]] = []
        var refusals: [DNSMessage.ResponseCode] = []
        var open = 0
        for (_, state) in questions {
            switch state {
            case .asked, .truncated: open += 1
            case .answered(let found): addresses += found
            case .refused(let code): refusals.append(code)
            }
        }
        // A name that doesn't exist has no address of any kind (RFC 8020, section 2).
        if refusals.contains(.nameError) { return .failed(.dnsNXDomain, "it answered NXDOMAIN") }
        if open > 0, now < end, firstAnswer.map({ now < $0 + Self.patience }) ?? true { return nil }
        if !addresses.isEmpty { return .addresses(addresses) }
        if let code = refusals.first {
            return .failed(code == .refused ? .dnsRefused : .dnsServFail, "it answered \(code)")
        }
        if open > 0 {
            let noise = unreadable > 0 ? ", and \(unreadable) answers to nothing that was asked" : ""
            return .failed(.dnsTimeout, "no answer within \(end - start)\(noise)")
        }
        return .failed(.dnsNoData, "the name exists and has no address")
    }
}
