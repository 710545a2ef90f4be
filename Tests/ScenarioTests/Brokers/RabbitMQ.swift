import Foundation
import MQTTLoopback

/// RabbitMQ with its plugins for MQTT, for those only who log in.
struct RabbitMQ: BrokerProgram {
    /// The script that Debian's wrapper, which is for root and its own account only, starts; nil where it isn't
    /// installed.
    static let executable = ["/usr/lib/rabbitmq/bin/rabbitmq-server"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    private static let sharedInstance = Task { try await launch() }

    /// One for all scenarios that don't harm it.
    static var shared: BrokerProcess {
        get async throws { try await sharedInstance.value }
    }

    static func launch(doors: [Door] = Door.open) async throws -> BrokerProcess {
        guard let executable else {
            throw BrokerFailure("RabbitMQ isn't installed: apt-get install rabbitmq-server")
        }
        return try await BrokerProcess(RabbitMQ(executable: executable), doors: doors)
    }

    let executable: String

    var name: String { "RabbitMQ" }
    var account: String? { "rabbitmq" }
    /// Erlang's directory of nodes (epmd) and the node's own, which RabbitMQ doesn't start without.
    var privatePortCount: Int { 2 }
    var readyMark: String? { "Server startup complete" }

    func configure(_ site: BrokerSite) throws {
        let server = site.certificates.server
        let identity = [
            ("cacertfile", site.certificates.authority), ("certfile", server.certificate),
            ("keyfile", server.key),
        ]
        // Of AMQP's listeners, which there are none of, and of MQTT's.
        var lines = identity.map { "ssl_options.\($0) = \($1)" }
        lines += [
            "ssl_options.verify = verify_none", "ssl_options.fail_if_no_peer_cert = false",
            "listeners.tcp = none", "log.console = true",
            "default_user = \(Credentials.userName)", "default_pass = \(Credentials.password)",
            "mqtt.allow_anonymous = false", "mqtt.listeners.tcp = none",
            "web_mqtt.ws_path = /ws", "web_mqtt.ws_opts.compress = true",
        ]
        for (door, port) in site.doors {
            switch door.transport {
            case .tcp:
                lines.removeAll { $0 == "mqtt.listeners.tcp = none" }
                lines.append("mqtt.listeners.tcp.1 = 127.0.0.1:\(port)")
            case .tls:
                lines.append("mqtt.listeners.ssl.1 = 127.0.0.1:\(port)")
            case .webSocket:
                lines += ["web_mqtt.tcp.ip = 127.0.0.1", "web_mqtt.tcp.port = \(port)"]
            case .webSocketSecure:
                lines += ["web_mqtt.ssl.ip = 127.0.0.1", "web_mqtt.ssl.port = \(port)"]
                lines += identity.map { "web_mqtt.ssl.\($0) = \($1)" }
            }
        }
        if site.doors[Door(transport: .webSocket)] == nil { lines.append("web_mqtt.tcp.listener = none") }
        try site.write(lines.joined(separator: "\n") + "\n", to: "rabbitmq.conf")
        try site.write("[rabbitmq_mqtt,rabbitmq_web_mqtt].\n", to: "enabled_plugins")
    }

    func script(_ site: BrokerSite) -> String {
        """
        rm -rf mnesia
        export HOME=$PWD
        export ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=\(site.privatePorts[0]) ERL_CRASH_DUMP_SECONDS=0
        export RABBITMQ_DIST_PORT=\(site.privatePorts[1]) RABBITMQ_NODENAME=scenario@localhost
        export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
        export RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE=$PWD/rabbitmq.conf
        export RABBITMQ_ENABLED_PLUGINS_FILE=$PWD/enabled_plugins
        export RABBITMQ_MNESIA_BASE=$PWD/mnesia RABBITMQ_LOG_BASE=$PWD/log RABBITMQ_PID_FILE=$PWD/pid
        # Otherwise RabbitMQ starts one that outlives it.
        epmd &
        # To be this process, not a child of it.
        export RUNNING_UNDER_SYSTEMD=1
        exec '\(executable)'
        """
    }
}
