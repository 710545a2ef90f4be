internal import MQTTTraversal

/// What one client has published at one QoS, and what has come of it. Keeps only what isn't settled.
struct Account: Sendable {
    private struct Entry {
        /// How many sessions the client had lost when the server acknowledged it; nil as long as it hasn't.
        var lossesAtAcknowledgement: Int?
        var isReceived = false
    }

    let qos: QoS
    private(set) var published = 0
    private(set) var acknowledged = 0
    /// Received for the first time.
    private(set) var received = 0
    private(set) var repeated = 0
    /// Acknowledged by a broker that was killed before it delivered them.
    private(set) var lostWithBroker = 0
    /// Confirmed by a broker that was killed before PUBCOMP; they may have come or not.
    private(set) var abandoned = 0
    private var open: [Int: Entry] = [:]
    private var last = -1
    /// The first that was published after the broker last lost its sessions.
    private var firstOfEpoch = 0
    private var losses = 0

    init(qos: QoS) { self.qos = qos }

    /// Those whose calls haven't returned.
    var pending: Int { published - acknowledged - abandoned }

    /// - Parameter hasUnheardLoss: whether the broker has lost a session of which the client knows nothing.
    func isSettled(hasUnheardLoss: Bool) -> Bool {
        open.allSatisfy { isExcused($0, $1, hasUnheardLoss: hasUnheardLoss) }
    }

    mutating func publish() -> Int {
        defer { published += 1 }
        open[published] = Entry()
        return published
    }

    mutating func acknowledge(_ number: Int) {
        acknowledged += 1
        open[number]?.lossesAtAcknowledgement = losses
        settle(number)
    }

    /// The call failed since the session was lost; may it? Only at QoS 2, where the broker had confirmed the message by
    /// PUBREC and was killed before PUBCOMP: publishing it again could deliver it twice.
    mutating func abandon(_ number: Int) -> Bool {
        guard qos == .exactlyOnce, number < firstOfEpoch else { return false }
        abandoned += 1
        open[number] = nil
        return true
    }

    enum Complaint: Sendable, Hashable {
        case wrong(String)
        /// It came twice, which may be the broker's doing.
        case repeated
    }

    /// - Returns: what is wrong with it.
    mutating func receive(_ number: Int) -> Complaint? {
        guard 0..<published ~= number else { return .wrong("number \(number) was never published") }
        guard let entry = open[number], !entry.isReceived else {
            repeated += 1
            // What the broker had no time to acknowledge is published anew in the next session.
            let isExcused = qos == .atLeastOnce || number < firstOfEpoch
            return isExcused ? nil : .repeated
        }
        received += 1
        open[number]?.isReceived = true
        settle(number)
        if number < last { return .wrong("number \(number) came after number \(last)") }
        last = number
        return nil
    }

    /// The broker is about to lose its sessions.
    mutating func beginEpoch() { firstOfEpoch = published }

    /// The client has heard that its session is lost.
    mutating func loseSession() {
        losses += 1
        for (number, entry) in open where entry.lossesAtAcknowledgement != nil {
            lostWithBroker += 1
            open[number] = nil
        }
    }

    /// What is wrong at the end, when nothing more is to come.
    ///
    /// - Parameter hasUnheardLoss: whether the broker has lost a session of which the client knows nothing.
    func complaints(hasUnheardLoss: Bool) -> [String] {
        open.sorted { $0.key < $1.key }.compactMap { number, entry in
            if isExcused(number, entry, hasUnheardLoss: hasUnheardLoss) { return nil }
            return entry.lossesAtAcknowledgement == nil
                ? "the call that published number \(number) hangs"
                : "number \(number) was acknowledged and never came"
        }
    }

    /// Whether the broker that was killed may have acknowledged it, and taken it along.
    private func isExcused(_ number: Int, _ entry: Entry, hasUnheardLoss: Bool) -> Bool {
        hasUnheardLoss && number < firstOfEpoch && entry.lossesAtAcknowledgement != nil
    }

    private mutating func settle(_ number: Int) {
        if let entry = open[number], entry.isReceived, entry.lossesAtAcknowledgement != nil {
            open[number] = nil
        }
    }
}

/// A message that tells what it is: its QoS, its number, and bytes that follow from the number.
enum SoakPayload {
    static func make(_ qos: QoS, _ number: Int) -> [UInt8] {
        let head = [qos.rawValue] + (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
        return head + (0..<length(number)).map { filler(number, $0) }
    }

    /// In bytes.
    static func size(_ number: Int) -> Int { 9 + length(number) }

    /// - Returns: nil where a byte is wrong.
    static func read(_ payload: [UInt8]) -> (qos: QoS, number: Int)? {
        guard payload.count >= 9, let qos = QoS(rawValue: payload[0]) else { return nil }
        let number = payload[1..<9].reversed().reduce(0) { $0 << 8 | Int($1) }
        return payload == make(qos, number) ? (qos, number) : nil
    }

    /// From nothing to more than a TLS record's smallest pieces.
    private static func length(_ number: Int) -> Int { number &* 7919 & 1023 }

    private static func filler(_ number: Int, _ index: Int) -> UInt8 {
        UInt8(truncatingIfNeeded: number &* 31 &+ index)
    }
}
