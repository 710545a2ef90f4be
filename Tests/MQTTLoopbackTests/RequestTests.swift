import MQTTCore
import MQTTLoopback
import MQTTTransport
import MQTTTraversal
import Testing

/// Request/Response over real connections (5.0, section 4.10).
@Suite(.timeLimit(.minutes(1))) struct RequestTests {
    private func run(
        _ brokerConfiguration: BrokerConfiguration = BrokerConfiguration(),
        client clientConfiguration: ClientConfiguration = asking(),
        _ body: (LoopbackBroker, _ requester: MQTTClient, _ responder: MQTTClient) async throws -> Void
    ) async throws {
        let broker = try await LoopbackBroker.start(brokerConfiguration, listeners: [.init(.tcp)])
        let requester = MQTTClient(profile: try broker.profile(.tcp), configuration: clientConfiguration)
        let responder = MQTTClient(
            profile: try broker.profile(.tcp), configuration: .init(clientID: "responder", reconnect: .quick))
        try await responder.connect()
        do { try await body(broker, requester, responder) } catch { Issue.record(error) }
        await requester.disconnect()
        await responder.disconnect()
        await broker.stop()
    }

    private static func asking(
        _ change: (inout ClientConfiguration) -> Void = { _ in }
    ) -> ClientConfiguration {
        var configuration = ClientConfiguration(clientID: "requester", reconnect: .quick)
        change(&configuration)
        return configuration
    }

    private func failure(_ body: () async throws -> Void) async -> MQTTError? {
        do {
            try await body()
            Issue.record("nothing was thrown")
        } catch let error as MQTTError {
            return error
        } catch {
            Issue.record(error)
        }
        return nil
    }

    @Test func `two thousand requests at once get their own answers, in whatever order these come`()
        async throws
    {
        try await run { _, requester, responder in
            let count = 2000
            try await requester.connect()
            let requests = try await responder.subscribe(to: "double", qos: .atLeastOnce)
            let answering = Task {
                var taken: [Message] = []
                for try await request in requests {
                    taken.append(request)
                    if taken.count == count { break }
                }
                // The last first.
                for request in taken.reversed() {
                    let number = try #require(Int(try request.text))
                    try responder.enqueue(
                        "\(2 * number)", to: try #require(request.properties.responseTopic),
                        properties: request.properties.answering)
                }
                return Set(taken.map(\.properties.responseTopic))
            }
            let wrong = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<count {
                    group.addTask {
                        let answer = try await requester.request(
                            "\(number)", to: "double", timeout: .seconds(50))
                        return try answer.text != "\(2 * number)"
                    }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(wrong == 0)
            let topics = try await answering.value
            #expect(topics.count == 1)
            #expect(topics.first??.hasPrefix("responses/") == true)
        }
    }

    @Test func `a responder answers several at once, and passes over what is no request`() async throws {
        try await run { _, requester, responder in
            try await requester.connect()
            let seen = Watched<[String]>([])
            let gate = Watched(0)
            let responding = Task {
                try await responder.respond(to: "work/+", concurrency: 2) { request in
                    let text = (try? request.text) ?? ""
                    seen.update { $0.append(text) }
                    // Only two at once come through this.
                    gate.update { $0 += 1 }
                    _ = await gate.first { $0 >= 2 }
                    return text == "silent" ? nil : Reply("answer to \(text)")
                }
            }
            while try await requester.publish("plain", to: "work/x", qos: .atLeastOnce).reasonCode
                == .noMatchingSubscribers
            {}
            async let one = requester.request("one", to: "work/1", timeout: .seconds(50))
            async let two = requester.request(
                "two", to: "work/2", qos: .exactlyOnce, timeout: .seconds(50))
            #expect(try await one.text == "answer to one")
            #expect(try await two.text == "answer to two")
            let error = await failure {
                _ = try await requester.request("silent", to: "work/3", timeout: .milliseconds(100))
            }
            #expect(error?.code == .mqttRequestTimeout)
            let heard = await seen.first { $0.count == 3 }
            #expect(heard.sorted() == ["one", "silent", "two"])
            responding.cancel()
            await #expect(throws: CancellationError.self) { try await responding.value }
        }
    }

    @Test func `a request that nobody answers times out, and its late answer is dropped`() async throws {
        let late = Watched(0)
        let configuration = Self.asking {
            $0.log = { _, event in
                if case .lateResponse = event { late.update { $0 += 1 } }
            }
        }
        try await run(client: configuration) { _, requester, responder in
            try await requester.connect()
            let requests = try await responder.subscribe(to: "slow", qos: .atLeastOnce)
            var iterator = requests.makeAsyncIterator()
            // The first waits for its subscription too, so that a short time may end it unsent.
            async let first = requester.request("x", to: "slow", timeout: .seconds(50))
            try await responder.reply(to: try #require(try await iterator.next()), with: "in time")
            #expect(try await first.text == "in time")
            let error = await failure {
                _ = try await requester.request("y", to: "slow", timeout: .milliseconds(100))
            }
            #expect(error?.code == .mqttRequestTimeout)
            #expect(error?.stage == .established)
            let request = try #require(try await iterator.next())
            try await responder.reply(to: request, with: "too late")
            #expect(await late.first { $0 == 1 } == 1)
        }
    }

    @Test func `a request that the server knows nobody hears fails at once`() async throws {
        try await run { _, requester, _ in
            try await requester.connect()
            let error = await failure { _ = try await requester.request("x", to: "nobody") }
            #expect(error?.code == .mqttNoResponder)
        }
    }

    @Test(arguments: [Duration.seconds(3600), .zero])
    func `a request survives a reconnect, whether the server keeps the session or not`(
        expiry: Duration
    ) async throws {
        try await run(client: Self.asking { $0.sessionExpiry = expiry }) { broker, requester, responder in
            try await requester.connect()
            let requests = try await responder.subscribe(to: "t", qos: .atLeastOnce)
            var iterator = requests.makeAsyncIterator()
            async let answer = requester.request("x", to: "t", timeout: .seconds(30))
            let request = try #require(try await iterator.next())
            let events = requester.events
            await broker.dropConnections(clientID: "requester")
            var isBack = false
            for await event in events {
                if case .interrupted = event { isBack = true }
                if case .connected = event, isBack { break }
            }
            // The subscription is restored ahead of this.
            try await requester.publish("marker", to: "t", qos: .atLeastOnce)
            try await responder.reply(to: request, with: "after all")
            #expect(try await answer.text == "after all")
        }
    }

    @Test func `a cancelled request is forgotten`() async throws {
        let late = Watched(0)
        let configuration = Self.asking {
            $0.log = { _, event in
                if case .lateResponse = event { late.update { $0 += 1 } }
            }
        }
        try await run(client: configuration) { _, requester, responder in
            try await requester.connect()
            let requests = try await responder.subscribe(to: "t", qos: .atLeastOnce)
            var iterator = requests.makeAsyncIterator()
            let asking = Task { try await requester.request("x", to: "t", timeout: .seconds(50)) }
            let request = try #require(try await iterator.next())
            asking.cancel()
            await #expect(throws: CancellationError.self) { try await asking.value }
            try await responder.reply(to: request, with: "nobody waits")
            #expect(await late.first { $0 == 1 } == 1)
        }
    }

    @Test func `the end of the client ends what waits, and the next connection asks anew`() async throws {
        try await run { _, requester, responder in
            try await requester.connect()
            let requests = try await responder.subscribe(to: "t", qos: .atLeastOnce)
            var iterator = requests.makeAsyncIterator()
            let asking = Task { try await requester.request("x", to: "t", timeout: .seconds(50)) }
            let first = try #require(try await iterator.next())
            await requester.disconnect()
            let error = await failure { _ = try await asking.value }
            #expect(error?.code == .clientDisconnected)
            let unconnected = await failure {
                _ = try await requester.request("x", to: "t", timeout: .seconds(50))
            }
            #expect(unconnected?.code == .clientNotConnected)
            try await requester.connect()
            async let answer = requester.request("y", to: "t", timeout: .seconds(50))
            let second = try #require(try await iterator.next())
            #expect(first.properties.responseTopic != second.properties.responseTopic)
            try await responder.reply(to: second, with: "z")
            #expect(try await answer.text == "z")
        }
    }

    @Test func `Response Information is where the answers go`() async throws {
        var configuration = BrokerConfiguration()
        configuration.responseInformation = "own/requester"
        let asking = Self.asking { $0.connectProperties.requestResponseInformation = true }
        try await run(configuration, client: asking) { _, requester, responder in
            try await requester.connect()
            let requests = try await responder.subscribe(to: "t", qos: .atLeastOnce)
            async let answer = requester.request("x", to: "t", timeout: .seconds(50))
            var iterator = requests.makeAsyncIterator()
            let request = try #require(try await iterator.next())
            #expect(request.properties.responseTopic?.hasPrefix("own/requester/") == true)
            try await responder.reply(to: request, with: "y")
            #expect(try await answer.text == "y")
        }
    }

    @Test func `a server that refuses the responses' topic fails the requests`() async throws {
        var configuration = BrokerConfiguration()
        configuration.users = [.init(name: "u", password: "p", allowedTopics: ["t"])]
        let asking = Self.asking {
            $0.userName = "u"
            $0.password = Array("p".utf8)
        }
        try await run(configuration, client: asking) { _, requester, _ in
            try await requester.connect()
            for _ in 0..<2 {
                let error = await failure {
                    _ = try await requester.request("x", to: "t", timeout: .seconds(50))
                }
                #expect(error?.code == .mqttOperationRefused)
                #expect(error?.reasonCode == .notAuthorized)
            }
        }
    }

    @Test func `what can't be asked is refused in words`() async throws {
        try await run { broker, requester, responder in
            try await requester.connect()
            var taken = Properties()
            taken.responseTopic = "mine"
            var correlated = Properties()
            correlated.correlationData = [1]
            for properties in [taken, correlated] {
                let error = await failure {
                    _ = try await requester.request("x", to: "t", properties: properties)
                }
                #expect(error?.code == .clientInvalidArgument)
            }
            let wildcard = await failure { _ = try await requester.request("x", to: "t/#") }
            #expect(wildcard?.code == .clientInvalidArgument)
            let plain = await failure {
                try await responder.reply(to: Message(topic: "t", payload: []), with: "x")
            }
            #expect(plain?.code == .clientInvalidArgument)
            let old = MQTTClient(
                profile: try broker.profile(.tcp), configuration: .init(version: .v3_1_1, clientID: "old"))
            try await old.connect()
            let error = await failure { _ = try await old.request("x", to: "t") }
            #expect(error?.code == .clientInvalidArgument)
            #expect(error?.description.contains("5.0") == true)
            await old.disconnect()
        }
    }

    @Test func `answers reach a subscription of one's own too`() async throws {
        try await run { _, requester, responder in
            try await requester.connect()
            let all = try await requester.subscribe(to: "responses/#", qos: .atLeastOnce)
            let requests = try await responder.subscribe(to: "t", qos: .atLeastOnce)
            async let answer = requester.request("x", to: "t", timeout: .seconds(50))
            var iterator = requests.makeAsyncIterator()
            try await responder.reply(to: try #require(try await iterator.next()), with: "y")
            #expect(try await answer.text == "y")
            var seen = all.makeAsyncIterator()
            #expect(try await seen.next()?.text == "y")
        }
    }
}

extension Properties {
    /// Those of the answer to a request with these.
    fileprivate var answering: Properties {
        var properties = Properties()
        properties.correlationData = correlationData
        return properties
    }
}
