package import MQTTTraversal

/// What was measured on one way that works; a key is there where its measurement was asked for.
package struct Measurements: Sendable, Hashable, Codable {
    /// The identifier of the attempt whose way it is.
    package let attempt: String
    package var echo: Echo?
    package var idle: Idle?
    package var size: Size?
    package var throughput: Throughput?
    package var repetition: Repetition?
    package var watch: Watch?

    package init(attempt: String) { self.attempt = attempt }

    /// A message to a random topic and back, at QoS 1.
    package struct Echo: Sendable, Hashable, Codable {
        /// From its publishing to its return; nil where it didn't come back.
        package var milliseconds: Double?
        package var failure: Failure?

        package init(milliseconds: Double? = nil, failure: Failure? = nil) {
            self.milliseconds = milliseconds
            self.failure = failure
        }
    }

    /// How long a connection lives on which nothing is sent.
    package struct Idle: Sendable, Hashable, Codable {
        /// The longest silence after which a connection still answered.
        package var survivedSeconds: Double
        /// The shortest after which one was dead; nil where none died.
        package var diedSeconds: Double?
        /// How it died, `idle.killed_fin`, `idle.killed_rst` or `idle.blackholed`, or what the server said.
        package var failure: Failure?
        /// Whether a connection that was never silent lived all the time: if not, the silence needn't be the cause. nil
        /// where there was none, since it would have needed a client identifier of its own.
        package var isControlAlive: Bool?
        /// The keep-alive that the server imposes: longer silences can't be tried with it.
        package var serverKeepAliveSeconds: Double?

        package init(
            survivedSeconds: Double, diedSeconds: Double? = nil, failure: Failure? = nil,
            isControlAlive: Bool? = nil, serverKeepAliveSeconds: Double? = nil
        ) {
            self.survivedSeconds = survivedSeconds
            self.diedSeconds = diedSeconds
            self.failure = failure
            self.isControlAlive = isControlAlive
            self.serverKeepAliveSeconds = serverKeepAliveSeconds
        }
    }

    /// How large a message comes back, in bytes of payload.
    package struct Size: Sendable, Hashable, Codable {
        package var largestPassed: Int
        /// Failed twice; nil where all that were tried came back.
        package var smallestFailed: Int?
        /// What the smallest one failed with.
        package var failure: Failure?
        /// The largest packet that the server takes by its own word (5.0).
        package var serverMaximum: Int?

        package init(
            largestPassed: Int, smallestFailed: Int? = nil, failure: Failure? = nil, serverMaximum: Int? = nil
        ) {
            self.largestPassed = largestPassed
            self.smallestFailed = smallestFailed
            self.failure = failure
            self.serverMaximum = serverMaximum
        }
    }

    /// Bytes of payload per second.
    package struct Throughput: Sendable, Hashable, Codable {
        /// Acknowledged by the server, QoS 1; nil where it failed.
        package var up: Double?
        /// Come back from the server. At most as fast as they went there, so the network may carry more.
        package var down: Double?
        package var failure: Failure?

        package init(up: Double? = nil, down: Double? = nil, failure: Failure? = nil) {
            self.up = up
            self.down = down
            self.failure = failure
        }
    }

    /// Connections made one after another, each up to CONNACK.
    package struct Repetition: Sendable, Hashable, Codable {
        package var attempts: Int
        package var succeeded: Int
        package var lossPercent: Double
        /// To CONNACK; nil where none succeeded.
        package var latency: Latency?
        /// How many failed with which code.
        package var failures: [String: Int]

        package init(attempts: Int, succeeded: Int, latency: Latency?, failures: [String: Int]) {
            self.attempts = attempts
            self.succeeded = succeeded
            lossPercent = Self.percent(attempts - succeeded, of: attempts)
            self.latency = latency
            self.failures = failures
        }

        static func percent(_ part: Int, of whole: Int) -> Double {
            whole == 0 ? 0 : (Double(part) * 1000 / Double(whole)).rounded() / 10
        }
    }

    /// An echo each second on one connection, made again where it is lost.
    package struct Watch: Sendable, Hashable, Codable {
        package var seconds: Double
        package var sent: Int
        package var returned: Int
        package var lossPercent: Double
        /// Of those that returned; nil where none did.
        package var latency: Latency?
        package var outages: [Outage]

        package init(seconds: Double, sent: Int, returned: Int, latency: Latency?, outages: [Outage]) {
            self.seconds = seconds
            self.sent = sent
            self.returned = returned
            lossPercent = Repetition.percent(sent - returned, of: sent)
            self.latency = latency
            self.outages = outages
        }
    }

    package struct Outage: Sendable, Hashable, Codable {
        /// Since the watch began.
        package var atSeconds: Double
        package var failure: Failure
        /// nil where it lasted to the end.
        package var lastedSeconds: Double?

        package init(atSeconds: Double, failure: Failure, lastedSeconds: Double? = nil) {
            self.atSeconds = atSeconds
            self.failure = failure
            self.lastedSeconds = lastedSeconds
        }
    }

    package struct Failure: Sendable, Hashable, Codable {
        package let code: FailureCode
        /// What was seen, in words.
        package let evidence: String

        package init(code: FailureCode, evidence: String) {
            self.code = code
            self.evidence = evidence
        }

        init(_ error: MQTTError) { self.init(code: error.code, evidence: error.evidence.description) }
    }
}

/// What to measure on the best way that works.
package struct MeasurementOptions: Sendable, Hashable {
    package var echo = false
    /// For how long at most; 10 s or more.
    package var idle: Duration?
    package var size = false
    package var throughput = false
    /// 2 or more.
    package var repetitions: Int?
    /// For how long; 1 s or more.
    package var watch: Duration?

    package init() {}

    package var isEmpty: Bool { self == MeasurementOptions() }
}

/// How long something took, over many times.
package struct Latency: Sendable, Hashable, Codable {
    package let samples: Int
    /// All in milliseconds.
    package let minimum: Double
    package let median: Double
    package let percentile90: Double
    package let percentile99: Double
    package let maximum: Double

    /// By nearest rank; nil without a sample.
    package init?(_ durations: [Duration]) {
        guard !durations.isEmpty else { return nil }
        let sorted = durations.map(\.milliseconds).sorted()
        func percentile(_ share: Double) -> Double {
            sorted[max(0, Int((share * Double(sorted.count)).rounded(.up)) - 1)]
        }
        samples = sorted.count
        minimum = sorted[0]
        median = percentile(0.5)
        percentile90 = percentile(0.9)
        percentile99 = percentile(0.99)
        maximum = sorted[sorted.count - 1]
    }
}
