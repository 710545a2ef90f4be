// swift-tools-version: 6.2
import PackageDescription

// What a developer's own package looks like. It stands outside the repository's package graph, so that
// it sees exactly what they see. Only `path` differs from what they write.
let package = Package(
    name: "sample",
    dependencies: [
        // The name makes the product findable whatever the clone's folder is called.
        .package(name: "swift-mqtt-traversal", path: "../..")
    ],
    targets: [
        .executableTarget(
            name: "sample",
            dependencies: [.product(name: "MQTTTraversal", package: "swift-mqtt-traversal")],
            swiftSettings: [.enableUpcomingFeature("MemberImportVisibility")]),
        .executableTarget(
            name: "websocket-sample",
            dependencies: [.product(name: "WebSocketCore", package: "swift-mqtt-traversal")],
            swiftSettings: [.enableUpcomingFeature("MemberImportVisibility")]),
    ]
)
