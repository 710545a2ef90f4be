import MQTTTraversal
import Testing

@testable import mqtt_soak

/// A soak that can't fail would say nothing.
struct AccountTests {
    @Test func a_message_that_was_acknowledged_and_never_comes_is_named() {
        var account = Account(qos: .atLeastOnce)
        account.acknowledge(account.publish())
        #expect(account.complaints(hasUnheardLoss: false) == ["number 0 was acknowledged and never came"])
    }

    @Test func a_call_that_hangs_is_named_though_its_message_came() {
        var account = Account(qos: .atLeastOnce)
        #expect(account.receive(account.publish()) == nil)
        #expect(account.complaints(hasUnheardLoss: false) == ["the call that published number 0 hangs"])
    }

    @Test func what_was_acknowledged_before_the_session_was_lost_is_lost_with_the_broker() {
        var account = Account(qos: .exactlyOnce)
        account.acknowledge(account.publish())
        account.loseSession()
        #expect(account.complaints(hasUnheardLoss: false).isEmpty)
        #expect(account.lostWithBroker == 1)
        account.acknowledge(account.publish())
        #expect(account.complaints(hasUnheardLoss: false) == ["number 1 was acknowledged and never came"])
    }

    @Test func what_the_killed_broker_may_have_taken_along_is_excused_where_the_client_could_not_hear_of_it()
    {
        var account = Account(qos: .atLeastOnce)
        account.acknowledge(account.publish())
        _ = account.publish()
        account.beginEpoch()
        account.acknowledge(account.publish())
        #expect(
            account.complaints(hasUnheardLoss: true) == [
                "the call that published number 1 hangs", "number 2 was acknowledged and never came",
            ])
        #expect(account.complaints(hasUnheardLoss: false).count == 3)
        #expect(!account.isSettled(hasUnheardLoss: true))
        _ = account.receive(2)
        account.acknowledge(1)
        #expect(account.isSettled(hasUnheardLoss: true) && !account.isSettled(hasUnheardLoss: false))
    }

    @Test func a_repetition_is_wrong_at_QoS_2_unless_the_broker_was_killed_since() {
        var account = Account(qos: .exactlyOnce)
        let number = account.publish()
        account.acknowledge(number)
        #expect(account.receive(number) == nil)
        #expect(account.receive(number) == .repeated)
        account.beginEpoch()
        #expect(account.receive(number) == nil)
        let next = account.publish()
        #expect(account.receive(next) == nil)
        #expect(account.receive(next) == .repeated)
    }

    @Test func a_repetition_is_right_at_QoS_1_and_no_first_delivery() {
        var account = Account(qos: .atLeastOnce)
        let number = account.publish()
        #expect(account.receive(number) == nil)
        #expect(account.receive(number) == nil)
        #expect(account.received == 1)
        #expect(account.repeated == 1)
    }

    @Test func a_first_delivery_after_a_later_one_is_out_of_order() {
        var account = Account(qos: .atLeastOnce)
        let (first, second) = (account.publish(), account.publish())
        #expect(account.receive(second) == nil)
        #expect(account.receive(first) == .wrong("number 0 came after number 1"))
    }

    @Test func a_number_that_was_not_published_is_named() {
        var account = Account(qos: .atLeastOnce)
        #expect(account.receive(0) == .wrong("number 0 was never published"))
    }

    @Test func a_payload_with_a_wrong_byte_is_not_taken() throws {
        var payload = SoakPayload.make(.exactlyOnce, 70_000)
        let read = try #require(SoakPayload.read(payload))
        #expect(read.qos == .exactlyOnce)
        #expect(read.number == 70_000)
        payload[payload.count - 1] ^= 1
        #expect(SoakPayload.read(payload) == nil)
    }
}
