import Foundation
import MQTTLoopback

/// ejabberd, only its MQTT, for those only who log in.
///
/// Started without `ejabberdctl`, which is for root and its own account only: so it is no node of a network of
/// Erlang's, and needs no ports but its doors.
struct Ejabberd: BrokerProgram {
    /// Erlang where ejabberd is installed too; nil where not.
    static let executable =
        FileManager.default.isExecutableFile(atPath: "/usr/sbin/ejabberdctl")
        ? InstalledProgram.find("erl") : nil

    private static let sharedInstance = Task { try await launch() }

    /// One for all scenarios that don't harm it.
    static var shared: BrokerProcess {
        get async throws { try await sharedInstance.value }
    }

    static func launch(doors: [Door] = Door.open) async throws -> BrokerProcess {
        guard let executable else {
            throw BrokerFailure("ejabberd isn't installed: apt-get install ejabberd")
        }
        return try await BrokerProcess(Ejabberd(executable: executable), doors: doors)
    }

    let executable: String

    var name: String { "ejabberd" }
    var account: String? { "ejabberd" }
    var readyMark: String? { "the scenarios' user: ok" }

    func configure(_ site: BrokerSite) throws {
        let server = site.certificates.server
        let bundle = try [server.certificate, server.key].map {
            try String(contentsOfFile: $0, encoding: .utf8)
        }
        try site.write(bundle.joined(separator: "\n"), to: "server.pem")
        let listeners = site.doors.map { door, port in
            let module =
                switch door.transport {
                case .tcp, .tls: "mod_mqtt"
                case .webSocket, .webSocketSecure: "ejabberd_http, request_handlers: {\"/mqtt\": mod_mqtt}"
                }
            let tls = door.transport.isEncrypted ? ", tls: true" : ""
            return "  - {port: \(port), ip: \"127.0.0.1\", module: \(module), backlog: 100\(tls)}"
        }
        let text = """
            hosts: [localhost]
            loglevel: info
            certfiles: [\(site.directory)/server.pem]
            auth_method: [internal]
            allow_multiple_connections: true
            listen:
            \(listeners.joined(separator: "\n"))
            modules:
              mod_mqtt:
                access_publish: {"#": [{allow: all}]}
                access_subscribe: {"#": [{allow: all}]}
                session_expiry: 5 minutes
                max_queue: 50000
                ram_db_type: mnesia

            """
        try site.write(text, to: "ejabberd.yml")
        let register = """
            io:format("the scenarios' user: ~p~n", [ejabberd_auth:try_register(
                <<"\(Credentials.userName)">>, <<"localhost">>, <<"\(Credentials.password)">>)]).
            """
        try site.write(register, to: "register.erl")
    }

    func script(_ site: BrokerSite) -> String {
        """
        rm -rf spool
        export HOME=$PWD EJABBERD_CONFIG_PATH=$PWD/ejabberd.yml EJABBERD_LOG_PATH=$PWD/ejabberd.log
        export ERL_LIBS=$(echo /usr/lib/*/ejabberd-*/.. | cut -d ' ' -f 1) ERL_CRASH_DUMP_SECONDS=0
        exec '\(executable)' -noinput +P 250000 -mnesia dir "\\"$PWD/spool\\"" -s ejabberd -eval "$(<register.erl)"
        """
    }
}
