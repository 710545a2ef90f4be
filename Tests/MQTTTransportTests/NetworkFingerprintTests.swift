import MQTTTransport
import Testing

/// What tells one network from another. The tables are as Linux prints them.
@Suite struct NetworkFingerprintTests {
    private static let routes = """
        Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
        wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
        wlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0
        docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
        """
    private static let zeros = String(repeating: "0", count: 32)
    private static let ipv6Routes = """
        \(zeros) 00 \(zeros) 00 fe80000000000000021122fffe334455 00000064 00000003 00000000 00000003 wlan0
        fe800000000000000000000000000000 40 \(zeros) 00 \(zeros) 00000100 00000001 00000000 00000001 wlan0
        \(zeros) 00 \(zeros) 00 \(zeros) ffffffff 00000001 00000000 00200200 lo
        """

    private func parts(
        _ routes: String = routes, nameServers: String = "search lan\nnameserver 192.168.1.1\n"
    ) -> NetworkFingerprint.Parts {
        var parts = NetworkFingerprint.Parts()
        parts.addRoutes(ipv4: routes)
        parts.addRoutes(ipv6: Self.ipv6Routes)
        parts.addNameServers(nameServers)
        parts.addPrefix(interface: "wlan0", address: [192, 168, 1, 77], mask: [255, 255, 255, 0])
        return parts
    }

    @Test func default_routes_name_servers_and_prefixes_are_read() {
        #expect(
            parts().gateways == ["wlan0 192.168.1.1", "wlan0 fe80000000000000021122fffe334455"])
        #expect(parts().nameServers == ["192.168.1.1"])
        #expect(parts().prefixes == ["wlan0 192.168.1.0/24"])
    }

    @Test func another_address_of_the_same_network_changes_nothing() {
        var other = parts()
        other.prefixes = []
        other.addPrefix(interface: "wlan0", address: [192, 168, 1, 78], mask: [255, 255, 255, 0])
        #expect(NetworkFingerprint(other) == NetworkFingerprint(parts()))
    }

    @Test func link_local_prefixes_are_the_same_everywhere_and_left_out() {
        var other = parts()
        other.addPrefix(interface: "wlan0", address: [169, 254, 3, 4], mask: [255, 255, 0, 0])
        other.addPrefix(
            interface: "wlan0", address: [0xFE, 0x80] + [UInt8](repeating: 0, count: 13) + [9],
            mask: [UInt8](repeating: 255, count: 8) + [UInt8](repeating: 0, count: 8))
        #expect(other == parts())
    }

    @Test func another_gateway_or_name_server_is_another_network() {
        let here = NetworkFingerprint(parts())
        let gateway = Self.routes.replacing("0101A8C0", with: "FE01A8C0")
        #expect(NetworkFingerprint(parts(gateway)) != here)
        #expect(NetworkFingerprint(parts(nameServers: "nameserver 1.1.1.1")) != here)
    }

    @Test(arguments: ["", "\n\n", "Iface\nwlan0\t00000000", "Iface\nw 00000000 zz 0003 0 0 0 00000000"])
    func a_table_of_another_form_tells_nothing(_ table: String) {
        var parts = NetworkFingerprint.Parts()
        parts.addRoutes(ipv4: table)
        parts.addRoutes(ipv6: table)
        #expect(parts == NetworkFingerprint.Parts())
    }

    @Test func this_machine_has_one_and_it_stays_the_same() {
        let here = NetworkFingerprint.current()
        #expect(here.digest.count == 32)
        #expect(here == NetworkFingerprint.current())
    }
}
