import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

@testable import MQTTProbe

@Suite("Measurements: searches")
struct SearchTests {
    /// Plays a network that kills silent connections.
    private func idle(
        limit: Duration?, isSeen: Bool, within budget: Duration, width: Int = 12
    ) -> (survived: Duration, died: Duration?, took: Duration, rounds: Int) {
        let patience = Duration.seconds(6)
        var search = IdleSearch(width: width, patience: patience)
        var took = Duration.zero
        var rounds = 0
        while true {
            let silences = search.round(within: budget - took)
            guard let longest = silences.last else { return (search.survived, search.died, took, rounds) }
            rounds += 1
            var end = longest
            for silence in silences {
                if let limit, silence >= limit {
                    search.ended(after: isSeen ? limit : silence, isSeen: isSeen)
                    if isSeen { end = min(end, limit) }
                } else {
                    search.answered(after: silence)
                }
            }
            took += end + patience
        }
    }

    @Test func a_connection_that_nothing_kills_survives_the_given_time() {
        let result = idle(limit: nil, isSeen: false, within: .seconds(120))
        #expect(result.survived == .seconds(114) && result.died == nil)
        #expect(result.took == .seconds(120) && result.rounds == 1)
    }

    @Test func an_end_that_is_seen_is_exact_and_ends_the_search() {
        let result = idle(limit: .seconds(60), isSeen: true, within: .seconds(120))
        #expect(result.died == .seconds(60) && result.took == .seconds(66) && result.rounds == 1)
        #expect(result.survived < .seconds(60) && result.survived > .seconds(50))
    }

    @Test(arguments: [20, 60, 100, 119])
    func an_end_that_is_not_seen_is_narrowed_down_within_the_time(_ seconds: Int) throws {
        let limit = Duration.seconds(seconds)
        let result = idle(limit: limit, isSeen: false, within: .seconds(300))
        let died = try #require(result.died)
        #expect(result.survived < limit && limit <= died)
        #expect(died - result.survived <= max(.seconds(1), died / 20) || result.rounds == 1)
        #expect(result.took <= .seconds(300))
    }

    @Test func one_connection_at_a_time_is_silent_for_all_the_time() {
        let result = idle(limit: .seconds(60), isSeen: false, within: .seconds(120), width: 1)
        #expect(result.survived == .zero && result.died == .seconds(114))
        #expect(idle(limit: .seconds(60), isSeen: true, within: .seconds(120), width: 1).died == .seconds(60))
    }

    private func size(limit: Int, failsAbove cut: Int?, flaky: Set<Int> = []) -> SizeSearch {
        var search = SizeSearch(limit: limit)
        var tries = 0
        while let size = search.next, tries < 100 {
            tries += 1
            if let cut, size > cut {
                _ = search.failed(size)
            } else if flaky.contains(tries) {
                _ = search.failed(size)
            } else {
                search.passed(size)
            }
        }
        #expect(tries < 60)
        return search
    }

    @Test(arguments: [64, 1000, 65535, 65536, 300_000, 4_000_000])
    func the_largest_size_is_found_to_a_sixty_fourth(_ cut: Int) throws {
        let search = size(limit: 4 << 20, failsAbove: cut)
        let failed = try #require(search.smallestFailed)
        #expect(search.largestPassed <= cut && cut < failed)
        #expect(failed - search.largestPassed <= max(16, search.largestPassed / 64))
    }

    @Test func a_size_that_fails_once_is_tried_again() {
        let search = size(limit: 1 << 20, failsAbove: nil, flaky: [2, 5])
        #expect(search.largestPassed == 1 << 20 && search.smallestFailed == nil)
    }

    @Test func nothing_passes() {
        let search = size(limit: 1 << 20, failsAbove: 0)
        #expect(search.largestPassed == 0)
    }

    @Test func percentiles_are_those_of_the_nearest_rank() throws {
        #expect(Latency([]) == nil)
        let latency = try #require(Latency((1...100).shuffled().map { .milliseconds($0) }))
        #expect(latency.minimum == 1 && latency.median == 50 && latency.percentile90 == 90)
        #expect(latency.percentile99 == 99 && latency.maximum == 100 && latency.samples == 100)
        let one = try #require(Latency([.milliseconds(7)]))
        #expect(one.median == 7 && one.percentile99 == 7)
    }
}

@Suite("Measurements", .timeLimit(.minutes(1)))
struct MeasurementTests {
    private func measure(
        _ broker: LoopbackBroker, _ kind: LoopbackBroker.Kind = .webSocketSecure, clientID: String? = nil,
        timeout: Duration = .seconds(5), _ change: (inout MeasurementOptions) -> Void
    ) async throws -> Measurements {
        var options = MeasurementOptions()
        change(&options)
        let way = MeasuredWay(
            attempt: "way", profile: try broker.profile(kind), version: .v5, clientID: clientID,
            timeout: timeout)
        return await MeasurementRunner(way).run(options)
    }

    @Test(arguments: LoopbackBroker.Kind.allCases)
    func an_echo_comes_back_on_each_transport_and_leaves_nothing_behind(_ kind: LoopbackBroker.Kind)
        async throws
    {
        let broker = try await LoopbackBroker.start()
        let results = try await measure(broker, kind) { $0.echo = true }
        #expect(try #require(results.echo?.milliseconds) > 0)
        #expect(results.echo?.failure == nil)
        let counters = await broker.counters
        await broker.stop()
        #expect(counters.received(.connect) == 1 && counters.received(.disconnect) == 1)
    }

    @Test func a_login_that_may_not_use_the_topic_is_told_so() async throws {
        var configuration = BrokerConfiguration()
        configuration.users = [.init(name: "u", password: "p", allowedTopics: ["mine/#"])]
        configuration.allowsAnonymous = false
        let broker = try await LoopbackBroker.start(configuration)
        var profile = try broker.profile(.tls)
        profile.userName = "u"
        profile.password = Array("p".utf8)
        var options = MeasurementOptions()
        options.echo = true
        let way = MeasuredWay(attempt: "way", profile: profile, version: .v5, timeout: .seconds(5))
        let results = await MeasurementRunner(way).run(options)
        await broker.stop()
        #expect(results.echo?.failure?.code == .mqttOperationRefused)
        #expect(results.echo?.milliseconds == nil)
    }

    @Test func messages_up_to_the_servers_own_limit_come_back() async throws {
        var configuration = BrokerConfiguration()
        configuration.maximumPacketSize = 100_000
        let broker = try await LoopbackBroker.start(configuration)
        let results = try await measure(broker) { $0.size = true }
        await broker.stop()
        let size = try #require(results.size)
        #expect(size.serverMaximum == 100_000)
        #expect(size.largestPassed > 90_000 && size.largestPassed < 100_000)
        #expect(size.smallestFailed == nil && size.failure == nil)
    }

    @Test func bytes_per_second_are_measured_both_ways() async throws {
        let broker = try await LoopbackBroker.start()
        let results = try await measure(broker, .tcp) { $0.throughput = true }
        await broker.stop()
        let throughput = try #require(results.throughput)
        #expect(try #require(throughput.up) > 100_000 && (try #require(throughput.down)) > 100_000)
        #expect(throughput.failure == nil)
    }

    @Test func connections_are_repeated_and_failures_counted_by_code() async throws {
        let broker = try await LoopbackBroker.start()
        let good = try await measure(broker) { $0.repetitions = 5 }
        try await broker.block(.webSocketSecure, by: .refusing)
        let bad = try await measure(broker) { $0.repetitions = 3 }
        await broker.stop()
        #expect(good.repetition?.succeeded == 5 && good.repetition?.lossPercent == 0)
        #expect(good.repetition?.latency?.samples == 5 && good.repetition?.failures == [:])
        #expect(bad.repetition?.attempts == 3 && bad.repetition?.lossPercent == 100)
        #expect(bad.repetition?.failures == ["tcp.refused": 3] && bad.repetition?.latency == nil)
    }

    @Test func a_watch_counts_echoes_and_tells_of_outages() async throws {
        let broker = try await LoopbackBroker.start()
        let breaking = Task {
            while await broker.counters.received(.publish) < 2 { await Task.yield() }
            await broker.dropAll(by: .reset)
        }
        let results = try await measure(broker) { $0.watch = .seconds(4) }
        await breaking.value
        await broker.stop()
        let watch = try #require(results.watch)
        #expect(watch.outages.count == 1)
        let outage = try #require(watch.outages.first)
        #expect(outage.failure.code == .tcpReset)
        #expect(outage.lastedSeconds != nil)
        #expect(watch.returned >= 2 && watch.returned <= watch.sent)
        #expect(watch.seconds >= 3.9)
    }

    @Test func a_silent_connection_that_nothing_kills_survives() async throws {
        let broker = try await LoopbackBroker.start()
        let results = try await measure(broker, timeout: .seconds(1)) { $0.idle = .seconds(4) }
        await broker.stop()
        let idle = try #require(results.idle)
        // Of 2 s, less what the connections took.
        #expect(idle.survivedSeconds > 0.5)
        #expect(idle.diedSeconds == nil)
        #expect(idle.failure == nil)
        #expect(idle.isControlAlive == true)
    }

    /// The server's keep-alive bounds what can be tried.
    @Test func silences_longer_than_the_servers_keep_alive_are_not_tried() async throws {
        var configuration = BrokerConfiguration()
        configuration.serverKeepAlive = 2
        let broker = try await LoopbackBroker.start(configuration)
        let results = try await measure(broker, timeout: .seconds(1)) { $0.idle = .seconds(6) }
        await broker.stop()
        let idle = try #require(results.idle)
        #expect(idle.serverKeepAliveSeconds == 2)
        #expect(idle.survivedSeconds < 2 && idle.survivedSeconds > 0 && idle.diedSeconds == nil)
    }

    @Test func a_given_client_identifier_is_used_by_one_connection_at_a_time() async throws {
        let broker = try await LoopbackBroker.start()
        let results = try await measure(broker, clientID: "mine", timeout: .seconds(1)) {
            $0.idle = .seconds(4)
        }
        let counters = await broker.counters
        await broker.stop()
        #expect(counters.received(.connect) == 1)
        #expect(results.idle?.isControlAlive == nil)
        #expect(try #require(results.idle?.survivedSeconds) > 0.5)
    }

    /// It answers CONNECT, and nothing after it.
    @Test func a_server_that_falls_silent_ends_each_measurement() async throws {
        let loop = try EventLoop()
        let peer = try ScriptedPeer(
            on: loop, scripts: [[.expectCount(10), .send([0x20, 3, 0, 0, 0]), .hold]])
        var options = MeasurementOptions()
        options.echo = true
        options.throughput = true
        options.size = true
        let way = MeasuredWay(
            attempt: "way", profile: try .tcp(host: "127.0.0.1", port: Int(peer.port)), version: .v5,
            timeout: .milliseconds(300))
        let results = await MeasurementRunner(way).run(options)
        peer.stop()
        loop.stopAndJoin()
        #expect(results.echo?.failure?.code == .mqttNoEcho)
        #expect(results.size?.failure?.code == .mqttNoEcho)
        #expect(results.throughput?.failure?.code == .mqttNoEcho && results.throughput?.up == nil)
    }
}
