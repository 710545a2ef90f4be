internal import WebSocketCore

/// A proxy of a simulated network, at `proxy.test`. What it leads to are ports of its own, behind it.
package struct HostileProxy: Sendable {
    /// As `HTTPS_PROXY` has it; may have a login.
    package var url: String
    package var conduct: Conduct
    /// What the broker's ports are to it.
    package var behind: NetworkPorts

    package enum Conduct: Sendable {
        /// HTTP CONNECT to these ports, or to all; 403 for others.
        case http(ports: Set<UInt16>?)
        /// 407 with these challenges to whoever has no login, or not `user` with the password `secret` by Basic.
        case login([String])
        /// This answer to every request.
        case answers(String)
        /// SOCKS 5, no login wanted.
        case socks
        /// Chooses this method (RFC 1928, section 3).
        case socksMethod(UInt8)
        /// This reply to every request (section 6).
        case socksReply(UInt8)
        /// Isn't a proxy, or none that can be reached.
        case part(HostilePart)
        /// Its name doesn't resolve.
        case unresolvable
    }

    package init(
        _ conduct: Conduct, url: String = "http://proxy.test:3128", behind: NetworkPorts = .open
    ) {
        self.url = url
        self.conduct = conduct
        self.behind = behind
    }
}

/// Where a proxy's targets are; nil where it knows no such host.
typealias ProxyTargets = @Sendable (_ host: String, _ port: UInt16) -> UInt16?

/// HTTP CONNECT (RFC 9110, section 9.3.6).
struct ConnectDecider: SpliceDecider {
    enum Rule {
        case open(ports: Set<UInt16>?)
        case login([String])
        case answers(String)
    }

    let rule: Rule
    let targets: ProxyTargets
    private var parser = HTTPHeadParser(.request)

    init(_ rule: Rule, _ targets: @escaping ProxyTargets) {
        self.rule = rule
        self.targets = targets
    }

    mutating func decide(_ bytes: inout [UInt8]) -> SpliceDecision {
        let (head, used) = bytes.withUnsafeBytes { buffer in
            var rest = buffer
            let head = Result { () throws(HTTPHeadError) in try parser.receive(&rest) }
            return (head, buffer.count - rest.count)
        }
        bytes.removeFirst(used)
        guard case .success(let found) = head else { return .end(Self.answer("400 Bad Request")) }
        guard let found else { return .needsMore }
        parser = HTTPHeadParser(.request)
        return decide(found, rest: &bytes)
    }

    private func decide(_ head: HTTPHead, rest: inout [UInt8]) -> SpliceDecision {
        if case .answers(let answer) = rule { return .end(Array(answer.utf8)) }
        if case .login(let challenges) = rule,
            !head.values("Proxy-Authorization").contains("Basic \(Base64.encode(Array("user:secret".utf8)))")
        {
            let fields = challenges.map { "Proxy-Authenticate: \($0)\r\n" }.joined()
            return .say(Self.answer("407 Proxy Authentication Required", fields: fields))
        }
        guard case .request(_, let method, let target) = head.startLine, method == "CONNECT",
            let colon = target.lastIndex(of: ":"), let port = UInt16(target[target.index(after: colon)...])
        else { return .end(Self.answer("405 Method Not Allowed")) }
        if case .open(let ports?) = rule, !ports.contains(port) {
            return .end(Self.answer("403 Forbidden"))
        }
        guard let place = targets(String(target[..<colon]), port) else {
            return .end(Self.answer("502 Bad Gateway"))
        }
        defer { rest = [] }
        return .connect(
            place, first: rest, opened: Array("HTTP/1.1 200 Connection established\r\n\r\n".utf8),
            failed: Self.answer("502 Bad Gateway"))
    }

    private static func answer(_ status: String, fields: String = "") -> [UInt8] {
        Array("HTTP/1.1 \(status)\r\n\(fields)Content-Length: 0\r\n\r\n".utf8)
    }
}

/// SOCKS 5 (RFC 1928).
struct SOCKSDecider: SpliceDecider {
    /// Chosen whatever is offered.
    let method: UInt8
    /// Said to the request; nil where it is granted.
    let reply: UInt8?
    let targets: ProxyTargets
    private var isGreeted = false

    init(method: UInt8 = 0, reply: UInt8? = nil, _ targets: @escaping ProxyTargets) {
        self.method = method
        self.reply = reply
        self.targets = targets
    }

    mutating func decide(_ bytes: inout [UInt8]) -> SpliceDecision {
        guard isGreeted else {
            guard bytes.count >= 2, bytes.count >= 2 + Int(bytes[1]) else { return .needsMore }
            bytes.removeFirst(2 + Int(bytes[1]))
            isGreeted = true
            return method == 0 ? .say([5, 0]) : .end([5, method])
        }
        guard let (host, port, size) = Self.request(bytes) else { return .needsMore }
        bytes.removeFirst(size)
        if let reply { return .end(Self.answer(reply)) }
        // Host unreachable.
        guard let place = targets(host, port) else { return .end(Self.answer(4)) }
        defer { bytes = [] }
        return .connect(place, first: bytes, opened: Self.answer(0), failed: Self.answer(5))
    }

    /// Section 4.
    private static func request(_ bytes: [UInt8]) -> (host: String, port: UInt16, size: Int)? {
        guard bytes.count >= 5 else { return nil }
        let start = bytes[3] == 3 ? 5 : 4
        let count = bytes[3] == 3 ? Int(bytes[4]) : bytes[3] == 4 ? 16 : 4
        guard bytes.count >= start + count + 2 else { return nil }
        let address = bytes[start..<(start + count)]
        // An address is one that the network has told the client, and so the broker's.
        let host = bytes[3] == 3 ? String(decoding: address, as: UTF8.self) : HostileNetwork.broker
        return (host, UInt16(bytes[start + count]) << 8 | UInt16(bytes[start + count + 1]), start + count + 2)
    }

    private static func answer(_ reply: UInt8) -> [UInt8] { [5, reply, 0, 1, 0, 0, 0, 0, 0, 0] }
}
