import MQTTCore
import Testing

@Suite struct VersionNegotiationTests {
    typealias Failure = VersionNegotiation.Failure

    @Test(
        arguments: [ProtocolVersion.v5, .v3_1_1],
        [Failure.versionRefused, .endedWithoutAnswer, .refused, .other])
    func a_fixed_version_stays(_ version: ProtocolVersion, _ failure: Failure) {
        var negotiation = VersionNegotiation(fixed: version)
        let triesAgain = negotiation.failed(failure)
        #expect(!triesAgain)
        #expect(negotiation.version == version)
    }

    @Test(arguments: [Failure.versionRefused, .endedWithoutAnswer])
    func the_other_version_is_tried_at_once_and_only_once(_ failure: Failure) {
        var negotiation = VersionNegotiation(first: .v5)
        let first = negotiation.failed(failure)
        #expect(first)
        #expect(negotiation.version == .v3_1_1)
        let second = negotiation.failed(failure)
        #expect(!second)
        #expect(negotiation.version == .v5)
    }

    @Test func what_an_accepting_CONNACK_has_settled_stays() {
        var negotiation = VersionNegotiation(first: .v5)
        _ = negotiation.failed(.versionRefused)
        negotiation.accepted()
        let triesAgain = negotiation.failed(.endedWithoutAnswer)
        #expect(!triesAgain)
        #expect(negotiation.version == .v3_1_1)
    }

    @Test func another_refusal_shows_that_the_version_is_understood() {
        var negotiation = VersionNegotiation(first: .v5)
        _ = negotiation.failed(.versionRefused)
        let afterRefusal = negotiation.failed(.refused)
        #expect(!afterRefusal)
        let afterEnd = negotiation.failed(.endedWithoutAnswer)
        #expect(!afterEnd)
        #expect(negotiation.version == .v3_1_1)
    }

    @Test func a_network_failure_says_nothing_of_the_version() {
        var negotiation = VersionNegotiation(first: .v5)
        let triesAgain = negotiation.failed(.other)
        #expect(!triesAgain)
        #expect(negotiation.version == .v5)
        _ = negotiation.failed(.versionRefused)
        _ = negotiation.failed(.other)
        #expect(negotiation.version == .v3_1_1)
    }

    @Test func a_remembered_3_1_1_gives_way_to_5_0() {
        var negotiation = VersionNegotiation(first: .v3_1_1)
        let triesAgain = negotiation.failed(.versionRefused)
        #expect(triesAgain)
        #expect(negotiation.version == .v5)
    }
}
