internal import CTraversalOpenSSL
internal import Glibc

/// Which network this machine is on, as far as it can tell: the gateways and interfaces of its default routes, the
/// prefixes there, and its name servers.
///
/// A digest, so that a file of it tells nobody where a machine has been.
package struct NetworkFingerprint: Sendable, Hashable {
    /// 32 hexadecimal digits.
    package let digest: String

    /// Two machines on one network, or one machine after a new address from the same network, have the same parts.
    package struct Parts: Sendable, Hashable {
        /// `eth0 192.168.1.1`, and `eth0 fe80::1` of IPv6.
        package var gateways: Set<String> = []
        /// `eth0 192.168.1.0/24`, of the interfaces that have a gateway; of all where none has.
        package var prefixes: Set<String> = []
        package var nameServers: Set<String> = []

        package init() {}
    }

    package init(_ parts: Parts) {
        let lists = [parts.gateways, parts.prefixes, parts.nameServers]
        let text = lists.map { $0.sorted().joined(separator: "\n") }.joined(separator: "\n\n")
        var hash = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        let bytes = Array(text.utf8)
        SHA256(bytes, bytes.count, &hash)
        digest = hash.prefix(16).map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0" + digits : digits
        }.joined()
    }

    /// Of this thread's network namespace. Reads a few small files: not for the loop.
    package static func current() -> NetworkFingerprint {
        var parts = Parts()
        parts.addRoutes(ipv4: contents(of: "/proc/thread-self/net/route"))
        parts.addRoutes(ipv6: contents(of: "/proc/thread-self/net/ipv6_route"))
        parts.addNameServers(contents(of: "/etc/resolv.conf"))
        parts.addPrefixes()
        return NetworkFingerprint(parts)
    }

    private static func contents(of path: String) -> String {
        guard let file = fopen(path, "re") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 256 * 1024)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}

extension NetworkFingerprint.Parts {
    // RTF_UP, RTF_GATEWAY and RTF_REJECT of <linux/route.h>, which the Glibc module doesn't show.
    private static let isUp: UInt32 = 0x1
    private static let hasGateway: UInt32 = 0x2
    private static let rejects: UInt32 = 0x200

    /// - Parameter table: `/proc/net/route`: interface, destination, gateway, flags, …, mask in column 8, all numbers
    ///   in hexadecimal and the addresses' bytes in the machine's order.
    package mutating func addRoutes(ipv4 table: String) {
        for line in table.split(separator: "\n").dropFirst() {
            let columns = line.split(whereSeparator: \.isWhitespace)
            guard columns.count >= 8, columns[1] == "00000000", columns[7] == "00000000",
                let gateway = UInt32(columns[2], radix: 16), let flags = UInt32(columns[3], radix: 16),
                flags & Self.isUp != 0, flags & Self.rejects == 0
            else { continue }
            let bytes = withUnsafeBytes(of: gateway) { Array($0) }
            gateways.insert("\(columns[0]) \(bytes.map(String.init).joined(separator: "."))")
        }
    }

    /// - Parameter table: `/proc/net/ipv6_route`: destination, its prefix length, source, its length, gateway, metric,
    ///   two counters, flags, interface.
    package mutating func addRoutes(ipv6 table: String) {
        for line in table.split(separator: "\n") {
            let columns = line.split(whereSeparator: \.isWhitespace)
            guard columns.count >= 10, columns[1] == "00", columns[0].allSatisfy({ $0 == "0" }),
                let flags = UInt32(columns[8], radix: 16), flags & Self.rejects == 0,
                flags & Self.hasGateway != 0
            else { continue }
            gateways.insert("\(columns[9]) \(columns[4])")
        }
    }

    /// - Parameter file: `/etc/resolv.conf`.
    package mutating func addNameServers(_ file: String) {
        for line in file.split(separator: "\n") {
            let words = line.split(whereSeparator: \.isWhitespace)
            if words.count >= 2, words[0] == "nameserver" { nameServers.insert(String(words[1])) }
        }
    }

    /// The prefix of an address of an interface. Link-local ones are the same in every network.
    package mutating func addPrefix(interface: String, address: [UInt8], mask: [UInt8]) {
        let network = zip(address, mask).map { $0 & $1 }
        if network.starts(with: [0xFE, 0x80]) || network.starts(with: [169, 254]) { return }
        let length = mask.reduce(0) { $0 + $1.nonzeroBitCount }
        prefixes.insert("\(interface) \(network.map(String.init).joined(separator: "."))/\(length)")
    }

    /// Of the interfaces with a gateway: those of containers and virtual machines come and go in the same network.
    fileprivate mutating func addPrefixes() {
        let interfaces = Set(gateways.compactMap { $0.split(separator: " ").first.map(String.init) })
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return }
        defer { freeifaddrs(list) }
        var next = list
        while let entry = next?.pointee {
            next = entry.ifa_next
            let name = String(cString: entry.ifa_name)
            guard entry.ifa_flags & UInt32(IFF_UP) != 0,
                entry.ifa_flags & UInt32(IFF_LOOPBACK) == 0,
                interfaces.isEmpty || interfaces.contains(name),
                let address = SocketAddress(entry.ifa_addr), let mask = SocketAddress(entry.ifa_netmask)
            else { continue }
            addPrefix(interface: name, address: address.bytes, mask: mask.bytes)
        }
    }
}

extension SocketAddress {
    /// - Returns: nil for one that is neither IPv4 nor IPv6.
    fileprivate init?(_ address: UnsafeMutablePointer<sockaddr>?) {
        guard let address else { return nil }
        let count: Int
        switch Int32(address.pointee.sa_family) {
        case AF_INET: count = MemoryLayout<sockaddr_in>.size
        case AF_INET6: count = MemoryLayout<sockaddr_in6>.size
        default: return nil
        }
        self.init(UnsafeRawBufferPointer(start: address, count: count))
    }
}
