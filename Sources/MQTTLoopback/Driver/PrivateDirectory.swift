import Glibc

/// A directory that only its owner can enter, with files in it and no further directories.
struct PrivateDirectory: Sendable {
    let path: String

    /// - Throws: `CertificateError` where none can be made.
    init() throws {
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/mqtt-loopback-XXXXXX".utf8CString)
        // Mode 0700, whatever the umask.
        guard mkdtemp(&template) != nil else {
            throw CertificateError("can't make a directory in \(parent)", errno: errno)
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    func remove() {
        guard let directory = opendir(path) else { return }
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { unlink("\(path)/\(name)") }
        }
        closedir(directory)
        rmdir(path)
    }
}
