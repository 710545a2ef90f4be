internal import CTraversalShims
internal import Glibc

/// The client's side of Negotiate (RFC 4559) by Kerberos, for one proxy.
///
/// The library is MIT Kerberos', loaded when a proxy first asks for it. It may talk to a KDC, so that each step is
/// taken on a thread of its own, one step of the process after the other.
package final class Kerberos: Sendable {
    private static let library: GSSLibrary? = GSSLibrary()
    private static let thread = WorkThread(name: "mqtt-kerberos")

    private let host: String
    private let exchange = Lock(Exchange())

    /// What a step leaves for the next.
    private struct Exchange {
        // Opaque: it's the library's own.
        nonisolated(unsafe) var context: UnsafeMutableRawPointer?
    }

    /// - Parameter host: of the proxy, as the profile has it: tokens are for its service HTTP and nobody else.
    package init(host: String) {
        self.host = host
    }

    deinit {
        exchange.withLock { Self.library?.delete(&$0.context) }
    }

    /// Makes the next token; calls `completion` on another thread.
    ///
    /// - Parameter token: the proxy's last one, nil at first, which begins anew.
    package func step(_ token: [UInt8]?, completion: @escaping @Sendable (ProxyAnswer) -> Void) {
        let hasThread = Self.thread.run { [weak self] in
            // Nobody waits any more.
            guard let self else { return }
            completion(self.answer(to: token))
        }
        if !hasThread { completion(.failed("no thread could be made for Kerberos")) }
    }

    private func answer(to token: [UInt8]?) -> ProxyAnswer {
        guard let library = Self.library else {
            return .failed("libgssapi_krb5.so.2, of the package libgssapi-krb5-2, isn't installed")
        }
        return exchange.withLock { exchange in
            if token == nil { library.delete(&exchange.context) }
            return library.step(&exchange.context, service: "HTTP@\(host)", token)
        }
    }
}

/// The functions of GSSAPI (RFC 2744); they don't change once they are loaded.
private struct GSSLibrary: @unchecked Sendable {
    private let gss: traversal_gss

    /// Nil where it isn't installed.
    init?() {
        var gss = traversal_gss()
        guard traversal_gss_load(&gss) else { return nil }
        self.gss = gss
    }

    func delete(_ context: inout UnsafeMutableRawPointer?) {
        guard context != nil else { return }
        var minor: UInt32 = 0
        _ = gss.delete_sec_context(&minor, &context, nil)
    }

    /// GSS_Init_sec_context (RFC 2744, section 5.19), without mutual authentication or delegation: the proxy isn't
    /// whom MQTT is spoken with.
    func step(_ context: inout UnsafeMutableRawPointer?, service: String, _ token: [UInt8]?) -> ProxyAnswer {
        var minor: UInt32 = 0
        var name: UnsafeMutableRawPointer?
        let imported = withBuffer(Array(service.utf8)) {
            gss.import_name(&minor, $0, gss.host_based_service, &name)
        }
        defer { _ = gss.release_name(&minor, &name) }
        guard !Self.isError(imported) else { return .failed(text(imported, minor)) }

        var output = traversal_gss_buffer()
        defer { _ = gss.release_buffer(&minor, &output) }
        let major = withBuffer(token ?? []) { input in
            gss.init_sec_context(
                &minor, nil, &context, name, gss.spnego, 0, 0, nil, token == nil ? nil : input, nil, &output,
                nil,
                nil)
        }
        guard !Self.isError(major) else { return .failed(text(major, minor)) }
        guard output.length > 0 else {
            return .failed("the proxy asks for another token, and Kerberos has none to give")
        }
        return .token(Array(UnsafeRawBufferPointer(start: output.value, count: output.length)))
    }

    private func withBuffer<Result>(
        _ bytes: [UInt8], _ body: (UnsafeMutablePointer<traversal_gss_buffer>) -> Result
    ) -> Result {
        var bytes = bytes
        return bytes.withUnsafeMutableBytes { bytes in
            var buffer = traversal_gss_buffer(length: bytes.count, value: bytes.baseAddress)
            return body(&buffer)
        }
    }

    /// A calling or a routine error (section 3.9.1); what is left is information.
    private static func isError(_ status: UInt32) -> Bool { status >> 16 != 0 }

    private func text(_ major: UInt32, _ minor: UInt32) -> String {
        // GSS_S_NO_CRED and GSS_S_CREDENTIALS_EXPIRED, for which SPNEGO's own words are vague.
        switch major >> 16 & 0xFF {
        case 7: return "no Kerberos credentials: run kinit"
        case 11: return "the Kerberos credentials have expired: run kinit"
        default: break
        }
        // GSS_C_MECH_CODE and GSS_C_GSS_CODE: the mechanism's own words say more.
        return message(minor, type: 2) ?? message(major, type: 1) ?? "GSSAPI status \(major), \(minor)"
    }

    private func message(_ status: UInt32, type: Int32) -> String? {
        guard status != 0 else { return nil }
        var minor: UInt32 = 0
        var context: UInt32 = 0
        var text = traversal_gss_buffer()
        defer { _ = gss.release_buffer(&minor, &text) }
        guard !Self.isError(gss.display_status(&minor, status, type, gss.spnego, &context, &text)) else {
            return nil
        }
        return String(
            decoding: UnsafeRawBufferPointer(start: text.value, count: text.length), as: UTF8.self)
    }
}
