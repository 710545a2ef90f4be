import Testing

@testable import mqtt_soak

struct FaultPlanTests {
    private func plans(seed: UInt64) -> [String] {
        (0..<20).flatMap { client in
            (0..<20).map { "\(FaultPlan(seed: seed, client: client, connection: $0))" }
        }
    }

    @Test func a_seed_has_its_plans() {
        #expect(plans(seed: 1) == plans(seed: 1))
        #expect(plans(seed: 1) != plans(seed: 2))
    }

    @Test func every_kind_of_fault_comes() {
        let plans = plans(seed: 1)
        for kind in ["drop", "reset", "stall", "blackhole", "slices", "delay", "bytes", "time"] {
            #expect(plans.contains { $0.contains(kind) }, "\(kind)")
        }
        #expect(Set(plans).count > 390)
    }
}
