import MQTTTransport
import Testing

/// The ways to services that have a name.
@Suite struct NamedServicesTests {
    private static func ways(_ profile: ConnectionProfile) throws -> [String] {
        try profile.directWays().map { way in
            let protocols = way.tls?.applicationProtocols ?? []
            return "\(way)" + (protocols.isEmpty ? "" : " \(protocols.joined(separator: ","))")
        }
    }

    @Test func each_has_the_ways_that_it_documents() throws {
        #expect(
            try Self.ways(.connectMQ()) == [
                "mqtts://broker.connectmq.com:8883", "wss://broker.connectmq.com:8084/mqtt",
            ])
        #expect(try Self.ways(.emqx(host: "h")) == ["mqtts://h:8883", "wss://h:8084/mqtt"])
        #expect(try Self.ways(.hiveMQCloud(host: "h")) == ["mqtts://h:8883", "wss://h:8884/mqtt"])
        #expect(try Self.ways(.azureIoTHub(hub: "h")) == ["mqtts://h:8883"])
        #expect(try Self.ways(.rabbitMQ(host: "h")) == ["ws://h:15675/ws"])
    }

    @Test func aws_is_asked_for_its_own_protocols_on_443_and_shown_the_certificate() throws {
        let identity = TLSOptions.Identity(certificateFile: "c.pem", privateKeyFile: "k.pem")
        let certified = try ConnectionProfile.awsIoT(endpoint: "e", identity: identity)
        #expect(try Self.ways(certified) == ["mqtts://e:8883", "mqtts://e:443 x-amzn-mqtt-ca"])
        #expect(try certified.directWays().allSatisfy { $0.tls?.identity == identity })
        #expect(try Self.ways(.awsIoT(endpoint: "e")) == ["mqtts://e:443 mqtt"])
    }

    @Test func none_but_rabbitmq_is_plaintext() throws {
        #expect(try ConnectionProfile.connectMQ().isEncrypted)
        #expect(try !ConnectionProfile.rabbitMQ(host: "h").isEncrypted)
    }
}
