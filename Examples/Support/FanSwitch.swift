/// What a fan makes of a command: `ON` and `OFF` are applied, everything else is ignored with a note.
package struct FanSwitch: Sendable {
    package private(set) var isOn = false

    package init() {}

    /// - Returns: what was done, for a person.
    package mutating func apply(_ payload: [UInt8]) -> String {
        switch String(validating: payload, as: UTF8.self) {
        case "ON"?: isOn = true
        case "OFF"?: isOn = false
        case let text?: return "ignored \"\(printable(text.prefix(40)))\": a command is ON or OFF"
        case nil: return "ignored \(payload.count) bytes that aren't text: a command is ON or OFF"
        }
        return "the fan is \(isOn ? "ON" : "OFF")"
    }
}
