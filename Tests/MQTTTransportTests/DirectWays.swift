import MQTTTransport

extension ConnectionProfile {
    /// Its ways where the environment names no proxy.
    func directWays() throws(ProfileError) -> [ConnectionProfile] {
        try ways(environment: ProxyEnvironment([:])).0
    }
}
