internal import Glibc

/// Names to addresses through the system's resolver, on a few threads of its own: `getaddrinfo` blocks.
package final class Resolver: Sendable {
    package typealias Answer = Result<[SocketAddress], TransportError>

    private struct Request {
        let host: String
        let port: UInt16
        let completion: @Sendable (Answer) -> Void
    }

    private struct State {
        var waiting: [Request] = []
        var threads = 0
    }

    /// A resolver that hangs holds its thread; later names wait in line and meet their stage's deadline.
    private static let maximumThreads = 4
    package static let system = Resolver(lookUp: systemLookUp)

    private let state = Lock(State())
    private let lookUp: @Sendable (_ host: String, _ port: UInt16) -> Answer

    /// - Parameter lookUp: asked on a thread of the resolver's own; may block.
    package init(lookUp: @escaping @Sendable (_ host: String, _ port: UInt16) -> Answer) {
        self.lookUp = lookUp
    }

    /// Calls `completion` with the addresses, in the order of the system's preference (RFC 6724): for an
    /// address literal at once, on this thread; else later, on another.
    package func resolve(_ host: String, port: UInt16, completion: @escaping @Sendable (Answer) -> Void) {
        if let literal = SocketAddress(literal: host, port: port) {
            completion(.success([literal]))
            return
        }
        let mustStart = state.withLock { state in
            state.waiting.append(Request(host: host, port: port, completion: completion))
            if state.threads == Self.maximumThreads { return false }
            state.threads += 1
            return true
        }
        if mustStart { startThread() }
    }

    private func startThread() {
        var thread = pthread_t()
        let pointer = Unmanaged.passRetained(self).toOpaque()
        let result = pthread_create(
            &thread, nil,
            { pointer in
                guard let pointer else { return nil }
                Unmanaged<Resolver>.fromOpaque(pointer).takeRetainedValue().work()
                return nil
            }, pointer)
        if result == 0 {
            pthread_detach(thread)
            return
        }
        Unmanaged<Resolver>.fromOpaque(pointer).release()
        let abandoned = state.withLock { state in
            state.threads -= 1
            // Threads that still run will serve the rest.
            defer { if state.threads == 0 { state.waiting = [] } }
            return state.threads == 0 ? state.waiting : []
        }
        for request in abandoned {
            let error = TransportError(stage: .resolve, code: .clientResources, evidence: .errno(result))
            request.completion(.failure(error))
        }
    }

    private func work() {
        while let request = nextRequest() {
            request.completion(lookUp(request.host, request.port))
        }
    }

    private func nextRequest() -> Request? {
        state.withLock { state in
            if state.waiting.isEmpty {
                state.threads -= 1
                return nil
            }
            return state.waiting.removeFirst()
        }
    }

    private static func systemLookUp(_ host: String, _ port: UInt16) -> Answer {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let result = getaddrinfo(host, String(port), &hints, &list)
        guard result == 0 else {
            return .failure(
                TransportError(
                    stage: .resolve, code: code(for: result), hop: host, evidence: .resolver(result)))
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let info = next?.pointee {
            if let address = SocketAddress(info), !addresses.contains(address) { addresses.append(address) }
            next = info.ai_next
        }
        if addresses.isEmpty {
            return .failure(TransportError(stage: .resolve, code: .dnsNoData, hop: host, evidence: .none))
        }
        return .success(addresses)
    }

    private static func code(for result: Int32) -> FailureCode {
        switch result {
        case EAI_NONAME: .dnsNXDomain
        // EAI_NODATA and EAI_ADDRFAMILY, which Glibc's module doesn't show: the name exists without an address.
        case -5, -9: .dnsNoData
        case EAI_FAIL: .dnsServFail
        case EAI_MEMORY, EAI_SYSTEM: .clientResources
        default: .dnsTemporary
        }
    }
}
