internal import CTraversalOpenSSL
internal import Glibc

// What a context reads: whom to trust, and who we are.

extension TLSContext {
    func load(_ trust: TLSOptions.Trust) throws(TransportError) {
        ERR_clear_error()
        switch trust {
        case .system: try loadSystemStore()
        case .systemAnd(let files):
            // What is missing is made up for by the files.
            if files.isEmpty || Self.hasSystemStore() { try loadSystemStore() }
            for file in files { try load(file: file) }
        case .file(let path): try load(file: path)
        case .pem(let text): try load(pem: text)
        }
        // A CA of the program's own choice is trusted though it is no root.
        if trust != .system {
            X509_STORE_set_flags(SSL_CTX_get_cert_store(pointer), UInt(X509_V_FLAG_PARTIAL_CHAIN))
        }
    }

    private func loadSystemStore() throws(TransportError) {
        guard Self.hasSystemStore() else {
            throw TransportError(
                stage: .local, code: .tlsNoTrustStore,
                evidence: .text("no certificates in \(Self.systemStorePlaces().joined(separator: " or "))"))
        }
        SSL_CTX_set_default_verify_paths(pointer)
    }

    private func load(file: String) throws(TransportError) {
        guard SSL_CTX_load_verify_locations(pointer, file, nil) == 1 else {
            throw Self.badCredentials("the CA file \(file)")
        }
    }

    private func load(pem: [UInt8]) throws(TransportError) {
        let count = pem.withUnsafeBytes { bytes -> Int in
            guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else { return 0 }
            defer { BIO_free(bio) }
            var loaded = 0
            let store = SSL_CTX_get_cert_store(pointer)
            while let certificate = PEM_read_bio_X509(bio, nil, passphraseCallback, nil) {
                if X509_STORE_add_cert(store, certificate) == 1 { loaded += 1 }
                X509_free(certificate)
            }
            return loaded
        }
        if count == 0 { throw Self.badCredentials("the CA text") }
        // The read that found the end of the text has left an error behind.
        ERR_clear_error()
    }

    /// - Throws: `TransportError` where a file can't be used, or the key needs another passphrase.
    func use(certificateFile: String, privateKeyFile: String, passphrase: [UInt8]? = nil)
        throws(TransportError)
    {
        ERR_clear_error()
        // OpenSSL's own would ask on the terminal.
        SSL_CTX_set_default_passwd_cb(pointer, passphraseCallback)
        guard SSL_CTX_use_certificate_chain_file(pointer, certificateFile) == 1 else {
            throw Self.badCredentials("the certificate file \(certificateFile)")
        }
        let key = try Self.privateKey(privateKeyFile, Passphrase(passphrase))
        defer { EVP_PKEY_free(key) }
        guard SSL_CTX_use_PrivateKey(pointer, key) == 1, SSL_CTX_check_private_key(pointer) == 1 else {
            throw Self.badCredentials(
                "the private key \(privateKeyFile), which doesn't belong to \(certificateFile)")
        }
    }

    private static func privateKey(
        _ file: String, _ passphrase: Passphrase
    ) throws(TransportError) -> OpaquePointer {
        guard let bio = BIO_new_file(file, "r") else { throw badCredentials("the private key file \(file)") }
        defer { BIO_free(bio) }
        let context = Unmanaged.passUnretained(passphrase).toOpaque()
        let key = withExtendedLifetime(passphrase) {
            PEM_read_bio_PrivateKey(bio, nil, passphraseCallback, context)
        }
        if let key { return key }
        guard passphrase.wasAsked else { throw badCredentials("the private key file \(file)") }
        ERR_clear_error()
        throw TransportError(
            stage: .local, code: .tlsBadCredentials,
            evidence: .text(
                passphrase.bytes == nil
                    ? "the private key file \(file) is encrypted, and no passphrase is given"
                    : "the private key file \(file) is encrypted, and the passphrase isn't the right one"))
    }

    private static func badCredentials(_ what: String) -> TransportError {
        let reason = OpenSSLError.takeAll()
        return TransportError(
            stage: .local, code: .tlsBadCredentials, evidence: .openSSL("can't use \(what): \(reason)"))
    }

    private static func systemStorePlaces() -> [String] {
        func place(_ variable: UnsafePointer<CChar>?, _ fallback: UnsafePointer<CChar>?) -> String? {
            if let variable, let value = getenv(variable) { return String(cString: value) }
            return fallback.map { String(cString: $0) }
        }
        return [
            place(X509_get_default_cert_file_env(), X509_get_default_cert_file()),
            place(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()),
        ].compactMap { $0 }
    }

    private static func hasSystemStore() -> Bool {
        systemStorePlaces().contains { place in
            // SSL_CERT_DIR may be a list, as PATH is.
            place.split(separator: ":").contains { entry in
                var status = stat()
                guard stat(String(entry), &status) == 0 else { return false }
                if status.st_mode & S_IFMT != S_IFDIR { return status.st_size > 0 }
                guard let directory = opendir(String(entry)) else { return false }
                defer { closedir(directory) }
                var names = 0
                while readdir(directory) != nil { names += 1 }
                // Besides "." and "..".
                return names > 2
            }
        }
    }
}

/// What is said to OpenSSL when a key turns out to be encrypted.
private final class Passphrase {
    let bytes: [UInt8]?
    private(set) var wasAsked = false

    init(_ bytes: [UInt8]?) { self.bytes = bytes }

    /// - Returns: the number of bytes, or -1 for none.
    func answer(in buffer: UnsafeMutableRawBufferPointer) -> Int32 {
        wasAsked = true
        guard let bytes, bytes.count <= buffer.count else { return -1 }
        buffer.copyBytes(from: bytes)
        return Int32(clamping: bytes.count)
    }
}

private let passphraseCallback:
    @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) -> Int32 = {
        buffer, size, _, context in
        guard let context else { return -1 }
        return Unmanaged<Passphrase>.fromOpaque(context).takeUnretainedValue()
            .answer(in: UnsafeMutableRawBufferPointer(start: buffer, count: Int(max(0, size))))
    }

/// OpenSSL's error queue of this thread.
enum OpenSSLError {
    /// Empties the queue; all errors in words, or the system's alone, such as a missing file, since what follows it
    /// only repeats it.
    static func takeAll() -> String {
        var texts: [String] = []
        while true {
            let code = ERR_get_error()
            if code == 0 { break }
            if code & systemFlag != 0 {
                ERR_clear_error()
                return text(code)
            }
            texts.append(text(code))
        }
        return texts.isEmpty ? "no reason given" : texts.joined(separator: "; ")
    }

    /// ERR_SYSTEM_FLAG, a macro: the rest of the code is an errno.
    private static let systemFlag: UInt = 0x8000_0000

    static func text(_ code: UInt) -> String {
        if code & systemFlag != 0 {
            return String(cString: strerror(Int32(truncatingIfNeeded: code & 0x7FFF_FFFF)))
        }
        if let reason = ERR_reason_error_string(code) { return String(cString: reason) }
        var buffer = [CChar](repeating: 0, count: 256)
        ERR_error_string_n(code, &buffer, buffer.count)
        return buffer.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }
}
