import Foundation
import Glibc

enum TemporaryDirectory {
    /// A new one that only this user can enter.
    static func make() throws -> String {
        var template = Array("\(NSTemporaryDirectory())mqtt-scenarios-XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        guard let made else {
            throw BrokerFailure("no temporary directory: \(String(cString: strerror(errno)))")
        }
        return made
    }

    static func remove(_ path: String) {
        try? FileManager.default.removeItem(atPath: path)
    }
}
