import Foundation
import Glibc
import MQTTLoopback

/// What a scenario on 127.0.0.1 stands on: a port that its arguments name as `{part}`.
enum Part: String, Sendable, CaseIterable {
    case mosquittoTCP = "mosquitto.tcp"
    case mosquittoTLS = "mosquitto.tls"
    case mosquittoWS = "mosquitto.ws"
    case mosquittoWSS = "mosquitto.wss"
    case squid
    case squidBasic = "squid.basic"
    case squidDigest = "squid.digest"
    /// Lets `haproxy.wss` through and no other.
    case tinyproxy
    case dante
    case danteLogin = "dante.login"
    case nginx
    case haproxyWSS = "haproxy.wss"
    case haproxyMQTTS = "haproxy.mqtts"
    case stunnelWSS = "stunnel.wss"
    case stunnelMQTTS = "stunnel.mqtts"
    /// An HTTPS proxy: TLS before `squid`.
    case stunnelSquid = "stunnel.squid"
    case accelerator
    case upgradingAccelerator = "accelerator.upgrade"
    case mitmproxy
    /// A port where nobody listens.
    case closed

    /// Why it can't be had here; nil where it can.
    var missing: String? {
        switch self {
        case .mosquittoTCP, .mosquittoTLS, .mosquittoWS, .mosquittoWSS, .closed:
            Mosquitto.executable == nil ? "mosquitto isn't installed" : nil
        case .squid: Self.missing(.squidOpen)
        case .squidBasic: Self.missing(.squidBasic)
        case .squidDigest: Self.missing(.squidDigest)
        case .tinyproxy: Self.missing(.tinyproxyForPort443) ?? FrontEnd.haproxy.missing
        case .dante: Self.missing(.danteOpen)
        case .danteLogin: Self.missing(.danteWithLogin)
        case .nginx: FrontEnd.nginx.missing
        case .haproxyWSS, .haproxyMQTTS: FrontEnd.haproxy.missing
        case .stunnelWSS, .stunnelMQTTS: FrontEnd.stunnel.missing
        case .stunnelSquid: FrontEnd.stunnel.missing ?? Self.missing(.squidOpen)
        case .accelerator, .upgradingAccelerator: FrontEnd.accelerator.missing
        case .mitmproxy: FrontEnd.mitmproxy.missing
        }
    }

    private static func missing(_ kind: ProxyServer.Kind) -> String? {
        if kind.isAvailable { return nil }
        return kind == .danteWithLogin && getuid() != 0
            ? "dante looks accounts up as root only" : "\(kind.package) isn't installed"
    }
}

/// All parts, each started when the first scenario asks for it.
actor Parts {
    static let shared = Parts()

    private var proxies: [ProxyServer.Kind: ProxyServer] = [:]
    private var frontEnds: [FrontEnd: ProxyServer] = [:]

    func port(_ part: Part) async throws -> UInt16 {
        switch part {
        case .mosquittoTCP: try await Mosquitto.shared.port(Door(transport: .tcp))
        case .mosquittoTLS: try await Mosquitto.shared.port(Door(transport: .tls))
        case .mosquittoWS: try await Mosquitto.shared.port(Door(transport: .webSocket))
        case .mosquittoWSS: try await Mosquitto.shared.port(Door(transport: .webSocketSecure))
        case .squid: try await proxy(.squidOpen).port
        case .squidBasic: try await proxy(.squidBasic).port
        case .squidDigest: try await proxy(.squidDigest).port
        case .tinyproxy: try await proxy(.tinyproxyForPort443).port
        case .dante: try await proxy(.danteOpen).port
        case .danteLogin: try await proxy(.danteWithLogin).port
        case .nginx: try await frontEnd(.nginx).ports[0]
        case .haproxyWSS: try await frontEnd(.haproxy).ports[0]
        case .haproxyMQTTS: try await frontEnd(.haproxy).ports[1]
        case .stunnelWSS: try await frontEnd(.stunnel).ports[0]
        case .stunnelMQTTS: try await frontEnd(.stunnel).ports[1]
        case .stunnelSquid: try await frontEnd(.stunnel).ports[2]
        case .accelerator: try await frontEnd(.accelerator).ports[0]
        case .upgradingAccelerator: try await frontEnd(.upgradingAccelerator).ports[0]
        case .mitmproxy: try await frontEnd(.mitmproxy).ports[0]
        case .closed: try FreePorts.choose(1)[0]
        }
    }

    /// A file that arguments name as `{ca}` (the broker's authority) or `{mitmproxy-ca}`; nil for another name.
    func file(_ name: String) async throws -> String? {
        switch name {
        case "ca": try await Mosquitto.shared.certificates.authority
        case "mitmproxy-ca": try await frontEnd(.mitmproxy).directory + "/mitmproxy-ca-cert.pem"
        default: nil
        }
    }

    /// The scenarios come one after the other, so nobody asks for the same one meanwhile.
    private func proxy(_ kind: ProxyServer.Kind) async throws -> ProxyServer {
        if let running = proxies[kind] { return running }
        let ports = kind == .tinyproxyForPort443 ? [try await frontEnd(.haproxy).ports[0]] : []
        let started = try await ProxyServer(kind, connectPorts: ports)
        proxies[kind] = started
        return started
    }

    private func frontEnd(_ kind: FrontEnd) async throws -> ProxyServer {
        if let running = frontEnds[kind] { return running }
        let broker = try await Mosquitto.shared
        let server = broker.certificates.server
        let texts = try [server.certificate, server.key, broker.certificates.authority].map {
            try String(contentsOfFile: $0, encoding: .utf8)
        }
        let hasProxy = kind == .stunnel && ProxyServer.Kind.squidOpen.isAvailable
        let started = try await kind.launch(
            before: FrontEnd.Backing(
                tcp: broker.port(Door(transport: .tcp)), webSocket: broker.port(Door(transport: .webSocket)),
                proxy: hasProxy ? try await proxy(.squidOpen).port : nil,
                authority: texts[2], identity: texts[0] + texts[1]))
        frontEnds[kind] = started
        return started
    }
}
