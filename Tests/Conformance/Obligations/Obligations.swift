public import Testing

/// Names the conformance statements of MQTT that a test shows.
///
/// The ids are those of `mqtt-obligations.md` beside this file; `make obligations` holds the two against each
/// other by reading the sources, so they have to be literals.
public struct Obligations: TestTrait, SuiteTrait {}

extension Trait where Self == Obligations {
    /// Statements of MQTT 3.1.1, such as `"2.3.1-2"`.
    public static func mqtt311(_ ids: String...) -> Self { Obligations() }

    /// Statements of MQTT 5.0, such as `"3.1.2-24"`.
    public static func mqtt5(_ ids: String...) -> Self { Obligations() }
}
