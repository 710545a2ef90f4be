/// The ASCII keys in what a terminal has sent. Arrow and function keys are left out: they are sequences that begin
/// with ESC and may hold letters, as in `ESC [ 3 ~`, `ESC O Q` and `ESC [ F`.
package func keys(in bytes: [UInt8]) -> [Character] {
    var keys: [Character] = []
    var rest = bytes[...]
    while let byte = rest.popFirst() {
        guard byte == 0x1B else {
            if byte < 0x80 { keys.append(Character(Unicode.Scalar(byte))) }
            continue
        }
        guard let introducer = rest.first, introducer == UInt8(ascii: "[") || introducer == UInt8(ascii: "O")
        else {
            continue
        }
        rest.removeFirst()
        // Parameters, then one byte that ends it.
        while let parameter = rest.popFirst(), !(0x40...0x7E).contains(parameter) {}
    }
    return keys
}
