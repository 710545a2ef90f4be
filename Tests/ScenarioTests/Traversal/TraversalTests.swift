import Testing

/// Through real proxies, TLS ends and firewalls: by `make traversal`.
///
/// Two suites so that both cores have something to do; in each one scenario comes after the other, since what they
/// tell of time would suffer.
@Suite(
    .serialized, .enabled(if: Ledger.shared != nil, "runs by make traversal"), .timeLimit(.minutes(5)))
struct ProxyTraversal {
    @Test(arguments: TraversalScenario.loopback)
    func `a client on its way through proxies and TLS ends`(scenario: TraversalScenario) async throws {
        try await scenario.run()
    }
}

@Suite(
    .serialized, .enabled(if: Ledger.shared != nil, "runs by make traversal"), .timeLimit(.minutes(5)))
struct NetworkTraversal {
    @Test(arguments: TraversalScenario.networks)
    func `a client on its way through networks`(scenario: TraversalScenario) async throws {
        try await scenario.run()
    }
}
