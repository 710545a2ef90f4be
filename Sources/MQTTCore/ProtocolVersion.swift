/// The version of MQTT spoken on a connection (Protocol Version, section 3.1.2.2).
public enum ProtocolVersion: UInt8, Sendable, Hashable, Codable, CaseIterable {
    /// MQTT 3.1.1, Protocol Level 4.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case v3_1_1 = 4
    /// MQTT 5.0, Protocol Version 5.
    case v5 = 5
}

/// Quality of Service (section 4.3).
public enum QoS: UInt8, Sendable, Hashable, Codable, Comparable, CaseIterable {
    case atMostOnce = 0
    case atLeastOnce = 1
    case exactlyOnce = 2

    public static func < (left: QoS, right: QoS) -> Bool { left.rawValue < right.rawValue }
}

/// A packet identifier (section 2.2.1); never 0 on the wire.
package typealias PacketIdentifier = UInt16
