/// Why something failed: one closed vocabulary, shared by the client's errors, the connector's observations
/// and the probe's report.
///
/// The raw value, such as `tls.untrusted`, is stable across releases. A code states what was observed; what
/// caused it is claimed only where a control observation supports it.
public enum FailureCode: String, Sendable, Hashable, Codable, CaseIterable {
    case dnsNXDomain = "dns.nxdomain"
    case dnsServFail = "dns.servfail"
    case dnsRefused = "dns.refused"
    case dnsTimeout = "dns.timeout"
    case dnsNoData = "dns.nodata"
    /// The system's resolver gave up for now; its interface doesn't tell a time-out from SERVFAIL.
    case dnsTemporary = "dns.temporary"
    case dnsBogon = "dns.bogon"
    case dnsMismatch = "dns.mismatch"
    case dnsViaProxyOnly = "dns.via_proxy_only"

    case tcpRefused = "tcp.refused"
    case tcpTimeout = "tcp.timeout"
    case tcpNetUnreachable = "tcp.net_unreachable"
    case tcpHostUnreachable = "tcp.host_unreachable"
    case tcpProhibited = "tcp.prohibited"
    case tcpFamilyBroken = "tcp.family_broken"
    case tcpClosed = "tcp.closed"
    case tcpReset = "tcp.reset"
    case tcpSilent = "tcp.silent"
    /// The connect or the connection failed with an errno that has no code of its own.
    case tcpFailed = "tcp.failed"

    case proxyUnresolvable = "proxy.unresolvable"
    case proxyRefused = "proxy.refused"
    case proxyTimeout = "proxy.timeout"
    case proxyAuthRequired = "proxy.auth_required"
    case proxyAuthFailed = "proxy.auth_failed"
    case proxyDeniedPort = "proxy.denied_port"
    case proxyDeniedHost = "proxy.denied_host"
    case proxyGatewayError = "proxy.gateway_error"
    case proxyNotHTTP = "proxy.not_http"
    case proxyReplyMalformed = "proxy.reply_malformed"
    case proxySOCKSMethod = "proxy.socks_method"
    case proxySOCKSReply = "proxy.socks_reply"

    case tlsResetAfterHello = "tls.reset_after_hello"
    case tlsTimeout = "tls.timeout"
    case tlsEOF = "tls.eof"
    case tlsSNIFiltered = "tls.sni_filtered"
    case tlsALPNFiltered = "tls.alpn_filtered"
    case tlsALPNNotSelected = "tls.alpn_not_selected"
    case tlsIntercepted = "tls.intercepted"
    case tlsInterceptedTrusted = "tls.intercepted_trusted"
    case tlsUntrusted = "tls.untrusted"
    case tlsExpired = "tls.expired"
    case tlsNotYetValid = "tls.not_yet_valid"
    case tlsNameMismatch = "tls.name_mismatch"
    case tlsClientCertRequired = "tls.client_cert_required"
    case tlsVersion = "tls.version"
    case tlsAlert = "tls.alert"
    case tlsPlaintextReply = "tls.plaintext_reply"
    /// This machine has no trust store, and the profile names no CA file.
    case tlsNoTrustStore = "tls.no_trust_store"
    /// A CA, certificate or key file of the profile can't be used.
    case tlsBadCredentials = "tls.bad_credentials"
    /// The peer broke the TLS protocol in a way that has no code of its own.
    case tlsProtocol = "tls.protocol"

    case httpCaptivePortal = "http.captive_portal"
    case httpBlockPage = "http.block_page"
    case httpUnauthorized = "http.unauthorized"
    case httpNotFound = "http.not_found"
    case httpRateLimited = "http.rate_limited"
    case httpServerError = "http.server_error"

    case wsUpgradeStripped = "ws.upgrade_stripped"
    case wsRedirected = "ws.redirected"
    case wsBadAccept = "ws.bad_accept"
    case wsMissingUpgrade = "ws.missing_upgrade"
    case wsSubprotocolMissing = "ws.subprotocol_missing"
    case wsSubprotocolWrong = "ws.subprotocol_wrong"
    case wsExtensionUnrequested = "ws.extension_unrequested"
    case wsHeadOversized = "ws.head_oversized"
    /// The answer to the opening handshake isn't HTTP, or its head can't be parsed.
    case wsHeadMalformed = "ws.head_malformed"
    case wsFirstDataBlocked = "ws.first_data_blocked"
    case wsBuffered = "ws.buffered"
    case wsFrameInvalid = "ws.frame_invalid"
    case wsTextFrame = "ws.text_frame"
    case wsSizeLimited = "ws.size_limited"
    case wsClosed = "ws.closed"

    case mqttConnackTimeout = "mqtt.connack_timeout"
    case mqttNotMQTT = "mqtt.not_mqtt"
    case mqttRefused = "mqtt.refused"
    case mqttVersionUnsupported = "mqtt.version_unsupported"
    case mqttRedirect = "mqtt.redirect"
    case mqttTakenOver = "mqtt.taken_over"
    case mqttNoEcho = "mqtt.no_echo"
    case mqttMalformed = "mqtt.malformed"
    case mqttProtocolError = "mqtt.protocol_error"
    case mqttPacketTooLarge = "mqtt.packet_too_large"
    /// The server ended the connection with a DISCONNECT packet.
    case mqttServerDisconnected = "mqtt.server_disconnected"
    /// The server refused this one operation: a publish, a subscription.
    case mqttOperationRefused = "mqtt.operation_refused"
    /// The server no longer has the session, and the operation wasn't to be repeated.
    case mqttSessionLost = "mqtt.session_lost"
    /// A request was published, and no answer came in time.
    case mqttRequestTimeout = "mqtt.request_timeout"
    /// The server knows that nobody subscribes to the request's topic.
    case mqttNoResponder = "mqtt.no_responder"
    /// The application's authentication handler couldn't go on.
    case mqttAuthenticationFailed = "mqtt.authentication_failed"
    /// The handler or the server left an exchange of AUTH packets where it was.
    case mqttAuthenticationTimeout = "mqtt.authentication_timeout"
    /// The server accepted the client and couldn't prove what it has to, such as that it knows the password.
    case mqttServerNotAuthentic = "mqtt.server_not_authentic"

    case idleKilledFIN = "idle.killed_fin"
    case idleKilledRST = "idle.killed_rst"
    case idleBlackholed = "idle.blackholed"
    case idlePingIgnored = "idle.ping_ignored"

    /// A call made with an argument that can't be sent: an empty topic, a wildcard in a Topic Name, …
    case clientInvalidArgument = "client.invalid_argument"
    /// The operation needs a connection, and there is none.
    case clientNotConnected = "client.not_connected"
    /// The server said at connect that it can't do this, so nothing was sent.
    case clientNotSupportedByServer = "client.not_supported_by_server"
    /// The client was disconnected while the operation was waiting.
    case clientDisconnected = "client.disconnected"
    /// A bounded queue is full.
    case clientQueueFull = "client.queue_full"
    /// The message's Message Expiry Interval passed before it could be sent.
    case clientMessageExpired = "client.message_expired"
    /// The program's own code that an attempt asks first, such as a provider of credentials, has thrown.
    case clientHookFailed = "client.hook_failed"
    /// That code gave no answer in time.
    case clientHookTimeout = "client.hook_timeout"
    /// The store of the session can't be opened, read or written.
    case clientStorageFailed = "client.storage_failed"
    /// The process or the machine has run out of descriptors, threads or memory, or lacks the right to bind a socket.
    case clientResources = "client.resources"

    /// The part before the dot: the stage's short name.
    public var prefix: Substring { rawValue.prefix { $0 != "." } }
}
