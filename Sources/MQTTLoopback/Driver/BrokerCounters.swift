import MQTTCore

extension LoopbackBroker {
    /// What a broker has received and sent since it started.
    public struct Counters: Sendable, Hashable {
        /// Connections accepted, whether or not a CONNECT came.
        public internal(set) var connections: UInt64 = 0
        /// QoS 1 and 2 messages dropped at a limit, too large for their client, or expired, and QoS 0 messages
        /// dropped since their client doesn't read.
        public internal(set) var droppedMessages: UInt64 = 0
        // By packet type, 0 unused.
        private var receivedByType = [UInt64](repeating: 0, count: 16)
        private var sentByType = [UInt64](repeating: 0, count: 16)

        init() {}

        /// Packets of this kind that clients have sent.
        public func received(_ kind: PacketKind) -> UInt64 { receivedByType[Int(kind.rawValue)] }

        /// Packets of this kind that have been handed to clients' connections.
        public func sent(_ kind: PacketKind) -> UInt64 { sentByType[Int(kind.rawValue)] }

        mutating func countReceived(_ type: PacketType) { receivedByType[Int(type.rawValue)] += 1 }

        /// Reads nothing but the fixed headers (section 2.1.1).
        ///
        /// - Parameters:
        ///   - bytes: whole packets.
        ///   - packetEnds: gets the end of each.
        mutating func countSent(_ bytes: [UInt8], packetEnds: inout [Int]) {
            bytes.withUnsafeBytes { bytes in
                var start = 0
                while start < bytes.count {
                    sentByType[Int(bytes[start] >> 4)] += 1
                    var length = 0
                    var shift = 0
                    var position = start + 1
                    while position < bytes.count {
                        let byte = bytes[position]
                        length |= Int(byte & 0x7F) << shift
                        shift += 7
                        position += 1
                        if byte & 0x80 == 0 { break }
                    }
                    start = min(position + length, bytes.count)
                    packetEnds.append(start)
                }
            }
        }
    }

    /// The Control Packet types (section 2.1.2).
    public enum PacketKind: UInt8, Sendable, Hashable, CaseIterable {
        case connect = 1
        case connack, publish, puback, pubrec, pubrel, pubcomp, subscribe, suback, unsubscribe, unsuback
        case pingreq, pingresp, disconnect, auth
    }
}
