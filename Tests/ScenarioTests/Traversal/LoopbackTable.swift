extension TraversalScenario {
    private static let alice = "\(ProxyServer.userName):\(ProxyServer.password)@127.0.0.1"
    private static let wss = "wss://localhost:{mosquitto.wss}/mqtt --ca {ca}"
    private static let tls = "mqtts://localhost:{mosquitto.tls} --ca {ca}"

    /// Through programs on 127.0.0.1; the broker is mosquitto.
    static let loopback = direct + squid + otherProxies + nginx + tlsEnds + inspection

    private static let direct = [
        TraversalScenario("nothing between, TLS", tls, .ok),
        TraversalScenario("nothing between, WSS", wss, .ok),
    ]

    private static let squid = [
        TraversalScenario(
            "squid, TCP", "mqtt://localhost:{mosquitto.tcp} --proxy http://127.0.0.1:{squid}", .ok),
        TraversalScenario("squid, TLS", tls + " --proxy http://127.0.0.1:{squid}", .ok),
        TraversalScenario(
            "squid, WS", "ws://localhost:{mosquitto.ws}/mqtt --proxy http://127.0.0.1:{squid}", .ok),
        TraversalScenario("squid, WSS", wss + " --proxy http://127.0.0.1:{squid}", .ok),
        TraversalScenario(
            "squid, nobody listens behind it", "mqtts://localhost:{closed} --proxy http://127.0.0.1:{squid}",
            .fails("proxy.gateway_error")),
        TraversalScenario(
            "squid isn't there", wss + " --proxy http://127.0.0.1:{closed}", .fails("proxy.refused")),
        TraversalScenario("squid with Basic", wss + " --proxy http://\(alice):{squid.basic}", .ok),
        TraversalScenario(
            "squid with Basic, wrong password", wss + " --proxy http://alice:wrong@127.0.0.1:{squid.basic}",
            .fails("proxy.auth_failed")),
        TraversalScenario(
            "squid with Basic, no login", wss + " --proxy http://127.0.0.1:{squid.basic}",
            .fails("proxy.auth_required", mentioning: ["Basic"])),
        TraversalScenario("squid with Digest", wss + " --proxy http://\(alice):{squid.digest}", .ok),
        TraversalScenario(
            "squid with Digest, wrong password", wss + " --proxy http://alice:wrong@127.0.0.1:{squid.digest}",
            .fails("proxy.auth_failed")),
        TraversalScenario(
            "squid with Digest, no login", wss + " --proxy http://127.0.0.1:{squid.digest}",
            .fails("proxy.auth_required", mentioning: ["Digest"])),
        TraversalScenario(
            "squid behind TLS", wss + " --proxy https://localhost:{stunnel.squid} --proxy-ca {ca}", .ok),
        TraversalScenario(
            "squid behind TLS of an unknown issuer", wss + " --proxy https://localhost:{stunnel.squid}",
            .fails("tls.untrusted")),
        // 502: it has dropped the Upgrade header, and what mosquitto says without one it can't pass on.
        TraversalScenario(
            "squid that takes the request itself", "ws://localhost:{accelerator}/mqtt",
            .fails("http.server_error", mentioning: ["502"])),
        TraversalScenario(
            "the same with http_upgrade_request_protocols", "ws://localhost:{accelerator.upgrade}/mqtt", .ok),
    ]

    private static let otherProxies = [
        TraversalScenario(
            "tinyproxy, a port that it allows",
            "wss://localhost:{haproxy.wss}/mqtt --ca {ca} --proxy http://\(alice):{tinyproxy}", .ok),
        TraversalScenario(
            "tinyproxy, another port", wss + " --proxy http://\(alice):{tinyproxy}",
            .fails("proxy.denied_port", mentioning: ["403"])),
        TraversalScenario(
            "tinyproxy, wrong password",
            "wss://localhost:{haproxy.wss}/mqtt --ca {ca} --proxy http://alice:wrong@127.0.0.1:{tinyproxy}",
            .fails("proxy.auth_failed")),
        TraversalScenario("dante, names looked up here", tls + " --proxy socks5://127.0.0.1:{dante}", .ok),
        TraversalScenario("dante, names looked up there", wss + " --proxy socks5h://127.0.0.1:{dante}", .ok),
        TraversalScenario("dante with a user", tls + " --proxy socks5h://\(alice):{dante.login}", .ok),
        TraversalScenario(
            "dante with a user, wrong password",
            tls + " --proxy socks5h://alice:wrong@127.0.0.1:{dante.login}",
            .fails("proxy.auth_failed")),
        TraversalScenario(
            "dante with a user, no login", tls + " --proxy socks5h://127.0.0.1:{dante.login}",
            .fails("proxy.socks_method")),
    ]

    private static let nginx = [
        TraversalScenario("nginx", "wss://localhost:{nginx}/mqtt --ca {ca}", .ok),
        // 502: mosquitto ends the connection on a request without Upgrade.
        TraversalScenario(
            "nginx without the Upgrade header", "wss://localhost:{nginx}/plain --ca {ca}",
            .fails("http.server_error", mentioning: ["502"])),
        TraversalScenario(
            "nginx, 307 to the same host", "wss://localhost:{nginx}/moved --ca {ca}",
            .ok(by: "wss://localhost:{nginx}/mqtt")),
        TraversalScenario(
            "nginx, 302 to another host", "wss://localhost:{nginx}/elsewhere --ca {ca}",
            .fails("ws.redirected", mentioning: ["elsewhere.test"])),
        TraversalScenario(
            "nginx, 401", "wss://localhost:{nginx}/login --ca {ca}",
            .fails("http.unauthorized", mentioning: ["Basic realm"])),
        TraversalScenario(
            "nginx, 403", "wss://localhost:{nginx}/forbidden --ca {ca}", .fails("http.block_page")),
        TraversalScenario("nginx, 404", "wss://localhost:{nginx}/wrong --ca {ca}", .fails("http.not_found")),
        TraversalScenario(
            "nginx, 503", "wss://localhost:{nginx}/busy --ca {ca}", .fails("http.server_error")),
        TraversalScenario(
            "nginx, plaintext to its TLS port", "ws://localhost:{nginx}/mqtt",
            .fails("ws.upgrade_stripped", mentioning: ["400"])),
        TraversalScenario(
            "nginx, MQTT without WebSocket", "mqtts://localhost:{nginx} --ca {ca}",
            .fails("mqtt.not_mqtt", mentioning: ["HTTP"])),
        TraversalScenario(
            "nginx ends it after 2 s of silence", "wss://localhost:{nginx}/hasty --ca {ca} --idle 3",
            .recovers(from: "ws.closed")),
        TraversalScenario(
            "the same, MQTT keep-alive of 1 s",
            "wss://localhost:{nginx}/hasty --ca {ca} --idle 4 --keep-alive 1", .ok),
        TraversalScenario(
            "the same, WebSocket Ping each second",
            "wss://localhost:{nginx}/hasty --ca {ca} --idle 4 --websocket-ping 1", .ok),
        // Without what the first two ends have taught, there would be a third at 18 s and a fourth.
        TraversalScenario(
            "nginx ends it after 6 s of silence, twice", "wss://localhost:{nginx}/strict --ca {ca} --idle 25",
            Expected(verdicts: ["ok"], interruptions: ["ws.closed", "ws.closed"])),
    ]

    private static let tlsEnds = [
        TraversalScenario("haproxy, WSS", "wss://localhost:{haproxy.wss}/mqtt --ca {ca}", .ok),
        TraversalScenario("haproxy, TLS", "mqtts://localhost:{haproxy.mqtts} --ca {ca}", .ok),
        TraversalScenario(
            "haproxy, unknown issuer", "mqtts://localhost:{haproxy.mqtts}",
            .fails("tls.untrusted")),
        TraversalScenario("stunnel, WSS", "wss://localhost:{stunnel.wss}/mqtt --ca {ca}", .ok),
        TraversalScenario("stunnel, TLS", "mqtts://localhost:{stunnel.mqtts} --ca {ca}", .ok),
    ]

    private static let inspection = [
        TraversalScenario(
            "mitmproxy, trusted",
            "wss://localhost:{mosquitto.wss}/mqtt --ca {mitmproxy-ca}"
                + " --proxy http://127.0.0.1:{mitmproxy}", .ok),
        TraversalScenario(
            "mitmproxy, not trusted", wss + " --proxy http://127.0.0.1:{mitmproxy}",
            .fails("tls.intercepted", mentioning: ["mitmproxy"])),
        TraversalScenario(
            "mitmproxy, trusted, TLS",
            "mqtts://localhost:{mosquitto.tls} --ca {mitmproxy-ca}"
                + " --proxy http://127.0.0.1:{mitmproxy}", .ok),
        TraversalScenario(
            "mitmproxy, not trusted, TLS", tls + " --proxy http://127.0.0.1:{mitmproxy}",
            .fails("tls.intercepted", mentioning: ["mitmproxy"])),
    ]
}
