import Foundation
import Glibc
import MQTTCore
import MQTTTransport
import MQTTTraversal
import Testing

/// Through proxies as companies have them.
@Suite(.timeLimit(.minutes(2)))
struct ProxyScenarios {
    private static let scenarios = Scenario.transports.filter { $0.kind == .loopback }

    private static func proxy(
        _ server: ProxyServer, url scheme: String = "http", password: String = ProxyServer.password
    ) throws -> Proxy {
        try Proxy(url: "\(scheme)://\(ProxyServer.userName):\(password)@127.0.0.1:\(server.port)")
    }

    /// A message there and back.
    private static func roundTrip(_ scenario: Scenario, _ profile: ConnectionProfile) async throws {
        let client = scenario.client(profile)
        try await client.connectInTime()
        let topic = Names.unique("proxy")
        let messages = try await client.subscribe(to: topic, qos: .atLeastOnce)
        try await client.publish("hello", to: topic, qos: .atLeastOnce)
        let received = try await within("the message") {
            for try await message in messages { return message.payload }
            return []
        }
        #expect(received == Array("hello".utf8))
        try await client.disconnectInTime()
    }

    @Test(
        .enabled(if: ProxyServer.Kind.squidBasic.isAvailable, "needs the Debian package squid"),
        arguments: [ProxyServer.Kind.squidBasic, .squidDigest])
    func `squid lets every transport through, and a wrong password is one try`(
        kind: ProxyServer.Kind
    ) async throws {
        let server = try await ProxyServer(kind)
        for scenario in Self.scenarios {
            var profile = try await scenario.profile()
            profile.proxy = try Self.proxy(server)
            try await Self.roundTrip(scenario, profile)
        }
        var profile = try await Self.scenarios[0].profile()
        profile.proxy = try Proxy(.http, host: "127.0.0.1", port: Int(server.port))
        let asked = Self.scenarios[0].client(profile) {
            $0.proxyLogin = { _ in
                .credentials(userName: ProxyServer.userName, password: Array(ProxyServer.password.utf8))
            }
        }
        try await asked.connectInTime()
        try await asked.disconnectInTime()
        for (proxy, code) in [
            (try Self.proxy(server, password: "wrong"), FailureCode.proxyAuthFailed),
            (try Proxy(.http, host: "127.0.0.1", port: Int(server.port)), .proxyAuthRequired),
        ] {
            profile.proxy = proxy
            let client = Self.scenarios[0].client(profile)
            let (error, _) = try await failure("connect") { try await client.connect() }
            #expect(error.code == code)
            #expect(error.stage == .proxy)
            #expect(error.hop == "127.0.0.1:\(server.port)")
        }
    }

    @Test(.enabled(if: ProxyServer.Kind.squidBasic.isAvailable, "needs the Debian package squid"))
    func `squid that can't reach the broker says so`() async throws {
        let server = try await ProxyServer(.squidBasic)
        var profile = try ConnectionProfile.tls(
            host: "127.0.0.1", port: Int(try FreePorts.choose(1)[0]))
        profile.proxy = try Self.proxy(server)
        let client = Self.scenarios[0].client(profile)
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == .proxyGatewayError)
    }

    @Test(.enabled(if: ProxyServer.Kind.tinyproxy.isAvailable, "needs the Debian package tinyproxy"))
    func `tinyproxy lets every transport through`() async throws {
        let server = try await ProxyServer(.tinyproxy)
        for scenario in Self.scenarios {
            var profile = try await scenario.profile()
            profile.proxy = try Self.proxy(server)
            try await Self.roundTrip(scenario, profile)
        }
    }

    @Test(
        .enabled(
            if: ProxyServer.Kind.tinyproxyForPort443.isAvailable, "needs the Debian package tinyproxy"))
    func `tinyproxy for port 443 denies another, after a login on a new connection`() async throws {
        let server = try await ProxyServer(.tinyproxyForPort443)
        var profile = try await Self.scenarios[0].profile()
        profile.proxy = try Self.proxy(server)
        let client = Self.scenarios[0].client(profile)
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == .proxyDeniedPort)
        profile.port = 443
        profile.proxy = try Self.proxy(server, password: "wrong")
        let stranger = Self.scenarios[0].client(profile)
        let (refusal, _) = try await failure("connect") { try await stranger.connect() }
        #expect(refusal.code == .proxyAuthFailed)
    }

    @Test(.enabled(if: ProxyServer.Kind.danteOpen.isAvailable, "needs the Debian package dante-server"))
    func `dante lets every transport through, whoever resolves the name`() async throws {
        let server = try await ProxyServer(.danteOpen)
        for (scenario, scheme) in zip(Self.scenarios, ["socks5", "socks5h", "socks5", "socks5h"]) {
            var profile = try await scenario.profile()
            profile.proxy = try Self.proxy(server, url: scheme)
            try await Self.roundTrip(scenario, profile)
        }
        var profile = try ConnectionProfile.tcp(host: "127.0.0.1", port: Int(try FreePorts.choose(1)[0]))
        profile.proxy = try Self.proxy(server, url: "socks5")
        let client = Self.scenarios[0].client(profile)
        let (error, _) = try await failure("connect") { try await client.connect() }
        #expect(error.code == .proxySOCKSReply)
        #expect(error.evidence.description.contains("reply 5"), "\(error)")
    }

    @Test(
        .enabled(
            if: ProxyServer.Kind.danteWithLogin.isAvailable,
            "needs root, mount namespaces and the Debian package dante-server")
    )
    func `dante takes an account's password, refuses a wrong one, and wants one`() async throws {
        let server = try await ProxyServer(.danteWithLogin)
        for (scenario, scheme) in zip(Self.scenarios, ["socks5", "socks5h", "socks5", "socks5h"]) {
            var profile = try await scenario.profile()
            profile.proxy = try Self.proxy(server, url: scheme)
            try await Self.roundTrip(scenario, profile)
        }
        var profile = try await Self.scenarios[0].profile()
        for (proxy, code) in [
            (try Self.proxy(server, url: "socks5", password: "wrong"), FailureCode.proxyAuthFailed),
            (try Proxy(.socks5(.local), host: "127.0.0.1", port: Int(server.port)), .proxySOCKSMethod),
        ] {
            profile.proxy = proxy
            let client = Self.scenarios[0].client(profile)
            let (error, _) = try await failure("connect") { try await client.connect() }
            #expect(error.code == code, "\(error)")
        }
    }

    @Test(
        .enabled(
            if: ProxyServer.Kind.squidKerberos.isAvailable,
            "needs the Debian packages squid, krb5-kdc, krb5-admin-server and krb5-user"))
    func `squid takes a Kerberos ticket, without one a password, and a KDC may hang`() async throws {
        let server = try await ProxyServer(.squidKerberos)
        let url = "http://localhost:\(server.port)"
        let login = "http://\(ProxyServer.userName):\(ProxyServer.password)@localhost:\(server.port)"
        let none = "no Kerberos credentials: run kinit"
        let late =
            "proxy.timeout at proxy (127.0.0.1:\(server.port)): Kerberos, asked for a ticket for the proxy"
        for (proxy, tickets, says) in [
            (url, "tickets", ""), (url, "none", none), (login, "none", ""), (url, "fresh", late),
        ] {
            if says == late {
                // It accepts, and never answers.
                let text = try String(contentsOfFile: server.directory + "/kdc.pid", encoding: .utf8)
                kill(try #require(pid_t(text.filter(\.isNumber))), SIGSTOP)
            }
            let broker = try await Self.scenarios[0].profile()
            // The library reads where the tickets are from the environment.
            await #expect(processExitsWith: .success) {
                [
                    directory = server.directory as String, port = Int(broker.port) as Int,
                    proxy = proxy as String, tickets = tickets as String, says = says as String
                ] in
                setenv("KRB5_CONFIG", "\(directory)/krb5.conf", 1)
                setenv("KRB5CCNAME", "FILE:\(directory)/\(tickets)", 1)
                var profile = try ConnectionProfile.tcp(host: "127.0.0.1", port: port)
                profile.proxy = try Proxy(url: proxy)
                if tickets == "fresh" { profile.deadlines.proxy = .seconds(1) }
                let client = MQTTClient(profile: profile)
                if says.isEmpty {
                    try await client.connectInTime()
                    try await client.disconnectInTime()
                } else {
                    let (error, _) = try await failure("connect") { try await client.connect() }
                    #expect("\(error)".contains(says), "\(error)")
                }
            }
        }
    }
}
