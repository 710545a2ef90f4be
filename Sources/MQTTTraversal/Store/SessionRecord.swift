internal import MQTTCore

/// A change of a session as the bytes of a record: its kind, then its fields, integers in big-endian order.
enum SessionRecord {
    fileprivate enum Kind: UInt8 {
        case began = 1
        case ended
        case mustStartClean
        case clientIdentifierAssigned
        case queued
        case dequeued
        case outgoingStored
        case outgoingReleased
        case outgoingCompleted
        case incomingStored
        case incomingReleased
        case subscribed
        case unsubscribed
    }

    /// - Throws: for a message that no PUBLISH packet can carry; nothing is appended then.
    static func append(_ change: SessionChange, to output: inout [UInt8]) throws(EncodeError) {
        switch change {
        case .began(let version):
            output.append(Kind.began)
            output.append(version == .v5 ? 5 : 4)
        case .ended: output.append(Kind.ended)
        case .mustStartClean: output.append(Kind.mustStartClean)
        case .clientIdentifierAssigned(let identifier):
            output.append(Kind.clientIdentifierAssigned)
            output.append(contentsOf: identifier.utf8)
        case .queued(let publish, let stamp):
            let start = output.count
            output.append(Kind.queued)
            output.append(integer: stamp)
            var packet = publish
            // The packet has to have one; it is left out when the record is read.
            packet.packetIdentifier = 1
            packet.isDuplicate = false
            do { try packet.encode(for: .v5, into: &output) } catch {
                output.removeSubrange(start...)
                throw error
            }
        case .dequeued(let stamp):
            output.append(Kind.dequeued)
            output.append(integer: stamp)
        case .outgoingStored(let identifier, let stamp):
            output.append(Kind.outgoingStored)
            output.append(integer: identifier)
            output.append(integer: stamp)
        case .outgoingReleased(let identifier): output.append(.outgoingReleased, identifier)
        case .outgoingCompleted(let identifier): output.append(.outgoingCompleted, identifier)
        case .incomingStored(let identifier): output.append(.incomingStored, identifier)
        case .incomingReleased(let identifier): output.append(.incomingReleased, identifier)
        case .subscribed(let subscription):
            output.append(Kind.subscribed)
            output.append(integer: subscription.order)
            let options = subscription.options
            output.append(
                options.qos.rawValue | (options.noLocal ? 4 : 0) | (options.retainAsPublished ? 8 : 0)
                    | options.retainHandling.rawValue << 4)
            // 0 is no Subscription Identifier (section 3.8.2.1.2).
            output.append(integer: subscription.subscriptionIdentifier ?? 0)
            output.append(contentsOf: subscription.topicFilter.utf8)
        case .unsubscribed(let topicFilter):
            output.append(Kind.unsubscribed)
            output.append(contentsOf: topicFilter.utf8)
        }
    }

    /// - Returns: nil for bytes that `append` doesn't make.
    static func change(in bytes: ArraySlice<UInt8>) -> SessionChange? {
        var rest = bytes
        guard let kind = rest.popFirst().flatMap(Kind.init) else { return nil }
        let change = change(kind, &rest)
        return rest.isEmpty ? change : nil
    }

    private static func change(_ kind: Kind, _ rest: inout ArraySlice<UInt8>) -> SessionChange? {
        switch kind {
        case .began:
            switch rest.popFirst() {
            case 4: .began(.v3_1_1)
            case 5: .began(.v5)
            default: nil
            }
        case .ended: .ended
        case .mustStartClean: .mustStartClean
        case .clientIdentifierAssigned: text(&rest).map { .clientIdentifierAssigned($0) }
        case .queued: queued(&rest)
        case .dequeued: integer(&rest).map { .dequeued(stamp: $0) }
        case .outgoingStored: outgoingStored(&rest)
        case .outgoingReleased: integer(&rest).map { .outgoingReleased($0) }
        case .outgoingCompleted: integer(&rest).map { .outgoingCompleted($0) }
        case .incomingStored: integer(&rest).map { .incomingStored($0) }
        case .incomingReleased: integer(&rest).map { .incomingReleased($0) }
        case .subscribed: subscribed(&rest)
        case .unsubscribed: text(&rest).map { .unsubscribed(topicFilter: $0) }
        }
    }

    private static func queued(_ rest: inout ArraySlice<UInt8>) -> SessionChange? {
        guard let stamp: UInt64 = integer(&rest) else { return nil }
        var decoder = PacketDecoder(role: .client, version: .v5)
        guard case .publish(var publish)? = try? decoder.next(in: &rest) else { return nil }
        publish.packetIdentifier = nil
        return .queued(publish, stamp: stamp)
    }

    private static func outgoingStored(_ rest: inout ArraySlice<UInt8>) -> SessionChange? {
        guard let identifier: PacketIdentifier = integer(&rest), let stamp: UInt64 = integer(&rest) else {
            return nil
        }
        return .outgoingStored(identifier, stamp: stamp)
    }

    private static func subscribed(_ rest: inout ArraySlice<UInt8>) -> SessionChange? {
        guard let order: UInt64 = integer(&rest), let bits = rest.popFirst(),
            let qos = QoS(rawValue: bits & 3),
            let handling = SubscriptionOptions.RetainHandling(rawValue: bits >> 4),
            let identifier: UInt32 = integer(&rest), let filter = text(&rest)
        else { return nil }
        return .subscribed(
            StoredSubscription(
                topicFilter: filter,
                options: SubscriptionOptions(
                    qos: qos, noLocal: bits & 4 != 0, retainAsPublished: bits & 8 != 0,
                    retainHandling: handling),
                subscriptionIdentifier: identifier == 0 ? nil : identifier, order: order))
    }

    private static func text(_ rest: inout ArraySlice<UInt8>) -> String? {
        defer { rest = rest[rest.endIndex...] }
        return String(validating: rest, as: UTF8.self)
    }

    private static func integer<Value: FixedWidthInteger>(_ rest: inout ArraySlice<UInt8>) -> Value? {
        guard rest.count >= Value.bitWidth / 8 else { return nil }
        defer { rest = rest.dropFirst(Value.bitWidth / 8) }
        return Value(bigEndian: rest.prefix(Value.bitWidth / 8))
    }
}

extension FixedWidthInteger {
    /// The integer that the bytes say in big-endian order; they are as many as it has.
    init(bigEndian bytes: ArraySlice<UInt8>) {
        self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
    }
}

extension [UInt8] {
    mutating func append(integer: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: integer.bigEndian) { append(contentsOf: $0) }
    }

    fileprivate mutating func append(_ kind: SessionRecord.Kind, _ identifier: PacketIdentifier) {
        append(kind)
        append(integer: identifier)
    }

    fileprivate mutating func append(_ kind: SessionRecord.Kind) { append(kind.rawValue) }
}
