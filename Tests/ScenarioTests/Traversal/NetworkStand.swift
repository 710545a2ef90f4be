import Foundation
import Glibc
import MQTTLoopback
import MQTTTransport
import traversal_client

/// A network that stands: its namespaces and what runs in them go with its owner, and with this process.
final class NetworkStand: TraversalSite {
    /// `.ci/traversal` clears away what begins so and whose process is gone.
    static let namePrefix = "mqtt-\(getpid())-"

    private static let certificates = Result {
        try TestCertificates(
            names: ["broker.test", "inside.test"],
            addresses: [Network.serverAddress, Network.serverIPv6Address])
    }
    private static let lastNumber = Lock(0)

    private let name: String
    private let directory: String
    private let supervisor: Supervisor

    /// Returns when all of its servers accept.
    init(_ network: Network) async throws {
        let number = Self.lastNumber.withLock { number in
            number += 1
            return number
        }
        name = "\(Self.namePrefix)\(number)"
        directory = try TemporaryDirectory.make()
        // The servers are other users, who have to get in and mustn't touch what is root's.
        chmod(directory, 0o1777)
        var files = network.files(name, directory)
        let certificates = try Self.certificates.get()
        files["ca.pem"] = certificates.authority.certificate
        files["identity.pem"] = certificates.server.certificate + certificates.server.key
        files["inspection.pem"] = certificates.untrustedServer.certificate + certificates.untrustedServer.key
        supervisor = try Supervisor(directory: directory)
        for (name, text) in files {
            try text.write(toFile: "\(directory)/\(name)", atomically: false, encoding: .utf8)
        }
        let process = try supervisor.start()
        do {
            try await eventually("the network stands") {
                guard Supervisor.isAlive(process) else { throw BrokerFailure("it has ended") }
                return access(directory + "/ready", F_OK) == 0
            }
        } catch {
            let output = try? String(contentsOfFile: directory + "/output", encoding: .utf8)
            throw BrokerFailure("no network: \(error), \(output ?? "")")
        }
    }

    func value(_ name: String) async throws -> String {
        guard name == "ca" else { throw BrokerFailure("there is no {\(name)}") }
        return directory + "/ca.pem"
    }

    func travel(_ arguments: [String], _ environment: [String: String]) async throws -> TraversalReport {
        // `ip netns exec` gives the client a mount namespace of its own, and with it its own view of these files.
        let script = """
            mount --bind \(directory)/client.hosts /etc/hosts
            mount --bind \(directory)/resolv.conf /etc/resolv.conf
            exec "$@"
            """
        guard let ip = InstalledProgram.find("ip") else { throw BrokerFailure("ip isn't installed") }
        return try await TraversalProgram.run(
            [ip, "netns", "exec", name + "-c", "/bin/sh", "-ec", script, "sh"], arguments, environment,
            output: directory + "/report")
    }
}
