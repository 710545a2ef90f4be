// The stage between TCP and TLS.

extension Connector {
    /// Goes on from the connection to the proxy to the open tunnel.
    func tunnel(through proxy: Proxy, at address: SocketAddress, _ descriptor: Int32) {
        begin(.proxy, deadline: route.deadlines.proxy) { connector in
            let deadline = connector.route.deadlines.proxy
            connector.fail(
                TransportError(
                    stage: .proxy, code: .proxyTimeout, hop: address.description,
                    evidence: connector.awaited.map { .text("\($0) gave no answer within \(deadline)") }
                        ?? .deadline(deadline)))
        }
        do throws(ProfileError) {
            // Their parts can be changed after they were checked.
            try ProfileValidation.proxy(proxy)
            _ = try ProfileValidation.host(route.host)
        } catch {
            Socket.close(descriptor)
            return fail(
                TransportError(stage: .local, code: .clientInvalidArgument, evidence: .text("\(error)")))
        }
        let attempt = attempt(proxy, address, credentials: proxy.credentials)
        state = .tunnelling(attempt)
        attempt.start(descriptor)
    }

    private var awaited: String? {
        if case .tunnelling(let attempt) = state { return attempt.awaited }
        return nil
    }

    private func attempt(
        _ proxy: Proxy, _ address: SocketAddress, credentials: ProxyCredentials?
    ) -> ProxyAttempt {
        ProxyAttempt(
            loop: loop, route: route, address: address, context: context(for: route.proxy?.tls),
            machine: machine(for: proxy, credentials), handler: proxyLogin
        ) { [weak self] result in
            guard let self else {
                if case .success(let tunnel) = result { Socket.close(tunnel.descriptor) }
                return
            }
            switch result {
            case .success(let tunnel):
                self.pass(detail: "\(proxy)")
                self.establish(
                    tunnel.descriptor, peer: "\(self.route.target) through \(address)", tunnel: tunnel)
            case .failure(let error) where error.code == .proxySOCKSReply && self.serverAddresses.count > 1:
                // The proxy may reach another address of the server's: it may have no IPv6, for one.
                self.serverAddresses.removeFirst()
                var credentials: ProxyCredentials?
                if case .tunnelling(let attempt) = self.state { credentials = attempt.credentials }
                let next = self.attempt(proxy, address, credentials: credentials)
                self.state = .tunnelling(next)
                next.reconnect()
            case .failure(let error): self.fail(error)
            }
        }
    }

    private func machine(for proxy: Proxy, _ credentials: ProxyCredentials?) -> ProxyAttempt.Machine {
        switch proxy.kind {
        case .http, .https:
            return .http(
                HTTPConnect(
                    host: route.host, port: route.port, credentials: credentials,
                    clientNonce: loop.random.bytes(16), asksProgram: proxyLogin != nil))
        case .socks5:
            // An address needs nobody to look it up; nor does the one that was found here.
            let address = serverAddresses.first ?? SocketAddress(literal: route.host, port: route.port)
            return .socks5(
                SOCKS5(
                    to: address.map { .address($0) } ?? .name(route.host, port: route.port),
                    credentials: credentials, asksProgram: proxyLogin != nil))
        }
    }
}

extension TransportError {
    /// The failure to reach a proxy, which isn't one to reach the server.
    var atProxy: TransportError {
        let code: FailureCode =
            switch self.code {
            case _ where self.code.prefix == "dns": .proxyUnresolvable
            case .tcpRefused: .proxyRefused
            case .tcpTimeout: .proxyTimeout
            default: self.code
            }
        return TransportError(stage: stage, code: code, hop: hop, evidence: evidence)
    }
}
