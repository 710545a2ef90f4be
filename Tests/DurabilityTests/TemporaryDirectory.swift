import Glibc

/// A directory of files, gone with the test.
final class TemporaryDirectory: Sendable {
    let path: String

    init() {
        var name = Array("/tmp/mqtt-store.XXXXXX".utf8CString)
        path = mkdtemp(&name).map { String(cString: $0) } ?? "/nonexistent"
    }

    deinit {
        if let stream = opendir(path) {
            while let entry = readdir(stream) {
                let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                    String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
                }
                unlink("\(path)/\(name)")
            }
            closedir(stream)
        }
        rmdir(path)
    }
}
