internal import Glibc

extension SocketOptions {
    /// Those of a host's addresses that can be connected to with these options.
    ///
    /// - Throws: `TransportError` where there is none, or where the options were changed after they were checked.
    func usable(_ addresses: [SocketAddress], of host: String) throws(TransportError) -> [SocketAddress] {
        do throws(ProfileError) { try ProfileValidation.socket(self) } catch {
            throw TransportError(
                stage: .local, code: .clientInvalidArgument, evidence: .text("\(error)"))
        }
        guard let text = localAddress, let local = SocketAddress(literal: text, port: 0) else {
            return addresses
        }
        let usable = addresses.filter { $0.family == local.family }
        guard let other = addresses.first, usable.isEmpty else { return usable }
        throw TransportError(
            stage: .tcp, code: .clientInvalidArgument, hop: host,
            evidence: .text(
                "the host has \(other.family.name) addresses only, and the local address \(text) is an "
                    + "\(local.family.name) address"))
    }
}

extension Socket {
    /// Before it connects.
    ///
    /// - Throws: `TransportError` at stage `tcp`, which names what can't be had.
    static func apply(_ options: SocketOptions, to descriptor: Int32) throws(TransportError) {
        // First: a link-local address belongs to it.
        if let name = options.interface {
            let result = setsockopt(
                descriptor, SOL_SOCKET, SO_BINDTODEVICE, name, socklen_t(name.utf8.count))
            if result != 0 { throw failure("connect through the interface \(name)", errno) }
        }
        if let text = options.localAddress {
            // A zone is an interface too.
            guard let local = SocketAddress(literal: text, port: 0) else {
                throw failure("connect from \(text)", ENODEV)
            }
            // The port is chosen when it connects: chosen now, it would be taken for all servers at once.
            setOption(descriptor, Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, 1)
            if local.withSockaddr({ bind(descriptor, $0, $1) }) != 0 {
                throw failure("connect from \(text)", errno)
            }
        }
        let tcp = Int32(IPPROTO_TCP)
        if let keepAlive = options.keepAlive, let idle = keepAlive.idle.wholeSeconds,
            let interval = keepAlive.interval.wholeSeconds
        {
            setOption(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1)
            setOption(descriptor, tcp, TCP_KEEPIDLE, idle)
            setOption(descriptor, tcp, TCP_KEEPINTVL, interval)
            setOption(descriptor, tcp, TCP_KEEPCNT, Int32(clamping: keepAlive.count))
        }
        if let milliseconds = options.userTimeout?.wholeMilliseconds {
            setOption(descriptor, tcp, TCP_USER_TIMEOUT, milliseconds)
        }
    }

    private static func failure(_ what: String, _ number: Int32) -> TransportError {
        let code: FailureCode =
            switch number {
            case EADDRNOTAVAIL, ENODEV, EINVAL, EAFNOSUPPORT: .clientInvalidArgument
            // EPERM and EACCES among them.
            default: .clientResources
            }
        return TransportError(
            stage: .tcp, code: code,
            evidence: .text("this machine can't \(what): \(String(cString: strerror(number)))"))
    }
}

extension SocketAddress.Family {
    fileprivate var name: String {
        switch self {
        case .ipv4: "IPv4"
        case .ipv6: "IPv6"
        }
    }
}
