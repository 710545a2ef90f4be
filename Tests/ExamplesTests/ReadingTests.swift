import MQTTExampleSupport
import Testing

@Suite struct ReadingTests {
    @Test(arguments: [
        ("22.8", 22.8), ("-3", -3.0), ("+4.25", 4.25), ("0", 0), ("007", 7), (" 22.8 \r\n", 22.8),
        ("\t1\n", 1),
        ("\u{A0}5\u{2003}", 5),
    ])
    func plain_decimal_numbers_are_read(_ text: String, _ value: Double) {
        #expect(plainDecimal(text) == value)
    }

    @Test(arguments: [
        "", " ", "nan", "NaN", "inf", "-inf", "infinity", "0x1p4", "0x10", "1e3", "22,8", "22.8 °C", "2 2",
        ".5", "5.",
        ".", "-", "+-1", "--1", "1.2.3", "٣", "１", "null", "{\"t\":1}", String(repeating: "9", count: 400),
    ])
    func everything_else_is_not(_ text: String) {
        #expect(plainDecimal(text) == nil)
    }

    @Test(arguments: [
        (22.8, "22.8"), (22.84, "22.8"), (22.86, "22.9"), (-3.26, "-3.3"), (0, "0.0"), (-0.04, "0.0"),
        (-0.06, "-0.1"),
        (99.96, "100.0"), (7, "7.0"), (1e20, "1e+20"),
    ])
    func readings_have_one_decimal(_ value: Double, _ text: String) {
        #expect(decimal(value) == text)
    }

    @Test(arguments: [0, UInt64.max, 0x5555_5555_5555_5555])
    func a_temperature_walk_stays_in_a_room_and_moves_in_small_steps(_ bits: UInt64) throws {
        var walk = TemperatureWalk(generator: Sequence(state: bits))
        var last: Double?
        for _ in 0..<500 {
            let text = walk.next()
            #expect(text.wholeMatch(of: /\d\d\.\d/) != nil)
            let value = try #require(plainDecimal(text))
            #expect((18.0...28.0).contains(value))
            if let last { #expect(abs(value - last) < 0.301) }
            last = value
        }
    }

    @Test func a_fan_does_on_and_off_and_ignores_anything_else() {
        var fan = FanSwitch()
        #expect(fan.apply(Array("ON".utf8)) == "the fan is ON")
        #expect(fan.isOn)
        for text in ["", "on", "ON ", "ON\n", "TOGGLE", "\u{1B}[2J"] {
            #expect(fan.apply(Array(text.utf8)).hasPrefix("ignored"))
            #expect(fan.isOn)
        }
        #expect(fan.apply(Array("\u{1B}[2J".utf8)) == "ignored \"\u{FFFD}[2J\": a command is ON or OFF")
        #expect(fan.apply([0xFF, 0xFE]) == "ignored 2 bytes that aren't text: a command is ON or OFF")
        #expect(fan.apply(Array("OFF".utf8)) == "the fan is OFF")
        #expect(!fan.isOn)
    }

    /// Numbers as handed in, each a step of a constant: enough to walk into both walls.
    private struct Sequence: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            defer { state = state &* 6_364_136_223_846_793_005 &+ 1 }
            return state
        }
    }
}
