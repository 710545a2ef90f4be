/// A KDC on a port of 127.0.0.1, for the time that a proxy runs; run by whom the proxy is run by.
enum KerberosRealm {
    static let programs = ["krb5kdc", "kdb5_util", "kadmin.local", "kinit"]

    private static let name = "MQTT.TEST"

    /// Makes the realm's files, the service HTTP/localhost, and the user alice with a ticket in `tickets` and `fresh`; then becomes
    /// the command that follows.
    static func script(_ directory: String) throws -> [String] {
        let port = try FreePorts.choose(1)[0]
        try ProxyServer.write(
            [
                "[libdefaults]", "default_realm = \(name)", "dns_lookup_kdc = false",
                "dns_lookup_realm = false",
                "dns_canonicalize_hostname = false", "rdns = false", "udp_preference_limit = 1",
                "[realms]", "\(name) = {", "kdc = 127.0.0.1:\(port)", "}",
                "[domain_realm]", "localhost = \(name)",
            ], to: directory + "/krb5.conf")
        try ProxyServer.write(
            [
                "[kdcdefaults]", "kdc_listen = 127.0.0.1:\(port)", "kdc_tcp_listen = 127.0.0.1:\(port)",
                "[realms]", "\(name) = {", "database_name = \(directory)/principals",
                "key_stash_file = \(directory)/stash", "acl_file = \(directory)/acl",
                "supported_enctypes = aes256-cts:normal", "}",
                "[logging]", "kdc = FILE:\(directory)/kdc.log", "admin_server = FILE:\(directory)/kadmin.log",
            ], to: directory + "/kdc.conf")
        return [
            "set -e", "export PATH=$PATH:/usr/sbin", "export KRB5_CONFIG=\(directory)/krb5.conf",
            "export KRB5_KDC_PROFILE=\(directory)/kdc.conf", "export KRB5CCNAME=FILE:\(directory)/tickets",
            "export KRB5RCACHENAME=none:",
            "kdb5_util -r \(name) -P master create -s",
            "kadmin.local -r \(name) -q 'addprinc -randkey HTTP/localhost'",
            "kadmin.local -r \(name) -q 'addprinc -randkey alice'",
            "kadmin.local -r \(name) -q 'ktadd -k \(directory)/service.keytab HTTP/localhost'",
            "kadmin.local -r \(name) -q 'ktadd -k \(directory)/alice.keytab alice'",
            "krb5kdc -n -r \(name) & echo $! >\(directory)/kdc.pid",
            // It doesn't say when it listens.
            "until kinit -k -t \(directory)/alice.keytab alice; do kill -0 $!; sleep 0.05; done",
            "cp \(directory)/tickets \(directory)/fresh", "exec \"$@\"",
        ]
    }

    static func squidLines(_ directory: String) -> [String] {
        let helper = "/usr/lib/squid/negotiate_kerberos_auth"
        return [
            "auth_param negotiate program \(helper) -k \(directory)/service.keytab -s HTTP/localhost@\(name)",
            "auth_param negotiate children 2", "auth_param negotiate keep_alive on",
        ]
    }
}
