/// The part of the WebSocket opening handshake that a program may decide anew for every attempt: for signed URLs and
/// tokens that expire.
public struct UpgradeRequest: Sendable, Hashable {
    /// Path and query, beginning with `/`.
    public var path: String
    /// Headers besides those of the handshake itself.
    public var headers: [WebSocketOptions.Header]

    public init(path: String, headers: [WebSocketOptions.Header] = []) {
        self.path = path
        self.headers = headers
    }
}

extension UpgradeRequest: CustomStringConvertible, CustomReflectable {
    /// Without what the query and the headers hold.
    public var description: String { "\(WebSocketOptions(path: path).shownPath) \(headers)" }
    public var customMirror: Mirror {
        Mirror(self, children: ["path": WebSocketOptions(path: path).shownPath, "headers": headers])
    }
}

extension UpgradeRequest {
    /// Asked before a route's first stage.
    package typealias Hook = @Sendable (UpgradeRequest) async throws -> UpgradeRequest
}
