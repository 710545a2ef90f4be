internal import FoundationEssentials

extension ProbeReport {
    /// One object, indented, keys in alphabetical order, ending with a newline.
    package func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self) + "\n"
    }

    /// Reads what `json()` has written.
    ///
    /// - Throws: `DecodingError`.
    package init(json: String) throws {
        self = try JSONDecoder().decode(ProbeReport.self, from: Data(json.utf8))
    }
}
