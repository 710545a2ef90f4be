import Testing

@testable import MQTTTraversal

@Suite struct LatencyTests {
    @Test func nothing_measured_says_nothing() {
        let latency = Latency()
        #expect(latency.count == 0)
        #expect(latency.mean == nil && latency.minimum == nil && latency.maximum == nil)
        #expect(latency.percentile(50) == nil)
        #expect(latency.buckets.isEmpty)
    }

    @Test func bounds_and_mean_are_exact_and_percentiles_within_a_quarter() {
        var latency = Latency()
        for time in 1...1000 { latency.record(.microseconds(time)) }
        #expect(latency.count == 1000)
        #expect(latency.minimum == .microseconds(1))
        #expect(latency.maximum == .microseconds(1000))
        #expect(latency.mean == .nanoseconds(500_500))
        for percentage in [1.0, 10, 50, 90, 99] {
            let exact = Duration.microseconds(Int(percentage * 10))
            let told = latency.percentile(percentage) ?? .zero
            #expect(told >= exact && told <= exact * 1.25 + .microseconds(1), "\(percentage): \(told)")
        }
        #expect(latency.percentile(100) == .microseconds(1000))
        #expect(latency.percentile(-5) == latency.percentile(0))
    }

    @Test func each_time_lies_in_its_bucket_and_buckets_touch() {
        for exponent in 0..<35 {
            for offset in -1...1 {
                var latency = Latency()
                let time = Duration.microseconds(max(0, 1 << exponent + offset))
                latency.record(time)
                #expect(latency.buckets.count == 1)
                let bucket = latency.buckets[0]
                #expect(bucket.from <= time && time < bucket.to, "\(time) \(bucket)")
            }
        }
        var all = Latency()
        for time in 0..<5000 { all.record(.microseconds(time)) }
        #expect(zip(all.buckets, all.buckets.dropFirst()).allSatisfy { $0.to == $1.from })
        #expect(all.buckets.reduce(0) { $0 + $1.count } == 5000)
    }

    @Test func days_and_what_lies_before_zero_are_counted_too() {
        var latency = Latency()
        latency.record(.seconds(1_000_000))
        latency.record(.seconds(-1))
        #expect(latency.count == 2)
        #expect(latency.minimum == .zero)
        #expect(latency.percentile(100) == .seconds(1_000_000))
    }
}
