/// A room's temperature that wanders, for want of a sensor: 18.0 to 28.0 °C, at most 0.3 a step.
package struct TemperatureWalk<Generator: RandomNumberGenerator> {
    private var tenths: Int
    private var generator: Generator

    package init(generator: Generator) {
        self.generator = generator
        tenths = Int.random(in: 210...240, using: &self.generator)
    }

    /// The next reading, such as `22.8`.
    package mutating func next() -> String {
        defer { tenths = min(max(tenths + Int.random(in: -3...3, using: &generator), 180), 280) }
        return decimal(Double(tenths) / 10)
    }
}

extension TemperatureWalk: Sendable where Generator: Sendable {}
