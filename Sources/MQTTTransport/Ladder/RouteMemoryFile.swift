internal import Glibc

/// A route memory on disk: a line that says what the file is, then a line for each entry: network, seconds since 1970,
/// host, way, separated by tabs.
struct RouteMemoryFile: Sendable {
    struct Problem: Error, CustomStringConvertible {
        let description: String
    }

    let path: String

    private static let header = "swift-mqtt-traversal routes 1"
    /// 256 entries of a host of 255 bytes and a way with a long path.
    private static let sizeLimit = 1 << 20

    /// - Returns: nothing where there is no file yet.
    func read() throws(Problem) -> [RouteMemory.Key: RouteMemory.Entry] {
        guard let file = fopen(path, "re") else {
            if errno == ENOENT { return [:] }
            throw problem("can't be read: \(Self.words(errno))")
        }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: Self.sizeLimit + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        guard ferror(file) == 0 else { throw problem("can't be read") }
        guard count <= Self.sizeLimit, let text = String(validating: bytes.prefix(count), as: UTF8.self)
        else {
            throw problem("isn't one of routes, and is passed over")
        }
        return try parse(text)
    }

    private func parse(_ text: String) throws(Problem) -> [RouteMemory.Key: RouteMemory.Entry] {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)[...]
        guard lines.popFirst() == Self.header[...], lines.popLast() == "" else {
            throw problem("isn't one of routes of this version, and is passed over")
        }
        var entries: [RouteMemory.Key: RouteMemory.Entry] = [:]
        for line in lines {
            let columns = line.split(separator: "\t", omittingEmptySubsequences: false)
            guard columns.count == 4, let network = NetworkFingerprint(digest: String(columns[0])),
                let time = Int64(columns[1])
            else { throw problem("is damaged, and is passed over") }
            entries[RouteMemory.Key(network: network, host: String(columns[2]))] = RouteMemory.Entry(
                way: String(columns[3]), time: time)
        }
        return entries
    }

    /// Whole or not at all, whenever the power goes: a new file takes the old one's place.
    func write(_ entries: [RouteMemory.Key: RouteMemory.Entry]) throws(Problem) {
        var text = Self.header + "\n"
        for (key, entry) in entries {
            text += "\(key.network.digest)\t\(entry.time)\t\(key.host)\t\(entry.way)\n"
        }
        // In the same directory, since only within a file system can a file take another one's place.
        var name = Array("\(path).XXXXXX".utf8CString)
        let descriptor = mkstemp(&name)
        guard descriptor >= 0 else { throw problem("can't be written: \(Self.words(errno))") }
        let bytes = Array(text.utf8)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        var isWritten = fchmod(descriptor, S_IRUSR | S_IWUSR) == 0
        var offset = 0
        while isWritten, offset < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress?.advanced(by: offset), bytes.count - offset)
            }
            if count < 0, errno == EINTR { continue }
            isWritten = count > 0
            offset += max(count, 0)
        }
        isWritten = isWritten && fsync(descriptor) == 0
        let number = errno
        Glibc.close(descriptor)
        guard isWritten, rename(name, path) == 0 else {
            let number = isWritten ? errno : number
            unlink(name)
            throw problem("can't be written: \(Self.words(number))")
        }
    }

    private func problem(_ what: String) -> Problem { Problem(description: "the file \(path) \(what)") }

    private static func words(_ number: Int32) -> String { String(cString: strerror(number)) }
}

extension NetworkFingerprint {
    /// - Returns: nil for anything but 32 hexadecimal digits.
    init?(digest: String) {
        guard digest.utf8.count == 32, digest.allSatisfy(\.isHexDigit) else { return nil }
        self.digest = digest
    }
}
