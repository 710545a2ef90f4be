// Where well-known services listen, as their documentation has it: profiles for them are automatic ones with the
// service's own ways.

extension ConnectionProfile {
    /// ConnectMQ: TLS on 8883, secure WebSocket on 8084.
    ///
    /// - Throws: `ProfileError`, as all of these, for a host that can't be one.
    public static func connectMQ(
        host: String = "broker.connectmq.com", options: TLSOptions = TLSOptions()
    ) throws(ProfileError) -> ConnectionProfile {
        try automatic(host: host, rungs: [.tls(), .webSocketSecure()], options: options)
    }

    /// EMQX Serverless: TLS on 8883, secure WebSocket on 8084.
    public static func emqx(
        host: String, options: TLSOptions = TLSOptions()
    ) throws(ProfileError) -> ConnectionProfile {
        try automatic(host: host, rungs: [.tls(), .webSocketSecure()], options: options)
    }

    /// HiveMQ Cloud: TLS on 8883, secure WebSocket on 8884.
    public static func hiveMQCloud(
        host: String, options: TLSOptions = TLSOptions()
    ) throws(ProfileError) -> ConnectionProfile {
        try automatic(host: host, rungs: [.tls(), .webSocketSecure(port: 8884)], options: options)
    }

    /// AWS IoT Core with a client certificate: TLS on 8883, and on 443 with ALPN `x-amzn-mqtt-ca`.
    ///
    /// - Parameters:
    ///   - endpoint: the account's own, such as `abc-ats.iot.eu-central-1.amazonaws.com`.
    ///   - identity: the device's certificate and key.
    ///   - options: of TLS besides.
    public static func awsIoT(
        endpoint: String, identity: TLSOptions.Identity, options: TLSOptions = TLSOptions()
    ) throws(ProfileError) -> ConnectionProfile {
        var options = options
        options.identity = identity
        options.requiresApplicationProtocol = true
        return try automatic(
            host: endpoint, rungs: [.tls(), .tls(port: 443, applicationProtocols: ["x-amzn-mqtt-ca"])],
            options: options)
    }

    /// AWS IoT Core with a custom authorizer, which takes user name and password: TLS on 443 with ALPN `mqtt`.
    public static func awsIoT(
        endpoint: String, customAuthorizerWith options: TLSOptions = TLSOptions()
    ) throws(ProfileError) -> ConnectionProfile {
        var options = options
        options.requiresApplicationProtocol = true
        return try automatic(
            host: endpoint, rungs: [.tls(port: 443, applicationProtocols: ["mqtt"])], options: options)
    }

    /// Azure IoT Hub: TLS on 8883. It speaks 3.1.1, which `ClientConfiguration.version` finds out by itself.
    ///
    /// - Parameters:
    ///   - hub: such as `name.azure-devices.net`.
    ///   - options: of TLS.
    public static func azureIoTHub(
        hub: String, options: TLSOptions = TLSOptions()
    ) throws(ProfileError) -> ConnectionProfile {
        try automatic(host: hub, rungs: [.tls()], options: options)
    }

    /// RabbitMQ's plugin for MQTT over WebSocket, on 15675 at `/ws`, in plaintext: choosing it is consent to that.
    public static func rabbitMQ(host: String) throws(ProfileError) -> ConnectionProfile {
        try webSocket(host: host, port: 15675, path: "/ws")
    }
}
