/// Reads a plain decimal number such as `22.8` or `-3`, white space around it left out.
///
/// nil for everything else that a float parser may take: `nan`, `inf`, `0x1p4`, `1e3`, text. What comes over the
/// network isn't always what was meant for us.
package func plainDecimal(_ text: String) -> Double? {
    var trimmed = Substring(text)
    while trimmed.first?.isWhitespace == true { trimmed.removeFirst() }
    while trimmed.last?.isWhitespace == true { trimmed.removeLast() }
    // No measurement has more.
    guard trimmed.utf8.count <= 32 else { return nil }
    let unsigned = trimmed.hasPrefix("-") || trimmed.hasPrefix("+") ? trimmed.dropFirst() : trimmed
    let parts = unsigned.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(isDigit) }) else { return nil }
    return Double(trimmed)
}

/// A number with one decimal: `22.8`, `-0.1`, `0.0`.
package func decimal(_ value: Double) -> String {
    let tenths = (value * 10).rounded()
    guard abs(tenths) < 1e15 else { return "\(value)" }
    let digits = Int(tenths.magnitude)
    return "\(tenths < 0 ? "-" : "")\(digits / 10).\(digits % 10)"
}

private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
