/// Tells from the ends of connections that another client uses our client identifier, where the server can't say so.
///
/// 3.1.1 has no DISCONNECT from the server: it just closes the older connection [MQTT-3.1.4-2]. Two clients that take
/// each other over reconnect at once, so that each is closed straight after its CONNACK.
package struct TakeoverSuspicion: Sendable {
    private var kicks = 0

    /// A connection that ends this soon after CONNACK, without a word, is one that may have been taken over.
    package static let window = Duration.seconds(1)
    /// A single one tells nothing: brokers restart at all times.
    private static let enough = 2

    package init() {}

    /// A connection that had been accepted has ended.
    ///
    /// - Parameter isClosedByPeer: closed or reset before a message went either way, and no party to it has said why.
    /// - Returns: whether another client is the likely reason.
    package mutating func connectionEnded(after time: Duration, isClosedByPeer: Bool) -> Bool {
        guard isClosedByPeer, time < Self.window else {
            kicks = 0
            return false
        }
        kicks += 1
        return kicks >= Self.enough
    }
}
