/// The QoS 1 and 2 messages on their way to the server (section 4.1), found by packet identifier and
/// kept in two orders: those whose PUBLISH is unacknowledged in the order of sending [MQTT-4.6.0-1], and
/// those past PUBREC in the order of their PUBRECs [MQTT-4.6.0-4].
///
/// Acknowledgements may come in any order; each costs constant time.
struct OutgoingPublishes: Sendable {
    private var slots: [Slot] = []
    private(set) var count = 0
    /// Waiting for PUBACK or PUBREC.
    private(set) var unacknowledged = Ends()
    /// Waiting for PUBCOMP.
    private(set) var released = Ends()

    /// The two ends of a list linked by identifiers; 0 where there is none.
    struct Ends: Sendable {
        var first: PacketIdentifier = 0
        var last: PacketIdentifier = 0
    }

    private struct Slot: Sendable {
        var message: OutgoingPublish?
        var previous: PacketIdentifier = 0
        var next: PacketIdentifier = 0
    }

    subscript(identifier: PacketIdentifier) -> OutgoingPublish? {
        Int(identifier) < slots.count ? slots[Int(identifier)].message : nil
    }

    /// The stage only, without copying the message.
    func stage(of identifier: PacketIdentifier) -> OutgoingPublish.Stage? {
        Int(identifier) < slots.count ? slots[Int(identifier)].message?.stage : nil
    }

    /// The QoS only, without copying the message.
    func qos(of identifier: PacketIdentifier) -> QoS? {
        Int(identifier) < slots.count ? slots[Int(identifier)].message?.publish.qos : nil
    }

    func next(after identifier: PacketIdentifier) -> PacketIdentifier {
        slots[Int(identifier)].next
    }

    mutating func append(_ message: OutgoingPublish, identifier: PacketIdentifier) {
        while slots.count <= Int(identifier) {
            slots.append(contentsOf: repeatElement(Slot(), count: max(32, slots.count)))
        }
        slots[Int(identifier)].message = message
        count += 1
        link(identifier, at: message.stage)
    }

    mutating func update(_ identifier: PacketIdentifier, _ change: (inout OutgoingPublish) -> Void) {
        guard Int(identifier) < slots.count, var message = slots[Int(identifier)].message.take() else {
            return
        }
        change(&message)
        slots[Int(identifier)].message = message
    }

    /// PUBREC arrived: the message itself isn't needed any more.
    mutating func release(_ identifier: PacketIdentifier, storedBy: UInt64) {
        unlink(identifier, at: .awaitingPubrec)
        update(identifier) {
            $0.stage = .awaitingPubcomp
            $0.storedBy = storedBy
            $0.publish.payload = []
            $0.publish.properties = Properties()
        }
        link(identifier, at: .awaitingPubcomp)
    }

    @discardableResult
    mutating func remove(_ identifier: PacketIdentifier) -> OutgoingPublish? {
        guard Int(identifier) < slots.count, let message = slots[Int(identifier)].message.take() else {
            return nil
        }
        unlink(identifier, at: message.stage)
        count -= 1
        return message
    }

    /// The messages of one list with their identifiers, in order.
    func messages(
        from ends: Ends
    ) -> [(identifier: PacketIdentifier, message: OutgoingPublish)] {
        var result: [(identifier: PacketIdentifier, message: OutgoingPublish)] = []
        var identifier = ends.first
        while identifier != 0 {
            if let message = self[identifier] { result.append((identifier, message)) }
            identifier = next(after: identifier)
        }
        return result
    }

    mutating func removeAll() { self = OutgoingPublishes() }

    private mutating func link(_ identifier: PacketIdentifier, at stage: OutgoingPublish.Stage) {
        var ends = ends(at: stage)
        slots[Int(identifier)].previous = ends.last
        slots[Int(identifier)].next = 0
        if ends.last == 0 { ends.first = identifier } else { slots[Int(ends.last)].next = identifier }
        ends.last = identifier
        setEnds(ends, at: stage)
    }

    private mutating func unlink(_ identifier: PacketIdentifier, at stage: OutgoingPublish.Stage) {
        var ends = ends(at: stage)
        let previous = slots[Int(identifier)].previous
        let next = slots[Int(identifier)].next
        if previous == 0 { ends.first = next } else { slots[Int(previous)].next = next }
        if next == 0 { ends.last = previous } else { slots[Int(next)].previous = previous }
        setEnds(ends, at: stage)
    }

    private func ends(at stage: OutgoingPublish.Stage) -> Ends {
        switch stage {
        case .awaitingPuback, .awaitingPubrec: unacknowledged
        case .awaitingPubcomp: released
        }
    }

    private mutating func setEnds(_ ends: Ends, at stage: OutgoingPublish.Stage) {
        switch stage {
        case .awaitingPuback, .awaitingPubrec: unacknowledged = ends
        case .awaitingPubcomp: released = ends
        }
    }
}

/// A QoS 1 or 2 message that has its packet identifier.
struct OutgoingPublish: Sendable {
    /// As published, with packet identifier; emptied once PUBREC arrived.
    var publish: Publish
    /// nil when nobody waits for the outcome.
    var token: OperationToken?
    /// Whether its operation was told that it failed: it isn't published anew when the session is lost.
    var isAbandoned = false
    /// Its place among all operations.
    var stamp: UInt64
    var stage: Stage
    /// The persistence token that the next packet for it waits for; 0 for none.
    var storedBy: UInt64
    /// Whether its PUBLISH has been sent on any connection: a further one carries DUP 1.
    var wasSent: Bool
    /// Whether its PUBREL was sent again on a further connection: the server may have finished it before.
    var isRecovering = false
    /// The connection whose send quota it uses.
    var connection: UInt64
    var life = MessageLife()

    enum Stage: Sendable {
        case awaitingPuback
        case awaitingPubrec
        case awaitingPubcomp
    }
}
