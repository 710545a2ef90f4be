/// An account of this machine that one program alone sees, as root: the files of accounts are replaced in a mount
/// namespace of its own, and nothing has to be taken back.
enum PrivateAccount {
    private static let unshare = "unshare --mount --propagation private"

    /// Containers may forbid it.
    static let isPossible = (try? Supervisor.run(["/bin/sh", "-c", "\(unshare) true"])) != nil

    /// - Parameter command: becomes the script's process.
    static func script(_ directory: String, _ userName: String, _ command: String) throws -> [String] {
        try ProxyServer.write(
            [
                "set -e", "cp /etc/passwd /etc/shadow \(directory)",
                "echo '\(userName):x:60123:60123::/nonexistent:/usr/sbin/nologin' >>\(directory)/passwd",
                // By `openssl passwd -6`.
                "echo '\(userName):$6$mqttmqtt$dZq76ADM7ixwaw.VOJNFKZWB/4QsAScej0moH79DE02mtFJG"
                    + "6VFxJ7JWYEpJETrB2QHTtH4XRM6W.TbKQZHIz0:20000::::::' >>\(directory)/shadow",
                "mount --bind \(directory)/passwd /etc/passwd",
                "mount --bind \(directory)/shadow /etc/shadow",
                "exec \(command)",
            ], to: directory + "/account")
        return ["exec \(unshare) /bin/bash \(directory)/account"]
    }
}
