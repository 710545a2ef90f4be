import MQTTTransport
import Testing

/// Happy Eyeballs as a table: what happens when, and what is done about it.
@Suite("Address race") struct AddressRaceTests {
    enum Input: Sendable {
        case start
        case refused(Int)
        /// What the profile asks of the socket can't be done.
        case unusable(Int)
        case connected(Int)
        case time
    }

    struct Step: Sendable {
        let at: Int
        let input: Input
        let actions: [AddressRace.Action]
        /// nil for none.
        let next: Int?

        init(_ at: Int, _ input: Input, _ actions: [AddressRace.Action], next: Int?) {
            self.at = at
            self.input = input
            self.actions = actions
            self.next = next
        }
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let addresses: [String]
        var deadline = 1000
        let steps: [Step]
    }

    private static let (six, four) = ("[2001:db8::6]:1883", "192.0.2.4:1883")

    private static func address(_ host: String, port: UInt16 = 1883) -> SocketAddress {
        guard let address = SocketAddress(literal: host, port: port) else { fatalError(host) }
        return address
    }

    private static func refusal(_ hop: String) -> TransportError {
        TransportError(stage: .tcp, code: .tcpRefused, hop: hop, evidence: .text("refused"))
    }

    private static func timeout(_ hop: String, _ deadline: Int = 1000) -> TransportError {
        TransportError(
            stage: .tcp, code: .tcpTimeout, hop: hop, evidence: .deadline(.milliseconds(deadline)))
    }

    private static let unusable = TransportError(
        stage: .tcp, code: .clientInvalidArgument, evidence: .text("no such interface"))

    static let cases: [Case] = [
        Case(
            testDescription: "one address that connects", addresses: ["192.0.2.4"],
            steps: [
                Step(0, .start, [.start(0)], next: 1000),
                Step(250, .time, [], next: 1000),
                Step(300, .connected(0), [.won(0, detail: four)], next: nil),
                Step(1000, .time, [], next: nil),
            ]),
        Case(
            testDescription: "one address that refuses", addresses: ["192.0.2.4"],
            steps: [
                Step(0, .start, [.start(0)], next: 1000),
                Step(1, .refused(0), [.failed([refusal(four)])], next: nil),
            ]),
        Case(
            testDescription: "no address at all", addresses: [],
            steps: [Step(0, .start, [.failed([])], next: nil)]),
        Case(
            testDescription: "a black hole costs the delay", addresses: ["2001:db8::6", "192.0.2.4"],
            steps: [
                Step(0, .start, [.start(0)], next: 250),
                Step(249, .time, [], next: 250),
                Step(250, .time, [.start(1)], next: 1000),
                Step(
                    260, .connected(1),
                    [.cancel(0), .won(1, detail: "\(four) (after \(six): no answer yet)")], next: nil),
                Step(261, .connected(0), [], next: nil),
            ]),
        Case(
            testDescription: "a refusal costs nothing", addresses: ["2001:db8::6", "192.0.2.4", "192.0.2.5"],
            steps: [
                Step(0, .start, [.start(0)], next: 250),
                Step(5, .refused(0), [.start(1)], next: 255),
                Step(
                    30, .connected(1), [.won(1, detail: "\(four) (after \(six): refused)")], next: nil),
            ]),
        Case(
            testDescription: "the preferred address is slow and wins",
            addresses: ["2001:db8::6", "192.0.2.4"],
            steps: [
                Step(0, .start, [.start(0)], next: 250),
                Step(250, .time, [.start(1)], next: 1000),
                Step(300, .connected(0), [.cancel(1), .won(0, detail: six)], next: nil),
                Step(300, .connected(1), [], next: nil),
                Step(300, .refused(1), [], next: nil),
            ]),
        Case(
            testDescription: "each has its own deadline", addresses: ["2001:db8::6", "192.0.2.4"],
            steps: [
                Step(0, .start, [.start(0)], next: 250),
                Step(270, .time, [.start(1)], next: 1000),
                Step(1000, .time, [.cancel(0)], next: 1270),
                Step(1269, .time, [], next: 1270),
                Step(
                    1270, .time, [.cancel(1), .failed([timeout(six), timeout(four)])], next: nil),
            ]),
        Case(
            testDescription: "a deadline below the delay starts the next",
            addresses: ["2001:db8::6", "192.0.2.4"], deadline: 100,
            steps: [
                Step(0, .start, [.start(0)], next: 100),
                Step(100, .time, [.cancel(0), .start(1)], next: 200),
                Step(
                    120, .refused(1), [.failed([timeout(six, 100), refusal(four)])], next: nil),
            ]),
        Case(
            testDescription: "a machine that slept has one more address to try",
            addresses: ["2001:db8::6", "192.0.2.4", "2001:db8::7"],
            steps: [
                Step(0, .start, [.start(0)], next: 250),
                Step(250, .time, [.start(1)], next: 500),
                Step(99_000, .time, [.cancel(0), .cancel(1), .start(2)], next: 100_000),
            ]),
        Case(
            testDescription: "failures stand in the order of the addresses",
            addresses: ["2001:db8::6", "192.0.2.4"],
            steps: [
                Step(0, .start, [.start(0)], next: 250),
                Step(250, .time, [.start(1)], next: 1000),
                Step(260, .refused(1), [], next: 1000),
                Step(270, .refused(1), [], next: 1000),
                Step(280, .refused(0), [.failed([refusal(six), refusal(four)])], next: nil),
            ]),
        Case(
            testDescription: "what no address can help ends it",
            addresses: ["2001:db8::6", "192.0.2.4", "2001:db8::7"],
            steps: [
                Step(0, .start, [.start(0)], next: 250),
                Step(250, .time, [.start(1)], next: 500),
                Step(250, .unusable(1), [.cancel(0), .failed([unusable])], next: nil),
            ]),
        Case(
            testDescription: "it starts once, and only what was started can report", addresses: ["192.0.2.4"],
            steps: [
                Step(0, .connected(0), [], next: nil), Step(0, .time, [], next: nil),
                Step(0, .start, [.start(0)], next: 1000), Step(1, .start, [], next: 1000),
                Step(1, .refused(1), [], next: 1000), Step(1, .connected(-1), [], next: 1000),
            ]),
    ]

    @Test(arguments: cases)
    func what_happens_decides_what_is_done(_ table: Case) {
        let zero = ContinuousClock.now
        var race = AddressRace(
            table.addresses.map { Self.address($0) }, deadline: .milliseconds(table.deadline))
        for step in table.steps {
            let now = zero + .milliseconds(step.at)
            let actions =
                switch step.input {
                case .start: race.start(now: now)
                case .refused(let index):
                    race.failed(
                        index, Self.refusal(race.addresses[max(0, index) % race.addresses.count].description),
                        now: now)
                case .unusable(let index): race.failed(index, Self.unusable, now: now)
                case .connected(let index): race.connected(index)
                case .time: race.deadlineReached(now: now)
                }
            #expect(actions == step.actions, "at \(step.at)")
            #expect(race.nextDeadline == step.next.map { zero + .milliseconds($0) }, "at \(step.at)")
        }
    }

    /// RFC 8305, section 4.
    @Test(
        arguments: [
            ([], []),
            (["::1", "::2", "1.1.1.1", "::3", "2.2.2.2"], ["::1", "1.1.1.1", "::2", "2.2.2.2", "::3"]),
            (["1.1.1.1", "2.2.2.2", "::1"], ["1.1.1.1", "::1", "2.2.2.2"]),
            (["1.1.1.1", "2.2.2.2"], ["1.1.1.1", "2.2.2.2"]),
            (["::1", "::1", "1.1.1.1", "::1", "1.1.1.1"], ["::1", "1.1.1.1"]),
        ] as [([String], [String])])
    func the_families_take_turns(_ given: [String], _ order: [String]) {
        let given = given.map { Self.address($0) }
        #expect(AddressRace(given, deadline: .seconds(1)).addresses.map(\.host) == order)
        #expect(AddressRace.summary(of: given) == order.joined(separator: ", "))
    }

    @Test func of_thousands_of_addresses_a_few_are_tried_and_the_time_is_bounded() {
        let many =
            (0..<5000).map { Self.address("10.0.\($0 / 250).\($0 % 250 + 1)") } + [Self.address("::1")]
        let zero = ContinuousClock.now
        var race = AddressRace(many, deadline: .seconds(10))
        #expect(race.addresses.count == 16)
        #expect(race.addresses[1].host == "::1", "the other family has its turn all the same")
        #expect(AddressRace.summary(of: many).hasSuffix(", 10.0.0.15, and 4985 more"))
        var actions = race.start(now: zero)
        var started = 1
        var end = zero
        while let next = race.nextDeadline {
            end = next
            actions = race.deadlineReached(now: next)
            if case .start? = actions.last { started += 1 }
        }
        #expect(started == 16)
        #expect(zero.duration(to: end) == .seconds(10) + .milliseconds(3750))
        guard case .failed(let failures)? = actions.last else {
            Issue.record("ended with \(actions)")
            return
        }
        #expect(failures.map(\.hop) == race.addresses.map(\.description))
    }

    /// Whatever happens in whatever order: each address starts once and ends once, and there is one result.
    @Test func every_course_starts_and_ends_each_attempt_once() {
        var random = Numbers(state: 8305)
        for _ in 0..<2000 {
            let count = Int.random(in: 0...20, using: &random)
            let hosts = (0..<count).map {
                Bool.random(using: &random) ? "10.0.0.\($0 + 1)" : "fd00::\($0 + 1)"
            }
            var race = AddressRace(hosts.map { Self.address($0) }, deadline: .milliseconds(700))
            var now = ContinuousClock.now
            let begin = now
            var running: Set<Int> = []
            var started: Set<Int> = []
            var results = 0
            func take(_ actions: [AddressRace.Action]) {
                for (position, action) in actions.enumerated() {
                    switch action {
                    case .start(let index):
                        #expect(position == actions.count - 1)
                        #expect(started.insert(index).inserted)
                        running.insert(index)
                    case .cancel(let index): #expect(running.remove(index) != nil)
                    case .won(let index, _):
                        #expect(running.remove(index) != nil)
                        results += 1
                    case .failed(let errors):
                        #expect(errors.count == race.addresses.count)
                        results += 1
                    }
                }
            }
            take(race.start(now: now))
            while results == 0 {
                now += .milliseconds(Int.random(in: 0...200, using: &random))
                let some = Int.random(in: 0..<max(1, race.addresses.count), using: &random)
                switch Int.random(in: 0..<20, using: &random) {
                case 0: take(race.connected(some))
                case 1..<5:
                    let isRunning = running.remove(some) != nil
                    let actions = race.failed(some, Self.refusal("x"), now: now)
                    #expect(isRunning || actions.isEmpty)
                    take(actions)
                default:
                    if let next = race.nextDeadline { now = max(now, next) }
                    take(race.deadlineReached(now: now))
                }
            }
            #expect(running.isEmpty)
            #expect(results == 1)
            #expect(race.nextDeadline == nil)
            #expect(begin.duration(to: now) < .milliseconds(700 + 16 * (250 + 200)))
        }
    }
}

/// SplitMix64, so that a failure comes again.
private struct Numbers: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
