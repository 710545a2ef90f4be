import Foundation
import Glibc

/// A client, a gateway and a server, each in a network namespace: what the gateway and the client's own firewall do.
///
/// The server is `broker.test`: mosquitto at 1883, 8883 (TLS), 8080 (WS) and 8084 (WSS), and at 443 haproxy, which
/// takes MQTT where ALPN says `mqtt`, and WebSocket otherwise.
struct Network: Sendable {
    static let clientAddress = "10.77.1.2"
    static let gatewayAddress = "10.77.1.1"
    static let serverAddress = "10.77.2.2"
    static let serverIPv6Address = "2001:db8:77:2::2"

    /// Rules of nftables for what passes the gateway, in order; what matches none passes.
    var forward: [String] = []
    /// Rules for what comes in at the gateway, such as redirections.
    var prerouting: [String] = []
    /// Rules for what leaves the client's machine.
    var output: [String] = []
    /// Further shell commands, with the namespaces in `$client`, `$gateway` and `$server`.
    var commands: [String] = []
    /// What the client takes `broker.test` for.
    var addresses = [serverAddress]
    /// squid at port 3128 of the gateway: CONNECT to 443 only, and `inside.test` is a name to it.
    var hasProxy = false
    /// Whether what comes to 443 without ALPN `mqtt` reaches the broker; else a page answers.
    var speaksWebSocket = true
    /// haproxy on the gateway: at 8000 a page to log in at, at 8001 TLS by an issuer that the client doesn't know.
    var hasPortal = false

    /// Why it can't be had here; nil where it can.
    var missing: String? {
        if let reason = Self.obstacle { return reason }
        return hasProxy && InstalledProgram.find("squid") == nil ? "squid isn't installed" : nil
    }

    private static let obstacle: String? = {
        guard getuid() == 0 else { return "network namespaces need root" }
        for program in ["ip", "ss", "nft", "mosquitto", "haproxy"] where InstalledProgram.find(program) == nil
        {
            return "\(program) isn't installed"
        }
        let name = "\(NetworkStand.namePrefix)probe"
        guard let ip = InstalledProgram.find("ip"), (try? Supervisor.run([ip, "netns", "add", name])) != nil
        else { return "no network namespace can be made here" }
        defer { try? Supervisor.run([ip, "netns", "del", name]) }
        let hasFirewall =
            (try? Supervisor.run([ip, "netns", "exec", name, "nft", "add", "table", "inet", "t"])) != nil
        return hasFirewall ? nil : "nftables don't work here"
    }()
}

extension Network {
    /// The files of a stand in `directory`, the scripts `start` and `stop` of its supervisor among them.
    ///
    /// - Parameter name: what the names of its namespaces begin with.
    func files(_ name: String, _ directory: String) -> [String: String] {
        let namespaces = "client=\(name)-c gateway=\(name)-g server=\(name)-s"
        return [
            "start": start(namespaces, directory), "stop": Self.stop(namespaces, directory),
            "client.hosts": hosts(addresses.map { "\($0) broker.test" }),
            "gateway.hosts": hosts(["\(Self.serverAddress) broker.test inside.test"]),
            "resolv.conf": "nameserver \(Self.gatewayAddress)\noptions timeout:1 attempts:1\n",
            "gateway.nft": """
            table inet firewall {
              chain prerouting {
                type nat hook prerouting priority -100; policy accept;
            \(Self.indented(prerouting))
              }
              chain forward {
                type filter hook forward priority 0; policy accept;
            \(Self.indented(forward))
              }
            }

            """,
            "client.nft": """
            table inet firewall {
              chain output {
                type filter hook output priority 0; policy accept;
            \(Self.indented(output))
              }
            }

            """,
            "mosquitto.conf": """
            allow_anonymous true
            set_tcp_nodelay true
            listener 1883
            listener 8883
            certfile \(directory)/identity.pem
            keyfile \(directory)/identity.pem
            listener 8080
            protocol websockets
            listener 8084
            protocol websockets
            certfile \(directory)/identity.pem
            keyfile \(directory)/identity.pem

            """,
            "server.haproxy": """
            \(Self.haproxyDefaults)
            frontend https
              mode tcp
              bind :::443 v4v6 ssl crt \(directory)/identity.pem alpn mqtt,http/1.1
              use_backend mqtt if { ssl_fc_alpn mqtt }
              default_backend \(speaksWebSocket ? "websocket" : "page")
            backend mqtt
              mode tcp
              server broker 127.0.0.1:1883
            backend websocket
              mode tcp
              server broker 127.0.0.1:8080
            backend page
              mode tcp
              server page 127.0.0.1:8000
            frontend page
              mode http
              bind 127.0.0.1:8000
              http-request return status 200 content-type text/html string "<h1>Welcome</h1>"

            """,
            "gateway.haproxy": """
            \(Self.haproxyDefaults)
            frontend login
              mode http
              bind \(Self.gatewayAddress):8000
              http-request redirect code 302 location http://portal.test/login
            listen inspection
              mode tcp
              bind \(Self.gatewayAddress):8001 ssl crt \(directory)/inspection.pem alpn http/1.1
              server broker \(Self.serverAddress):8084 ssl verify none

            """,
            "squid.conf": """
            http_port \(Self.gatewayAddress):3128
            pid_filename none
            cache_log \(directory)/squid.log
            access_log none
            cache deny all
            cache_mem 8 MB
            netdb_filename none
            coredump_dir \(directory)
            visible_hostname proxy.test
            shutdown_lifetime 1 seconds
            hosts_file \(directory)/gateway.hosts
            acl web port 443
            http_access deny CONNECT !web
            http_access allow all

            """,
        ]
    }

    private static let haproxyDefaults = """
        global
          maxconn 200
        defaults
          timeout connect 5s
          timeout client 60s
          timeout server 60s
          timeout tunnel 60s
        """

    private static func indented(_ rules: [String]) -> String {
        rules.map { "    \($0)" }.joined(separator: "\n")
    }

    private func hosts(_ lines: [String]) -> String {
        (["127.0.0.1 localhost"] + lines).joined(separator: "\n") + "\n"
    }

    private func start(_ namespaces: String, _ directory: String) -> String {
        let asNobody = ProxyServer.run(as: "nobody", group: "nogroup")
        let asProxy = ProxyServer.run(as: "proxy", group: "proxy")
        // The neighbours of IPv6 take a second to find each other after their links are up.
        let acquaintance = """
            until ip netns exec $client bash -c '>/dev/tcp/\(Self.serverIPv6Address)/1883'; do sleep 0.02; done
            """
        let proxy = """
            ip netns exec $gateway \(asProxy)squid -N -n \(ProxyServer.squidService(directory)) -f squid.conf &
            listens $gateway 3128
            """
        let portal = """
            ip netns exec $gateway \(asNobody)haproxy -db -f gateway.haproxy &
            listens $gateway 8000 8001
            """
        return """
            set -e
            cd '\(directory)'
            \(namespaces)
            listens() {
                local namespace=$1 port
                shift
                for port in "$@"; do
                    while [ -z "$(ss -N $namespace -Hltn "sport = :$port")" ]; do sleep 0.02; done
                done
            }
            join() {
                ip -n $1 addr add $3 dev $2
                ip -n $1 addr add $4 dev $2 nodad
                ip -n $1 link set $2 up
            }
            for namespace in $client $gateway $server; do
                ip netns add $namespace
                ip -n $namespace link set lo up
            done
            ip link add inside netns $client type veth peer name inside netns $gateway
            ip link add outside netns $server type veth peer name outside netns $gateway
            ip netns exec $gateway sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward
                echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
            ip netns exec $server sh -c 'echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start'
            join $client inside \(Self.clientAddress)/24 2001:db8:77:1::2/64
            join $gateway inside \(Self.gatewayAddress)/24 2001:db8:77:1::1/64
            join $gateway outside 10.77.2.1/24 2001:db8:77:2::1/64
            join $server outside \(Self.serverAddress)/24 \(Self.serverIPv6Address)/64
            ip -n $client route add default via \(Self.gatewayAddress)
            ip -n $client route add default via 2001:db8:77:1::1
            ip -n $server route add default via 10.77.2.1
            ip -n $server route add default via 2001:db8:77:2::1
            ip netns exec $server \(asNobody)mosquitto -c mosquitto.conf &
            ip netns exec $server \(asNobody)haproxy -db -f server.haproxy &
            \(hasProxy ? proxy : "")
            \(hasPortal ? portal : "")
            listens $server 1883 8883 8080 8084 443
            \(addresses.contains(Self.serverIPv6Address) ? acquaintance : "")
            ip netns exec $gateway nft -f gateway.nft
            ip netns exec $client nft -f client.nft
            \(commands.joined(separator: "\n"))
            touch ready
            wait

            """
    }

    private static func stop(_ namespaces: String, _ directory: String) -> String {
        """
        \(namespaces)
        for namespace in $client $gateway $server; do
            ip netns pids $namespace | xargs --no-run-if-empty kill -9
            ip netns del $namespace
        done
        \(ProxyServer.clearingSquidAway(directory))

        """
    }
}
