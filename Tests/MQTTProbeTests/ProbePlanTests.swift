import MQTTProbe
import MQTTTraversal
import Testing

/// Counts, so that identifiers are known beforehand.
struct Counting: RandomNumberGenerator {
    var count: UInt64 = 0

    mutating func next() -> UInt64 {
        count += 1
        return count
    }
}

func plan(_ options: ProbeOptions) throws -> ProbePlan {
    var random = Counting()
    return try ProbePlan(options, random: &random)
}

struct ProbePlanTests {
    @Test func the_four_ways_are_planned_best_first() throws {
        let plan = try plan(ProbeOptions(host: "broker.connectmq.com"))
        #expect(
            plan.attempts.map(\.profile.description) == [
                "mqtts://broker.connectmq.com:8883",
                "wss://broker.connectmq.com:8084/mqtt",
                "wss://broker.connectmq.com:443/mqtt",
                "mqtt://broker.connectmq.com:1883",
            ])
        #expect(plan.attempts.map(\.route.rawValue) == ["tls", "wss", "wss-alt", "tcp"])
        #expect(plan.attempts.allSatisfy { $0.skipReason == nil })
        #expect(!plan.isSequential)
        #expect(!plan.hasCredentials)
    }

    @Test func each_attempt_has_a_client_identifier_of_its_own_that_every_server_takes() throws {
        let plan = try plan(ProbeOptions(host: "h"))
        #expect(
            plan.attempts.map(\.clientID) == [
                "wsprobe000000000001", "wsprobe000000000002", "wsprobe000000000003", "wsprobe000000000004",
            ])
    }

    @Test func a_given_client_identifier_makes_the_attempts_follow_one_another() throws {
        let plan = try plan(ProbeOptions(host: "h", clientID: "pump-7"))
        #expect(plan.isSequential)
        #expect(plan.attempts.allSatisfy { $0.clientID == "pump-7" })
    }

    @Test(arguments: [("user", "secret"), ("user", nil), (nil, "secret")] as [(String?, String?)])
    func credentials_are_on_encrypted_ways_only_and_plaintext_is_skipped(
        userName: String?, passwordText: String?
    ) throws {
        let password = passwordText.map { Array($0.utf8) }
        let plan = try plan(ProbeOptions(host: "h", userName: userName, password: password))
        #expect(plan.hasCredentials)
        for attempt in plan.attempts.prefix(3) {
            #expect(attempt.profile.userName == userName)
            #expect(attempt.profile.password == password)
            #expect(attempt.skipReason == nil)
        }
        #expect(plan.attempts[3].profile.userName == nil)
        #expect(plan.attempts[3].profile.password == nil)
        #expect(plan.attempts[3].skipReason == "user name and password are never sent in plaintext")
    }

    @Test func ports_trust_version_and_deadlines_are_taken_over() throws {
        var ports = ProbePorts()
        ports[.tls] = 1
        ports[.webSocketSecure] = 2
        ports[.webSocketSecureAlternative] = 65534
        ports[.tcp] = 65535
        let plan = try plan(
            ProbeOptions(
                host: "h", ports: ports, version: .v3_1_1, trust: .file("ca.pem"), timeout: .seconds(3)))
        #expect(plan.attempts.map(\.profile.port) == [1, 2, 65534, 65535])
        #expect(
            plan.attempts.map(\.profile.tls?.trust) == [
                .file("ca.pem"), .file("ca.pem"), .file("ca.pem"), nil,
            ])
        #expect(plan.version == .v3_1_1)
        let deadlines = StageDeadlines(
            resolve: .seconds(3), tcp: .seconds(3), proxy: .seconds(3), tls: .seconds(3),
            webSocket: .seconds(3),
            mqttConnect: .seconds(3))
        #expect(plan.attempts.allSatisfy { $0.profile.deadlines == deadlines })
    }

    @Test func every_certificate_is_verified() throws {
        let plan = try plan(ProbeOptions(host: "h", trust: .file("ca.pem")))
        #expect(plan.attempts.compactMap(\.profile.tls).allSatisfy { $0.verification == .full })
    }

    @Test(arguments: ["::1", "[::1]"]) func an_ipv6_address_stands_in_brackets(host: String) throws {
        #expect(try plan(ProbeOptions(host: host)).attempts[1].profile.description == "wss://[::1]:8084/mqtt")
    }

    @Test(arguments: ["", "two words", "b\u{FC}cher.example", "a\u{1B}[31m"])
    func a_host_that_is_none_is_refused(host: String) {
        #expect(throws: ProfileError.self) { try plan(ProbeOptions(host: host)) }
    }
}
