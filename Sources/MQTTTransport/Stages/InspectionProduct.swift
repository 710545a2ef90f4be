/// Products that open TLS, by what they write into the certificates they make.
enum InspectionProduct {
    /// The product whose words are in a certificate's name; they have to be whole words, whatever their case.
    static func named(in name: String) -> String? {
        let words = words(of: name)
        return table.first { entry in entry.marks.contains { words.contains(Self.words(of: $0)) } }?.product
    }

    private static func words(of text: String) -> [Substring] {
        text.lowercased().split { !($0.isLetter || $0.isNumber) }
    }

    /// The marks are as narrow as the products allow: public CAs of former days are called Symantec, and Cloudflare
    /// issues certificates for servers as well.
    private static let table: [(product: String, marks: [String])] = [
        ("Zscaler", ["Zscaler"]),
        ("Fortinet FortiGate", ["Fortinet", "FortiGate"]),
        ("Palo Alto Networks", ["Palo Alto Networks"]),
        ("Symantec Blue Coat", ["Blue Coat", "BlueCoat", "ProxySG", "Symantec Web Security"]),
        ("Sophos", ["Sophos"]),
        ("Cisco Umbrella", ["Cisco Umbrella", "OpenDNS", "Cisco Secure Access"]),
        ("Cisco Secure Web Appliance", ["IronPort", "Cisco Web Security", "Cisco Secure Web"]),
        ("Skyhigh (McAfee) Web Gateway", ["McAfee", "Skyhigh"]),
        ("Netskope", ["Netskope", "goskope"]),
        ("Check Point", ["Check Point", "CheckPoint"]),
        ("Barracuda", ["Barracuda"]),
        ("WatchGuard", ["WatchGuard", "Fireware"]),
        ("SonicWall", ["SonicWall"]),
        ("Arista (Untangle) Edge Threat Management", ["Untangle", "Edge Threat Management"]),
        ("Forcepoint", ["Forcepoint", "Websense"]),
        ("Trend Micro", ["Trend Micro", "InterScan"]),
        ("Cloudflare Gateway", ["Gateway CA Cloudflare Managed", "Cloudflare for Teams"]),
        ("Cato Networks", ["Cato Networks"]),
        ("Menlo Security", ["Menlo Security"]),
        ("iboss", ["iboss"]),
        ("Smoothwall", ["Smoothwall"]),
        ("Lightspeed", ["Lightspeed Systems", "Lightspeed Rocket"]),
        ("Securly", ["Securly"]),
        ("Sangfor", ["Sangfor"]),
        ("Kaspersky", ["Kaspersky"]),
        ("ESET", ["ESET"]),
        ("Avast", ["Avast"]),
        ("AVG", ["AVG Technologies", "AVG Web Mail Shield"]),
        ("Norton", ["Norton Web Mail Shield"]),
        ("Bitdefender", ["Bitdefender"]),
        ("Dr.Web", ["Dr.Web"]),
        ("AdGuard", ["AdGuard"]),
        ("mitmproxy", ["mitmproxy"]),
        ("Charles", ["Charles Proxy", "XK72"]),
        ("Fiddler", ["FiddlerRoot", "Fiddler"]),
        ("Burp Suite", ["PortSwigger"]),
        ("OWASP ZAP", ["Zed Attack Proxy"]),
        ("HTTP Toolkit", ["HTTP Toolkit"]),
        ("Proxyman", ["Proxyman"]),
        ("Squid", ["Squid"]),
        ("pfSense", ["pfSense"]),
        ("OPNsense", ["OPNsense"]),
    ]
}
