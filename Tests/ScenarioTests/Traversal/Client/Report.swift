internal import Foundation

/// What became of one run: one line of JSON on standard output.
package struct TraversalReport: Sendable, Codable {
    /// `ok`, or the code of the failure, such as `tcp.timeout`.
    package var verdict = "ok"
    /// Where it failed.
    package var stage: String?
    package var hop: String?
    /// The way that was taken, as a URL; through a proxy, that too.
    package var route: String?
    /// The address of the last TCP connection.
    package var address: String?
    /// From `connect()` to CONNACK or to the failure.
    package var milliseconds = 0.0
    /// The codes of the losses of the connection, in order.
    package var interruptions: [String] = []
    /// What became of each way that an automatic profile stands for.
    package var routes: [String] = []
    /// The error in its own words.
    package var error: String?

    package init() {}

    package init(json: String) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(json.utf8))
    }

    package var json: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        }
    }
}
