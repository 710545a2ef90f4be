/// Whose fault a code speaks of, and what to do next: one table, for errors and for the probe.
package struct FailureAdvice: Sendable, Hashable {
    package let fault: MQTTError.Party
    package let text: String

    package init(_ error: MQTTError) {
        var code = error.code
        // Without a Close frame it is the stream below that ended, and the server may have had no part in it.
        if case .webSocketClose(_, _, clean: false) = error.evidence { code = .tcpClosed }
        self.init(code: code, stage: error.stage, reasonCode: error.reasonCode, hop: error.hop)
    }

    package init(
        code: FailureCode, stage: ConnectionStage = .established, reasonCode: ReasonCode? = nil,
        hop: String? = nil
    ) {
        // Behind a proxy it reads "broker:8883 through …".
        let server = hop?.prefix { $0 != " " } ?? "the broker's host and port"
        (fault, text) = Self.row(code, stage, reasonCode, server)
    }

    private static func row(
        _ code: FailureCode, _ stage: ConnectionStage, _ reasonCode: ReasonCode?, _ server: Substring
    ) -> (MQTTError.Party, String) {
        switch code {
        case .tcpClosed where stage == .proxy, .tcpReset where stage == .proxy:
            (.proxy, "The proxy hung up instead of answering: check its type and port.")
        case _ where stage == .proxy && code.prefix == "tls":
            (
                .proxy,
                "TLS to the proxy itself failed: check that it speaks TLS, and the trust in the proxy's own options."
            )
        // What a server does that speaks another protocol on that port.
        case .tcpClosed where stage != .established, .tcpReset where stage != .established:
            (
                .networkOrServer,
                "The other side hung up at our first bytes: check that the transport fits the port (with TLS or without, WebSocket or not), then the broker's log."
            )
        case .dnsNXDomain, .dnsNoData:
            (
                .machine,
                "Check the broker's name; if it is right, ask whether this network's resolver hides it."
            )
        case .dnsServFail, .dnsRefused, .dnsTimeout, .dnsTemporary:
            (
                .machine,
                "The resolver gave no answer: check /etc/resolv.conf and whether this machine is online."
            )
        case .dnsBogon, .dnsMismatch:
            (
                .network,
                "The resolver gives an address that isn't the broker's: log in to the portal or use another resolver."
            )
        case .dnsViaProxyOnly:
            (.network, "Names resolve only through the proxy: use a profile with that proxy.")
        case .tcpRefused:
            (
                .networkOrServer,
                "Nothing listens on that port, or something between refuses it: check the port, then try another transport, such as wss."
            )
        case .tcpTimeout:
            (
                .networkOrServer,
                "Packets to that port get no answer: try wss on 8084 or 443, or ask for outbound TCP to this address and port."
            )
        case .tcpNetUnreachable, .tcpHostUnreachable:
            (.network, "There is no way to that address: check this machine's network and its routes.")
        case .tcpProhibited:
            (.network, "A firewall says no to that address: ask for it to be opened, or try wss.")
        case .tcpFamilyBroken:
            (.network, "One of IPv4 and IPv6 doesn't work here: use the other, and report the broken one.")
        case .tcpClosed, .tcpReset:
            (
                .networkOrServer,
                "The connection was ended from outside: see the broker's log, for another client with this identifier too; if it shows nothing, a hop did it."
            )
        case .tcpSilent:
            (
                .networkOrServer,
                "The port accepts and then says nothing: check that the transport fits the port."
            )
        case .tcpFailed: (.machine, "The system refused the connection: see the error number.")
        case .proxyUnresolvable, .proxyRefused, .proxyTimeout:
            (
                .proxy,
                "The proxy itself can't be reached, or the login at it takes too long: check its host and port in the profile."
            )
        case .proxyAuthRequired:
            (
                .proxy,
                "The proxy wants a login: give the profile's proxy a user name and a password, run kinit where it wants Kerberos, or set `proxyLogin`; NTLM needs a helper proxy on this machine."
            )
        case .proxyAuthFailed:
            (
                .program,
                "The proxy refuses the login: check user name and password for it, or the Kerberos ticket."
            )
        case .proxyDeniedPort, .proxyDeniedHost:
            (.proxy, "The proxy forbids this destination: ask for it to be allowed, or try port 443.")
        case .proxyGatewayError:
            (.proxy, "The proxy can't reach the broker: check name and port, or ask the proxy's owner.")
        case .proxySOCKSMethod:
            (.proxy, "The proxy takes none of the logins offered: add user name and password for it.")
        case .proxySOCKSReply:
            (
                .proxy,
                "The proxy can't reach the broker or doesn't allow it, as its reply says: check name and port, or ask the proxy's owner."
            )
        case .proxyNotHTTP, .proxyReplyMalformed:
            (.proxy, "The proxy doesn't answer as one of this kind: check its type and port.")
        case .tlsTimeout:
            (
                .networkOrServer,
                "The port accepts and never answers TLS: check that it speaks TLS; if it does elsewhere, a hop drops it."
            )
        case .tlsResetAfterHello, .tlsEOF:
            (
                .networkOrServer,
                "The connection ended when TLS began: check that the port speaks TLS; if it does elsewhere, a hop filters it."
            )
        case .tlsSNIFiltered, .tlsALPNFiltered:
            (.network, "A hop filters TLS by its name or protocol: ask for the host to be allowed.")
        case .tlsALPNNotSelected:
            (
                .server,
                "The server speaks none of the ALPN protocols offered: correct the list, or the port."
            )
        case .tlsIntercepted:
            (
                .network,
                "TLS is opened by an inspection product: ask whoever runs this network for an exception from inspection for \(server), or for the product's CA, to be added knowingly with `Trust.systemAnd(files:)`."
            )
        case .tlsInterceptedTrusted:
            (
                .network,
                "The chain is trusted, and holds none of the pinned keys: TLS is opened on the way, or the broker has other keys. Compare those shown with its owner's; if they aren't, ask for an exception from inspection for \(server)."
            )
        case .tlsUntrusted:
            (
                .networkOrServer,
                "The certificate's issuer isn't trusted here: give the broker's CA file, or, if the issuer is your company's, ask about TLS inspection."
            )
        case .tlsExpired:
            (
                .server,
                "A certificate has expired: depth 0 is the broker's own, for its owner to renew; above are its issuers'. Check this machine's clock too."
            )
        case .tlsNotYetValid: (.machine, "A certificate isn't valid yet: check this machine's clock.")
        case .tlsNameMismatch:
            (
                .networkOrServer,
                "The certificate is for another name: use the name it was made for, never its address."
            )
        case .tlsClientCertRequired:
            (.program, "The server demands a client certificate: set `TLSOptions.identity`.")
        case .tlsVersion:
            (.server, "Client and server share no TLS version: 1.2 is the oldest that is spoken here.")
        case .tlsAlert: (.server, "The server refused TLS: the alert says why; see its log.")
        case .tlsPlaintextReply:
            (
                .networkOrServer,
                "The answer isn't TLS: the port speaks plaintext, or a block page came instead."
            )
        case .tlsNoTrustStore: (.machine, "Install the package ca-certificates, or give a CA file.")
        case .tlsBadCredentials:
            (.program, "Check the file's path, its PEM form, its permissions and its passphrase.")
        case .tlsProtocol:
            (
                .networkOrServer,
                "The peer broke TLS: check that the port speaks it, and look for a hop that rewrites it."
            )
        case .httpCaptivePortal:
            (.network, "A login page stands in the way: open a browser and log in to this network.")
        case .httpBlockPage:
            (
                .networkOrServer,
                "The request was forbidden: read the page's text, and ask whoever signs it. A server's own 403 may be about `WebSocketOptions.origin` or credentials."
            )
        case .httpUnauthorized:
            (.program, "The server wants credentials with the upgrade request: add them as a header.")
        case .httpNotFound:
            (.program, "There is no WebSocket at that path: most brokers use /mqtt, some / or /ws.")
        case .httpRateLimited:
            (.server, "The server asks to come later; its Retry-After, where it sends one, says when.")
        case .httpServerError:
            (.server, "The server or its front end is broken for now: try later, or ask its owner.")
        case .wsUpgradeStripped, .wsMissingUpgrade:
            (
                .networkOrServer,
                "The Upgrade header got lost or isn't honoured: check the path; where the answer is a login page, log in to this network in a browser; behind a proxy, ask for WebSocket to be let through."
            )
        case .wsRedirected:
            (
                .networkOrServer,
                "We are sent elsewhere, and a rule forbids to go there. If that is a login page, log in to this network in a browser; if it is an address that you trust, use it in the profile, or list its host in `WebSocketOptions.redirects`."
            )
        case .wsBadAccept, .wsHeadMalformed, .wsHeadOversized:
            (.networkOrServer, "The answer isn't that of a WebSocket server: check host, port and path.")
        case .wsExtensionUnrequested:
            (
                .networkOrServer,
                "The answer agrees to an extension that wasn't offered like that: where `WebSocketOptions.compression` is on, try without; report it to the server's owner."
            )
        case .wsSubprotocolMissing, .wsSubprotocolWrong:
            (.server, "The server's WebSocket isn't for MQTT: check the path, or switch MQTT on there.")
        case .wsFirstDataBlocked, .wsBuffered:
            (.network, "A hop passes the handshake and stops the data: ask for WebSocket to be let through.")
        case .wsFrameInvalid:
            (
                .networkOrServer,
                "A frame broke the protocol: look for a hop that rewrites traffic; report it to the server's owner."
            )
        case .wsTextFrame:
            (.server, "The WebSocket speaks text, and MQTT is binary: check that the path is the broker's.")
        case .wsSizeLimited:
            (.networkOrServer, "The message is too large for a hop or for us: send smaller ones.")
        case .wsClosed: (.server, "The server closed the WebSocket: the close code says why.")
        case .mqttConnackTimeout:
            (
                .networkOrServer,
                "The port takes CONNECT and says nothing: check that it is the broker's, and the transport."
            )
        case .mqttNotMQTT: (.networkOrServer, "The answer isn't MQTT: check port and transport.")
        case .mqttRefused: refusal(reasonCode)
        case .mqttVersionUnsupported:
            (.server, "The broker doesn't speak this version of MQTT: try the other one, or `.automatic`.")
        case .mqttRedirect:
            (
                .server,
                "The broker sends its clients to another server: use the one that its reference names, or let `redirection` follow it."
            )
        case .mqttTakenOver: (.program, "Another client uses the same client identifier: give each its own.")
        case .mqttNoEcho: (.server, "The broker didn't return our own message: check its access rules.")
        case .mqttMalformed, .mqttProtocolError:
            (.server, "The server broke MQTT's rules: report it with this evidence.")
        case .mqttPacketTooLarge: (.program, "The packet exceeds a limit: send less, or raise the limit.")
        case .mqttServerDisconnected: (.server, "The server ended the connection: its reason says why.")
        case .mqttOperationRefused:
            (.server, "The broker refuses this operation: check its access rules for this user.")
        case .mqttSessionLost:
            (.server, "The broker forgot the session: the message may or may not have arrived.")
        case .mqttRequestTimeout:
            (.networkOrServer, "Nobody answered: check that a responder runs and has the right to publish.")
        case .mqttNoResponder: (.program, "Check the request's topic, and that a responder runs.")
        case .mqttAuthenticationFailed:
            (.program, "The authentication handler says why: check the credentials that it was given.")
        case .mqttAuthenticationTimeout:
            (
                .networkOrServer,
                "The evidence says who was waited for: a handler must answer within the deadline, a server too."
            )
        case .mqttServerNotAuthentic:
            (
                .networkOrServer,
                "The server isn't the one that knows this password, or the password is wrong: check its address before it."
            )
        case .idleKilledFIN, .idleKilledRST:
            (.network, "A hop ends idle connections: use a shorter keep-alive.")
        case .idleBlackholed:
            (.network, "The path went dead without a word: use a shorter keep-alive if it happens when idle.")
        case .idlePingIgnored:
            (
                .networkOrServer,
                "Nothing came after a WebSocket Ping: the path is dead, or the server ignores Pings. If MQTT's keep-alive lives there, switch `pings` off."
            )
        case .clientInvalidArgument: (.program, "Correct the argument.")
        case .clientNotConnected: (.program, "Call connect() first, and wait until it returns.")
        case .clientNotSupportedByServer: (.server, "The server declared at connect that it can't do this.")
        case .clientDisconnected: (.program, "disconnect() ended it; connect() starts again.")
        case .clientQueueFull: (.program, "Read faster, send slower, or choose larger bounds.")
        case .clientMessageExpired:
            (
                .networkOrServer,
                "There was no connection for as long as the message was good: see why, or give it a longer interval."
            )
        case .clientHookFailed:
            (.program, "The program's own code for this attempt failed: its error is shown.")
        case .clientHookTimeout:
            (.program, "The program's own code for this attempt hangs: see what it waits for.")
        case .clientStorageFailed:
            (
                .machine,
                "The session store can't be used, as the evidence says: look for room on the disk, for the directory's owner, for a second client."
            )
        case .clientResources:
            (
                .machine,
                "This process or machine is out of descriptors, threads, ports or memory, or lacks a right that the evidence names."
            )
        }
    }

    private static func refusal(_ reasonCode: ReasonCode?) -> (MQTTError.Party, String) {
        // 4 and 5 are 3.1.1's return codes (section 3.2.2.3 there).
        switch reasonCode {
        case .badUserNameOrPassword?, ReasonCode(rawValue: 4)?:
            (.program, "Check user name and password.")
        case .notAuthorized?, ReasonCode(rawValue: 5)?:
            (.program, "The broker knows no such client: check user name, password and client identifier.")
        case .clientIdentifierNotValid?, ReasonCode(rawValue: 2)?:
            (.program, "The broker rejects this client identifier: choose another.")
        default: (.server, "The broker refused the connection: its reason says why.")
        }
    }
}
