internal import Glibc

/// System calls on stream sockets, each with its errno as a value.
enum Socket {
    enum ReadResult {
        case bytes(Int)
        case wouldBlock
        case end
        case failed(Int32)
    }

    enum WriteResult {
        case bytes(Int)
        case wouldBlock
        case failed(Int32)
    }

    enum ConnectResult {
        case connected
        case inProgress
        case failed(Int32)
    }

    /// A non-blocking stream socket with TCP_NODELAY, or the errno.
    static func make(_ domain: Int32) -> Result<Int32, Errno> {
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(domain, type, 0)
        guard descriptor >= 0 else { return .failure(Errno(errno)) }
        setOption(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        return .success(descriptor)
    }

    struct Errno: Error {
        let number: Int32
        init(_ number: Int32) { self.number = number }
    }

    static func setOption(_ descriptor: Int32, _ level: Int32, _ name: Int32, _ value: Int32) {
        var value = value
        setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    static func connect(_ descriptor: Int32, to address: SocketAddress) -> ConnectResult {
        if address.withSockaddr({ Glibc.connect(descriptor, $0, $1) }) == 0 { return .connected }
        switch errno {
        // An interrupted connect goes on by itself; asked again, it would say EALREADY.
        case EINTR, EINPROGRESS: return .inProgress
        case let number: return .failed(number)
        }
    }

    /// How a connect in progress has ended: 0 or an errno.
    static func pendingError(_ descriptor: Int32) -> Int32 {
        var number: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &length) == 0 ? number : errno
    }

    static func read(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .end }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case let number: return .failed(number)
            }
        }
    }

    /// MSG_NOSIGNAL: a peer that is gone must not end the process, and the application's own SIGPIPE handler is
    /// none of our business.
    static func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> WriteResult {
        while true {
            let count = send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return .bytes(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case let number: return .failed(number)
            }
        }
    }

    static func shutdownWriting(_ descriptor: Int32) {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    static func close(_ descriptor: Int32) {
        Glibc.close(descriptor)
    }

    /// Closes with a RST instead of a FIN: what the kernel still holds is thrown away.
    static func reset(_ descriptor: Int32) {
        var setting = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &setting, socklen_t(MemoryLayout<linger>.size))
        Glibc.close(descriptor)
    }

    static func code(forConnect number: Int32) -> FailureCode {
        switch number {
        case ECONNREFUSED: .tcpRefused
        case ETIMEDOUT: .tcpTimeout
        case ENETUNREACH, ENETDOWN: .tcpNetUnreachable
        case EHOSTUNREACH, EHOSTDOWN: .tcpHostUnreachable
        case EACCES, EPERM: .tcpProhibited
        case ECONNRESET: .tcpReset
        case EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL: .clientResources
        default: .tcpFailed
        }
    }
}
