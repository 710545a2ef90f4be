internal import MQTTLoopback
internal import MQTTProbe
internal import MQTTTransport
internal import MQTTTraversal

/// A probe of a simulated network: nothing leaves this machine.
struct Demo {
    private let network: RunningNetwork

    /// - Throws: `UsageError` where there is no such network, or where it can't be simulated here.
    init(network name: String) async throws(UsageError) {
        guard let known = HostileNetwork.named(name) else {
            throw UsageError("there is no network \(name) to demonstrate: --demo list lists them")
        }
        do { network = try await known.start() } catch {
            throw UsageError("the network \(name) can't be simulated here: \(error)")
        }
    }

    /// A line for each network.
    static var list: String {
        let width = HostileNetwork.catalogue.map(\.name.count).max() ?? 0
        return HostileNetwork.catalogue.map { network in
            let gap = String(repeating: " ", count: width + 2 - network.name.count)
            return "\(network.name)\(gap)\(network.summary)\n"
        }.joined()
    }

    var resolver: Resolver { network.resolver }
    var authorityFile: String { network.authorityFile }

    /// What a person there would ask for.
    func options(_ given: ProbeOptions) -> ProbeOptions {
        var options = given
        options.host = HostileNetwork.broker
        options.trust = .file(network.authorityFile)
        if network.network.proxy != nil { options.proxy = .environment(network.proxyEnvironment) }
        return options
    }

    func stop() async { await network.stop() }
}
