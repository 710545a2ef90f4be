public import MQTTTransport

/// What a program's code is told when an attempt to connect asks it for something.
public struct ConnectionAttempt: Sendable, Hashable {
    /// Counts from 1 since the last connection.
    public var number: Int
    /// Why the last attempt or connection failed; nil where none has.
    public var lastError: MQTTError?
    /// For credentials the client's profile, or that of the server that it was sent to; for the request of a WebSocket
    /// the way that is to be taken.
    public var profile: ConnectionProfile

    public init(number: Int, lastError: MQTTError? = nil, profile: ConnectionProfile) {
        self.number = number
        self.lastError = lastError
        self.profile = profile
    }
}

/// User name and password of CONNECT.
public struct Credentials: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    public var userName: String?
    public var password: [UInt8]?

    public init(userName: String?, password: [UInt8]? = nil) {
        self.userName = userName
        self.password = password
    }

    public init(userName: String?, password: some StringProtocol) {
        self.init(userName: userName, password: Array(password.utf8))
    }

    /// The user name alone.
    public var description: String { userName ?? "no user name" }
    public var customMirror: Mirror { Mirror(self, children: ["userName": userName as Any]) }
}
