// swift-tools-version: 6.2
import PackageDescription

#if !os(Linux)
    #error("swift-mqtt-traversal runs on Linux only: its event loop is built on epoll, eventfd and timerfd.")
#endif

let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

func module(_ name: String, _ dependencies: [Target.Dependency], path: String? = nil) -> Target {
    .target(name: name, dependencies: dependencies, path: path, swiftSettings: strict)
}

func program(_ name: String, _ dependencies: [Target.Dependency], path: String? = nil) -> Target {
    .executableTarget(name: name, dependencies: dependencies, path: path, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: strict)
}

let package = Package(
    name: "swift-mqtt-traversal",
    products: [
        .library(name: "MQTTTraversal", targets: ["MQTTTraversal"]),
        .library(name: "MQTTLoopback", targets: ["MQTTLoopback"]),
        .library(name: "WebSocketCore", targets: ["WebSocketCore"]),
        .executable(name: "wsprobe", targets: ["wsprobe"]),
    ],
    targets: [
        .systemLibrary(
            name: "CTraversalOpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CTraversalZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .target(name: "CTraversalShims", dependencies: ["CTraversalOpenSSL"]),

        module("MQTTCore", []),
        module("WebSocketCore", ["CTraversalOpenSSL", "CTraversalZlib"]),
        module("MQTTTransport", ["WebSocketCore", "CTraversalOpenSSL", "CTraversalShims"]),
        module("MQTTTraversal", ["MQTTTransport", "MQTTCore", "CTraversalZlib"]),
        module("MQTTProbe", ["MQTTTraversal", "MQTTTransport", "MQTTCore"]),
        module(
            "MQTTLoopback",
            ["MQTTTransport", "MQTTCore", "WebSocketCore", "CTraversalOpenSSL", "CTraversalShims"]),

        program("wsprobe", ["MQTTProbe", "MQTTLoopback", "MQTTTraversal"]),
        module("MQTTExampleSupport", ["MQTTTraversal"], path: "Examples/Support"),
        program("mqtt-sensor", ["MQTTTraversal", "MQTTExampleSupport"], path: "Examples/Sensor"),
        program("mqtt-fan", ["MQTTTraversal", "MQTTExampleSupport"], path: "Examples/Fan"),
        program("mqtt-dashboard", ["MQTTTraversal", "MQTTExampleSupport"], path: "Examples/Dashboard"),
        program("mqtt-demo", ["MQTTTraversal", "MQTTLoopback", "MQTTExampleSupport"], path: "Examples/Demo"),

        program(
            "websocket-echo", ["WebSocketCore", "MQTTTransport", "MQTTLoopback"],
            path: "Tests/Conformance/Echo"),

        program(
            "traversal-client", ["MQTTTraversal", "MQTTTransport"],
            path: "Tests/ScenarioTests/Traversal/Client"),

        .executableTarget(
            name: "mqtt-soak", dependencies: ["MQTTTraversal", "MQTTTransport", "MQTTLoopback"],
            path: "Tests/Soak", exclude: ["README.md"], swiftSettings: strict),

        // Test traits, next to the list and the script that read them.
        .target(
            name: "MQTTConformance", path: "Tests/Conformance/Obligations",
            exclude: ["mqtt-obligations.md", "check-obligations"], swiftSettings: strict),
        tests("MQTTCoreTests", ["MQTTCore", "MQTTConformance"]),
        tests("WebSocketCoreTests", ["WebSocketCore"]),
        tests(
            "MQTTTransportTests",
            ["MQTTTransport", "WebSocketCore", "MQTTLoopback", "CTraversalOpenSSL", "MQTTConformance"]),
        tests(
            "MQTTTraversalTests",
            ["MQTTTraversal", "MQTTLoopback", "MQTTTransport", "MQTTCore", "MQTTConformance"]),
        tests(
            "ExamplesTests",
            [
                "MQTTExampleSupport", "MQTTTraversal", "MQTTTransport", "MQTTLoopback",
                "mqtt-sensor", "mqtt-fan", "mqtt-dashboard", "mqtt-demo",
            ]),
        tests(
            "MQTTLoopbackTests",
            [
                "MQTTTraversal", "MQTTLoopback", "MQTTTransport", "MQTTCore", "CTraversalOpenSSL",
                "MQTTConformance",
            ]),
        tests("SoakTests", ["mqtt-soak", "MQTTTraversal"]),
        tests("MQTTProbeTests", ["wsprobe", "MQTTProbe", "MQTTLoopback", "MQTTTraversal", "MQTTTransport"]),
        program("durable-publisher", ["MQTTTraversal"], path: "Tests/Durability/Publisher"),
        tests(
            "DurabilityTests", ["durable-publisher", "MQTTTraversal", "MQTTLoopback", "MQTTTransport"]),
        tests(
            "ScenarioTests",
            [
                "MQTTTraversal", "MQTTLoopback", "MQTTTransport", "MQTTCore", "MQTTConformance",
                "traversal-client",
            ],
            exclude: ["README.md", "Traversal/README.md", "Traversal/Client"]),
    ],
    swiftLanguageModes: [.v6]
)
