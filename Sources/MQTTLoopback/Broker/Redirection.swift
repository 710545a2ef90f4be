internal import MQTTCore

extension LoopbackBroker {
    /// Where a broker sends a client (5.0, section 4.11).
    public struct Redirection: Sendable, Hashable {
        /// The Server Reference: `host:port`, or several of them, separated by spaces.
        public var reference: String
        /// 0x9D Server moved, rather than 0x9C Use another server.
        public var isPermanent: Bool

        public init(_ reference: String, isPermanent: Bool = false) {
            self.reference = reference
            self.isPermanent = isPermanent
        }

        var reasonCode: ReasonCode { isPermanent ? .serverMoved : .useAnotherServer }
        var properties: Properties { Properties([.serverReference(reference)]) }
    }
}
