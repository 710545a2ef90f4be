package import Glibc

/// An IPv4 or IPv6 address with a port.
package struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    package enum Family: Sendable, Hashable {
        case ipv4
        case ipv6
    }

    package let family: Family
    /// The bytes of a `sockaddr_in` or `sockaddr_in6`.
    private let storage: [UInt8]

    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= MemoryLayout<sockaddr_in>.size else { return nil }
        switch Int32(bytes.loadUnaligned(as: sa_family_t.self)) {
        case AF_INET:
            family = .ipv4
            storage = Array(bytes.prefix(MemoryLayout<sockaddr_in>.size))
        case AF_INET6 where bytes.count >= MemoryLayout<sockaddr_in6>.size:
            family = .ipv6
            storage = Array(bytes.prefix(MemoryLayout<sockaddr_in6>.size))
        default:
            return nil
        }
    }

    init?(_ info: addrinfo) {
        self.init(UnsafeRawBufferPointer(start: info.ai_addr, count: Int(info.ai_addrlen)))
    }

    /// An address from its text; nil for anything that would need a name server.
    package init?(literal: String, port: UInt16) {
        var hints = addrinfo()
        hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(literal, String(port), &hints, &list) == 0, let first = list?.pointee else {
            return nil
        }
        defer { freeaddrinfo(list) }
        self.init(first)
    }

    /// - Parameter bytes: in network order, four or sixteen of them; nil for another number.
    init?(bytes: [UInt8], port: UInt16) {
        switch bytes.count {
        case 4:
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            withUnsafeMutableBytes(of: &address.sin_addr) { $0.copyBytes(from: bytes) }
            self.init(address)
        case 16:
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            withUnsafeMutableBytes(of: &address.sin6_addr) { $0.copyBytes(from: bytes) }
            self.init(address)
        default: return nil
        }
    }

    private init?(_ structure: some Any) {
        let made = withUnsafeBytes(of: structure) { SocketAddress($0) }
        guard let made else { return nil }
        self = made
    }

    /// The address to which a socket is bound.
    package init?(boundTo descriptor: Int32) {
        var address = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        guard result == 0 else { return nil }
        let made = withUnsafeBytes(of: &address) {
            SocketAddress(UnsafeRawBufferPointer(rebasing: $0.prefix(Int(length))))
        }
        guard let made else { return nil }
        self = made
    }

    package var port: UInt16 {
        // Port and family have the same place in both structures; the port is in network order.
        UInt16(storage[2]) << 8 | UInt16(storage[3])
    }

    /// The address itself, in network order.
    var bytes: [UInt8] {
        switch family {
        case .ipv4: Array(storage[4..<8])
        case .ipv6: Array(storage[8..<24])
        }
    }

    var domain: Int32 {
        switch family {
        case .ipv4: AF_INET
        case .ipv6: AF_INET6
        }
    }

    package func withSockaddr<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        storage.withUnsafeBytes { bytes in
            var aligned = sockaddr_storage()
            withUnsafeMutableBytes(of: &aligned) { $0.copyMemory(from: bytes) }
            return withUnsafePointer(to: &aligned) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(bytes.count)) }
            }
        }
    }

    /// The address without its port.
    package var host: String {
        withSockaddr { address, length in
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            guard getnameinfo(address, length, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
            else {
                return "?"
            }
            return text.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "?" }
        }
    }

    package var description: String {
        switch family {
        case .ipv4: "\(host):\(port)"
        case .ipv6: "[\(host)]:\(port)"
        }
    }
}
