import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// What a client meets in the simulated networks, by every way: they are what they say they are.
@Suite(.timeLimit(.minutes(2)))
struct HostileNetworkTests {
    private static let certificates = Result { try NetworkCertificates() }

    @Test(arguments: HostileNetwork.catalogue)
    func `a client meets in a network what is expected of each way`(network: HostileNetwork) async throws {
        let running = try await network.start(certificates: Self.certificates.get())
        let ends = try await withThrowingTaskGroup(of: (String, String).self) { group in
            for way in try NetworkWay.all(of: running) {
                group.addTask { (way.identifier, await way.end(running)) }
            }
            var ends: [(way: String, code: String)] = []
            for try await end in group { ends.append(end) }
            return ends
        }
        await running.stop()
        for (way, code) in ends {
            let right = network.observation(ofWay: way)
            #expect(right.contains(code), "\(network.name), \(way): \(code), not \(right)")
        }
    }

    @Test func `every network has a name of its own, and every code is one of the vocabulary`() {
        let names = HostileNetwork.catalogue.map(\.name)
        #expect(Set(names).count == names.count)
        #expect(names.count >= 60)
        let known = Set(FailureCode.allCases.map(\.rawValue) + ["ok", "ok.degraded"])
        for network in HostileNetwork.catalogue {
            for codes in network.expected.values {
                for code in codes.split(separator: "|") {
                    #expect(known.contains(String(code)), "\(network.name): \(code)")
                }
            }
        }
    }

    @Test func `the longest pattern that matches says what is expected`() {
        let network = HostileNetwork(
            "x", "", .none,
            ["*": "a", "*@proxy-1": "b", "*-443@proxy-1": "c", "tls-8883": "d|e"])
        #expect(network.expectation(ofWay: "tcp-1883") == ["a"])
        #expect(network.expectation(ofWay: "wss-443") == ["a"])
        #expect(network.expectation(ofWay: "wss-8084@proxy-1") == ["b"])
        #expect(network.expectation(ofWay: "wss-443@proxy-1") == ["c"])
        #expect(network.expectation(ofWay: "tls-8883") == ["d", "e"])
    }
}

/// A way to the broker.
private struct NetworkWay {
    let identifier: String
    var profile: ConnectionProfile

    /// Each direct, and through the proxy where there is one.
    static func all(of network: RunningNetwork) throws -> [NetworkWay] {
        let host = HostileNetwork.broker
        let tls = TLSOptions(trust: .file(network.authorityFile))
        var mqtt = tls
        mqtt.applicationProtocols = ["mqtt"]
        mqtt.requiresApplicationProtocol = true
        let direct = [
            NetworkWay(identifier: "tcp-1883", profile: try .tcp(host: host)),
            NetworkWay(identifier: "tls-8883", profile: try .tls(host: host, options: tls)),
            NetworkWay(identifier: "ws-8083", profile: try .webSocket(host: host, port: 8083)),
            NetworkWay(identifier: "ws-80", profile: try .webSocket(host: host)),
            NetworkWay(identifier: "wss-8084", profile: try .webSocketSecure(host: host, options: tls)),
            NetworkWay(
                identifier: "wss-443", profile: try .webSocketSecure(host: host, port: 443, options: tls)),
            NetworkWay(identifier: "tls-443-mqtt", profile: try .tls(host: host, port: 443, options: mqtt)),
        ]
        let proxied = try direct.compactMap { way -> NetworkWay? in
            guard let proxy = try network.proxyEnvironment.proxy(for: way.profile) else { return nil }
            var profile = way.profile
            profile.proxy = proxy
            return NetworkWay(identifier: way.identifier + "@proxy-1", profile: profile)
        }
        return direct + proxied
    }

    /// `ok`, or the code of the failure.
    func end(_ network: RunningNetwork) async -> String {
        var profile = profile
        let limit = network.network.timeout
        profile.deadlines = StageDeadlines(
            resolve: limit, tcp: limit, proxy: limit, tls: limit, webSocket: limit, mqttConnect: limit)
        var configuration = ClientConfiguration(version: .v5, reconnect: .never)
        configuration.resolver = network.resolver
        let client = MQTTClient(profile: profile, configuration: configuration)
        let code: String
        do {
            try await client.connect()
            code = "ok"
        } catch {
            code = (error as? MQTTError)?.code.rawValue ?? "\(error)"
        }
        await client.disconnect()
        return code
    }
}
