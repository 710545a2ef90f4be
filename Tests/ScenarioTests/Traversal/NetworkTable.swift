extension TraversalScenario {
    private static let tls = "mqtts://broker.test --ca {ca}"
    private static let wss = "wss://broker.test:8084/mqtt --ca {ca}"
    private static let wss443 = "wss://broker.test/mqtt --ca {ca}"
    private static let tcp = "mqtt://broker.test"
    private static let automatic = "auto://broker.test --ca {ca}"
    /// With deadlines of a second.
    private static let short = " --deadline 1"
    private static let proxyURL = "http://\(Network.gatewayAddress):3128"

    /// Through network namespaces.
    static let networks =
        open + blockedPorts + egress + routing + redirections + proxies + idle + quality + addressFamilies
        + ladder

    private static let open = [
        TraversalScenario("open network, TCP", tcp, .ok, in: Network()),
        TraversalScenario("open network, TLS", tls, .ok, in: Network()),
        TraversalScenario("open network, WSS", wss, .ok, in: Network()),
        TraversalScenario("open network, WSS at 443", wss443, .ok, in: Network()),
        TraversalScenario(
            "open network, TLS at 443 with ALPN mqtt", "mqtts://broker.test:443 --ca {ca} --alpn mqtt",
            .ok, in: Network()),
        TraversalScenario(
            "open network, a name that nobody knows", "mqtts://nowhere.test --ca {ca} --deadline 5",
            .fails("dns.temporary"), in: Network()),
        TraversalScenario(
            "open network, a port where nobody listens", "mqtts://broker.test:8885 --ca {ca}",
            .fails("tcp.refused", within: 0...1), in: Network()),
    ]

    private static let blockedPorts = [
        TraversalScenario(
            "8883 dropped, TLS", tls + short, .fails("tcp.timeout", within: 1...2),
            in: Network(forward: ["tcp dport 8883 drop"])),
        TraversalScenario(
            "8883 dropped, WSS", wss, .ok(within: 0...1), in: Network(forward: ["tcp dport 8883 drop"])),
        TraversalScenario(
            "8883 rejected by reset", tls, .fails("tcp.refused", within: 0...1),
            in: Network(forward: ["tcp dport 8883 reject with tcp reset"])),
        TraversalScenario(
            "8883 rejected by ICMP, administratively prohibited", tls,
            .fails("tcp.host_unreachable", within: 0...1),
            in: Network(forward: ["tcp dport 8883 reject with icmpx type admin-prohibited"])),
        TraversalScenario(
            "8883 rejected by ICMP, port unreachable", tls, .fails("tcp.refused", within: 0...1),
            in: Network(forward: ["tcp dport 8883 reject with icmpx type port-unreachable"])),
        TraversalScenario(
            "8883 rejected by ICMP, no route", tls, .fails("tcp.net_unreachable", within: 0...1),
            in: Network(forward: ["tcp dport 8883 reject with icmpx type no-route"])),
        // 22 and 3 begin a record of TLS's handshake (RFC 8446, section 5.1).
        TraversalScenario(
            "8883 open, TLS recognised and dropped", tls + short, .fails("tls.timeout", within: 1...2),
            in: Network(forward: ["tcp dport 8883 @ih,0,16 0x1603 drop"])),
        TraversalScenario(
            "8883 open, TLS recognised and reset", tls, .fails("tls.reset_after_hello", within: 0...1),
            in: Network(forward: ["tcp dport 8883 @ih,0,16 0x1603 reject with tcp reset"])),
    ]

    /// The client's own machine lets 8084 out and little else.
    private static let policy = Network(output: [
        "oifname lo accept", "ct state established,related accept", "tcp dport 8084 accept",
        "tcp dport 8883 reject with icmpx type admin-prohibited", "tcp dport 1883 reject with tcp reset",
        "tcp dport 443 drop",
    ])

    private static let egress = [
        TraversalScenario("egress policy, WSS", wss, .ok, in: policy),
        TraversalScenario(
            "egress policy, TLS", tls, .fails("tcp.host_unreachable", within: 0...1), in: policy),
        TraversalScenario("egress policy, TCP", tcp, .fails("tcp.refused", within: 0...1), in: policy),
        TraversalScenario(
            "egress policy, WSS at 443", wss443 + short, .fails("tcp.timeout", within: 1...2), in: policy),
    ]

    private static func routing(_ kind: String) -> Network {
        Network(commands: ["ip -n $client route add \(kind) \(Network.serverAddress)/32"])
    }

    private static let routing = [
        TraversalScenario(
            "no route", tls, .fails("tcp.net_unreachable", within: 0...1),
            in: Network(commands: ["ip -n $client route del default"])),
        TraversalScenario(
            "a route that says unreachable", tls, .fails("tcp.host_unreachable", within: 0...1),
            in: routing("unreachable")),
        TraversalScenario(
            "a route that says prohibited", tls, .fails("tcp.prohibited", within: 0...1),
            in: routing("prohibit")),
    ]

    private static func portal(_ port: Int, for ports: String) -> Network {
        Network(
            prerouting: [
                "ip daddr \(Network.serverAddress) tcp dport \(ports) dnat ip to \(Network.gatewayAddress):\(port)"
            ],
            hasPortal: true)
    }

    private static let redirections = [
        TraversalScenario(
            "443 leads to 8084", wss443, .ok,
            in: Network(
                prerouting: ["tcp dport 443 dnat ip to \(Network.serverAddress):8084"],
                commands: [
                    "ip netns exec $server nft 'add table inet closed; "
                        + "add chain inet closed input { type filter hook input priority 0; }; "
                        + "add rule inet closed input tcp dport 443 reject'"
                ])),
        TraversalScenario(
            "a portal answers, WS at 80", "ws://broker.test/mqtt",
            .fails("ws.redirected", mentioning: ["portal.test"]),
            in: portal(8000, for: "{ 80, 443 }")),
        TraversalScenario(
            "a portal answers, WSS at 443", wss443, .fails("tls.plaintext_reply"),
            in: portal(8000, for: "{ 80, 443 }")),
        TraversalScenario(
            "TLS is opened on the way", wss443, .fails("tls.untrusted"),
            in: portal(8001, for: "443")),
    ]

    private static let onlyProxy = Network(forward: ["drop"], hasProxy: true)

    private static let proxies = [
        TraversalScenario(
            "only a proxy reaches the outside, past it", wss443 + short, .fails("tcp.timeout", within: 1...2),
            in: onlyProxy),
        TraversalScenario(
            "only a proxy reaches the outside, WSS at 443", wss443 + " --proxy \(proxyURL)", .ok,
            in: onlyProxy),
        TraversalScenario(
            "only a proxy reaches the outside, TLS at 8883", tls + " --proxy \(proxyURL)",
            .fails("proxy.denied_port"), in: onlyProxy),
        TraversalScenario(
            "only a proxy knows the name", "wss://inside.test/mqtt --ca {ca} --proxy \(proxyURL)", .ok,
            in: onlyProxy),
    ]

    /// A gateway that forgets connections after 2 s of silence, and then does as `rule` says.
    private static func forgetful(_ verdict: String) -> Network {
        Network(
            forward: [
                "ct state established,related accept", "tcp flags & (fin | syn | rst | ack) == syn accept",
                verdict,
            ],
            commands: [
                """
                ip netns exec $gateway sh -c 'cd /proc/sys/net/netfilter
                    echo 2 >nf_conntrack_tcp_timeout_established; echo 0 >nf_conntrack_tcp_loose'
                """
            ])
    }

    private static let idle = [
        TraversalScenario(
            "forgotten after 2 s, then dropped", tls + " --keep-alive 3 --ping-timeout 1 --idle 6",
            .recovers(from: "idle.blackholed"), in: forgetful("drop")),
        TraversalScenario(
            "the same, over WSS", wss + " --keep-alive 3 --ping-timeout 1 --idle 6",
            .recovers(from: "idle.blackholed"), in: forgetful("drop")),
        TraversalScenario(
            "the same, WebSocket Pings", wss + " --keep-alive 0 --websocket-ping 1 --idle 5", .ok,
            in: forgetful("drop")),
        TraversalScenario(
            "forgotten after 2 s, then reset", tls + " --keep-alive 3 --idle 5",
            .recovers(from: "tcp.reset"), in: forgetful("reject with tcp reset")),
        TraversalScenario(
            "forgotten after 2 s, keep-alive of 1 s", tls + " --keep-alive 1 --idle 5", .ok,
            in: forgetful("drop")),
    ]

    private static let lossy = Network(forward: ["numgen random mod 100 < 2 drop"])
    private static let slow = Network(
        commands: ["tc -n $client qdisc add dev inside root tbf rate 256kbit burst 4kb latency 400ms"])

    private static let quality = [
        TraversalScenario("2 % loss, TLS", tls + " --messages 300", .ok, in: lossy),
        TraversalScenario("2 % loss, WSS", wss + " --messages 300", .ok, in: lossy),
        TraversalScenario("256 kbit/s, WSS", wss + " --messages 300", .ok, in: slow),
    ]

    /// As RFC 6724 has it, the address of IPv6 comes first.
    private static let both = [Network.serverIPv6Address, Network.serverAddress]

    private static let addressFamilies = [
        TraversalScenario(
            "IPv6 only", tls, .ok(at: "[\(Network.serverIPv6Address)]:8883"),
            in: Network(addresses: [Network.serverIPv6Address])),
        TraversalScenario(
            "IPv6 and IPv4", tls, .ok(at: "[\(Network.serverIPv6Address)]:8883", within: 0...1),
            in: Network(addresses: both)),
        // Connection Attempt Delay: 250 ms (RFC 8305, section 8). It bounds the rejection too: Linux only notes an
        // ICMPv6 error that is there before connect(2) has returned, as between namespaces.
        TraversalScenario(
            "IPv6 rejected, IPv4 works", tls, .ok(at: "\(Network.serverAddress):8883", within: 0...1),
            in: Network(
                forward: ["meta nfproto ipv6 reject with icmpx type admin-prohibited"], addresses: both)),
        TraversalScenario(
            "IPv6 dropped, IPv4 works", tls, .ok(at: "\(Network.serverAddress):8883", within: 0.25...1),
            in: Network(forward: ["meta nfproto ipv6 drop"], addresses: both)),
    ]

    private static func blocked(_ ports: String) -> Network {
        Network(forward: ["tcp dport { \(ports) } drop"])
    }

    /// Seconds from one way to the next, as `RouteLadder` has it.
    private static let stagger = 0.5

    private static let ladder = [
        TraversalScenario(
            "automatic, open network", automatic, .ok(by: "mqtts://broker.test:8883", within: 0...1),
            in: Network()),
        TraversalScenario(
            "automatic, 8883 dropped", automatic,
            .ok(
                by: "wss://broker.test:8084/mqtt",
                comparedWith: Expected.Comparison(arguments: wss, factor: 1.3, extraSeconds: stagger)),
            in: blocked("8883")),
        TraversalScenario(
            "automatic, 8883 rejected", automatic, .ok(by: "wss://broker.test:8084/mqtt"),
            in: Network(forward: ["tcp dport 8883 reject with tcp reset"])),
        TraversalScenario(
            "automatic, 8883 and 8084 dropped", automatic, .ok(by: "wss://broker.test:443/mqtt"),
            in: blocked("8883, 8084")),
        TraversalScenario(
            "automatic, 443 open, a page in place of WebSocket", automatic,
            .ok(by: "mqtts://broker.test:443 ALPN mqtt"),
            in: Network(forward: ["tcp dport { 8883, 8084 } drop"], speaksWebSocket: false)),
        TraversalScenario(
            "automatic, TLS opened at 8883", automatic,
            .ok(
                by: "wss://broker.test:8084/mqtt", mentioning: ["mqtts://broker.test:8883: tls."]),
            in: portal(8001, for: "8883")),
        TraversalScenario(
            "automatic, only a proxy reaches the outside", automatic + " --proxy \(proxyURL)",
            .ok(by: "wss://broker.test:443/mqtt through \(proxyURL)", mentioning: ["proxy.denied_port"]),
            in: onlyProxy),
        TraversalScenario(
            "automatic, a proxy that the environment names", automatic,
            .ok(by: "wss://broker.test:443/mqtt through \(proxyURL)"), in: onlyProxy,
            environment: ["HTTPS_PROXY": proxyURL]),
        TraversalScenario(
            "automatic, all dropped", automatic + short,
            .fails(
                "tcp.timeout", within: 1...4,
                mentioning: [
                    "mqtts://broker.test:8883: tcp.timeout", "wss://broker.test:8084/mqtt: tcp.timeout",
                    "wss://broker.test:443/mqtt: tcp.timeout", "mqtts://broker.test:443: tcp.timeout",
                ]), in: blocked("8883, 8084, 443")),
    ]
}
